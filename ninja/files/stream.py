"""Bytes of files, pipes and the standard input, unpacked where they are gzip."""

from __future__ import annotations

import io
import os
import stat
import subprocess
from collections.abc import Callable
from typing import IO

from ninja.errors import FormatError, InputError
from ninja.files.gzip import GZIP_MAGIC, Unpacked
from ninja.files.pipes import after_peeking, is_peeked, opened
from ninja.files.place import STDIN, Place

UNKNOWN_SIZE = 1 << 62
_CHUNK = 1 << 20


class Stream:
    """A readable stream of unpacked bytes.

    Args:
        raw: Stream of the bytes as they are.
        name: File name for error messages.
        size: Bytes in the file, where known.
        process: The command whose output it is.
        head: Bytes of it that have been read already.
    """

    def __init__(
        self,
        raw: IO[bytes],
        name: str,
        size: int | None = None,
        process: subprocess.Popen[bytes] | None = None,
        head: bytes = b"",
    ) -> None:
        self.name = name
        self._process = process
        self._raw = raw
        self._left = size
        self._readinto: Callable[[memoryview], int | None] = raw.readinto  # type: ignore[attr-defined]
        try:
            while len(head) < len(GZIP_MAGIC) and (more := raw.read(len(GZIP_MAGIC) - len(head))):
                head += more
        except OSError as error:
            raise self._failure(error) from error
        self._head = head
        if head.startswith(GZIP_MAGIC):
            self._readinto = Unpacked(head, raw, name).readinto
            self._head = b""
            self._left = None

    @property
    def seekable(self) -> bool:
        """Whether ``seek`` can work: a plain file."""
        return self._left is not None

    @property
    def bytes_left(self) -> int:
        """Bytes still to come, at most."""
        return UNKNOWN_SIZE if self._left is None else self._left

    def readinto(self, buffer: memoryview) -> int:
        """Fill some of a buffer; 0 is the end.

        Raises:
            FormatError: The gzip stream is damaged or cut short.
            InputError: The file cannot be read, or the command failed.
        """
        if self._head:
            count = min(len(buffer), len(self._head))
            buffer[:count] = self._head[:count]
            self._head = self._head[count:]
        else:
            try:
                count = self._readinto(buffer) or 0
            except OSError as error:
                raise self._failure(error) from error
        if self._left is not None:
            self._left = max(0, self._left - count) if count else 0  # the file may have grown or shrunk meanwhile
        if count == 0 and self._process is not None and self._process.wait() != 0:
            raise InputError(f"the command ended with exit code {self._process.returncode}", self.name)
        return count

    def rest(self) -> bytes:
        """Return all bytes still to come."""
        found = io.BytesIO()  # gives its bytes away without a copy
        buffer = memoryview(bytearray(_CHUNK))
        while count := self.readinto(buffer):
            found.write(buffer[:count])
        return found.getvalue()

    def head(self, size: int, enough: Callable[[bytes], object] = lambda head: None) -> bytes:
        """Return the first bytes without taking them; to be called before ``readinto``.

        Args:
            size: How many, unless the file is shorter.
            enough: Asked whenever some have come; fewer are returned as soon as it says so. A pipe may be slow.
        """
        buffer = bytearray(size)
        count = 0
        while count < size and not (count and enough(bytes(memoryview(buffer)[:count]))):
            got = self.readinto(memoryview(buffer)[count:])
            if got == 0:
                break
            count += got
        if self._left is not None:
            self._left += count
        head = bytes(memoryview(buffer)[:count])
        self._head = head + self._head
        return head

    def seek(self, offset: int) -> None:
        """Go to an offset of a plain file."""
        try:
            size = os.fstat(self._raw.fileno()).st_size
            self._raw.seek(offset)
        except OSError as error:
            raise self._failure(error) from error
        self._head = b""
        self._left = max(0, size - offset)

    def descriptor(self) -> int:
        """Return a descriptor of a plain file of one's own, at the file's begin."""
        self.seek(0)
        return os.dup(self._raw.fileno())

    def close(self) -> None:
        """Close the file; a command still running is ended."""
        self._raw.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _failure(self, error: OSError) -> InputError:
        return InputError(f"cannot be read: {error.strerror or error}", self.name)


def open_stream(place: Place) -> Stream:
    """Open a place for reading, at its offset.

    Raises:
        InputError: It cannot be opened.
        FormatError: An offset into a gzip file or a pipe.
    """
    if place.command is not None:
        process = subprocess.Popen(place.command, shell=True, stdout=subprocess.PIPE)
        assert process.stdout is not None
        return Stream(process.stdout, place.name, process=process)
    if place.path == STDIN or is_peeked(place.path):
        raw, head = after_peeking(place.path)
        stream = Stream(raw, place.name, head=head)
    else:
        raw = opened(place.path)
        status = os.fstat(raw.fileno())
        stream = Stream(raw, place.name, status.st_size if stat.S_ISREG(status.st_mode) else None)
    if place.offset:
        if not stream.seekable:
            stream.close()
            raise FormatError(f"an offset ({place.offset}) needs a plain file, not gzip or a pipe", stream.name)
        stream.seek(place.offset)
    elif stream.seekable:
        stream.seek(0)
    return stream
