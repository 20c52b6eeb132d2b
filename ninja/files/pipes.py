"""Standard input and other pipes, which give their bytes once: looked at first, then read from the begin."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, cast

from ninja.errors import InputError
from ninja.files.gzip import GZIP_MAGIC, unpack_head
from ninja.files.place import STDIN, Place

LARGEST_KEPT = 1 << 34  # bytes of a pipe that are kept in memory to be read twice
CHUNK_KEPT = 1 << 20


def gives_bytes_once(path: str) -> bool:
    """Tell whether a path names what can be read only once: the standard input, a pipe."""
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
    openings: int = 1  # how often it can still be opened, if it is whole and not the standard input


_peeked: dict[str, _Peeked] = {}


def is_peeked(path: str) -> bool:
    """Tell whether the first bytes of a pipe were looked at, and not read yet."""
    return path in _peeked


def peek(path: str, size: int | None, enough: Callable[[bytes], object] = lambda head: None) -> bytes:
    """Return the first bytes of what gives its bytes once, unpacked if they are gzip, and leave them to be read.

    Args:
        path: A pipe, or ``-`` for the standard input.
        size: At most so many; None: all, packed as they are. Then the standard input can be opened again and again, a
            pipe twice: later something else may come out of it.
        enough: As for ``Stream.head``; of what is not gzip.

    Raises:
        InputError: It cannot be read, or all of it is more than can be kept.
    """
    peeked = _peeked_of(path)
    if peeked is None:
        peeked = _peeked[path] = _Peeked(_unread(path), sys.stdin)
    try:
        if size is None:
            _keep(path, peeked)
            return peeked.content
        while not peeked.whole and len(peeked.content) < size and not (peeked.content and enough(peeked.content)):
            more = peeked.raw.read(size - len(peeked.content))
            peeked.content += more
            peeked.whole = not more
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", Place(path).name) from error
    if peeked.content.startswith(GZIP_MAGIC):
        return unpack_head(peeked.content, size)
    return peeked.content[:size]


def _keep(path: str, peeked: _Peeked) -> None:
    """Read all that is left."""
    pieces = [peeked.content]
    kept = len(peeked.content)
    while not peeked.whole:
        pieces.append(peeked.raw.read(CHUNK_KEPT))
        kept += len(pieces[-1])
        peeked.whole = not pieces[-1]
        if kept > LARGEST_KEPT:
            raise InputError(
                f"more than {LARGEST_KEPT >> 30} GB, too much to be read twice, first for its words; give the words "
                "(--words), or a file",
                Place(path).name,
            )
    peeked.content = b"".join(pieces)
    peeked.openings = 2
    peeked.raw.close()


def _peeked_of(path: str) -> _Peeked | None:
    peeked = _peeked.get(path)
    if path == STDIN and peeked is not None and peeked.stdin is not sys.stdin:  # it was replaced
        del _peeked[path]
        return None
    return peeked


def after_peeking(path: str) -> tuple[IO[bytes], bytes]:
    """Open what gives its bytes once; return the stream, and the bytes before it that were looked at."""
    peeked = _peeked_of(path)
    if peeked is None:
        return _unread(path), b""
    peeked.openings -= 1
    if not peeked.whole or (path != STDIN and not peeked.openings):
        del _peeked[path]
    if peeked.whole:
        return io.BytesIO(peeked.content), b""
    return peeked.raw, peeked.content


def opened(path: str) -> IO[bytes]:
    """Open a file or a pipe."""
    try:
        return cast("IO[bytes]", open(path, "rb", buffering=0))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", path.replace("\0", "?")) from error


def _unread(path: str) -> IO[bytes]:
    if path != STDIN:
        return opened(path)
    if sys.stdin is None:
        raise InputError("is closed", "standard input")
    try:
        # Not sys.stdin.buffer: a thread that waits in it for more would keep the interpreter from ending.
        return cast("IO[bytes]", open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))
    except (AttributeError, OSError, ValueError):
        return cast("IO[bytes]", _ReadOne(sys.stdin.buffer))  # it was replaced


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
