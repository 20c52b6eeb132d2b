"""Output files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, Protocol, TextIO

from ninja.errors import OutputError


class Bytes(Protocol):
    """Writer of bytes."""

    def write(self, content: bytes | memoryview) -> object:
        """Write all of them."""
        ...


@contextlib.contextmanager
def reported(path: str) -> Iterator[None]:
    """Turn the system's errors into ``OutputError``."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror or error}", path) from error


class StandardOutput:
    """The standard output; bytes written there cannot be taken back."""

    name = "standard output"

    def __init__(self) -> None:
        sys.stdout.flush()
        self._stream = sys.stdout.buffer

    def write(self, content: bytes | memoryview) -> None:
        """Write bytes."""
        with reported(self.name):
            self._stream.write(content)

    def finish(self) -> None:
        """Write the bytes that are still buffered."""
        with reported(self.name):
            self._stream.flush()

    def abandon(self, *, keep: bool) -> None:
        """Do nothing: it cannot be taken back."""


class PartFile(io.RawIOBase):
    """A file under a temporary name beside its own (``.NAME.part``) until it is finished.

    What is no plain file (``/dev/null``, ``/dev/stdout``, a named pipe) is written directly. `length` bytes of a
    temporary file that is there are kept; 0 begins anew.
    """

    def __init__(self, path: str, length: int = 0) -> None:
        self.name = path
        self._final = os.path.realpath(path)
        self._direct = os.path.exists(path) and not os.path.isfile(path)  # not by its real path: pipes may have none
        self._part = path if self._direct else part_of(path)
        with reported(path):
            self._file: IO[bytes] = open(self._part, "r+b" if length else "wb", buffering=0)  # noqa: SIM115
            if length:
                self._file.truncate(length)
                self._file.seek(length)

    def writable(self) -> bool:
        """Tell Python's own layers that this can be written."""
        return True

    def write(self, content: Any) -> int:
        """Write all of some bytes."""
        left = memoryview(content)
        with reported(self.name):
            while left:
                left = left[self._file.write(left) :]
        return len(content)

    def finish(self) -> None:
        """Give the file its name."""
        with reported(self.name):
            self._file.close()
            if not self._direct:
                os.replace(self._part, self._final)

    def abandon(self, *, keep: bool) -> None:
        """Remove the file, or keep it under its temporary name to be taken up later."""
        with contextlib.suppress(OSError):
            self._file.close()
        if not self._direct and not keep:
            with contextlib.suppress(OSError):
                os.remove(self._part)


@contextlib.contextmanager
def opened(path: str) -> Iterator[PartFile]:
    """Write a file in a ``with`` block; it gets its name when the block is left without an exception."""
    file = PartFile(path)
    try:
        yield file
        file.finish()
    except BaseException:
        file.abandon(keep=False)
        raise


@contextlib.contextmanager
def opened_as_text(path: str) -> Iterator[TextIO]:
    """Write a UTF-8 text file in a ``with`` block, as ``opened`` does."""
    with opened(path) as file:
        stream = io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", errors="surrogateescape")
        yield stream
        stream.flush()


def part_of(path: str) -> str:
    """Return the temporary name of a file."""
    folder, name = os.path.split(os.path.realpath(path))
    return os.path.join(folder, f".{name}.part")
