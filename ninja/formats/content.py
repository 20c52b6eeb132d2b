"""Access to the content of a file for the readers: as a whole, in blocks of lines, or in a window."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ninja.errors import FormatError, NinjaError, OptionError
from ninja.files.stream import BOM, STDIN, Place, Stream, is_remote, open_stream, without_mark
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

LARGEST = 1 << 34  # maximum number of bytes of a file that is read as a whole
LARGEST_PACKED = 1 << 28  # maximum number of bytes of a decompressed gzip file, ...
LARGEST_RATIO = 100  # ... or this multiple of its compressed size, if larger; lattices compress to about a tenth
CHUNK = 1 << 20
FIRST_LINES = 4  # enough to distinguish one document from one document per line
LARGEST_HEAD = 1 << 26  # maximum number of bytes of the first lines
BLOCK = 1 << 22  # number of bytes read at a time; most entries lie within one block
LIST_HEAD = 1 << 13  # bytes in which a file list is detected
_OFFSET_OF = rb"[^\s|]+:\d+"  # archive and offset of a lattice
_LONGEST_NAME = 4096  # bytes
_ROWS = 100  # lines in which a file list is detected
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")

Entry = tuple[str, Lattice | NinjaError]  # a key with its lattice or its error


class Content:
    """The content of a file, which is read or mapped on first use.

    Args:
        stream: The file, positioned at its begin.
        path: File name; "-" is standard input.
        late: Allow the error of a damaged lattice to be raised when the lattice is first used.
    """

    def __init__(self, stream: Stream, path: str, *, late: bool = False) -> None:
        self.late = late
        self.name = stream.name  # for messages
        self.path = path
        self.stream = stream
        self.key = key_of(path)  # for a lattice without a key in the file
        self.num_overlaps = 0  # number of words that began before the end of the previous word, and were moved there
        self._before_number = "" if _is_nameless(path) else f"{self.key}-"
        self._whole: bytes | None = None

    def numbered(self, number: int) -> str:
        """Return the utterance id of the n-th lattice, counted from 1, in a file without keys."""
        return f"{self._before_number}{number}"

    def note_overlaps(self, count: int) -> None:
        """Add to the number of words that began before the end of the previous word."""
        self.num_overlaps += count

    def whole(self) -> bytes:
        """Return all bytes, decompressed and without a byte order mark.

        The limit is 16 GB. For a gzip file it is 256 MB or 100 times the compressed size, whichever is larger; for
        standard input and command output, whose compressed size is unknown, it is 16 GB. The bytes are cached.

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
        """Return the first complete lines without consuming them; b"" if they are the whole file or exceed 64 MB."""
        size = CHUNK
        while size <= LARGEST_HEAD and len(head := self.stream.head(size)) == size:
            if head.count(b"\n") >= FIRST_LINES:
                return head[: head.rfind(b"\n") + 1].removeprefix(BOM)
            size *= 4
        return b""

    def readings(self) -> Callable[[], Iterable[bytes]]:
        """Return a function that yields all blocks of complete lines on each call.

        A file is read again on each call; the content of a pipe is kept in memory.
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
        """Yield the bytes of ``whole`` in blocks of complete lines, once; the last line may lack a newline.

        Raises:
            FormatError: A line exceeds the limit of ``whole``, or the gzip stream is damaged.
        """
        largest, reason = self._largest()
        pending: list[bytes] = []  # parts of an incomplete line
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
        """Return the maximum number of bytes to read, and the message if there are more."""
        plain = (LARGEST, f"the file has more than {LARGEST >> 30} GB, which is too much for one file of this format")
        if self.stream.seekable or not os.path.isfile(self.path):
            return plain
        largest = max(LARGEST_PACKED, LARGEST_RATIO * os.path.getsize(self.path))
        limit = f"{LARGEST_PACKED >> 20} MB and {LARGEST_RATIO} times its size"
        packed = (largest, f"the file unpacks to more than {limit}; if it contains lattices, gunzip it first")
        return min(plain, packed)

    def mapped(self) -> Path | bytes:
        """Return the path if the file can be mapped, else all bytes."""
        return Path(self.path) if self.stream.is_local else self.whole()


def key_of(path: str) -> str:
    """Return the utterance id of a lattice without a key: the file name without its extension and .gz.

    For standard input and for ``<(command)``, whose descriptor numbers vary, it is "stdin".
    """
    if _is_nameless(path):
        return "stdin"
    name = os.path.basename(path).removesuffix(".gz")
    return os.path.splitext(name)[0] or name


def _is_nameless(path: str) -> bool:
    return path in ("", STDIN) or os.path.dirname(path) in _DESCRIPTORS


def one_lattice(read: Callable[..., Lattice]) -> Callable[..., Iterator[Entry]]:
    """Return the function ``entries`` of a format with one lattice per file, given its ``read_X``."""

    def entries(content: Content, words: SymbolTable | None, options: object) -> Iterator[Entry]:
        key = content.key
        try:
            lattice = read(content.whole(), key, content.name, words, options)
        except NinjaError as error:
            error.key = error.key or key
            yield key, error
        else:
            yield lattice.key, lattice  # the key may come from the file

    return entries


def keyed(results: Iterable[Lattice | NinjaError]) -> Iterator[Entry]:
    """Yield lattices and errors with their keys."""
    for result in results:
        yield result.key or "", result


def is_list(head: bytes) -> bool:
    """Return whether most of the first lines of a file name existing files."""
    rows = first_rows(head)
    return 2 * sum(map(names_file, rows)) >= len(rows) > 0


def names_script(head: bytes) -> bool:
    """Return whether each of the first lines has a key and an existing file, or an archive with an offset."""
    rows = [row.split(None, 1) for row in first_rows(head)]
    return bool(rows) and all(len(row) > 1 and (re.fullmatch(_OFFSET_OF, row[1]) or names_file(row[1])) for row in rows)


def first_rows(head: bytes) -> list[bytes]:
    """Return the complete first lines, stripped of white space; an empty list for binary data."""
    rows = head.split(b"\n")
    rows = rows[:-1] if len(head) >= LIST_HEAD else rows
    return [] if b"\0" in head else [row.strip() for row in rows[:_ROWS] if row.strip()]


def names_file(name: bytes) -> bool:
    """Return whether a line of a list names an existing file; any URL without white space counts as one."""
    if len(name) > _LONGEST_NAME:
        return False
    return os.path.isfile(name) or (is_remote(os.fsdecode(name)) and len(name.split()) == 1)


Pieces = bytes | Iterable[bytes]  # a whole file, or blocks of complete lines; the last line may lack a newline

LEAST = 64  # minimum number of bytes by which a window grows; readers never look ahead farther


def numbered_lines(content: Pieces) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the number of each line, from 1, the line without its newline, and whether it had one."""
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
    """A part of a file that grows at its end, while bytes before the next entry are dropped.

    Args:
        pieces: The content of the file, in pieces of any size.
    """

    def __init__(self, pieces: Pieces) -> None:
        self.content = b""
        self.at = 0  # offset of the next entry in `content`
        self.begin = 0  # offset of `content` in the file
        self._pieces = iter(_pieces(pieces))

    def grow(self) -> bool:
        """Drop the bytes before the next entry, and double the rest; return False at the end of the file."""
        size, least = 0, max(len(self.content) - self.at, LEAST)
        pieces: list[bytes] = []
        while size < least and (piece := next(self._pieces, None)) is not None:
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


def check_encoding(encoding: str) -> None:
    """Raise OptionError if an encoding does not exist or is not a superset of ASCII."""
    try:
        same = "!aZ09 =\t\n".encode(encoding) == b"!aZ09 =\t\n"
    except (LookupError, UnicodeError) as error:
        raise OptionError(f"unknown encoding {encoding!r}") from error
    if not same:
        raise OptionError(f"the encoding {encoding!r} is not a superset of ASCII; convert the file with iconv")
