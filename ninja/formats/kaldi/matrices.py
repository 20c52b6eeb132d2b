"""Kaldi's matrices: one, or an archive of them, binary or text."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import DependencyError, FormatError, NinjaError
from ninja.files.stream import Stream

Matrix = npt.NDArray[Any]
OnError = Callable[[NinjaError], None]
Bytes = bytes | bytearray

BINARY = b"\0B"
LONGEST_KEY = 4096  # bytes
CHUNK = 1 << 18
_HEADER = 64  # bytes, more than any header has
_ELEMENT = {b"FM": 4, b"DM": 8, b"CM": 1, b"CM2": 2, b"CM3": 1}  # bytes, by the name of the kind
_COLUMN_HEADER = 8  # bytes of each column in kind CM


def read_archive(
    stream: Stream, path: str | None = None, on_error: OnError | None = None
) -> Iterator[tuple[str, Matrix]]:
    """Yield the key and the matrix of each entry of an archive; one at a time is in memory.

    Args:
        stream: The archive, at its begin.
        path: File name for error messages.
        on_error: Called with what is wrong with a matrix whose end is known, which is left out; None: that is raised.

    Raises:
        FormatError: Damage, behind which nothing can be found.
        DependencyError: kaldiio is needed and not installed.
    """
    window = _Window(stream)
    while window.skip_blanks():
        failure = None
        try:
            key, begin = _key(window.held, path)
            end = _end(window, begin, path, key)
            try:
                matrix, _ = kaldi_matrix(window.held, begin, path, key)
            except FormatError as error:
                if on_error is None:
                    raise
                failure = error
        except FormatError as error:
            error.byte = (error.byte or 0) + window.taken
            raise
        if failure is None:
            yield key, matrix
        elif on_error is not None:
            failure.byte = begin + window.taken
            on_error(failure)
        window.take(end)


def read_one(stream: Stream, key: str, path: str | None = None) -> Matrix:
    """Return the matrix that begins where a stream stands; what follows is not read.

    Raises:
        FormatError: There is none, or not all of it.
        DependencyError: kaldiio is needed and not installed.
    """
    window = _Window(stream)
    _end(window, 0, path, key)
    return kaldi_matrix(window.held, 0, path, key)[0]


def kaldi_matrix(content: Bytes, begin: int, path: str | None = None, key: str | None = None) -> tuple[Matrix, int]:
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

    if content[begin : begin + 2] != BINARY:
        return _text(content, begin, refuse)
    try:
        size = _size(content[begin : begin + _HEADER])
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


class _Window:
    """The bytes of a stream that have been read and not been taken."""

    def __init__(self, stream: Stream) -> None:
        self.held = bytearray()
        self.taken = 0  # bytes before them
        self._stream = stream
        self._buffer = bytearray(CHUNK)

    def fill(self, size: int) -> bool:
        """Hold so many bytes; False: there are fewer."""
        while len(self.held) < size:
            count = self._stream.readinto(memoryview(self._buffer))
            if not count:
                return False
            self.held += memoryview(self._buffer)[:count]
        return True

    def take(self, size: int) -> None:
        """Let bytes go."""
        del self.held[:size]
        self.taken += size

    def skip_blanks(self) -> bool:
        """Let blanks go, and hold a key and a header if there are any; False: this is the end."""
        while self.fill(1):
            left = len(self.held.lstrip(b" \t\r\n"))
            if left:
                self.take(len(self.held) - left)
                self.fill(LONGEST_KEY + _HEADER)
                return True
            self.take(len(self.held))
        return False


def _end(window: _Window, begin: int, path: str | None, key: str) -> int:
    """Return where the matrix ends that begins at a byte of the window, all of which is held then if it is there."""
    window.fill(begin + _HEADER)
    if window.held[begin : begin + 2] == BINARY:
        try:
            end = begin + _size(window.held[begin : begin + _HEADER])
        except (ValueError, struct.error) as error:
            message = "not a matrix of Kaldi's, or damaged"
            raise FormatError(message, path, key=key, byte=begin) from error
        if not window.fill(end):
            message = f"a matrix of {end - begin} bytes, but only {len(window.held) - begin} are there"
            raise FormatError(message, path, key=key, byte=begin)
        return end
    opened = begin
    while window.held[opened : opened + 1] == b" " and window.fill(opened + 2):
        opened += 1
    seen = opened
    while window.held[opened : opened + 1] == b"[":
        if (end := window.held.find(b"]", seen)) >= 0:
            return end + 1
        seen = len(window.held)
        if not window.fill(seen + 1):
            break
    raise FormatError("expected a matrix, within [ and ]", path, key=key, byte=begin)


def _size(head: Bytes) -> int:
    """Return how many bytes a binary matrix takes; a ValueError or struct.error says that it is none."""
    kind, blank, rest = bytes(head[2:]).partition(b" ")
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


def _key(content: Bytes, path: str | None) -> tuple[str, int]:
    """Return the key that content begins with, and where the blank behind it ends."""
    blank = content.find(b" ", 0, LONGEST_KEY)
    key = content[:blank]
    if blank <= 0 or any(letter in key for letter in (b"\n", b"\0", b"\t")):
        message = "expected a key and a matrix: no format of matrices that is known (npy, npz, torch, Kaldi)"
        raise FormatError(message, path, byte=0)
    return key.decode("utf-8", "surrogateescape"), blank + 1


def _text(content: Bytes, begin: int, refuse: Callable[[str], FormatError]) -> tuple[Matrix, int]:
    """Return the matrix in text that begins at a byte, and where it ends."""
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
