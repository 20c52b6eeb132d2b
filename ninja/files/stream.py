"""Bytes of files, pipes and the standard input, unpacked where they are gzip."""

from __future__ import annotations

import os
import stat
import subprocess
import zlib
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any, cast

from ninja.errors import FormatError, InputError
from ninja.files.pipes import GZIP_MAGIC, after_peeking, is_peeked, opened
from ninja.files.place import STDIN, Place

PACKED_CHUNK = 1 << 17  # bytes of a gzip file read at once
SHORTEST_MEMBER = 40  # bytes; whatever is shorter and no gzip is something else, even if it begins as gzip does
UNKNOWN_SIZE = 1 << 62


class Stream:
    """A readable stream of unpacked bytes.

    Args:
        raw: Where the bytes come from.
        name: What errors call it.
        size: Bytes in the file, where known.
        process: The command whose output it is.
    """

    def __init__(
        self, raw: IO[bytes], name: str, size: int | None = None, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.name = name
        self._process = process
        self._source = raw
        self._head = self._read(raw, len(GZIP_MAGIC))
        self._left = size
        self._raw = raw
        self._readinto: Callable[[memoryview], int | None] = raw.readinto  # type: ignore[attr-defined]
        self._failures: tuple[type[Exception], ...] = (OSError,)
        if self._head == GZIP_MAGIC:
            from isal import isal_zlib

            self._failures = (OSError, EOFError, _NotGzip, zlib.error, cast(type[Exception], isal_zlib.error))
            self._readinto = _Unpacked(self._head, raw).readinto
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
            except self._failures as error:
                raise self._failure(error) from error
        if self._left is not None:
            self._left = max(0, self._left - count) if count else 0  # the file may have grown or shrunk meanwhile
        if count == 0 and self._process is not None and self._process.wait() != 0:
            raise InputError(f"the command ended with exit code {self._process.returncode}", self.name)
        return count

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
        self._source.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, raw: IO[bytes], size: int) -> bytes:
        content = b""
        try:
            while len(content) < size and (more := raw.read(size - len(content))):
                content += more
        except OSError as error:
            raise self._failure(error) from error
        return content

    def _failure(self, error: Exception) -> FormatError | InputError:
        if isinstance(error, OSError) and error.errno is not None:
            return InputError(f"cannot be read: {error.strerror}", self.name)
        if isinstance(error, EOFError):
            return FormatError("the gzip stream ends too early: the file is cut short", self.name)
        if isinstance(error, _NotGzip):
            what = "no whole one" if error.like_gzip else "none"
            message = f"the gzip stream ends here, and what follows is {what}: is something else appended to the file"
            message += ", or is it cut short?" if error.like_gzip else "?"
            return FormatError(message, self.name, byte=error.byte)
        return FormatError(f"the gzip stream is damaged: {error}", self.name)


class _NotGzip(Exception):
    """Something else follows a gzip member.

    Args:
        byte: Where it begins in the packed file.
        like_gzip: It begins as gzip does.
    """

    def __init__(self, byte: int, *, like_gzip: bool) -> None:
        super().__init__(byte)
        self.byte = byte
        self.like_gzip = like_gzip


class _Unpacked:
    """What a series of gzip members holds; where it breaks off, all that comes before is still given.

    Args:
        head: The first bytes, which have been read already.
        raw: Where the rest comes from.
    """

    def __init__(self, head: bytes, raw: IO[bytes]) -> None:
        from isal import isal_zlib

        self._failures = (zlib.error, cast(type[Exception], isal_zlib.error))
        self._packed = head  # read and not yet unpacked
        self._raw = raw
        self._read = len(head)  # bytes read so far
        self._unpacker: Any = None  # of the member that has begun
        self._members = 0  # that have begun
        self._begin = 0  # of the last of them, in the packed file
        self._gave = False  # whether it has given a byte
        self._full = False  # whether the last buffer was filled to its end

    def readinto(self, buffer: memoryview) -> int:
        """Fill some of a buffer; 0 is the end."""
        while True:
            if self._unpacker is None and not self._begin_member():
                return 0
            if not self._packed and not self._full and not self._more():
                self._refuse_strange()
                raise EOFError
            try:
                content = self._unpacker.decompress(self._packed, len(buffer))
            except self._failures:
                self._refuse_strange()
                raise
            self._full = len(content) == len(buffer)  # there may be more to come without more to read
            self._packed = self._unpacker.unconsumed_tail
            if self._unpacker.eof:
                self._packed = self._unpacker.unused_data
                self._unpacker = None
                self._full = False
            if content:
                self._gave = True
                buffer[: len(content)] = content
                return len(content)

    def _begin_member(self) -> bool:
        from isal import isal_zlib

        while not (packed := self._packed.lstrip(b"\0")):  # some pad their files
            if not self._more():
                return False
        self._packed = packed
        while len(self._packed) < len(GZIP_MAGIC) and self._more(self._packed):
            pass
        if not self._packed.startswith(GZIP_MAGIC):
            raise _NotGzip(self._read - len(self._packed), like_gzip=False)
        self._begin = self._read - len(self._packed)
        self._members += 1
        self._gave = False
        self._unpacker = isal_zlib.decompressobj(wbits=31)
        return True

    def _refuse_strange(self) -> None:
        """Refuse a member behind others that broke before it gave a byte, or is too short for one of lattices."""
        if self._members > 1 and (not self._gave or self._read - self._begin < SHORTEST_MEMBER):
            raise _NotGzip(self._begin, like_gzip=True)

    def _more(self, left: bytes = b"") -> bool:
        """Read on behind what is left; tell whether there was more."""
        more = self._raw.read(PACKED_CHUNK) or b""
        self._packed = left + more
        self._read += len(more)
        return bool(more)


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
        stream = Stream(after_peeking(place.path), place.name)
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
