"""Raw streams for byte ranges of files and for standard input."""

from __future__ import annotations

import sys
from typing import IO, cast

from ninja.errors import InputError


class Range:
    """A stream that contains the next ``size`` bytes of a file."""

    def __init__(self, raw: IO[bytes], size: int) -> None:
        self.raw = raw
        self._bytes_left = size

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self.raw.fileno()

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes."""
        content = self.raw.read(min(size, self._bytes_left))
        self._bytes_left -= len(content)
        return content

    def readinto(self, buffer: memoryview) -> int:
        """Read into the beginning of a buffer; return the number of bytes read."""
        count: int = self.raw.readinto(buffer[: self._bytes_left])  # type: ignore[attr-defined]
        self._bytes_left -= count
        return count

    def close(self) -> None:
        """Close the file."""
        self.raw.close()


class ReadOne:
    """Wrapper for a buffered stream: reading returns the available bytes, and `close` leaves the stream open."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes."""
        content: bytes = self._stream.read1(size)  # type: ignore[attr-defined]
        return content

    def readinto(self, buffer: memoryview) -> int:
        """Read into the beginning of a buffer; return the number of bytes read."""
        content = self._stream.read1(len(buffer))  # type: ignore[attr-defined]
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Do nothing; the wrapped stream stays open."""


def open_stdin() -> IO[bytes]:
    """Open standard input without a buffer.

    Raises:
        InputError: Standard input is closed.
    """
    if sys.stdin is None:
        raise InputError("is closed", "standard input")
    try:
        # Do not use sys.stdin.buffer; a thread that blocks in it would prevent the interpreter from exiting.
        return cast("IO[bytes]", open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))
    except (AttributeError, OSError, ValueError):
        return cast("IO[bytes]", ReadOne(sys.stdin.buffer))  # sys.stdin was replaced by an object without a descriptor
