"""Bytes of files, pipes and the standard input, unpacked where they are gzip."""

from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, cast

from ninja.errors import FormatError, InputError, OptionError
from ninja.files.guard import reading
from ninja.files.gzip import GZIP_MAGIC, Unpacked, unpack_head
from ninja.files.place import STDIN, Place
from ninja.files.remote import RemoteFile, is_remote

UNKNOWN_SIZE = 1 << 62
CHUNK = 1 << 20


class Stream:
    """A readable stream of unpacked bytes.

    Args:
        raw: Stream of the bytes as they are.
        head: Bytes of it that have been read already.
        place: A stretch of a file, where it is one.
    """

    def __init__(
        self,
        raw: IO[bytes],
        name: str,
        size: int | None = None,
        process: subprocess.Popen[bytes] | None = None,
        head: bytes = b"",
        place: Place | None = None,
    ) -> None:
        self.name = name
        self.begin, self.end = (0, None) if place is None else (place.offset, place.end)  # in the file
        self.lines = 0 if place is None else place.line  # of the file, before
        self._process = process
        self._raw = raw
        self._left = size
        self._given = 0  # bytes, of a stream that is not packed
        self._unpacked: Unpacked | None = None
        self._readinto: Callable[[memoryview], int | None] = raw.readinto  # type: ignore[attr-defined]
        try:
            while len(head) < len(GZIP_MAGIC) and (more := raw.read(len(GZIP_MAGIC) - len(head))):
                head += more
        except OSError as error:
            raise self._failure(error) from error
        self._head = head
        if head.startswith(GZIP_MAGIC):
            self._unpacked = Unpacked(head, raw, name)
            self._readinto = self._unpacked.readinto
            self._head = b""
            self._left = None

    @property
    def seekable(self) -> bool:
        """True of a plain file, also a remote one, in which ``seek`` works."""
        return self._left is not None

    @property
    def is_local(self) -> bool:
        """True of a plain file of this machine, or a stretch of it, which can be mapped and has a descriptor."""
        raw = self._raw.raw if isinstance(self._raw, _Range) else self._raw
        return (self.seekable or raw is not self._raw) and not isinstance(raw, RemoteFile)

    @property
    def position(self) -> int:
        """Bytes taken so far; of a packed file as they lie there."""
        return self._given if self._unpacked is None else self._unpacked.position

    @property
    def bytes_left(self) -> int:
        """Bytes still to come, at most."""
        return UNKNOWN_SIZE if self._left is None else self._left

    def readinto(self, buffer: memoryview) -> int:
        """Fill some of a buffer; 0 is the end."""
        if self._head:
            count = min(len(buffer), len(self._head))
            buffer[:count] = self._head[:count]
            self._head = self._head[count:]
        else:
            try:
                count = self._readinto(buffer) or 0
            except OSError as error:
                raise self._failure(error) from error
        self._given += count
        if self._left is not None:
            self._left = max(0, self._left - count) if count else 0  # the file may have grown or shrunk meanwhile
        if count == 0 and self._process is not None and self._process.wait() != 0:
            raise InputError(f"the command ended with exit code {self._process.returncode}", self.name)
        return count

    def rest(self) -> bytes:
        """Return all bytes still to come."""
        found = io.BytesIO()  # gives its bytes away without a copy
        buffer = memoryview(bytearray(CHUNK))
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
        self._given -= count
        if self._left is not None:
            self._left += count
        head = bytes(memoryview(buffer)[:count])
        self._head = head + self._head
        return head

    def seek(self, offset: int) -> None:
        """Go to an offset of a plain file."""
        try:
            size = _size(self._raw)
            self._raw.seek(offset)
        except OSError as error:
            raise self._failure(error) from error
        self._head = b""
        self._given = offset
        self._left = max(0, (size or 0) - offset)

    def descriptor(self) -> int:
        """Return a descriptor of a plain file of one's own, at the file's begin; of a stretch it may be anywhere."""
        if self.end is None:
            self.seek(0)
        return os.dup(self._raw.fileno())

    def note_input(self) -> None:
        """Say that a file opened otherwise is an input; see `open_raw`."""
        reading(self.name, None if isinstance(self._raw, RemoteFile) else self._raw.fileno())

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
        if isinstance(error, InputError):
            return error
        return InputError(f"cannot be read: {error.strerror or error}", self.name)


def open_stream(place: Place, *, is_input: bool = True) -> Stream:
    """Open a place for reading, at its offset; see `open_raw`."""
    if place.command is not None:
        process = subprocess.Popen(place.command, shell=True, stdout=subprocess.PIPE)
        assert process.stdout is not None
        return Stream(process.stdout, place.name, process=process)
    if place.end is not None:
        return _open_range(place, place.end, is_input=is_input)
    if (looked_at := _take_looked_at(place.path)) is not None:
        stream = looked_at
    elif place.path == STDIN or place.path in _peeked:
        raw, head = _after_peeking(place.path)
        stream = Stream(raw, place.name, head=head)
    else:
        raw = open_raw(place.path, is_input=is_input, plain=place.plain)
        stream = Stream(raw, place.name, _size(raw))
    if place.offset:
        if not stream.seekable:
            stream.close()
            raise FormatError(f"an offset ({place.offset}) needs a plain file, not gzip or a pipe", stream.name)
        stream.seek(place.offset)
    elif stream.seekable:
        stream.seek(0)
    return stream


def _size(raw: IO[bytes]) -> int | None:
    """Return how many bytes an open file has; None: it is no plain file."""
    if isinstance(raw, RemoteFile):
        return raw.size
    status = os.fstat(raw.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _open_range(place: Place, end: int, *, is_input: bool) -> Stream:
    """Open a stretch of a plain file."""
    raw = open_raw(place.path, is_input=is_input, plain=place.plain)
    raw.seek(place.offset)
    return Stream(cast("IO[bytes]", _Range(raw, end - place.offset)), place.name, place=place)


class _Range:
    """The next bytes of a file, so many."""

    def __init__(self, raw: IO[bytes], size: int) -> None:
        self.raw = raw
        self._left = size

    def fileno(self) -> int:
        return self.raw.fileno()

    def read(self, size: int) -> bytes:
        content = self.raw.read(min(size, self._left))
        self._left -= len(content)
        return content

    def readinto(self, buffer: memoryview) -> int:
        count: int = self.raw.readinto(buffer[: self._left])  # type: ignore[attr-defined]
        self._left -= count
        return count

    def close(self) -> None:
        self.raw.close()


_looked_at: dict[str, tuple[Stream, tuple[int, ...]]] = {}  # with the state of each file when it was opened
_MOST_LOOKED_AT = 64  # files kept open


@contextmanager
def look(path: str) -> Iterator[Stream]:
    """Open a file of which only ``head`` is taken; `open_stream` goes on with it, if the file is still the same."""
    if is_remote(path):
        with open_stream(Place(path)) as stream:
            yield stream
        return
    stream = open_stream(Place(path))
    try:
        state = _state(os.fstat(stream._raw.fileno()))
        yield stream
    except BaseException:
        stream.close()
        raise
    before, _looked_at[path] = _looked_at.pop(path, None), (stream, state)
    if before is None and len(_looked_at) > _MOST_LOOKED_AT:
        before = _looked_at.pop(next(iter(_looked_at)), None)
    if before is not None:
        before[0].close()


def _take_looked_at(path: str) -> Stream | None:
    """Return the stream of a file that was looked at; None: there is none, or the file was written since."""
    stream, state = _looked_at.pop(path, (None, ()))
    if stream is None:
        return None
    try:
        if _state(os.stat(path)) == state:
            return stream
    except OSError:
        pass
    stream.close()
    return None


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def gives_bytes_once(path: str) -> bool:
    """Tell whether a path can be read only once: the standard input, a pipe."""
    if path == STDIN:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@dataclass(slots=True)
class _Peeked:
    """The bytes read of a pipe before it was opened as a source."""

    raw: IO[bytes]  # where the rest comes from
    stdin: object  # whose bytes these are, if they are the standard input's
    content: bytes = b""
    whole: bool = False  # all of it


_peeked: dict[str, _Peeked] = {}


def peek(path: str, size: int, enough: Callable[[bytes], object] = lambda head: None) -> bytes:
    """Return the first bytes of a pipe or the standard input, unpacked, and keep them to be read.

    Args:
        path: A pipe, or ``-`` for the standard input.
        size: At most so many.
        enough: As for ``Stream.head``; of what is not gzip.
    """
    peeked = _peeked_of(path)
    if peeked is None:
        peeked = _peeked[path] = _Peeked(_unread(path), sys.stdin)
    try:
        while not peeked.whole and len(peeked.content) < size and not (peeked.content and enough(peeked.content)):
            more = peeked.raw.read(size - len(peeked.content))
            peeked.content += more
            peeked.whole = not more
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", Place(path).name) from error
    if peeked.content.startswith(GZIP_MAGIC):
        return unpack_head(peeked.content, size)
    return peeked.content[:size]


def _peeked_of(path: str) -> _Peeked | None:
    peeked = _peeked.get(path)
    if path == STDIN and peeked is not None and peeked.stdin is not sys.stdin:  # it was replaced
        del _peeked[path]
        return None
    return peeked


def _after_peeking(path: str) -> tuple[IO[bytes], bytes]:
    """Open a pipe or the standard input; return the stream, and the bytes peeked at before it."""
    peeked = _peeked_of(path)
    if peeked is None:
        return _unread(path), b""
    del _peeked[path]
    return peeked.raw, peeked.content


def open_raw(path: str, *, is_input: bool = True, plain: bool = False) -> IO[bytes]:
    """Open a file or a pipe.

    Args:
        is_input: No output of a command may replace it.
        plain: Refuse pipes and devices.

    Raises:
        InputError: It cannot be opened.
        OptionError: An output of the command that runs would replace it.
    """
    if is_remote(path):
        if is_input:
            reading(path, None)
        return cast("IO[bytes]", RemoteFile(path))
    try:
        file = cast("IO[bytes]", open(_open_plain(path) if plain else path, "rb", buffering=0))  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", path.replace("\0", "?")) from error
    if is_input:
        try:
            reading(path, file.fileno())
        except OptionError:
            file.close()
            raise
    return file


def _open_plain(path: str) -> int:
    """Open a regular file; should a pipe take its place meanwhile, do not wait for a writer."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file, as those that another file names must be")
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def _unread(path: str) -> IO[bytes]:
    if path != STDIN:
        return open_raw(path)
    if sys.stdin is None:
        raise InputError("is closed", "standard input")
    try:
        # Not sys.stdin.buffer: a thread that waits in it for more would keep the interpreter from ending.
        file = cast("IO[bytes]", open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))  # noqa: SIM115
        reading("standard input", file.fileno())
        return file
    except (AttributeError, OSError, ValueError):
        return cast("IO[bytes]", _ReadOne(sys.stdin.buffer))  # it was replaced


class _ReadOne:
    """A stream that is not ours to close, read without waiting for more when some bytes are there."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        content: bytes = self._stream.read1(size)  # type: ignore[attr-defined]
        return content

    def readinto(self, buffer: memoryview) -> int:
        content = self._stream.read1(len(buffer))  # type: ignore[attr-defined]
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Leave it open."""
