"""Parsing of lines, words and numbers in text files, with line numbers in errors; grouping of lines by utterance."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ninja.errors import FormatError
from ninja.files.stream import without_mark
from ninja.formats.content import Pieces, check_encoding, cut_short, numbered_lines, unended_line

# Only ASCII whitespace separates words, because some vocabularies contain words with Unicode spaces.
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
    """Yield ``(line number, line without line ending)`` for each line in a file.

    The last line must have a newline, unless it is a comment or `marked` is set. Set `marked` for formats in which an
    incomplete line can be recognised. In JSON, for example, the object on such a line is not closed.
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
    """Yield ``(line number, line or error)`` for each line in a file; unlike ``rows``, do not raise the errors.

    If the last line is incomplete, the key of its error is ``key_of(complete fields of the line)``.
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
    """Decode a line; raise FormatError if its encoding is invalid."""
    try:
        return row.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"not {encoding.upper()} ({error.reason}); specify the encoding or convert the file with iconv"
        raise FormatError(message, path, line=line) from error


def split(text: str) -> list[str]:
    """Split a text at ASCII whitespace."""
    return [word for word in _BLANKS.split(text) if word]


def number(text: str, name: str, path: str | None = None, line: int | None = None, key: str | None = None) -> float:
    """Parse a finite number; for any other text, raise FormatError with the message "expected NAME, found TEXT"."""
    if len(text) <= LONGEST_NUMBER and _NUMBER.fullmatch(text):
        value = float(text)
        if math.isfinite(value):
            return value
    raise FormatError(f"expected {name}, found {text[:60]!r}", path, key=key, line=line)


Line = tuple[str, int, T | FormatError]  # key ("" if unknown), line number, content or error


@dataclass(eq=False, slots=True)
class Block(Generic[T]):
    """The lines of an utterance."""

    key: str
    items: list[T] = field(default_factory=list)
    error: FormatError | None = None  # error of the first invalid line, if any

    def add_error(self, error: FormatError) -> None:
        """Set the error of this utterance, unless it already has one."""
        self.error = self.error or error


def blocks(lines: Iterable[Line[T]], path: str | None) -> Iterator[Block[T]]:
    """Group consecutive lines by their keys and yield each group when it is complete.

    An invalid line between two lines of an utterance belongs to that utterance. Any other invalid line belongs to an
    adjacent utterance with the same key or, if there is none, to a separate group. It is an
    error if the lines of an utterance are not consecutive.
    """
    keys: set[str] = set()
    last: Block[T] | None = None
    stray: list[Block[T]] = []  # invalid lines since the last valid line; adjacent lines with the same key form a block
    for key, line, item in lines:
        if last is not None and key == last.key:
            block, others = last, []
            errors = stray
        elif isinstance(item, FormatError):
            if not stray or stray[-1].key != key or not key:
                stray.append(Block(key, error=item))
            continue
        else:
            if last is not None:
                yield last
            block = last = Block(key)
            errors = [error for error in stray if error.key == key]
            others = [error for error in stray if error.key != key]
        for bad in errors:
            assert bad.error is not None
            bad.error.key = key
            block.add_error(bad.error)
        yield from others
        stray = []
        if not block.items and key in keys:
            message = "the lines of the utterance are not consecutive; sort the file"
            block.add_error(FormatError(message, path, key=key, line=line))
        keys.add(key)
        if isinstance(item, FormatError):
            block.add_error(item)
        else:
            block.items.append(item)
    if last is not None:
        yield last
    yield from stray
