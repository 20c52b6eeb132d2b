"""Bytes of files, pipes and the standard input, unpacked where they are gzip."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any, cast

from ninja.errors import FormatError, InputError
from ninja.formats.sources import STDIN, Place

GZIP_MAGIC = b"\x1f\x8b"
PACKED_CHUNK = 1 << 17  # bytes of a gzip file read at once
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

            self._failures = (OSError, EOFError, zlib.error, cast(type[Exception], isal_zlib.error))
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
        return FormatError(f"the gzip stream is damaged: {error}", self.name)


class _Unpacked:
    """What a series of gzip members holds; where it breaks off, all that comes before is still given.

    Args:
        head: The first bytes, which have been read already.
        raw: Where the rest comes from.
    """

    def __init__(self, head: bytes, raw: IO[bytes]) -> None:
        self._packed = head  # read and not yet unpacked
        self._raw = raw
        self._unpacker: Any = None  # of the member that has begun
        self._full = False  # whether the last buffer was filled to its end

    def readinto(self, buffer: memoryview) -> int:
        """Fill some of a buffer; 0 is the end."""
        while True:
            if self._unpacker is None and not self._begin_member():
                return 0
            if not self._packed and not self._full:
                self._packed = self._raw.read(PACKED_CHUNK) or b""
                if not self._packed:
                    raise EOFError
            content = self._unpacker.decompress(self._packed, len(buffer))
            self._full = len(content) == len(buffer)  # there may be more to come without more to read
            self._packed = self._unpacker.unconsumed_tail
            if self._unpacker.eof:
                self._packed = self._unpacker.unused_data
                self._unpacker = None
                self._full = False
            if content:
                buffer[: len(content)] = content
                return len(content)

    def _begin_member(self) -> bool:
        from isal import isal_zlib

        while not (packed := self._packed.lstrip(b"\0")):  # some pad their files
            self._packed = self._raw.read(PACKED_CHUNK) or b""
            if not self._packed:
                return False
        self._packed = packed
        self._unpacker = isal_zlib.decompressobj(wbits=31)
        return True


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
    if place.path == STDIN:
        return Stream(_standard_input(), "standard input")
    try:
        raw = open(place.path, "rb", buffering=0)  # noqa: SIM115 - the stream closes it
        size = os.fstat(raw.fileno()).st_size
        regular = os.path.isfile(place.path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", place.path) from error
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", place.path.replace("\0", "?")) from error
    stream = Stream(cast("IO[bytes]", raw), place.path, size if regular else None)
    if place.offset:
        if not stream.seekable:
            stream.close()
            raise FormatError(f"an offset ({place.offset}) needs a plain file, not gzip or a pipe", place.path)
        stream.seek(place.offset)
    elif stream.seekable:
        stream.seek(0)
    return stream


class _Peeked:
    """What was read of the standard input before anybody opened it as a source."""

    def __init__(self) -> None:
        self.stdin: object = None  # whose bytes these are
        self.content = b""
        self.whole = False  # all of it: it can be opened again and again


_peeked = _Peeked()


def peek_standard_input(size: int | None, enough: Callable[[bytes], object] = lambda head: None) -> bytes:
    """Return the first bytes of the standard input, unpacked if they are gzip, and leave them to be read.

    Args:
        size: At most so many; None: all, and from now on it can be opened again and again.
        enough: As for ``Stream.head``; of what is not gzip.

    Raises:
        InputError: It cannot be read.
    """
    if _peeked.stdin is not sys.stdin:
        _peeked.stdin, _peeked.content, _peeked.whole = sys.stdin, b"", False
    if not _peeked.whole:
        raw = _unread_input()
        try:
            while (size is None or len(_peeked.content) < size) and not (_peeked.content and enough(_peeked.content)):
                more = raw.read((1 << 20) if size is None else size - len(_peeked.content))
                if not more:
                    _peeked.whole = True
                    break
                _peeked.content += more
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", "standard input") from error
    if not _peeked.content.startswith(GZIP_MAGIC) or size is None:
        return _peeked.content[:size]
    from isal import isal_zlib

    with contextlib.suppress(cast(type[Exception], isal_zlib.error)):
        return isal_zlib.decompressobj(wbits=31).decompress(_peeked.content, size)
    return b""


def _standard_input() -> IO[bytes]:
    if _peeked.stdin is not sys.stdin or not _peeked.content:
        return _unread_input()
    content = _peeked.content
    if _peeked.whole:
        return cast("IO[bytes]", io.BytesIO(content))
    _peeked.content = b""
    return cast("IO[bytes]", _Behind(content, _unread_input()))


class _Behind:
    """Some bytes, and a stream behind them."""

    def __init__(self, content: bytes, stream: IO[bytes]) -> None:
        self._content = memoryview(content)
        self._stream = stream

    def read(self, size: int) -> bytes:
        if not self._content:
            return self._stream.read(size)
        taken, self._content = self._content[:size], self._content[size:]
        return bytes(taken)

    def readinto(self, buffer: memoryview) -> int | None:
        if not self._content:
            return self._stream.readinto(buffer)  # type: ignore[attr-defined]
        count = min(len(buffer), len(self._content))
        buffer[:count], self._content = self._content[:count], self._content[count:]
        return count

    def close(self) -> None:
        self._stream.close()


def _unread_input() -> IO[bytes]:
    if sys.stdin is None:
        raise InputError("is closed", "standard input")
    try:
        # Not sys.stdin.buffer: a thread that waits in it for more would keep the interpreter from ending.
        return cast("IO[bytes]", open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))
    except (AttributeError, OSError, ValueError):
        return cast("IO[bytes]", _ReadOne(sys.stdin.buffer))  # somebody put another stream there


class _ReadOne:
    """A stream that is not ours to close, read without waiting for more when some bytes are there."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        return self._stream.read1(size)  # type: ignore[attr-defined]

    def readinto(self, buffer: memoryview) -> int:
        content = self._stream.read1(len(buffer))  # type: ignore[attr-defined]
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Leave it open."""
