"""Binary and text Kaldi tables that map keys to numbers: alignments, transcripts as word ids, or costs."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from types import TracebackType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, NinjaError, OptionError, OutputError
from ninja.files.gzip import GzipWriter
from ninja.files.names import resolve_listed
from ninja.files.output import PartFile, StandardOutput, target
from ninja.files.stream import STDIN, Stream, Table, open_stream
from ninja.formats.kaldi.objects import ObjectReader
from ninja.formats.kaldi.script import rows
from ninja.io.detection import names_in
from ninja.io.sources import Source, kind_of, tables

Integers = npt.NDArray[np.int32]
Value = TypeVar("Value")
Decode = Callable[[ObjectReader], Value]

_BLOCK = 1 << 16  # number of bytes that are buffered before they are written
_ITEM = np.dtype([("size", "u1"), ("value", "<i4")])
_PAIR = np.dtype([("size", "u1"), ("label", "<i4"), ("width", "u1"), ("posterior", "<f4")])


def read_integers(source: Source, *, allow_pipes: bool = False) -> Iterator[tuple[str, Integers]]:
    """Yield ``(key, integers)`` for each entry of a table of int32 vectors, such as alignments or word ids.

    Args:
        source: See ``ninja.read``; each entry can be binary or text.
        allow_pipes: Run shell commands in `source`.

    Raises:
        FormatError: The table is damaged, or contains something other than integers.

    Source: Kaldi util/kaldi-holder-inl.h, BasicVectorHolder; base/io-funcs-inl.h.
    """
    return _read(source, _integers, allow_pipes)


def read_floats(source: Source, *, allow_pipes: bool = False) -> Iterator[tuple[str, float]]:
    """Yield ``(key, number)`` for each entry of a table of floats; for arguments and errors, see ``read_integers``."""
    return _read(source, _float, allow_pipes)


class NumberWriter:
    """Writer for a table of numbers; use it in a ``with`` block.

    Args:
        name: A path or ``-``, for a text table, or a Kaldi wspecifier: ``ark:…`` is binary, ``ark,t:…`` is text.

    Raises:
        OptionError: The name is invalid.
    """

    def __init__(self, name: str) -> None:
        chosen = target(name)
        if chosen.script is not None:
            raise OptionError(f"{name!r}: a table of numbers cannot have a script file; use ark:FILE or ark,t:FILE")
        specified = name.partition(":")[0].replace(" ", "").split(",")[0] == "ark" and ":" in name
        self.text = chosen.text or not specified
        self._file = StandardOutput() if chosen.archive == STDIN else PartFile(chosen.archive)
        self._packed = GzipWriter(self._file) if chosen.packed else None
        self._pending: list[bytes] = []
        self._size = 0  # number of bytes in `_pending`

    def integers(self, key: str, values: Integers) -> None:
        """Append an entry that contains integers."""
        if self.text:
            self.fields(key, [str(value) for value in values.tolist()])
            return
        items = np.zeros(len(values), _ITEM)
        items["size"], items["value"] = 4, values
        self._append(_name(key) + b" \0B\4" + struct.pack("<i", len(values)) + items.tobytes())

    def number(self, key: str, value: float) -> None:
        """Append an entry that contains one number; a text table stores it with the precision of Kaldi's floats."""
        if self.text:
            self.fields(key, [f"{np.float32(value):.7g}"])
        else:
            self._append(_name(key) + b" \0B\4" + struct.pack("<f", value))

    def posteriors(
        self, key: str, begin: npt.NDArray[np.int64], label: Integers, posterior: npt.NDArray[np.float64]
    ) -> None:
        """Append an entry with labels and posteriors; frame t has the items ``begin[t] : begin[t + 1]``."""
        value = posterior.astype(np.float32)
        if self.text:
            pairs = [f"{number} {share:.7g} " for number, share in zip(label.tolist(), value.tolist(), strict=True)]
            frames = zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True)
            self.fields(key, ["[ " + "".join(pairs[first:last]) + "]" for first, last in frames])
            return
        pieces = [_name(key), b" \0B", struct.pack("<bi", 4, len(begin) - 1)]
        rows = np.zeros(len(label), _PAIR)
        rows["size"] = rows["width"] = 4
        rows["label"], rows["posterior"] = label, value
        for first, last in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True):
            pieces += [struct.pack("<bi", 4, last - first), rows[first:last].tobytes()]
        self._append(b"".join(pieces))

    def fields(self, key: str, fields: Sequence[str]) -> None:
        """Append a text entry: a key and its fields, separated by spaces.

        Raises:
            OptionError: The table is binary.
        """
        if not self.text:
            raise OptionError("a binary table cannot contain words; use ark,t:FILE, or omit --words to write ids")
        self._append(" ".join([key, *fields]).encode("utf-8", "surrogateescape") + b"\n")

    def _append(self, content: bytes) -> None:
        self._pending.append(content)
        self._size += len(content)
        if self._size >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        (self._packed or self._file).write(b"".join(self._pending))
        self._pending, self._size = [], 0

    def __enter__(self) -> NumberWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._file.abandon(keep=False)
            return
        try:
            self._flush()
            if self._packed is not None:
                self._packed.close()
            self._file.finish()
        except OutputError:
            self._file.abandon(keep=False)
            raise


def _name(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _integers(reader: ObjectReader) -> Integers:
    begin = reader.place
    if reader.binary:
        return reader.integer_items(reader.count("integers"))
    try:
        wide = np.array([int(field) for field in reader.line().split()], np.int64)
    except (ValueError, OverflowError):
        reader.fail("expected integers", begin)
    narrow = wide.astype(np.int32)
    if not np.array_equal(wide, narrow):
        reader.fail("expected 32-bit integers", begin)
    return narrow


def _float(reader: ObjectReader) -> float:
    begin = reader.place
    fields = [] if reader.binary else reader.line().split()
    try:
        value = reader.real() if reader.binary else float(fields[0]) if len(fields) == 1 else math.nan
    except FormatError:
        raise
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        reader.fail("expected one finite number", begin)
    return value


def _read(source: Source, decode: Decode[Value], allow_pipes: bool) -> Iterator[tuple[str, Value]]:
    for table, stream in open_tables(source, allow_pipes=allow_pipes):
        if table.kind == "scp":
            yield from _read_script(stream, decode, permissive=table.permissive)
            continue
        reader = ObjectReader(stream)
        while (key := reader.next_key()) is not None:
            yield key, decode(reader)


def _read_script(script: Stream, decode: Decode[Value], *, permissive: bool) -> Iterator[tuple[str, Value]]:
    for number, line in rows(script):
        fields = line.split(None, 1)
        if not fields:
            continue
        places = resolve_listed(fields[1].strip(), script.name) if len(fields) > 1 else []
        if len(places) != 1:
            raise FormatError(f"expected a key and a file, found {line[:60]!r}", script.name, line=number)
        try:
            with closing(open_stream(places[0])) as stream:
                reader = ObjectReader(stream, begin=places[0].offset)
                reader.begin_entry(fields[0])
                value = decode(reader)
        except NinjaError:
            if permissive:
                continue
            raise
        yield fields[0], value


def open_tables(source: Source, *, allow_pipes: bool = False) -> Iterator[tuple[Table, Stream]]:
    """Yield ``(table, open stream)`` for each table in a source, including the tables in file lists."""
    for table in tables(source, allow_pipes=allow_pipes):
        with closing(open_stream(table.place)) as stream:
            kind = kind_of(table, stream)
            if kind != "list":
                yield table._replace(kind=kind), stream
                continue
            listed, errors = names_in(stream.rest(), stream.name)
        yield from open_tables(listed)
        if errors:
            raise errors[0]
