r"""Kaldi's basic objects, binary and text: tokens, numbers, vectors, matrices.

A binary file begins with ``\0B``, everything else is text. A number in binary is a byte with its size, then the
number, little-endian; integers and reals of one size look the same, so what is read stays a `Scalar` until somebody
knows which it is. Matrices: ``FM``, ``DM`` and the compressed ``CM``, ``CM2``, ``CM3``; vectors: ``FV``, ``DV``.

Source: Kaldi, base/io-funcs-inl.h, matrix/kaldi-matrix.cc, matrix/compressed-matrix.h.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, InputError
from ninja.files.text import GZIP_MAGIC

Array = npt.NDArray[np.float32]  # [rows, columns] of a matrix, [dim] of a vector
BINARY = b"\0B"
BLANK = b" \t\n\r\f\v"
LONGEST_TOKEN = 1000  # bytes; longer ones are no tokens but numbers


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number whose kind is not known yet."""

    content: bytes  # 4 or 8 bytes if binary, else its digits
    binary: bool

    def integer(self) -> int | None:
        """Return it as an integer, or None if it is none."""
        if self.binary:
            return struct.unpack("<i" if len(self.content) == 4 else "<q", self.content)[0]
        try:
            return int(self.content)
        except ValueError:
            return None

    def real(self) -> float | None:
        """Return it as a real number, or None if it is none."""
        if self.binary:
            return struct.unpack("<f" if len(self.content) == 4 else "<d", self.content)[0]
        try:
            return float(self.content)
        except ValueError:
            return None


Value = Scalar | bool | Array


def unpacked(path: str | os.PathLike[str]) -> bytes:
    """Return a file's bytes; a gzip file, known by its content, is unpacked.

    Raises:
        FormatError: The gzip stream is damaged.
        InputError: The file cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    if not content.startswith(GZIP_MAGIC):
        return content
    import gzip

    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"the gzip stream is damaged: {error}; copy the file again", path) from error


class KaldiReader:
    """Reads one object after the other from a file's bytes; no size in them is believed before it is compared.

    Every method raises ``FormatError``, with the byte or the line, when the file holds something else.
    """

    def __init__(self, content: bytes, path: str | os.PathLike[str]) -> None:
        """Begin after the binary marker, if there is one."""
        self.path = os.fspath(path)
        self.binary = content.startswith(BINARY)
        self._content = content
        self._place = len(BINARY) if self.binary else 0

    def fail(self, message: str, place: int | None = None) -> NoReturn:
        """Raise a ``FormatError`` at a place, by default the current one."""
        place = self._place if place is None else place
        if self.binary:
            raise FormatError(message, self.path, byte=place)
        raise FormatError(message, self.path, line=self._content.count(b"\n", 0, place) + 1)

    @property
    def place(self) -> int:
        """Offset of what is read next."""
        return self._place

    def token(self) -> str:
        """Read a word of printable ASCII and the blank after it."""
        first = self._place = self._after_blanks()
        last = first
        end = min(len(self._content), first + LONGEST_TOKEN)
        while last < end and self._content[last] not in BLANK:
            last += 1
        token = self._content[first:last]
        if not token:
            self.fail("the file ends where a token is expected; it is truncated, copy it again")
        if not token.isascii() or not token.decode("ascii").isprintable():
            self.fail(f"expected a token, found the bytes {token[:20]!r}; the file is damaged, copy it again")
        if last == len(self._content):
            self.fail(f"the file ends in the token {token.decode('ascii')!r}; it is truncated, copy it again")
        self._place = last + 1
        return token.decode("ascii")

    def expect(self, wanted: str) -> None:
        """Read a certain token."""
        place = self._after_blanks()
        found = self.token()
        if found != wanted:
            self.fail(f"expected {wanted}, found {found!r}", place)

    def line(self) -> str:
        """Read the rest of a line of text, which stands as such in binary files too."""
        end = self._content.find(b"\n", self._place)
        if end < 0:
            self.fail("the file ends within its configuration lines; it is truncated, copy it again")
        try:
            line = self._content[self._place : end].decode("utf-8")
        except UnicodeDecodeError:
            self.fail("a configuration line is not UTF-8; the file is damaged, copy it again")
        self._place = end + 1
        return line

    def at_token(self) -> bool:
        """Tell whether a ``<token>`` follows, without reading it."""
        place = self._after_blanks()
        return self._content[place : place + 1] == b"<"

    def at_end(self) -> bool:
        """Tell whether nothing but blanks is left."""
        return self._after_blanks() == len(self._content)

    def integer(self) -> int:
        """Read an integer."""
        place = self._place
        value = self._scalar().integer()
        if value is None:
            self.fail("expected an integer", place)
        return value

    def integers(self) -> list[int]:
        """Read a vector of integers."""
        if not self.binary:
            place = self._place
            values = self.array()
            if values.ndim != 1 or (values != np.floor(values)).any():
                self.fail("expected integers", place)
            return [int(value) for value in values]
        place = self._place
        if self._take(1) != b"\4":
            self.fail("expected a vector of 4-byte integers", place)
        count = self._raw_integer()
        return np.frombuffer(self._take_items(count, 4), "<i4").tolist()

    def value(self) -> Value:
        """Read a value of whatever kind stands there, vectors of integers excepted."""
        if not self.binary:
            return self._text_value()
        mark = self._content[self._place : self._place + 3]
        if mark in (b"FM ", b"DM ", b"CM ", b"CM2", b"CM3", b"FV ", b"DV "):
            return self.array()
        if mark[:1] in (b"T", b"F"):
            self._place += 1
            return mark[:1] == b"T"
        return self._scalar()

    def array(self) -> Array:
        """Read a vector or a matrix, compressed or not, as float32.

        Returns:
            float32 [dim] or [rows, columns].
        """
        if not self.binary:
            return self._text_array()
        place = self._place
        mark = self.token()
        if mark in ("FM", "DM"):
            num_rows, num_columns = self.integer(), self.integer()
            return self._reals(mark, num_rows * num_columns, (num_rows, num_columns), place)
        if mark in ("FV", "DV"):
            dim = self.integer()
            return self._reals(mark, dim, (dim,), place)
        if mark in ("CM", "CM2", "CM3"):
            return self._compressed(mark, place)
        self.fail(f"expected a vector or a matrix, found {mark!r}", place)

    def _reals(self, mark: str, count: int, shape: tuple[int, ...], place: int) -> Array:
        if min(shape) < 0:
            self.fail(f"an absurd size, {' × '.join(map(str, shape))}", place)
        kind = "<f4" if mark[0] == "F" else "<f8"
        content = self._take_items(count, int(kind[2]))
        with np.errstate(over="ignore"):  # beyond float32 it becomes infinite, which whoever needs it refuses
            return np.frombuffer(content, kind).astype(np.float32).reshape(shape)

    def _compressed(self, mark: str, place: int) -> Array:
        lowest, span = struct.unpack("<ff", self._take(8))
        num_rows, num_columns = self._raw_integer(), self._raw_integer()
        if num_rows < 0 or num_columns < 0:
            self.fail(f"an absurd size, {num_rows} × {num_columns}", place)
        size = num_rows * num_columns
        if mark == "CM2":
            step = np.float32(span * (1.0 / 65535.0))
            small: npt.NDArray[np.uint16] = np.frombuffer(self._take_items(size, 2), "<u2")
            return (np.float32(lowest) + small.astype(np.float32) * step).reshape(num_rows, num_columns)
        if mark == "CM3":
            step = np.float32(span * (1.0 / 255.0))
            tiny = np.frombuffer(self._take_items(size, 1), np.uint8)
            return (np.float32(lowest) + tiny.astype(np.float32) * step).reshape(num_rows, num_columns)
        if not size:
            return np.empty((num_rows, num_columns), np.float32)
        # Of each column the 0th, 25th, 75th and 100th percentile, then all values, column by column.
        header = np.frombuffer(self._take_items(num_columns * 4, 2), "<u2").reshape(num_columns, 4)
        mark_of = np.float32(lowest) + np.float32(span) * np.float32(1 / 65535.0) * header.astype(np.float32)
        value = np.frombuffer(self._take_items(size, 1), np.uint8).reshape(num_columns, num_rows).astype(np.float32)
        p0, p25, p75, p100 = (mark_of[:, [place]] for place in range(4))  # [columns, 1]
        low = p0 + (p25 - p0) * value * np.float32(1 / 64.0)
        middle = p25 + (p75 - p25) * (value - 64) * np.float32(1 / 128.0)
        high = p75 + (p100 - p75) * (value - 192) * np.float32(1 / 63.0)
        return np.ascontiguousarray(np.where(value <= 64, low, np.where(value <= 192, middle, high)).T)

    def _text_value(self) -> Value:
        place = self._after_blanks()
        first = self._content[place : place + 1]
        if first == b"[":
            return self._text_array()
        if first in (b"T", b"F") and self._content[place + 1 : place + 2] in (b" ", b"\n"):
            self._place = place + 2
            return first == b"T"
        return self._scalar()

    def _text_array(self) -> Array:
        first = self._after_blanks()
        if self._content[first : first + 1] != b"[":
            self.fail("expected [ and numbers", first)
        last = self._content.find(b"]", first)
        if last < 0:
            self.fail("the file ends before the ] of a vector or matrix; it is truncated, copy it again", first)
        body = self._content[first + 1 : last]
        is_matrix = body.lstrip(b" \t").startswith(b"\n")
        rows = [fields for line in body.split(b"\n") if (fields := line.split())]
        if is_matrix and len({len(fields) for fields in rows}) > 1:
            self.fail("a matrix with rows of different length", first)
        try:
            array = np.array(rows if is_matrix else body.split(), np.float32)
        except ValueError as error:
            self.fail(f"not a number in a vector or matrix: {error}", first)
        self._place = last + 1
        return array.reshape(0, 0) if is_matrix and not rows else array

    def _scalar(self) -> Scalar:
        if not self.binary:
            place = self._after_blanks()
            if self._content[place : place + 1] == b"<":
                self.fail(f"expected a value, found {self.token()!r}", place)
            return Scalar(self.token().encode(), binary=False)
        place = self._place
        size = self._take(1)[0]
        if size not in (4, 8):
            self.fail(f"expected a number, found the byte 0x{size:02x}; the file is damaged, copy it again", place)
        return Scalar(self._take(size), binary=True)

    def _raw_integer(self) -> int:
        return int(struct.unpack("<i", self._take(4))[0])

    def _take(self, count: int) -> bytes:
        content = self._content[self._place : self._place + count]
        if len(content) < count:
            self.fail("the file ends within a number; it is truncated, copy it again")
        self._place += count
        return content

    def _take_items(self, count: int, size: int) -> bytes:
        left = len(self._content) - self._place
        if count < 0 or count * size > left:
            message = f"{count} numbers of {size} bytes are announced, but {left} bytes are left; "
            self.fail(message + "the file is truncated or damaged, copy it again")
        return self._take(count * size)

    def _after_blanks(self) -> int:
        place, end = self._place, len(self._content)
        while place < end and self._content[place] in BLANK:
            place += 1
        return place


def read_matrix(path: str | os.PathLike[str]) -> Array:
    """Read a file that holds one matrix, binary, text, or either packed with gzip.

    Returns:
        float32 [rows, columns].

    Raises:
        FormatError: It holds something else, more than that, or is truncated.
        InputError: The file cannot be read.
    """
    reader = KaldiReader(unpacked(path), path)
    matrix = reader.array()
    if matrix.ndim != 2:
        reader.fail("a vector where a matrix is expected", 0)
    if not reader.at_end():
        reader.fail("more follows after the matrix")
    return matrix
