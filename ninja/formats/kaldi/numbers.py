"""Kaldi tables of numbers: an alignment, a transcript as word ids or a cost for each key; binary or text."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import TracebackType
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, InputError, OptionError, OutputError
from ninja.files import text as utf8
from ninja.files.output import Packed, PartFile, StandardOutput
from ninja.files.place import STDIN, Place, resolve
from ninja.files.stream import Stream, open_stream
from ninja.io.sources import Source, tables
from ninja.io.targets import target

Integers = npt.NDArray[np.int32]
Value = TypeVar("Value")

CHUNK = 1 << 18  # bytes
LONGEST_KEY = 4096  # bytes
_ITEM = np.dtype([("size", "u1"), ("value", "<i4")])
_PAIR = np.dtype([("size", "u1"), ("label", "<i4"), ("width", "u1"), ("posterior", "<f4")])
_LEADING = re.compile(rb"[ \t\r\n]+")
_BLANK = re.compile(rb"[ \t\r\n]")


def read_integers(source: Source, *, allow_pipes: bool = False) -> Iterator[tuple[str, Integers]]:
    """Yield the key and the integers, int32, of each entry of a table: alignments, word ids.

    Args:
        source: As ``read`` takes it; whether an entry is binary or text is seen from its content.
        allow_pipes: Run any command that `source` names.

    Raises:
        FormatError: Damage, or something that is no integer.
        InputError: A file that cannot be read.

    Source: Kaldi util/kaldi-holder-inl.h, BasicVectorHolder; base/io-funcs-inl.h.
    """
    return _read(source, _Integers(), allow_pipes)


def read_floats(source: Source, *, allow_pipes: bool = False) -> Iterator[tuple[str, float]]:
    """Yield the key and the number of each entry of a table; arguments and errors are those of ``read_integers``."""
    return _read(source, _Float(), allow_pipes)


class NumberWriter:
    """A table of numbers being written; use it in a ``with`` block.

    Args:
        name: A file or ``-``, which get text, or a Kaldi wspecifier: ``ark:…`` is binary, ``ark,t:…`` text.

    Raises:
        OptionError: The target makes no sense.
        OutputError: The file cannot be written.
    """

    def __init__(self, name: str) -> None:
        chosen = target(name)
        if chosen.script is not None:
            raise OptionError(f"{name!r}: a table of numbers gets no script file; write ark:FILE or ark,t:FILE")
        specified = name.partition(":")[0].replace(" ", "").split(",")[0] == "ark" and ":" in name
        self.text = chosen.text or not specified
        self._file = StandardOutput() if chosen.archive == STDIN else PartFile(chosen.archive)
        self._packed = Packed(self._file) if chosen.packed else None
        self._pending: list[bytes] = []

    def integers(self, key: str, values: Integers) -> None:
        """Append integers."""
        if self.text:
            self.fields(key, [str(value) for value in values.tolist()])
            return
        items = np.zeros(len(values), _ITEM)
        items["size"], items["value"] = 4, values
        self._append(_name(key) + b" \0B\4" + struct.pack("<i", len(values)) + items.tobytes())

    def number(self, key: str, value: float) -> None:
        """Append a number, as Kaldi prints a float where it is text."""
        if self.text:
            self.fields(key, [f"{np.float32(value):.7g}"])
        else:
            self._append(_name(key) + b" \0B\4" + struct.pack("<f", value))

    def posteriors(
        self, key: str, begin: npt.NDArray[np.int64], label: Integers, posterior: npt.NDArray[np.float64]
    ) -> None:
        """Append a frame's labels and posteriors after the other; those of frame t are ``begin[t] : begin[t + 1]``."""
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
        """Append a line of words.

        Raises:
            OptionError: The table is binary.
        """
        if not self.text:
            raise OptionError("words are text; write them to ark,t:FILE, or leave --words away for their ids")
        self._append(" ".join([key, *fields]).encode("utf-8", "surrogateescape") + b"\n")

    def _append(self, content: bytes) -> None:
        self._pending.append(content)
        if len(self._pending) >= 256:
            self._flush()

    def _flush(self) -> None:
        (self._packed or self._file).write(b"".join(self._pending))
        self._pending = []

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


class _Kind(Generic[Value]):
    """How the entries of one kind of table are read."""

    def binary(self, entries: _Entries) -> Value:
        raise NotImplementedError

    def text(self, fields: list[bytes]) -> Value:
        """Understand a line's fields; a ValueError says that it is something else."""
        raise NotImplementedError


class _Integers(_Kind[Integers]):
    def binary(self, entries: _Entries) -> Integers:
        size, count = struct.unpack("<bi", entries.take(5))
        if size != 4 or count < 0:
            raise ValueError
        items = np.frombuffer(entries.take(count * _ITEM.itemsize), _ITEM)
        if np.any(items["size"] != 4):
            raise ValueError
        return np.ascontiguousarray(items["value"], np.int32)

    def text(self, fields: list[bytes]) -> Integers:
        wide = np.array([int(field) for field in fields], np.int64)
        narrow = wide.astype(np.int32)
        if not np.array_equal(wide, narrow):
            raise ValueError
        return narrow


class _Float(_Kind[float]):
    def binary(self, entries: _Entries) -> float:
        form = {4: "<f", 8: "<d"}.get(entries.take(1)[0])
        if form is None:
            raise ValueError
        value: float = struct.unpack(form, entries.take(struct.calcsize(form)))[0]
        return _finite(value)

    def text(self, fields: list[bytes]) -> float:
        if len(fields) != 1:
            raise ValueError
        return _finite(float(fields[0]))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError
    return value


class _Entries:
    """The bytes of a table, taken piece by piece; as much is kept as one entry needs and the file has."""

    def __init__(self, stream: Stream, begin: int = 0) -> None:
        self.name = stream.name
        self.position = begin  # of the first byte not taken yet
        self._stream = stream
        self._waiting = bytearray()
        self._room = bytearray(CHUNK)

    def key(self) -> str | None:
        """Take the next key and the blank behind it; None at the end."""
        while True:
            if found := _LEADING.match(self._waiting):
                self._skip(found.end())
            if self._waiting or not self._more():
                break
        if not self._waiting:
            return None
        at = 0
        while True:
            found = _BLANK.search(self._waiting, at, LONGEST_KEY)
            if found:
                break
            at = len(self._waiting)
            if at >= LONGEST_KEY or not self._more():
                raise FormatError("expected a key and a value", self.name, byte=self.position)
        end = found.start()
        key = self._waiting[:end].decode("utf-8", "surrogateescape")
        self._skip(end if self._waiting[end] == 10 else end + 1)
        return key

    def is_binary(self) -> bool:
        """Tell whether a binary value follows, and take its mark."""
        while len(self._waiting) < 2 and self._more():
            pass
        if self._waiting[:2] != b"\0B":
            return False
        self._skip(2)
        return True

    def line(self) -> bytes:
        """Take the rest of the line."""
        at = 0
        while (end := self._waiting.find(b"\n", at)) < 0:
            at = len(self._waiting)
            if not self._more():
                return self.take(at)
        line = self.take(end)
        self._skip(1)
        return line

    def take(self, size: int) -> bytes:
        """Take bytes.

        Raises:
            FormatError: There are not so many.
        """
        while len(self._waiting) < size:
            if not self._more():
                raise FormatError("the file is cut short within an entry", self.name, byte=self.position)
        taken = bytes(self._waiting[:size])
        self._skip(size)
        return taken

    def _skip(self, size: int) -> None:
        del self._waiting[:size]
        self.position += size

    def _more(self) -> bool:
        count = self._stream.readinto(memoryview(self._room))
        self._waiting += memoryview(self._room)[:count]
        return count > 0


def _read(source: Source, kind: _Kind[Value], allow_pipes: bool) -> Iterator[tuple[str, Value]]:
    for table in tables(source, allow_pipes=allow_pipes):
        if table.kind == "scp":
            yield from _scripted(table.place, kind)
            continue
        with closing(open_stream(table.place)) as stream:
            entries = _Entries(stream)
            while (key := entries.key()) is not None:
                yield key, _value(entries, kind, key)


def _scripted(place: Place, kind: _Kind[Value]) -> Iterator[tuple[str, Value]]:
    if place.path == STDIN:
        raise InputError("a script file of numbers must be a file", place.name)
    for number, line in enumerate(utf8.read(place.path).splitlines(), start=1):
        key, _, name = line.strip().partition(" ")
        if not key:
            continue
        places = resolve(name.strip()) if name.strip() else []
        if len(places) != 1:
            raise FormatError("expected a key and a file", place.name, line=number)
        with closing(open_stream(places[0])) as stream:
            yield key, _value(_Entries(stream, places[0].offset), kind, key)


def _value(entries: _Entries, kind: _Kind[Value], key: str) -> Value:
    begin = entries.position
    try:
        return kind.binary(entries) if entries.is_binary() else kind.text(entries.line().split())
    except (ValueError, OverflowError) as error:
        if isinstance(error, FormatError):
            error.key = key
            raise
        what = "integers" if isinstance(kind, _Integers) else "one finite number"
        raise FormatError(f"expected {what} here", entries.name, key=key, byte=begin) from error
