"""Kaldi's basic objects read from the head of a file, no further than they go."""

from __future__ import annotations

import struct
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError
from ninja.files.stream import Stream
from ninja.lattice import Array

BINARY = b"\0B"
BLANK = b" \t\n\r\f\v"
CHUNK = 1 << 18  # bytes read at once: a network of hundreds of megabytes may follow the head, which is all we need
LONGEST_TOKEN = 100  # bytes


class Head:
    """Reads one object after the other from a stream, no further than asked for; believes no count unseen.

    Every method raises ``FormatError`` with the byte, and in text the line, when the file holds something else.

    Source: Kaldi, base/io-funcs-inl.h, matrix/kaldi-vector.cc.
    """

    def __init__(self, stream: Stream) -> None:
        """Begin after the binary marker, if there is one."""
        self.name = stream.name
        self._stream = stream
        self._content = bytearray()
        self._ended = False
        self.place = 0
        self.binary = self._has(2) and self._content.startswith(BINARY)
        if self.binary:
            self.place = len(BINARY)

    def fail(self, message: str, place: int | None = None) -> NoReturn:
        """Raise a ``FormatError`` at a place, by default the current one."""
        place = self.place if place is None else place
        line = None if self.binary else self._content.count(b"\n", 0, place) + 1
        raise FormatError(message, self.name, line=line, byte=place)

    def cut_short(self, within: str) -> NoReturn:
        """Raise a ``FormatError`` at the end of the file."""
        self.fail(f"the file ends within {within}; it is truncated, copy it again", len(self._content))

    def token(self) -> str:
        """Read a word and the blank after it."""
        self._pass_blanks()
        last = self.place
        while self._has(last + 1) and self._content[last] not in BLANK:
            last += 1
            if last - self.place > LONGEST_TOKEN:
                break
        token = bytes(self._content[self.place : last])
        if not self._has(last + 1):
            self.cut_short(f"the token {token.decode('ascii', 'replace')!r}" if token else "the transition model")
        if not token.isascii() or not token.decode("ascii").isprintable() or last - self.place > LONGEST_TOKEN:
            self.fail(f"expected a token, found the bytes {token[:20]!r}; is it a transition model (final.mdl)?")
        self.place = last + 1
        return token.decode("ascii")

    def expect(self, *wanted: str) -> str:
        """Read one of some tokens."""
        self._pass_blanks()
        place, found = self.place, self.token()
        if found not in wanted:
            self.fail(f"expected {' or '.join(wanted)}, found {found!r}", place)
        return found

    def integer(self) -> int:
        """Read a 4-byte integer, or its digits."""
        if not self.binary:
            self._pass_blanks()
            place, digits = self.place, self.token()
            try:
                value = int(digits)
            except ValueError:
                self.fail(f"expected an integer, found {digits!r}", place)
            if not -(2**31) <= value < 2**31:
                self.fail(f"the integer {value} is beyond 32 bits", place)
            return value
        place = self.place
        content = self._take(5, "a number")
        if content[0] != 4:
            self.fail(f"expected a number of 4 bytes, found the byte 0x{content[0]:02x}; the file is damaged", place)
        return int(struct.unpack_from("<i", content, 1)[0])

    def real(self) -> float:
        """Read a 4-byte real, or its digits."""
        if self.binary:
            place = self.place
            content = self._take(5, "a number")
            if content[0] != 4:
                self.fail(f"expected a number of 4 bytes, found the byte 0x{content[0]:02x}; damaged", place)
            return float(struct.unpack_from("<f", content, 1)[0])
        self._pass_blanks()
        place, digits = self.place, self.token()
        try:
            return float(digits)
        except ValueError:
            self.fail(f"expected a number, found {digits!r}", place)

    def count(self, of: str) -> int:
        """Read a number of things, 0 or more."""
        place, value = self.place, self.integer()
        if value < 0:
            self.fail(f"{value} {of} are announced", place)
        return value

    def integer_vector(self) -> list[int]:
        """Read a binary vector of integers."""
        place = self.place
        size, num = struct.unpack("<bi", self._take(5, "a vector"))
        if size != 4 or num < 0:
            self.fail("expected a vector of 4-byte integers; the file is damaged, copy it again", place)
        return np.frombuffer(self._take(4 * num, "a vector"), "<i4").tolist()

    def table(self, num_rows: int, num_columns: int, end: str) -> npt.NDArray[np.int32]:
        """Read rows of integers up to a closing token, int32 [rows, columns]."""
        place = self.place
        if self.binary:
            content = self._take(5 * num_rows * num_columns, f"{num_rows} rows before {end}")
            cells = np.frombuffer(content, np.dtype([("size", "i1"), ("value", "<i4")]))
            if (cells["size"] != 4).any():
                bad = int(np.flatnonzero(cells["size"] != 4)[0])
                self.fail("expected a number of 4 bytes; the file is damaged, copy it again", place + 5 * bad)
            values = cells["value"].astype(np.int64)
        else:
            fields = self._until(end.encode()).split()
            values = self._numbers(fields, np.int64, place)
        if values.size != num_rows * num_columns:
            self.fail(f"{num_rows} rows of {num_columns} are announced, but {values.size} numbers follow", place)
        if values.size and (values.min() < -(2**31) or values.max() >= 2**31):
            self.fail("an integer beyond 32 bits", place)
        return values.reshape(num_rows, num_columns).astype(np.int32)

    def vector(self) -> npt.NDArray[np.float32]:
        """Read a vector of reals."""
        self._pass_blanks()
        place = self.place
        if not self.binary:
            if not self._has(place + 1):
                self.cut_short("the transition model")
            if self._content[place : place + 1] != b"[":
                self.fail("expected [ and numbers")
            self.place += 1
            values = self._numbers(self._until(b"]").split(), np.float64, place)
            self.place += 1
            return values.astype(np.float32)
        mark = self.token()
        if mark not in ("FV", "DV"):
            self.fail(f"expected a vector, found {mark!r}", place)
        size = 4 if mark == "FV" else 8
        num = self.count("numbers")
        return np.frombuffer(self._take(size * num, f"{num} numbers"), f"<f{size}").astype(np.float32)

    def at_end_of(self, what: str) -> bool:
        """Tell whether a closing token follows."""
        self._pass_blanks()
        return self._has(self.place + len(what)) and self._content.startswith(what.encode(), self.place)

    def _numbers(self, fields: list[bytes], kind: npt.DTypeLike, place: int) -> Array:
        try:
            return np.array(fields, kind) if fields else np.empty(0, kind)
        except (ValueError, OverflowError) as error:
            self.fail(f"not a number: {error}", place)

    def _take(self, size: int, what: str) -> bytes:
        if not self._has(self.place + size):
            self.cut_short(what)
        content = bytes(self._content[self.place : self.place + size])
        self.place += size
        return content

    def _until(self, end: bytes) -> bytes:
        """Take what stands before some bytes."""
        searched = self.place
        while (found := self._content.find(end, searched)) < 0:
            searched = max(self.place, len(self._content) - len(end))
            if not self._has(len(self._content) + 1):
                self.cut_short(f"the numbers before {end.decode()}")
        content = bytes(self._content[self.place : found])
        self.place = found
        return content

    def _pass_blanks(self) -> None:
        while self._has(self.place + 1) and self._content[self.place] in BLANK:
            self.place += 1

    def _has(self, size: int) -> bool:
        """Read on until so many bytes are there, if they are."""
        while len(self._content) < size and not self._ended:
            buffer = bytearray(CHUNK)
            count = self._stream.readinto(memoryview(buffer))
            self._content += memoryview(buffer)[:count]
            self._ended = count == 0
        return len(self._content) >= size
