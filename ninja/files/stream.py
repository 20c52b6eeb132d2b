"""Bytes of files, pipes and the standard input, unpacked where they are gzip."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import warnings
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, cast

from ninja.errors import FormatError, InputError, NinjaWarning
from ninja.files.gzip import GZIP_MAGIC, GzipReader
from ninja.files.place import STDIN, Identity, Place, identity, identity_of, is_remote
from ninja.files.remote import RemoteFile

if TYPE_CHECKING:
    import subprocess

UNKNOWN_SIZE = 1 << 62
CHUNK = 1 << 20
BOM = b"\xef\xbb\xbf"  # byte-order mark of UTF-8


class Stream:
    """A readable stream of unpacked bytes.

    Args:
        raw: The stored bytes, which may be gzip.
        size: Bytes of a plain file, in which ``seek`` works.
        process: Command that writes the bytes.
        place: Place of a part of a file.
    """

    def __init__(
        self,
        raw: IO[bytes],
        name: str,
        size: int | None = None,
        process: subprocess.Popen[bytes] | None = None,
        place: Place | None = None,
    ) -> None:
        self.name = name
        self.begin, self.end = (0, None) if place is None else (place.offset, place.end)  # bytes of the file
        self.lines = 0 if place is None else place.line  # number of lines before
        self._process = process
        self._raw = raw
        self._bytes_left = size
        self._position = 0  # of a stream that is not gzip
        self._unpacked: GzipReader | None = None
        self._readinto: Callable[[memoryview], int | None] = raw.readinto  # type: ignore[attr-defined]
        head = b""
        try:
            while len(head) < len(GZIP_MAGIC) and (more := raw.read(len(GZIP_MAGIC) - len(head))):
                head += more
        except OSError as error:
            raise self._failure(error) from error
        self._head = head
        if head.startswith(GZIP_MAGIC):
            self._unpacked = GzipReader(head, raw, name)
            self._readinto = self._unpacked.readinto
            self._head = b""
            self._bytes_left = None

    @property
    def seekable(self) -> bool:
        """Whether it is a plain file, local or remote, in which ``seek`` works."""
        return self._bytes_left is not None

    @property
    def is_local(self) -> bool:
        """Whether it is a plain file of this machine, or a part of one, which can be mapped and has a descriptor."""
        raw = self._raw.raw if isinstance(self._raw, _Range) else self._raw
        return (self.seekable or raw is not self._raw) and not isinstance(raw, RemoteFile)

    @property
    def position(self) -> int:
        """Number of bytes read; of a gzip file before decompression."""
        return self._position if self._unpacked is None else self._unpacked.position

    @property
    def bytes_left(self) -> int:
        """Upper bound of the bytes that are not read yet."""
        return UNKNOWN_SIZE if self._bytes_left is None else self._bytes_left

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
        self._position += count
        if self._bytes_left is not None:
            self._bytes_left = max(0, self._bytes_left - count) if count else 0  # the file may have changed its size
        if count == 0 and self._process is not None and self._process.wait() != 0:
            raise InputError(f"the command ended with exit code {self._process.returncode}", self.name)
        return count

    def rest(self) -> bytes:
        """Read to the end."""
        content = io.BytesIO()  # getvalue makes no copy
        buffer = memoryview(bytearray(CHUNK))
        while count := self.readinto(buffer):
            content.write(buffer[:count])
        return content.getvalue()

    def head(self, size: int, enough: Callable[[bytes], object] = lambda head: None) -> bytes:
        """Return the next bytes without consuming them.

        Args:
            size: Number of bytes, unless the file is shorter.
            enough: Called with the bytes so far whenever some were read, for pipes may be slow; fewer bytes are
                returned as soon as it returns a true value.
        """
        buffer = bytearray(size)
        count = 0
        while count < size and not (count and enough(bytes(memoryview(buffer)[:count]))):
            if (num_read := self.readinto(memoryview(buffer)[count:])) == 0:
                break
            count += num_read
        self._position -= count
        if self._bytes_left is not None:
            self._bytes_left += count
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
        self._position = offset
        self._bytes_left = max(0, (size or 0) - offset)

    def descriptor(self) -> int:
        """Return a new descriptor of a plain file, at its beginning; that of a part of a file may be anywhere."""
        if self.end is None:
            self.seek(0)
        return os.dup(self._raw.fileno())

    @property
    def identity(self) -> Identity | None:
        """Identity of the file; None of a pipe."""
        if isinstance(self._raw, RemoteFile):
            return identity_of(self.name)
        try:
            return identity(os.fstat(self._raw.fileno()))
        except (AttributeError, OSError):
            return None  # the standard input was replaced

    def close(self) -> None:
        """Close the file, and terminate the command."""
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


def open_stream(place: Place) -> Stream:
    """Open a place for reading, at its offset.

    Raises:
        InputError: It cannot be opened.
        FormatError: It has an offset and is not a plain file.
    """
    if place.command is not None:
        import subprocess  # for commands only

        process = subprocess.Popen(place.command, shell=True, stdout=subprocess.PIPE)
        assert process.stdout is not None
        return Stream(process.stdout, place.name, process=process)
    raw = _open_stdin() if place.path == STDIN else open_raw(place.path, plain=place.plain)
    if place.end is not None:
        raw.seek(place.offset)
        return Stream(cast("IO[bytes]", _Range(raw, place.end - place.offset)), place.name, place=place)
    stream = Stream(raw, place.name, None if place.path == STDIN else _size(raw))
    if place.offset and not stream.seekable:
        stream.close()
        raise FormatError(f"an offset ({place.offset}) needs a plain file, not gzip or a pipe", stream.name)
    if stream.seekable:
        stream.seek(place.offset)
    return stream


def _size(raw: IO[bytes]) -> int | None:
    """Return the number of bytes of an open file; None if it is no plain file."""
    if isinstance(raw, RemoteFile):
        return raw.size
    status = os.fstat(raw.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class _Range:
    """The next bytes of a file, up to a number."""

    def __init__(self, raw: IO[bytes], size: int) -> None:
        self.raw = raw
        self._bytes_left = size

    def fileno(self) -> int:
        return self.raw.fileno()

    def read(self, size: int) -> bytes:
        content = self.raw.read(min(size, self._bytes_left))
        self._bytes_left -= len(content)
        return content

    def readinto(self, buffer: memoryview) -> int:
        count: int = self.raw.readinto(buffer[: self._bytes_left])  # type: ignore[attr-defined]
        self._bytes_left -= count
        return count

    def close(self) -> None:
        self.raw.close()


def open_raw(path: str, *, plain: bool = False) -> IO[bytes]:
    """Open a file or a pipe.

    Args:
        plain: Refuse pipes and devices.

    Raises:
        InputError: It cannot be opened.
    """
    if is_remote(path):
        return cast("IO[bytes]", RemoteFile(path))
    try:
        return cast("IO[bytes]", open(_open_regular(path) if plain else path, "rb", buffering=0))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", path.replace("\0", "?")) from error


def _open_regular(path: str) -> int:
    """Open a regular file, without waiting for a writer should a pipe take its place meanwhile."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file, as those that another file names must be")
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def _open_stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise InputError("is closed", "standard input")
    try:
        # Not sys.stdin.buffer: a thread that waits in it for more would keep the interpreter from ending.
        return cast("IO[bytes]", open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))
    except (AttributeError, OSError, ValueError):
        return cast("IO[bytes]", _ReadOne(sys.stdin.buffer))  # sys.stdin was replaced


class _ReadOne:
    """A stream that stays open, read without waiting when some bytes are available."""

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


def without_mark(content: bytes, path: str | os.PathLike[str] | None) -> bytes:
    """Return text without its byte-order mark; warn if it had one."""
    if not content.startswith(BOM):
        return content
    warnings.warn(f"{path or 'text'}: the byte-order mark at its beginning is left out", NinjaWarning, stacklevel=2)
    return content[len(BOM) :]
