"""Lines, words and numbers of text files, with the line in every error; lines of one utterance as a block."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ninja.errors import FormatError
from ninja.files.text import without_mark
from ninja.formats.textual import check_encoding, cut_short, unended_line
from ninja.formats.window import Pieces, numbered_lines

# Other blanks, such as Unicode's, are letters of words in some vocabularies.
_BLANKS = re.compile(r"[ \t\r\n\v\f]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
LONGEST_NUMBER = 400

T = TypeVar("T")


def rows(
    content: Pieces,
    path: str | None = None,
    encoding: str = "utf-8",
    *,
    comment: str = "",
    marked: bool = False,
    key: str | None = None,
) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, from 1, without line ends.

    A comment may lack an end, and so may the last line where lines are `marked`: they say themselves where they end.
    """
    for line, row in each_row(content, path, encoding, comment=comment, marked=marked):
        if isinstance(row, FormatError):
            row.key = key
            raise row
        yield line, row


def each_row(
    content: Pieces,
    path: str | None = None,
    encoding: str = "utf-8",
    *,
    comment: str = "",
    marked: bool = False,
    key_of: Callable[[list[str]], str] | None = None,
) -> Iterator[tuple[int, str | FormatError]]:
    """Yield the lines of a file as ``rows`` does, or the error of one.

    ``key_of`` tells whose line it is of the fields that stand whole on a last line that does not end, for its error.
    """
    check_encoding(encoding)
    for line, row, ends in numbered_lines(content):
        try:
            row = without_mark(row, path) if line == 1 else row
            text = decoded(row, path, line, encoding).removesuffix("\r")
            if not ends and not marked and unended_line(row, comment.encode()):
                raise cut_short(path, None if key_of is None else key_of(split(text + "|")[:-1]), line)
            yield line, text
        except FormatError as error:
            yield line, error


def decoded(row: bytes, path: str | None = None, line: int | None = None, encoding: str = "utf-8") -> str:
    """Return bytes as a string."""
    try:
        return row.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"not {encoding.upper()} ({error.reason}); give the encoding or convert the file with iconv"
        raise FormatError(message, path, line=line) from error


def split(text: str) -> list[str]:
    """Split a text at ASCII blanks."""
    return [word for word in _BLANKS.split(text) if word]


def number(text: str, what: str, path: str | None = None, line: int | None = None, key: str | None = None) -> float:
    """Return a finite number.

    Raises:
        FormatError: The text is none; the message says that it should be `what`.
    """
    if len(text) <= LONGEST_NUMBER and _NUMBER.fullmatch(text):
        value = float(text)
        if math.isfinite(value):
            return value
    raise FormatError(f"expected {what}, found {text[:60]!r}", path, key=key, line=line)


Line = tuple[str, int, T | FormatError]  # key ("": unknown), line, its content or its error


@dataclass(eq=False, slots=True)
class Block(Generic[T]):
    """The lines of an utterance."""

    key: str
    found: list[T] = field(default_factory=list)
    error: FormatError | None = None  # what is wrong with the first bad one

    def spoil(self, error: FormatError) -> None:
        """Note an error, unless there is one already."""
        self.error = self.error or error


def blocks(lines: Iterable[Line[T]], path: str | None) -> Iterator[Block[T]]:
    """Group consecutive lines by their keys, and yield each group once it is complete.

    A bad line spoils the utterance whose key it has, and the one that it stands within; any other is an entry of its
    own. An utterance that goes on after another one is one, too.
    """
    seen: set[str] = set()
    last: Block[T] | None = None
    stray: list[Block[T]] = []  # bad lines since that one
    for key, line, found in lines:
        if last is not None and key == last.key:
            block = last
            for each in stray:
                _spoil(block, each)
            stray = []
        elif isinstance(found, FormatError):
            if not stray or stray[-1].key != key or not key:
                stray.append(Block(key, error=found))
            continue
        else:
            if last is not None:
                yield last
            block = last = Block(key)
            for each in stray:
                if each.key == key:
                    _spoil(block, each)
                else:
                    yield each
            stray = []
            if key in seen:
                block.spoil(
                    FormatError("the utterance goes on after another one; sort the file", path, key=key, line=line)
                )
            seen.add(key)
        if isinstance(found, FormatError):
            block.spoil(found)
        else:
            block.found.append(found)
    if last is not None:
        yield last
    yield from stray


def _spoil(block: Block[T], stray: Block[T]) -> None:
    """Assign a bad line to an utterance."""
    assert stray.error is not None
    stray.error.key = block.key
    block.spoil(stray.error)
