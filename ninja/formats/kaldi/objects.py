r"""Reader for basic Kaldi objects in binary and text format: tokens, numbers, vectors and matrices.

A binary object begins with ``\0B``; everything else is text. A binary number consists of a byte with its size, followed
by the little-endian number. Integers and reals of the same size cannot be distinguished, so a number of unknown type is
a `Scalar`. Matrices begin with ``FM`` or ``DM`` (``CM``, ``CM2`` or ``CM3`` if compressed), and vectors begin with
``FV`` or ``DV``.

Source: Kaldi, base/io-funcs-inl.h, matrix/kaldi-vector.cc, matrix/kaldi-matrix.cc, matrix/compressed-matrix.h.
"""

from __future__ import annotations

import math
import os
import re
import struct
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError
from ninja.files.stream import Place, Stream, open_stream
from ninja.lattice import Array

BINARY = b"\0B"
ARRAYS = (b"FM ", b"DM ", b"CM ", b"CM2", b"CM3", b"FV ", b"DV ")  # first bytes of binary vectors and matrices
BLANK = b" \t\n\r\f\v"
CHUNK = 1 << 18  # number of bytes read at a time; the file may continue after the last object
LONGEST_TOKEN = 1000  # bytes
LONGEST_KEY = 4096
DAMAGED = "the file is damaged; copy it again"
_BLANK = re.compile(rb"[ \t\n\r\f\v]")
_NO_BLANK = re.compile(rb"[^ \t\n\r\f\v]")
Number = TypeVar("Number", int, float)
_ITEM = np.dtype([("size", "i1"), ("value", "<i4")])  # a binary integer, preceded by its size in bytes


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number of unknown type."""

    content: bytes  # the 4 or 8 bytes of a binary number, or the characters of a number in text
    binary: bool

    def integer(self) -> int | None:
        """Return the number as an integer, or None if it is not an integer."""
        return self._as("<i", "<q", int)

    def real(self) -> float | None:
        """Return the number as a float, or None if it is not a number."""
        return self._as("<f", "<d", float)

    def _as(self, short: str, long: str, kind: type[Number]) -> Number | None:
        if self.binary:
            return kind(struct.unpack(short if len(self.content) == 4 else long, self.content)[0])
        try:
            return kind(self.content)
        except ValueError:
            return None


Value = Scalar | bool | Array


class ObjectReader:
    """Reader for consecutive Kaldi objects in a stream.

    Memory use is proportional to the number of bytes in the stream, because sizes in headers are not trusted. If the
    next object is of an unexpected type, every method raises ``FormatError`` with the byte offset, and with the line
    number (in text) or the key (in a table).

    Attributes:
        binary: Whether the current object is binary.
        key: Key of the current entry of a table.
    """

    def __init__(self, stream: Stream, hint: str = DAMAGED, *, begin: int = 0) -> None:
        """Create a reader that starts at the current position in a stream.

        Args:
            stream: Stream of Kaldi objects.
            hint: Advice to the user, which is appended to messages about missing tokens.
            begin: Byte offset of the current position in the file, for messages.
        """
        self.name = stream.name
        self.key: str | None = None
        self._stream = stream
        self._hint = hint
        self._buffer = bytearray()
        self._at = 0  # offset of the next unparsed byte in the buffer
        self._before = begin  # offset of the buffer in the file
        self._ended = False
        self._counts_lines = not begin
        self.binary = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], hint: str = DAMAGED) -> ObjectReader:
        """Create a reader at the first object of a file; the whole file, decompressed if gzip, is read into memory."""
        with open_stream(Place(os.fspath(path))) as stream:
            reader = cls(stream, hint)
            while reader._more():
                pass
        reader.begin_object()
        return reader

    @property
    def place(self) -> int:
        """Offset of the next unparsed byte in the stream."""
        return self._before + self._at

    def fail(self, message: str, place: int | None = None) -> NoReturn:
        """Raise a ``FormatError`` that refers to a byte offset, by default the offset of the next byte."""
        place = self.place if place is None else place
        line = self._buffer.count(b"\n", 0, place) + 1 if self._counts_lines and not self.binary else None
        raise FormatError(message, self.name, key=self.key, line=line, byte=place)

    def cut_short(self, within: str) -> NoReturn:
        """Raise a ``FormatError`` for a file that ends within an object."""
        end = self._before + len(self._buffer)
        self.fail(f"the file ends within {within}, so it is truncated; copy it again", end)

    def begin_object(self) -> None:
        """Start reading an object: determine whether it is binary and, if so, skip the binary mark."""
        self.binary = self._has(len(BINARY)) and self._buffer.startswith(BINARY, self._at)
        if self.binary:
            self._at += len(BINARY)
        elif self._buffer[self._at :] == BINARY[:1]:
            self.cut_short("the mark of a binary object")

    def begin_entry(self, key: str) -> None:
        """Start reading the object of an entry whose key is already known, for example from a script file."""
        self.key, self._counts_lines = key, False
        self.begin_object()

    def next_key(self) -> str | None:
        """Read the key of the next entry, and start reading its object; return None at the end of the input."""
        del self._buffer[: self._at]
        self._before, self._at = self._before + self._at, 0
        self.key, self.binary, self._counts_lines = None, False, False
        self.skip_spaces()
        if not self._has(1):
            return None
        end = self._end_of_word(LONGEST_KEY)
        key = bytes(self._buffer[self._at : end])
        if not self._buffer[end:] or len(key) > LONGEST_KEY or b"\0" in key:
            self.fail("expected a key and a value; the format is unknown")
        self._at = end if self._buffer[end] == ord("\n") else end + 1
        self.begin_entry(key.decode("utf-8", "surrogateescape"))
        return self.key

    def skip_spaces(self) -> None:
        """Skip whitespace."""
        while True:
            match = _NO_BLANK.search(self._buffer, self._at)
            self._at = match.start() if match else len(self._buffer)
            if match or not self._more():
                return

    def at_end(self) -> bool:
        """Skip whitespace, and return whether the input ends there."""
        self.skip_spaces()
        return not self._has(1)

    def at(self, token: str) -> bool:
        """Return whether the next bytes are `token`, or a longer token that begins with `token`."""
        self.skip_spaces()
        return self._has(len(token)) and self._buffer.startswith(token.encode(), self._at)

    def token(self) -> str:
        """Read a token and the space after it."""
        self.skip_spaces()
        last = self._end_of_word(LONGEST_TOKEN)
        token = bytes(self._buffer[self._at : last])
        if not token.isascii() or not token.decode("ascii").isprintable() or len(token) > LONGEST_TOKEN:
            self.fail(f"expected a token, found the bytes {token[:20]!r}; {self._hint}")
        if last == len(self._buffer):
            if not token:
                self.fail("the file ends where a token is expected, so it is truncated; copy it again")
            self.cut_short(f"the token {token.decode()!r}")
        self._at = last + 1
        return token.decode()

    def expect(self, *tokens: str) -> str:
        """Read a token that must be one of `tokens`."""
        self.skip_spaces()
        place, token = self.place, self.token()
        if token not in tokens:
            self.fail(f"expected {' or '.join(tokens)}, found {token!r}", place)
        return token

    def line(self) -> bytes:
        """Read the rest of a line of text; binary files also contain lines of text."""
        end = self._find(b"\n")
        line = bytes(self._buffer[self._at : len(self._buffer) if end < 0 else end])
        self._at += len(line) + (end >= 0)
        return line

    def scalar(self) -> Scalar:
        """Read a number of unknown type."""
        if not self.binary:
            self.skip_spaces()
            place, word = self.place, self.token()
            if word.startswith("<"):
                self.fail(f"expected a value, found {word!r}", place)
            return Scalar(word.encode(), binary=False)
        place, size = self.place, self.take(1, "a number")[0]
        if size not in (4, 8):
            self.fail(f"expected a number, found the byte 0x{size:02x}; {DAMAGED}", place)
        return Scalar(self.take(size, "a number"), binary=True)

    def integer(self) -> int:
        """Read a 32-bit integer."""
        place, scalar = self.place, self.scalar()
        value = scalar.integer()
        if value is None or len(scalar.content) > (4 if self.binary else LONGEST_TOKEN):
            self.fail(f"expected an integer, found {scalar.content[:40]!r}", place)
        if not -(2**31) <= value < 2**31:
            self.fail(f"the integer {value} exceeds 32 bits", place)
        return value

    def real(self) -> float:
        """Read a real number."""
        place, scalar = self.place, self.scalar()
        value = scalar.real()
        if value is None:
            self.fail(f"expected a number, found {scalar.content[:40]!r}", place)
        return value

    def count(self, of: str) -> int:
        """Read a count, which must not be negative; `of` names the counted objects in the error message."""
        place, value = self.place, self.integer()
        if value < 0:
            self.fail(f"the number of {of} is {value}, but must not be negative; {DAMAGED}", place)
        return value

    def value(self) -> Value:
        """Read a value of any type except a vector of integers."""
        if not self.binary:
            self.skip_spaces()
        self._has(3)
        mark = bytes(self._buffer[self._at : self._at + 3])
        if (mark in ARRAYS) if self.binary else mark.startswith(b"["):
            return self.array()
        if mark[:1] in (b"T", b"F") and (self.binary or mark[1:2] in (b" ", b"\n")):
            self._at += 1 if self.binary else 2
            return mark[:1] == b"T"
        return self.scalar()

    def integers(self) -> list[int]:
        """Read a vector of integers; binary integers must have 4 bytes."""
        place = self.place
        if not self.binary:
            values = self.array()
            if values.ndim != 1 or (values != np.floor(values)).any():
                self.fail("expected a vector of integers", place)
            return [int(value) for value in values]
        size, num = struct.unpack("<bi", self.take(5, "a vector"))
        if size != 4 or num < 0:
            self.fail(f"expected a vector of 4-byte integers; {DAMAGED}", place)
        integers: list[int] = self._items(num, "<i4").tolist()
        return integers

    def table(self, num_rows: int, num_columns: int, end: str) -> npt.NDArray[np.int32]:
        """Read a table of integers, int32 [num_rows, num_columns].

        Each binary integer is preceded by its size. A text table ends before the token `end`.
        """
        place = self.place
        if self.binary:
            values = self.integer_items(num_rows * num_columns)
        else:
            values = self._numbers(self._until(end.encode()).split(), np.int64, place)
            if values.size != num_rows * num_columns:
                self.fail(
                    f"the file declares {num_rows} rows of {num_columns} numbers, but {values.size} numbers follow",
                    place,
                )
            if values.size and (values.min() < -(2**31) or values.max() >= 2**31):
                self.fail("an integer exceeds 32 bits", place)
        return values.reshape(num_rows, num_columns).astype(np.int32)

    def integer_items(self, count: int) -> npt.NDArray[np.int32]:
        """Read binary integers, each of which is preceded by its size; return int32 [count]."""
        place, items = self.place, self._items(count, _ITEM)
        if (items["size"] != 4).any():
            bad = int(np.flatnonzero(items["size"] != 4)[0])
            self.fail(f"expected a number of 4 bytes; {DAMAGED}", place + _ITEM.itemsize * bad)
        return np.ascontiguousarray(items["value"], np.int32)

    def array(self) -> Array:
        """Read a vector [dim] or a matrix [num_rows, num_columns] in the stored precision; text becomes float64."""
        self.skip_spaces()
        place = self.place
        if not self.binary:
            return self._text_array(place)
        mark = self.token()
        if mark in ("FM", "DM", "FV", "DV"):
            shape = [self.integer() for _ in range(2 if mark[1] == "M" else 1)]
            self._check_shape(shape, place)
            return self._items(math.prod(shape), "<f4" if mark[0] == "F" else "<f8").reshape(shape)
        if mark in ("CM", "CM2", "CM3"):
            return self._compressed(mark, place)
        self.fail(f"expected a vector or a matrix, found {mark!r}", place)

    def matrix(self) -> Array:
        """Read a matrix [num_rows, num_columns]; see `array`. Text without line breaks is a single row."""
        self.skip_spaces()
        place, array = self.place, self.array()
        if array.ndim != 2 and self.binary:
            self.fail("expected a matrix, found a vector", place)
        return array if array.ndim == 2 else array[None] if array.size else array.reshape(0, 0)

    def take(self, size: int, what: str) -> bytes:
        """Read `size` bytes; `what` names the object in error messages."""
        if not self._has(size):
            self.cut_short(what)
        self._at += size
        return bytes(self._buffer[self._at - size : self._at])

    def _check_shape(self, shape: list[int], place: int) -> None:
        if min(shape) < 0:
            self.fail(f"the shape {' × '.join(map(str, shape))} has a negative dimension", place)

    def _compressed(self, mark: str, place: int) -> Array:
        lowest, span, *shape = struct.unpack("<ffii", self.take(16, "a matrix"))
        self._check_shape(shape, place)
        if not math.isfinite(lowest) or not math.isfinite(span):
            self.fail(f"a compressed matrix has the minimum {lowest} and the range {span}; {DAMAGED}", place)
        rows, columns = shape
        if mark != "CM":
            kind, largest = ("<u2", 65535.0) if mark == "CM2" else ("u1", 255.0)
            step = np.float32(span * (1.0 / largest))
            return (np.float32(lowest) + self._items(rows * columns, kind).astype(np.float32) * step).reshape(shape)
        if not rows * columns:
            return np.empty(shape, np.float32)
        # The 0th, 25th, 75th and 100th percentile of each column are followed by all values, column by column.
        header = self._items(columns * 4, "<u2").reshape(columns, 4).astype(np.float32)
        mark_of = np.float32(lowest) + np.float32(span) * np.float32(1 / 65535.0) * header
        value = self._items(rows * columns, "u1").reshape(columns, rows).astype(np.float32)
        p0, p25, p75, p100 = (mark_of[:, [quarter]] for quarter in range(4))  # [columns, 1]
        low = p0 + (p25 - p0) * value * np.float32(1 / 64.0)
        middle = p25 + (p75 - p25) * (value - 64) * np.float32(1 / 128.0)
        high = p75 + (p100 - p75) * (value - 192) * np.float32(1 / 63.0)
        return np.ascontiguousarray(np.where(value <= 64, low, np.where(value <= 192, middle, high)).T)

    def _text_array(self, place: int) -> Array:
        if not self.at("["):
            ended = "" if self._has(1) else "; the file is truncated; copy it again"
            self.fail(f"expected numbers in brackets [ ]{ended}", place)
        self._at += 1
        body = self._until(b"]")
        self._at += 1
        rows = [fields for line in body.split(b"\n") if (fields := line.split())]
        if len({len(fields) for fields in rows}) > 1:
            self.fail("the rows of a matrix differ in length", place)
        values = self._numbers([field for fields in rows for field in fields], np.float64, place)
        if b"\n" not in body.lstrip(b" \t\r")[:1]:
            return values if len(rows) < 2 else values.reshape(len(rows), -1)
        return values.reshape(len(rows), -1) if rows else values.reshape(0, 0)

    def _numbers(self, fields: list[bytes], kind: npt.DTypeLike, place: int) -> Array:
        try:
            return np.array(fields, kind) if fields else np.empty(0, kind)
        except (ValueError, OverflowError) as error:
            self.fail(f"a value in a vector or matrix is not a number: {error}", place)

    def _items(self, count: int, kind: npt.DTypeLike) -> Array:
        dtype = np.dtype(kind)
        if not self._has(count * dtype.itemsize):
            size = len(self._buffer) - self._at
            message = f"the file declares {count} numbers of {dtype.itemsize} bytes, but only {size} bytes remain; "
            self.fail(message + "the file is truncated or damaged; copy it again")
        return np.frombuffer(self.take(count * dtype.itemsize, "numbers"), dtype)

    def _until(self, end: bytes) -> bytes:
        """Read the bytes up to an end mark."""
        stop = self._find(end)
        if stop < 0:
            self.cut_short(f"the numbers before {end.decode()}")
        content = bytes(self._buffer[self._at : stop])
        self._at = stop
        return content.replace(b"_", b"?")  # make "1_0" invalid, which numpy would accept as a number

    def _find(self, end: bytes) -> int:
        """Return the index of `end` in the buffer, reading as needed; -1 if the file does not contain it."""
        searched = self._at
        while (place := self._buffer.find(end, searched)) < 0:
            searched = max(self._at, len(self._buffer) - len(end) + 1)
            if not self._more():
                return -1
        return place

    def _end_of_word(self, longest: int) -> int:
        """Return the index in the buffer of the next whitespace, or of the end of the input if there is none.

        The result is at most `longest` + 1 bytes after the current position.
        """
        searched = self._at
        while not (match := _BLANK.search(self._buffer, searched)):
            searched = len(self._buffer)
            if searched - self._at > longest or not self._more():
                break
        return min(match.start() if match else len(self._buffer), self._at + longest + 1)

    def _has(self, size: int) -> bool:
        """Read until the buffer contains at least `size` unparsed bytes; return False if the stream ends first."""
        while len(self._buffer) - self._at < size and self._more():
            pass
        return len(self._buffer) - self._at >= size

    def _more(self) -> bool:
        if self._ended:
            return False
        buffer = bytearray(CHUNK)
        count = self._stream.readinto(memoryview(buffer))
        self._buffer += memoryview(buffer)[:count]
        self._ended = count == 0
        return not self._ended
