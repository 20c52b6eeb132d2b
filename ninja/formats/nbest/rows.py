"""Lines, words and numbers of text files, with the line in every error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ninja.errors import FormatError, NinjaError
from ninja.formats.pieces import Pieces, numbered_lines
from ninja.formats.textual import check_encoding, cut_short, unended_line

# Other blanks, such as Unicode's, are letters of words in some vocabularies.
_BLANKS = re.compile(r"[ \t\r\n\v\f]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
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
    """Yield the lines of a file with their numbers, from 1, without what ends them.

    Args:
        content: The file: all of it, or blocks of whole lines.
        path: Its name.
        encoding: Of the file.
        comment: What comments begin with, which may lack an end; "": there are none.
        marked: Lines say themselves where they end, as JSON does, so that the last one may lack an end.
        key: Utterance id of the whole file, if it has one.

    Raises:
        FormatError: A line is not of the encoding, or the last one does not end.
        OptionError: There is no such encoding.
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
    """Yield the lines of a file as ``rows`` does, or what is wrong with one.

    Args:
        content: As for ``rows``.
        path: As for ``rows``.
        encoding: As for ``rows``.
        comment: As for ``rows``.
        marked: As for ``rows``.
        key_of: Tells whose line it is of the fields that stand whole on a last line that does not end, for its error.

    Raises:
        OptionError: There is no such encoding.
    """
    check_encoding(encoding)
    for line, row, ends in numbered_lines(content):
        try:
            text = decoded(row, path, line, encoding).removesuffix("\r")
            if not ends and not marked and unended_line(row, comment.encode()):
                raise cut_short(path, None if key_of is None else key_of(split(text + "|")[:-1]), line)
            yield line, text
        except FormatError as error:
            yield line, error


def decoded(row: bytes, path: str | None = None, line: int | None = None, encoding: str = "utf-8") -> str:
    """Return bytes as a string.

    Raises:
        FormatError: They are not of the encoding.
    """
    try:
        return row.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"not {encoding.upper()} ({error.reason}); give the encoding or convert the file with iconv"
        raise FormatError(message, path, line=line) from error


def split(text: str) -> list[str]:
    """Return what stands between ASCII blanks."""
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


def strict(entries: Iterable[T | NinjaError]) -> list[T]:
    """Return entries that are all sound.

    Raises:
        NinjaError: The first that is not.
    """
    sound = []
    for each in entries:
        if isinstance(each, NinjaError):
            raise each
        sound.append(each)
    return sound
