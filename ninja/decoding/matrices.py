"""Readers for the output matrices of acoustic models in NumPy files, torch files and Kaldi archives."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ninja.errors import FormatError, InputError, NinjaError
from ninja.files.names import resolve_listed
from ninja.files.stream import Place, Stream, Table, decoded, open_stream
from ninja.formats import torch_file
from ninja.formats.content import key_of
from ninja.formats.kaldi.matrices import OnError, read_archive, read_one
from ninja.formats.kaldi.objects import BINARY, LONGEST_KEY
from ninja.formats.torch_file import FLOATS, PLAIN, Tensor
from ninja.formats.unsupported import refusal
from ninja.io.detection import names_in
from ninja.io.sources import Source, kind_of, tables
from ninja.lattice import Array

NPY, ZIP = b"\x93NUMPY", b"PK\3\4"
_NAMES = (PLAIN | FLOATS) - {"torch.Size", "_codecs.encode"}


def read_matrices(
    source: Source, on_error: OnError | None = None, *, allow_pipes: bool = False
) -> Iterator[tuple[str, Array, str]]:
    """Yield ``(key, matrix, file name)`` for each matrix in files, directories and script files.

    An archive is read one matrix at a time; see ``matrices_in`` for the formats.

    Args:
        source: A file, a directory, ``-`` for standard input, a glob pattern, a Kaldi rspecifier (``ark:…``,
            ``scp:…``), or a list of these. Script files are recognised by their name or content.
        on_error: Function that is called with the error of each skipped matrix or file.  [default: raise the error]
        allow_pipes: Run commands in `source`; commands in script files are never run.

    Raises:
        FormatError: A file is damaged or has an unknown format, or a directory contains no matrices.
        InputError: A file cannot be read, or a pattern matches no file.
        OptionError: An rspecifier has an unknown option.
    """
    for table in _tables(source, allow_pipes):
        name = table.place.name
        try:
            with open_stream(table.place) as stream:
                kind = kind_of(table, stream)
                if kind == "list":
                    files, refused = names_in(stream.rest(), name)
                    yield from read_matrices(files, on_error)
                    for error in refused:
                        if on_error is None:
                            raise error
                        on_error(error)
                elif kind == "scp" or _is_list(stream.head(LONGEST_KEY)):
                    yield from _listed(stream.rest(), name, _skip if table.permissive else on_error)
                else:
                    for key, matrix in matrices_in(stream, key_of(table.place.path), name, on_error):
                        yield key, matrix, name
        except (FormatError, InputError) as error:
            if on_error is None:
                raise
            on_error(error)


def _tables(source: Source, allow_pipes: bool) -> Iterator[Table]:
    """Yield the files that a source specifies; a directory is replaced by the files in it that contain matrices."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if not os.path.isdir(path):
            yield from tables(source, allow_pipes=allow_pipes)
            return
        entries = sorted(entry.path for entry in os.scandir(path) if not entry.name.startswith("."))
        paths = [entry for entry in entries if os.path.isfile(entry) and _has_matrices(entry)]
        if not paths:
            raise FormatError("this directory contains no matrices", path)
        yield from (Table(Place(entry)) for entry in paths)
        return
    if isinstance(source, Table):
        yield source
        return
    for part in source:
        yield from _tables(part, allow_pipes)


def _has_matrices(path: str) -> bool:
    """Return whether a file contains matrices, according to its first bytes."""
    try:
        with open_stream(Place(path)) as stream:
            head = stream.head(LONGEST_KEY)
    except (InputError, FormatError):
        return False
    after_key = head.partition(b" ")[2].lstrip(b" ")
    return head.startswith((NPY, ZIP, BINARY)) or after_key.startswith((BINARY, b"["))


def _is_list(head: bytes) -> bool:
    """Return whether a file is a script file, with a key and the path of an existing file in its first line."""
    row = head.partition(b"\n")[0].split(None, 1)
    if len(row) < 2 or b"\0" in head or row[1].startswith(b"["):
        return False
    target = os.fsdecode(row[1].rstrip())
    return os.path.isfile(target) or os.path.isfile(target.rpartition(":")[0])


def _skip(error: NinjaError) -> None:
    """Ignore the error of a matrix; the option ``p`` (``scp,p:``) means that files that cannot be read are skipped."""


def _listed(content: bytes, path: str, on_error: OnError | None) -> Iterator[tuple[str, Array, str]]:
    """Yield the matrices listed in a script file."""
    for line, row in enumerate(decoded(content, path).split("\n"), start=1):
        fields = row.split(None, 1)
        if not fields:
            continue
        try:
            key, place = fields[0], fields[1].strip() if len(fields) > 1 else ""
            if not place or "\0" in row or place.endswith(("|", "]")):
                message = f"expected a key and a file, found {row[:60]!r}; commands in script files are not run"
                raise FormatError(message, path, line=line)
            for target in resolve_listed(place, path):
                with open_stream(target) as stream:
                    if stream.head(len(NPY)).startswith((NPY, ZIP)):
                        for name, matrix in matrices_in(stream, key, target.name, on_error):
                            yield name, matrix, target.name
                    else:
                        yield key, _matrix(read_one(stream, key), target.name, key), target.name
        except (FormatError, InputError) as error:
            if on_error is None:
                raise
            on_error(error)


def matrices_in(
    stream: Stream, key: str, path: str | None = None, on_error: OnError | None = None
) -> Iterator[tuple[str, Array]]:
    """Yield ``(key, matrix [frames, units])`` for each matrix in a file; the format is detected.

    * NumPy ``.npy``, with the key `key`, and uncompressed ``.npz``, with the array names as keys.
    * A tensor saved with ``torch.save``, with the key `key`, or a dictionary of tensors with its keys. A first axis of
      size 1 is removed.
    * Kaldi archives, binary (optionally compressed) or text, with the keys in the archive; a single matrix without a
      key gets the key `key`.

    Only tensors are unpickled, and memory use is bounded by a small multiple of the file size.

    Args:
        stream: The file.
        key: Key for a matrix without a key.
        path: Path of the file, for messages.
        on_error: Function that is called with the error of each skipped matrix.  [default: raise the error]

    Raises:
        FormatError: The file is damaged or has an unknown format.
    """
    head = stream.head(LONGEST_KEY)
    if head.startswith(NPY):
        yield key, _npy(stream.rest(), path, key)
    elif head.startswith(ZIP):
        for name, matrix in _zip(stream.rest(), key, path):
            try:
                values = matrix()
            except FormatError as error:
                if on_error is None:
                    raise
                on_error(error)
            else:
                yield name, values
    elif head.startswith(BINARY) or head.lstrip().startswith(b"["):
        yield key, read_one(stream, key)
    elif (reason := refusal(head)) is not None:
        raise FormatError(reason, path)
    else:
        yield from read_archive(stream, on_error)


def _npy(content: bytes, path: str | None, key: str) -> Array:
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"unsupported version {version}")
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = header(stream)
    except Exception as error:  # its type depends on the damage
        raise FormatError(f"the .npy file is damaged: {str(error)[:80]}", path, key=key) from error
    begin = stream.tell()
    if dtype.kind not in "fiu" or len(shape) > 8:
        message = f"expected a matrix of numbers, found an array of {str(dtype)[:40]} with {len(shape)} axes"
        raise FormatError(message, path, key=key)
    needed = math.prod(shape) * dtype.itemsize
    if needed != len(content) - begin:
        message = f"an array of shape {list(shape)} needs {needed} bytes, but the file contains {len(content) - begin}"
        raise FormatError(message, path, key=key)
    values = np.frombuffer(content, dtype, offset=begin).reshape(shape, order="F" if by_columns else "C")
    return _matrix(values, path, key)


def _zip(content: bytes, key: str, path: str | None) -> list[tuple[str, Callable[[], Array]]]:
    """Return ``(name, function that reads the array)`` for each array in a NumPy or torch zip file."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise FormatError("the zip file has compressed entries; save it with np.savez or torch.save", path)
            if sum(entry.file_size for entry in entries) > len(content):
                raise FormatError("the entries of the zip file are larger than the file, so it is damaged", path)
            names = [entry.filename for entry in entries]
            arrays = {} if not all(name.endswith(".npy") for name in names) else {n: archive.read(n) for n in names}
    except FormatError:
        raise
    except Exception as error:  # its type depends on the damage
        raise FormatError(f"the zip file is damaged: {str(error)[:80]}", path) from error
    if arrays:
        stems = ((name.removesuffix(".npy"), array) for name, array in arrays.items())
        return [(name, partial(_npy, array, path, name)) for name, array in stems]
    if not any(name.split("/")[-1] == "data.pkl" for name in names):
        raise FormatError("this zip file was not written by NumPy or torch", path)
    try:
        loaded = torch_file.load(torch_file.opened(content), _NAMES, "only floating-point tensors can be read")
    except FormatError as error:
        raise FormatError(error.message, path, byte=error.byte) from error.__cause__
    tensors = loaded if isinstance(loaded, dict) else {key: loaded}
    return [(name, partial(_tensor, tensor, path, name, len(content))) for name, tensor in tensors.items()]


def _tensor(tensor: Any, path: str | None, key: object, size: int) -> Array:
    """Convert a tensor to a matrix; `size` is the size of the file in bytes."""
    if not isinstance(key, str) or not isinstance(tensor, Tensor):
        raise FormatError("expected a tensor, or a dictionary with names as keys and tensors as values", path)
    if tensor.size * tensor.storage.itemsize > size:
        raise FormatError(f"a tensor of shape {list(tensor.shape)} is larger than the file", path, key=key)
    return _matrix(tensor.array(), path, key)


def _matrix(values: Array, path: str | None, key: str) -> Array:
    if values.ndim == 3 and values.shape[0] == 1:
        values = values[0]
    if values.ndim != 2:
        message = f"the matrix must have shape [frames, units], not {list(values.shape)}"
        raise FormatError(message, path, key=key)
    return values
