"""Access to file contents (whole, in blocks of lines, or through a window), and conversion of words to ids."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, NinjaError, OptionError, SymbolError
from ninja.files.stream import BOM, STDIN, Place, Stream, is_remote, open_stream, without_mark
from ninja.lattice import Lattice
from ninja.lattice.lattice import frozen
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable, not_in_table

LARGEST = 1 << 34  # maximum number of bytes of a file that is read as a whole
LARGEST_PACKED = 1 << 28  # maximum number of bytes of a decompressed gzip file, ...
LARGEST_RATIO = 100  # ... or this multiple of its compressed size, if larger; the ratio for lattices is about 10
CHUNK = 1 << 20
FIRST_LINES = 4  # enough lines to distinguish a single JSON document from JSON lines
LARGEST_HEAD = 1 << 26  # maximum number of bytes that are examined for the first lines
BLOCK = 1 << 22  # number of bytes read at a time; most entries lie within one block
LIST_HEAD = 1 << 13  # number of first bytes from which a file list is detected
_OFFSET_OF = rb"[^\s|]+:\d+"  # archive and byte offset of a lattice in it
_LONGEST_NAME = 4096  # bytes
_ROWS = 100  # number of first lines from which a file list is detected
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")

Entry = tuple[str, Lattice | NinjaError]  # a key with its lattice or its error


class Content:
    """The content of a file, read or memory-mapped on first use.

    Args:
        stream: The file, positioned at its start.
        path: File name; "-" is standard input.
        late: Whether readers are allowed to postpone checking a lattice, and reporting its error, until the lattice is
            first used.
    """

    def __init__(self, stream: Stream, path: str, *, late: bool = False) -> None:
        self.late = late
        self.name = stream.name  # for messages
        self.path = path
        self.stream = stream
        self.key = key_of(path)  # utterance id for a file that contains no key
        self.num_overlaps = 0  # number of words whose start was moved to the end of the previous word
        self._before_number = "" if _is_nameless(path) else f"{self.key}-"
        self._whole: bytes | None = None

    def numbered(self, number: int) -> str:
        """Return the utterance id for the lattice with the given 1-based number in a file without keys."""
        return f"{self._before_number}{number}"

    def note_overlaps(self, count: int) -> None:
        """Add `count` to the number of words that began before the previous word ended."""
        self.num_overlaps += count

    def whole(self) -> bytes:
        """Return the whole content, decompressed and without a byte order mark.

        The size limit is 16 GB. For a gzip file with a known compressed size (not standard input or command output),
        the limit is 256 MB or 100 times the compressed size, whichever is larger. The content is cached.

        Raises:
            FormatError: The content exceeds the size limit, or the gzip stream is damaged.
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
        """Return at least four complete lines from the start of the file without consuming them.

        These are all complete lines in the first 1, 4, 16 or 64 MB; the smallest size that contains four complete lines
        is used. Return b"" if the first 64 MB contain fewer lines, or if the file is smaller than the required size.
        """
        size = CHUNK
        while size <= LARGEST_HEAD and len(head := self.stream.head(size)) == size:
            if head.count(b"\n") >= FIRST_LINES:
                return head[: head.rfind(b"\n") + 1].removeprefix(BOM)
            size *= 4
        return b""

    def readings(self) -> Callable[[], Iterable[bytes]]:
        """Return a function for reading the content several times, in blocks of complete lines.

        Each call to the function returns a new iterable over all blocks. A local file is read again for each call; the
        content of a pipe or remote file stays in memory.
        """
        if self._whole is None and os.path.isfile(self.path):
            return self._read_again
        content = self.whole()
        return lambda: (content,)

    def _read_again(self) -> Iterator[bytes]:
        with open_stream(Place(self.path)) as stream:
            yield from Content(stream, self.path).blocks()

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes that `whole` returns, in chunks; call this only once, because it consumes the stream."""
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
        """Yield the bytes that `whole` returns, in blocks of complete lines; the last line may lack a newline.

        Raises:
            FormatError: A line exceeds the size limit of `whole`, or the gzip stream is damaged.
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
        """Return ``(maximum number of bytes to read, error message for a larger file)``."""
        plain = (LARGEST, f"the file has more than {LARGEST >> 30} GB, which is too much for one file of this format")
        if self.stream.seekable or not os.path.isfile(self.path):
            return plain
        largest = max(LARGEST_PACKED, LARGEST_RATIO * os.path.getsize(self.path))
        limit = f"{LARGEST_PACKED >> 20} MB and {LARGEST_RATIO} times its size"
        packed = (largest, f"the file decompresses to more than {limit}; if it contains lattices, use gunzip first")
        return min(plain, packed)

    def mapped(self) -> Path | bytes:
        """Return the path if the file can be memory-mapped, else the bytes of the whole file."""
        return Path(self.path) if self.stream.is_local else self.whole()


def key_of(path: str) -> str:
    """Return the utterance id for a lattice in a file without keys: the file name without ``.gz`` and the extension.

    The id is "stdin" for standard input and for ``<(command)``, whose file name differs in each run.
    """
    if _is_nameless(path):
        return "stdin"
    name = os.path.basename(path).removesuffix(".gz")
    return os.path.splitext(name)[0] or name


def _is_nameless(path: str) -> bool:
    return path in ("", STDIN) or os.path.dirname(path) in _DESCRIPTORS


def one_lattice(read: Callable[..., Lattice]) -> Callable[..., Iterator[Entry]]:
    """Convert a function that reads a single-lattice file to a function that yields the entries of a file.

    The returned function yields exactly one entry, ``(key, lattice)`` or ``(key, error)``.
    """

    def entries(content: Content, words: SymbolTable | None, options: object) -> Iterator[Entry]:
        key = content.key
        try:
            lattice = read(content.whole(), key, content.name, words, options)
        except NinjaError as error:
            error.key = error.key or key
            yield key, error
        else:
            yield lattice.key, lattice  # `read` may have replaced `key` with a key from the file

    return entries


def keyed(results: Iterable[Lattice | NinjaError]) -> Iterator[Entry]:
    """Yield ``(key, lattice or error)`` for each result of a reader."""
    for result in results:
        yield result.key or "", result


def is_list(head: bytes) -> bool:
    """Return whether at least half of the first lines in a file are URLs or names of existing files."""
    rows = first_rows(head)
    return 2 * sum(map(names_file, rows)) >= len(rows) > 0


def names_script(head: bytes) -> bool:
    """Return whether each of the first lines has a key followed by an existing file, a URL or an archive offset."""
    rows = [row.split(None, 1) for row in first_rows(head)]
    return bool(rows) and all(len(row) > 1 and (re.fullmatch(_OFFSET_OF, row[1]) or names_file(row[1])) for row in rows)


def first_rows(head: bytes) -> list[bytes]:
    """Return the first 100 lines of a file, stripped, without blank lines; return an empty list for binary data.

    Args:
        head: First bytes of the file. If it has 8 KB or more, its last line is dropped, because it may be incomplete.
    """
    rows = head.split(b"\n")
    rows = rows[:-1] if len(head) >= LIST_HEAD else rows
    return [] if b"\0" in head else [row.strip() for row in rows[:_ROWS] if row.strip()]


def names_file(name: bytes) -> bool:
    """Return whether a string is the name of an existing file, or a URL without whitespace."""
    if len(name) > _LONGEST_NAME:
        return False
    return os.path.isfile(name) or (is_remote(os.fsdecode(name)) and len(name.split()) == 1)


Pieces = bytes | Iterable[bytes]  # a whole file, or blocks of complete lines; the last line may lack a newline

LEAST = 64  # minimum number of bytes by which a window grows; readers never look more than this number of bytes ahead


def numbered_lines(content: Pieces) -> Iterator[tuple[int, bytes, bool]]:
    """Yield ``(1-based line number, line without its newline, whether the line has a newline)`` for each line."""
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
    """A buffer that contains a part of a file, from which entries, such as lattices, are read in order.

    Bytes are added at its end, and the bytes of entries that have been read are dropped.

    Args:
        pieces: The content of the file, in chunks of any size.
    """

    def __init__(self, pieces: Pieces) -> None:
        self.content = b""
        self.at = 0  # offset of the next entry in `content`
        self.begin = 0  # offset of `content` in the file
        self._pieces = iter(_pieces(pieces))

    def grow(self) -> bool:
        """Drop the bytes of entries that have been read, and read at least as many new bytes as remain in the window.

        Returns:
            False if the file has no more bytes; the window is then unchanged.
        """
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


def check_choice(name: str, value: str, *allowed: str) -> None:
    """Raise OptionError if an option does not have one of the allowed values."""
    if value not in allowed:
        raise OptionError(f"{name} is {value!r}, but must be {', '.join(allowed[:-1])} or {allowed[-1]}")


def check_base(base: float) -> None:
    """Raise OptionError if a number cannot be the base of logarithms."""
    if not 1 < base < math.inf:
        raise OptionError(f"base is {base}, but must be finite and greater than 1")


class Naming(NamedTuple):
    """Converter from words to ids; its errors contain the key of the lattice and the file name."""

    key: str
    path: str | None
    words: SymbolTable | None  # [default: a new table of the words in the file]
    encoding: str = "utf-8"

    def decoded(self, name: bytes, line: int | None = None) -> str:
        """Decode bytes from the file."""
        try:
            return name.decode(self.encoding)
        except UnicodeDecodeError as error:
            message = (
                f"not {self.encoding.upper()} ({error.reason}); specify the encoding or convert the file with iconv"
            )
            raise FormatError(message, self.path, key=self.key, line=line) from error

    def table(self, entries: list[tuple[bytes, int]]) -> tuple[npt.NDArray[np.int32], SymbolTable]:
        """Look up the ids of the words that occur in a file; without a symbol table, create a table of these words.

        Args:
            entries: ``(word, line number)`` pairs, as returned by a kernel.

        Returns:
            The id of epsilon followed by the word ids, int32 [num_words + 1], and the symbol table.

        Raises:
            FormatError: A word cannot be decoded.
            SymbolError: A word is missing from the symbol table.
        """
        names = [self.decoded(name, line) for name, line in entries]
        words = self.words
        if words is None:
            words = SymbolTable.from_words(list(dict.fromkeys([EPSILON_NAME, *names])))
        ids = np.array([EPSILON, *words.intern(names)], np.int32)
        if (ids < 0).any():
            missing = int(np.flatnonzero(ids < 0)[0]) - 1
            raise SymbolError(
                not_in_table(names[missing]),
                self.path,
                key=self.key,
                line=entries[missing][1],
            )
        return ids, words

    def lattice(self, result: Mapping[str, Any], frame_shift: float | None = None) -> Lattice:
        """Create a lattice from the result of a kernel.

        Raises:
            FormatError: A word cannot be decoded.
            SymbolError: A word is missing from the symbol table.
        """
        ids, words = self.table(result["words"])
        lattice = Lattice.unlabelled(
            self.key,
            result["arc_begin"],
            result["dst"],
            frozen(ids[result["word"]]),
            result["graph"],
            result["acoustic"],
            result["final_graph"],
            result["final_acoustic"],
            words,
        )
        time = result["time"]
        return lattice if time is None else lattice.replace(time=time, frame_shift=frame_shift)


def first_line(head: bytes) -> bytes:
    """Return the first line that is neither empty nor a '#' comment, stripped, or b"" if there is none."""
    begin = 0
    while begin < len(head):
        end = head.find(b"\n", begin)
        end = len(head) if end < 0 else end
        line = head[begin:end].strip(b" \t\r\v\f")
        if line and not line.startswith(b"#"):
            return line
        begin = end + 1
    return b""


def unended_line(content: bytes, comment: bytes = b"#") -> int:
    """Return the 1-based number of the last line if it lacks a newline, else 0; blank lines and comments also give 0.

    Args:
        content: The whole file, or its end.
        comment: Prefix of comments; b"" if the format has no comments.
    """
    begin = content.rfind(b"\n") + 1
    line = content[begin:].strip(b" \t\r\v\f")
    if not line or (comment and line.startswith(comment)):
        return 0
    return content.count(b"\n", 0, begin) + 1


def cut_short(path: str | None, key: str | None, line: int) -> FormatError:
    """Return the error for a last line without a newline; such a line can end within a word or a number."""
    message = "the last line has no newline, so the file may be truncated; if it is complete, add a newline"
    return FormatError(message, path, key=key, line=line)


def refuse_unended(content: bytes, path: str | None, key: str | None, comment: bytes = b"#", line: int = 1) -> None:
    """Raise FormatError if the last line lacks a newline, unless the line is blank or a comment.

    Args:
        content: The whole file, or its end.
        path: File name for the message.
        key: Utterance id of the last lattice, if known.
        comment: Prefix of comments; b"" if the format has no comments.
        line: Number of the first line of `content`.
    """
    last = unended_line(content, comment)
    if last:
        raise cut_short(path, key, line - 1 + last)
