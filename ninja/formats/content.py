"""The content of a file, as readers of formats take it: whole, in lines, or in a window."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ninja.errors import FormatError, NinjaError
from ninja.files.place import STDIN, Place
from ninja.files.stream import BOM, Stream, open_stream, without_mark
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

LARGEST = 1 << 34  # maximum number of bytes of a file that is read as a whole
LARGEST_PACKED = 1 << 28  # the same after gunzip, ...
LARGEST_RATIO = 100  # ... or this multiple of the packed size, if larger; lattices compress to about a tenth
CHUNK = 1 << 20
FIRST_LINES = 4  # enough to tell one document from a document on each line
LARGEST_HEAD = 1 << 26  # maximum number of bytes of the first lines
BLOCK = 1 << 22  # bytes read at once; most entries lie within one block
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")

Entry = tuple[str, Lattice | NinjaError]  # a key with its lattice or its error


class Content:
    """The content of a file, read or mapped on first use.

    Args:
        stream: The file, opened at its begin.
        path: Its name; "-" is the standard input.
        late: Whether the error of a damaged lattice may be raised when the lattice is used.
    """

    def __init__(self, stream: Stream, path: str, *, late: bool = False) -> None:
        self.late = late
        self.name = stream.name  # for messages
        self.path = path
        self.stream = stream
        self.key = key_of(path)  # of a lattice without a key in the file
        self.num_overlaps = 0  # words that began before the end of the word before them, and were moved there
        self._before_number = "" if _is_nameless(path) else f"{self.key}-"
        self._whole: bytes | None = None

    def numbered(self, number: int) -> str:
        """Return the utterance id of the n-th lattice without a key, from 1."""
        return f"{self._before_number}{number}"

    def note_overlaps(self, count: int) -> None:
        """Add a number of words that began before the end of the word before them."""
        self.num_overlaps += count

    def whole(self) -> bytes:
        """Return all bytes, unpacked, without a byte order mark.

        The limit is 16 GB; for a gzip file, 256 MB or 100 times its size, whichever is more. The packed size of the
        standard input and of command output is unknown, so their limit is 16 GB. The bytes are kept, in one copy.

        Raises:
            FormatError: The limit is exceeded, or the gzip stream is damaged.
        """
        if self._whole is None:
            pieces = io.BytesIO()  # getvalue() does not copy
            buffer = memoryview(bytearray(CHUNK))
            largest, reason = self._largest()
            self.stream.head(len(BOM))
            while count := self.stream.readinto(buffer):
                piece = buffer[:count]
                pieces.write(piece if pieces.tell() else without_mark(piece.tobytes(), self.name))
                if pieces.tell() > largest:
                    raise FormatError(reason, self.name)
            self._whole = pieces.getvalue()
        return self._whole

    def first_lines(self) -> bytes:
        """Peek at the first complete lines; b"" if they are the whole file or have more than 64 MB."""
        size = CHUNK
        while size <= LARGEST_HEAD and len(head := self.stream.head(size)) == size:
            if head.count(b"\n") >= FIRST_LINES:
                return head[: head.rfind(b"\n") + 1].removeprefix(BOM)
            size *= 4
        return b""

    def readings(self) -> Callable[[], Iterable[bytes]]:
        """Return a function that yields the blocks of whole lines of the file on each call.

        A file is read again each time; a pipe is kept in memory.
        """
        if self._whole is None and os.path.isfile(self.path):
            return self._read_again
        content = self.whole()
        return lambda: (content,)

    def _read_again(self) -> Iterator[bytes]:
        with open_stream(Place(self.path)) as stream:
            yield from Content(stream, self.path).blocks()

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of ``whole`` in pieces, once."""
        if self._whole is not None:
            yield self._whole
            return
        if self.stream.head(len(BOM)) == BOM:
            self.stream.readinto(memoryview(bytearray(len(BOM))))
            without_mark(BOM, self.name)
        buffer = memoryview(bytearray(BLOCK))
        while count := self.stream.readinto(buffer):
            yield bytes(buffer[:count])

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of ``whole`` in blocks of whole lines, once; the last line may lack a newline.

        Raises:
            FormatError: A line exceeds the limit of ``whole``, or the gzip stream is damaged.
        """
        largest, reason = self._largest()
        pending: list[bytes] = []  # pieces of an incomplete line
        size = 0
        for piece in self.pieces():
            end = piece.rfind(b"\n") + 1
            if end:
                yield b"".join((*pending, piece[:end]))
                pending, size = [], 0
            if end < len(piece):
                pending.append(piece[end:])
                size += len(piece) - end
                if size > largest:
                    raise FormatError(reason, self.name)
        if pending:
            yield b"".join(pending)

    def _largest(self) -> tuple[int, str]:
        """Return the maximum number of bytes to read, and the message for more."""
        plain = (LARGEST, f"more than {LARGEST >> 30} GB, too much for one file of this format")
        if self.stream.seekable or not os.path.isfile(self.path):
            return plain
        largest = max(LARGEST_PACKED, LARGEST_RATIO * os.path.getsize(self.path))
        limit = f"{LARGEST_PACKED >> 20} MB and {LARGEST_RATIO} times its size"
        packed = (largest, f"it unpacks to more than {limit}; if it really contains lattices, gunzip it first")
        return min(plain, packed)

    def mapped(self) -> Path | bytes:
        """Return the path of a file that can be mapped, else all bytes."""
        return Path(self.path) if self.stream.is_local else self.whole()


def key_of(path: str) -> str:
    """Return the utterance id of a lattice without a key: the file name without extension and .gz.

    It is "stdin" for the standard input and for ``<(command)``, whose descriptor numbers vary.
    """
    if _is_nameless(path):
        return "stdin"
    name = os.path.basename(path).removesuffix(".gz")
    return os.path.splitext(name)[0] or name


def _is_nameless(path: str) -> bool:
    return path == STDIN or os.path.dirname(path) in _DESCRIPTORS


def one_lattice(read: Callable[..., Lattice]) -> Callable[..., Iterator[Entry]]:
    """Return the ``entries`` of a format with one lattice a file from its ``read_X``."""

    def entries(content: Content, words: SymbolTable | None, options: object) -> Iterator[Entry]:
        key = content.key
        try:
            lattice = read(content.whole(), key, content.name, words, options)
        except NinjaError as error:
            error.key = error.key or key
            yield key, error
        else:
            yield lattice.key, lattice  # the file may have another key

    return entries


def keyed(results: Iterable[Lattice | NinjaError]) -> Iterator[Entry]:
    """Yield lattices and errors with their keys."""
    for result in results:
        yield result.key or "", result


Pieces = bytes | Iterable[bytes]  # a whole file, or its blocks of whole lines; the last line may lack a newline

LEAST = 64  # minimum number of bytes by which a window grows; readers look ahead less


def numbered_lines(content: Pieces) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the number of each line, from 1, the line without its newline, and whether it has one."""
    number = 0
    for block in _pieces(content):
        lines = block.split(b"\n")
        last = lines.pop()
        for line in lines:
            number += 1
            yield number, line, True
        if last:
            yield number + 1, last, False


class Window:
    """A part of a file that grows at its end; bytes before the next entry are dropped.

    Args:
        pieces: The file, in pieces of any size.
    """

    def __init__(self, pieces: Pieces) -> None:
        self.content = b""
        self.at = 0  # begin of the next entry in the content
        self.begin = 0  # begin of the content in the file
        self._pieces = iter(_pieces(pieces))

    def grow(self) -> bool:
        """Drop the bytes before the next entry and double the rest; return False at the end of the file."""
        size, wanted = 0, max(len(self.content) - self.at, LEAST)
        pieces: list[bytes] = []
        while size < wanted and (piece := next(self._pieces, None)) is not None:
            pieces.append(piece)
            size += len(piece)
        if not size:
            return False
        if self.at < len(self.content):
            pieces.insert(0, self.content[self.at :])
        self.content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.begin += self.at
        self.at = 0
        return True


def _pieces(content: Pieces) -> Iterable[bytes]:
    return (bytes(content),) if isinstance(content, bytes | bytearray | memoryview) else content
