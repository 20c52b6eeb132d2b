"""Contents of one file, for the readers of formats."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ninja.errors import FormatError, NinjaError
from ninja.files.place import STDIN, Place
from ninja.files.stream import Stream, open_stream
from ninja.files.text import BOM, without_mark
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

LARGEST = 1 << 34  # bytes of a file that is read as a whole
LARGEST_PACKED = 1 << 28  # of one packed with gzip, unpacked, ...
LARGEST_RATIO = 100  # ... or so many times its size, if that is more: lattices are packed to a tenth or so
CHUNK = 1 << 20
FIRST_LINES = 4  # tell one document from lines of them
LARGEST_HEAD = 1 << 26  # bytes in which they are looked for
BLOCK = 1 << 22  # bytes of a file that is read piece by piece: few entries lie across the end of one
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")

Entry = tuple[str, Lattice | NinjaError]  # a key with its lattice, or with what is wrong with it


class Content:
    """The contents of one file, read or mapped on first use.

    Args:
        stream: The file, opened at its begin.
        path: Its name; "-" is the standard input.
        late: The error of a damaged lattice may be raised when the lattice is used.
    """

    def __init__(self, stream: Stream, path: str, *, late: bool = False) -> None:
        self.late = late
        self.name = stream.name  # for messages
        self.path = path
        self.stream = stream
        self.key = key_of(path)  # of a lattice that has none of its own
        self._before_number = "" if _is_nameless(path) else f"{self.key}-"
        self._whole: bytes | None = None

    def numbered(self, number: int) -> str:
        """Return the utterance id of one of several lattices without any, counted from 1."""
        return f"{self._before_number}{number}"

    def whole(self) -> bytes:
        """Return all bytes, unpacked, without the mark with which some editors begin text.

        At most 16 GB are read; of a file packed with gzip at most 256 MB or 100 times its size, whichever is more. They
        are held once. The packed size of the standard input or of a command's output is unknown: 16 GB.

        Raises:
            FormatError: They are more than any lattices can be, or the gzip stream is damaged.
        """
        if self._whole is None:
            pieces = io.BytesIO()  # gives its bytes away without a copy
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
        """Return some first whole lines without taking them; b"" where they are the whole file or more than 64 MB."""
        size = CHUNK
        while size <= LARGEST_HEAD and len(head := self.stream.head(size)) == size:
            if head.count(b"\n") >= FIRST_LINES:
                return head[: head.rfind(b"\n") + 1].removeprefix(BOM)
            size *= 4
        return b""

    def readings(self) -> Callable[[], Iterable[bytes]]:
        """Return a function that yields the file's blocks of whole lines, each time it is called.

        A file is read again each time; what cannot be, such as a pipe, is held as a whole.
        """
        if self._whole is None and os.path.isfile(self.path):
            return self._anew
        content = self.whole()
        return lambda: (content,)

    def _anew(self) -> Iterator[bytes]:
        with open_stream(Place(self.path)) as stream:
            yield from Content(stream, self.path).blocks()

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes as ``whole`` returns them, piece by piece, once."""
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
        """Yield all bytes as ``whole`` returns them, in blocks of whole lines, once; the last line may lack its end.

        Raises:
            FormatError: A line is longer than any file may be that is read as a whole, or the gzip stream is damaged.
        """
        largest, reason = self._largest()
        left: list[bytes] = []  # of a line that goes on
        held = 0
        for piece in self.pieces():
            end = piece.rfind(b"\n") + 1
            if end:
                yield b"".join((*left, piece[:end]))
                left, held = [], 0
            if end < len(piece):
                left.append(piece[end:])
                held += len(piece) - end
                if held > largest:
                    raise FormatError(reason, self.name)
        if left:
            yield b"".join(left)

    def _largest(self) -> tuple[int, str]:
        """Return the most bytes to read, and the message if there are more."""
        plain = (LARGEST, f"more than {LARGEST >> 30} GB, too much for one file of this format")
        if self.stream.seekable or not os.path.isfile(self.path):
            return plain
        largest = max(LARGEST_PACKED, LARGEST_RATIO * os.path.getsize(self.path))
        what = f"{LARGEST_PACKED >> 20} MB and {LARGEST_RATIO} times its size"
        packed = (largest, f"it unpacks to more than {what}, as lattices do not; if it holds some, gunzip it first")
        return min(plain, packed)

    def mapped(self) -> Path | bytes:
        """Return the file's path where its bytes can be mapped as they are, else all bytes."""
        return Path(self.path) if self.stream.is_local else self.whole()


def key_of(path: str) -> str:
    """Return the utterance id of a lattice without one: its file's name without extension and .gz.

    Pipes that a shell made for ``<(command)`` have no names, only numbers that are others each time.
    """
    if _is_nameless(path):
        return "stdin"
    name = os.path.basename(path).removesuffix(".gz")
    return os.path.splitext(name)[0] or name


def _is_nameless(path: str) -> bool:
    return path == STDIN or os.path.dirname(path) in _DESCRIPTORS


def one_lattice(read: Callable[..., Lattice]) -> Callable[..., Iterator[Entry]]:
    """Make the entries of a format with one lattice in a file."""

    def entries(content: Content, words: SymbolTable | None, options: object) -> Iterator[Entry]:
        key = content.key
        try:
            lattice = read(content.whole(), key, content.name, words, options)
        except NinjaError as error:
            error.key = error.key or key
            yield key, error
        else:
            yield lattice.key, lattice  # which its file may name otherwise

    return entries


def keyed(found: Iterable[Lattice | NinjaError]) -> Iterator[Entry]:
    """Yield lattices, or their errors, under their keys."""
    for each in found:
        yield each.key or "", each
