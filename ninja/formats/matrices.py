"""Matrices of acoustic models: NumPy's and torch's files, and Kaldi's archives."""

from __future__ import annotations

import io
import math
import os
import pickletools
import struct
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja import utf8
from ninja.errors import DependencyError, FormatError, InputError

Matrix = npt.NDArray[Any]

NPY, ZIP = b"\x93NUMPY", b"PK\3\4"
LONGEST_KEY = 4096  # bytes
# What the pickle of a tensor, or of a dictionary of tensors, names; all else is refused unread.
_NAMED = {"torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter", "collections OrderedDict"}
_NAMED |= {f"torch {name}Storage" for name in ("Float", "Double", "Half", "BFloat16")}
_CALLS = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD", "EXT1", "EXT2", "EXT4"}
_ELEMENT = {b"FM": 4, b"DM": 8, b"CM": 1, b"CM2": 2, b"CM3": 1}  # bytes, by the name of the kind
_COLUMN_HEADER = 8  # bytes of each column in kind CM


def read_matrices(content: bytes, key: str, path: str | None = None) -> Iterator[tuple[str, Matrix]]:
    """Yield the matrices of a file, [frames, units]; which format it has, is seen from its content.

    * ``.npy`` and ``.npz`` of NumPy, not packed: the key is the given one, or the name of the array.
    * What ``torch.save`` writes of a tensor or a dictionary of tensors: the key is the given one, or the tensor's. A
      first axis of one is left out.
    * Kaldi archives, binary (also compressed, which kaldiio unpacks) or text: keys are the archive's.

    Nothing is ever unpickled that is not a tensor, and no more memory taken than a few times the file.

    Args:
        content: The whole file, unpacked.
        key: Utterance id where the file names none.
        path: File name for error messages.

    Raises:
        FormatError: The file is none of these, damaged, or holds something else.
        DependencyError: kaldiio is needed and not installed.
    """
    if content.startswith(NPY):
        yield key, _npy(content, path, key)
    elif content.startswith(ZIP):
        yield from _zip(content, key, path)
    else:
        at = 0
        while at < len(content):
            found, at = _key(content, at, path)
            matrix, at = kaldi_matrix(content, at, path, found)
            yield found, matrix
            while content[at : at + 1] in (b"\n", b" ", b"\r"):
                at += 1


def read_matrix_list(path: str | os.PathLike[str]) -> Iterator[tuple[str, Matrix]]:
    """Yield the matrices of a Kaldi script file: on each line a key and a place, ``FILE`` or ``FILE:OFFSET``.

    Raises:
        FormatError: A line is none of these (commands are never run), or as ``read_matrices``.
        InputError: A file cannot be read.
    """
    name = os.fspath(path)
    for line, row in enumerate(utf8.read(name).splitlines(), start=1):
        key, _, place = row.strip(" \t\r").partition(" ")
        place = place.strip(" ")
        if not key or not place or place.endswith("|") or place.endswith("]"):
            raise FormatError(f"expected a key and a file, found {row[:60]!r}; commands are not run", name, line=line)
        file, colon, offset = place.rpartition(":")
        if not (colon and offset.isascii() and offset.isdigit() and len(offset) < 19):
            file, offset = place, "0"
        try:
            with open(file, "rb") as opened:
                opened.seek(int(offset))
                head = opened.read(64)
                opened.seek(int(offset))
                content = opened.read(_size(head)) if head.startswith(b"\0B") else opened.read()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file) from error
        if content.startswith((NPY, ZIP)):
            yield from read_matrices(content, key, file)
        else:
            yield key, kaldi_matrix(content, 0, file, key)[0]


def kaldi_matrix(content: bytes, begin: int, path: str | None = None, key: str | None = None) -> tuple[Matrix, int]:
    """Return the matrix that begins at a byte, and where it ends.

    kaldiio reads the binary kinds, for it knows the compressed ones; of it only the function for matrices is called,
    on as many bytes as the matrix has, since its archives may hold pickles. Text is read here: kaldiio takes numbers
    for integers if the first has no point.

    Raises:
        FormatError: There is none, or not all of it.
        DependencyError: kaldiio is not installed.

    Source: Kaldi, matrix/kaldi-matrix.cc, matrix/compressed-matrix.cc.
    """

    def refuse(message: str) -> FormatError:
        return FormatError(message, path, key=key, byte=begin)

    if content[begin : begin + 2] != b"\0B":
        return _text(content, begin, refuse)
    try:
        size = _size(content[begin : begin + 64])
    except (ValueError, struct.error) as error:
        raise refuse("not a matrix of Kaldi's, or damaged") from error
    if begin + size > len(content):
        raise refuse(f"a matrix of {size} bytes, but only {len(content) - begin} are there")
    try:
        from kaldiio.matio import read_matrix_or_vector
    except ImportError as error:
        raise DependencyError("reading binary matrices of Kaldi needs kaldiio; pip install kaldiio") from error
    try:
        matrix = read_matrix_or_vector(io.BytesIO(content[begin : begin + size]))
    except (ValueError, AssertionError, struct.error, RuntimeError) as error:
        raise refuse(f"damaged: {str(error)[:80]}") from error
    return matrix, begin + size


def _size(head: bytes) -> int:
    """Return how many bytes a binary matrix takes; a ValueError says that it is none."""
    kind, blank, rest = head[2:].partition(b" ")
    if not blank or kind not in _ELEMENT:
        raise ValueError
    if kind in (b"FM", b"DM"):
        four, rows, again, columns = struct.unpack_from("<bibi", rest)
        header = 10
        if (four, again) != (4, 4):
            raise ValueError
    else:
        least, width, rows, columns = struct.unpack_from("<ffii", rest)
        header = 16 + (_COLUMN_HEADER * columns if kind == b"CM" else 0)
        if not (math.isfinite(least) and math.isfinite(width)):
            raise ValueError
    if rows < 0 or columns < 0:
        raise ValueError
    return 3 + len(kind) + header + rows * columns * _ELEMENT[kind]


def _key(content: bytes, begin: int, path: str | None) -> tuple[str, int]:
    """Return the key that begins at a byte, and where the blank behind it ends."""
    blank = content.find(b" ", begin, begin + LONGEST_KEY)
    key = content[begin:blank]
    if blank <= begin or any(letter in key for letter in (b"\n", b"\0", b"\t")):
        message = "expected a key and a matrix: no format of matrices that is known (npy, npz, torch, Kaldi)"
        raise FormatError(message, path, byte=begin)
    return key.decode("utf-8", "surrogateescape"), blank + 1


def _text(content: bytes, begin: int, refuse: Any) -> tuple[Matrix, int]:
    opened = begin
    while content[opened : opened + 1] == b" ":
        opened += 1
    end = content.find(b"]", opened)
    if content[opened : opened + 1] != b"[" or end < 0:
        raise refuse("expected a matrix, within [ and ]")
    lines = [line.split() for line in content[opened + 1 : end].split(b"\n")]
    rows = [line for line in lines if line]
    if len({len(row) for row in rows}) > 1:
        raise refuse("the rows of a matrix differ in length")
    numbers = [number for row in rows for number in row]
    try:
        if any(b"_" in number or len(number) > 64 for number in numbers):
            raise ValueError
        values = np.array([float(number) for number in numbers], np.float64)
    except ValueError as error:
        raise refuse("a matrix holds something that is no number") from error
    return values.reshape(len(rows), -1) if rows else values.reshape(0, 0), end + 1


def _npy(content: bytes, path: str | None, key: str) -> Matrix:
    """Return the array of a .npy file."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version}")
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = header(stream)
    except Exception as error:  # what numpy raises depends on the damage
        raise FormatError(f"a damaged .npy file: {str(error)[:80]}", path, key=key) from error
    begin = stream.tell()
    if dtype.kind not in "fiu" or len(shape) > 8:
        message = f"an array of {str(dtype)[:40]} with {len(shape)} axes, but a matrix of numbers is needed"
        raise FormatError(message, path, key=key)
    needed = math.prod(shape) * dtype.itemsize
    if needed != len(content) - begin:
        message = f"an array of shape {list(shape)} has {needed} bytes, but {len(content) - begin} are there"
        raise FormatError(message, path, key=key)
    values = np.frombuffer(content, dtype, offset=begin).reshape(shape, order="F" if by_columns else "C")
    return _matrix(values, path, key)


def _zip(content: bytes, key: str, path: str | None) -> Iterator[tuple[str, Matrix]]:
    """Yield the arrays of a zip file: NumPy's .npz, or torch's."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise FormatError("a packed entry; save with np.savez or torch.save", path)
            if sum(entry.file_size for entry in entries) > len(content):
                raise FormatError("the entries of the zip file claim more bytes than it has", path)
            names = [entry.filename for entry in entries]
            arrays = {} if not all(name.endswith(".npy") for name in names) else {n: archive.read(n) for n in names}
            pickles = [name for name in names if name.split("/")[-1] == "data.pkl"]
            pickle = archive.read(pickles[0]) if len(pickles) == 1 else None
    except FormatError:
        raise
    except Exception as error:  # what zipfile raises depends on the damage
        raise FormatError(f"a damaged zip file: {str(error)[:80]}", path) from error
    if arrays:
        yield from ((name.removesuffix(".npy"), _npy(array, path, name)) for name, array in arrays.items())
    elif pickle is None:
        raise FormatError("a zip file, but neither NumPy's nor torch's", path)
    else:
        yield from _torch(content, pickle, key, path)


def _torch(content: bytes, pickle: bytes, key: str, path: str | None) -> Iterator[tuple[str, Matrix]]:
    """Yield the tensors of a file of torch's."""
    try:
        for opcode, argument, _ in pickletools.genops(pickle):
            if opcode.name in _CALLS or (opcode.name == "GLOBAL" and argument not in _NAMED):
                what = str(argument).replace(" ", ".") if opcode.name == "GLOBAL" else opcode.name
                raise FormatError(f"an object of {what[:60]}; only tensors of floats are read", path)
        import torch

        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except FormatError:
        raise
    except Exception as error:  # what torch raises depends on the damage
        raise FormatError(f"not a file that torch saved, or damaged: {str(error)[:80]}", path) from error
    tensors = loaded if isinstance(loaded, dict) else {key: loaded}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise FormatError("expected a tensor, or a dictionary of names and tensors", path)
        if tensor.numel() * tensor.element_size() > len(content):
            raise FormatError(f"a tensor of shape {list(tensor.shape)}, more than the file holds", path, key=name)
        plain = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
        yield name, _matrix(plain.contiguous().numpy(), path, name)


def _matrix(values: Matrix, path: str | None, key: str) -> Matrix:
    if values.ndim == 3 and values.shape[0] == 1:
        values = values[0]
    if values.ndim != 2:
        message = f"a matrix [frames, units] is needed, but the shape is {list(values.shape)}"
        raise FormatError(message, path, key=key)
    return values
