"""Read CTM: the words of a 1-best hypothesis with times and confidences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ninja.errors import FormatError
from ninja.formats.content import Content, Entry, Pieces
from ninja.formats.format import Format, Read
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.text_rows import Block, Line, blocks, each_row, number, split
from ninja.formats.textual import check_choice, check_encoding, checked_shift
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import EPSILON_NAME, SymbolTable

LAST_FRAME = 2**31 - 2
# File, channel, begin and duration, one of these two with a decimal point, a word that is not a weight, and possibly a
# confidence.
_MARK = re.compile(
    rb"\s*(?:;;[^\n]*\n\s*)*\S+[ \t]+\S+[ \t]+(?:\d*\.\d+[ \t]+[\d.]+|\d+[ \t]+\d*\.\d+(?![ \t]+\d+\s))"
    rb"[ \t]+(?!(?:[-+]|\d*\.\d|\d+[eE])[-+\d.eE]*\s*(?:\n|\Z))\S+(?:[ \t]+\S+)?[ \t\r]*(?:\n|\Z)"
)
_COMMENT = ";;"


@dataclass(frozen=True, slots=True)
class CtmOptions:
    """Options of reading a CTM file."""

    frame_shift: float = 0.01  # seconds; times are rounded to frames
    keys: Literal["file", "file-channel"] = "file"  # fields that make the utterance id
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)
        check_choice("keys", self.keys, "file", "file-channel")


class _Word(NamedTuple):
    """A line of the file."""

    line: int
    channel: str
    begin: float  # seconds
    duration: float
    word: str


def read_ctm(
    content: Pieces, path: str | None = None, options: CtmOptions | None = None
) -> Iterator[NBest | FormatError]:
    """Read a CTM file: ``file channel begin duration word [confidence]``, seconds, one word a line.

    There are no scores, so both costs are 0; confidences are not read. A word that would overlap the word before after
    rounding to frames begins at its end. Comments (``;;``), empty lines and ``<eps>``, which Kaldi writes for silence,
    are dropped.

    Yields:
        Each utterance, or its first error: a line has another form, times decrease, a file has two channels or goes on
        after another file, there are alternatives (``<ALT>``), or the last line lacks a newline.

    Source: NIST, SCTK, doc/infmts.htm, the format ctm.
    """
    options = options or CtmOptions()
    block: Block[_Word] | None = None
    for block in blocks(_lines(content, path, options), path):
        try:
            if block.error is not None:
                raise block.error
            yield _utterance(block, path, options.frame_shift)
        except FormatError as error:
            yield error
    if block is None:
        raise FormatError("there are no words", path)


def _lines(content: Pieces, path: str | None, options: CtmOptions) -> Iterator[Line[_Word]]:
    parts = 1 if options.keys == "file" else 2
    key = ""

    def key_of(fields: list[str]) -> str:
        return "-".join(fields[:parts]) if len(fields) >= parts else key  # probably that of the line before

    for line, row in each_row(content, path, options.encoding, comment=_COMMENT, key_of=key_of):
        if isinstance(row, FormatError):
            yield row.key or "", line, row
            continue
        fields = split(row)
        if not fields or fields[0].startswith(_COMMENT):
            continue
        key = "-".join(fields[:parts])
        try:
            yield key, line, _word(fields, row, line, path, key, options.frame_shift)
        except FormatError as error:
            yield key, line, error


def _word(fields: list[str], row: str, line: int, path: str | None, key: str, shift: float) -> _Word:
    if len(fields) not in (5, 6):
        raise FormatError(f"expected file, channel, begin, duration, word, found {row[:60]!r}", path, line=line)
    _, channel, begin_text, duration_text, word = fields[:5]
    if word.upper().startswith("<ALT"):
        raise FormatError("there are alternatives (<ALT>); choose among them first", path, line=line)
    begin = number(begin_text, "when the word begins", path, line, key)
    duration = number(duration_text, "how long the word is", path, line, key)
    if len(fields) == 6 and fields[5] != "NA":
        number(fields[5], "a confidence", path, line, key)
    if begin < 0 or duration < 0 or (begin + duration) / shift > LAST_FRAME:
        raise FormatError(f"a word begins at {begin} s and lasts {duration} s", path, key=key, line=line)
    return _Word(line, channel, begin, duration, word)


def _utterance(block: Block[_Word], path: str | None, shift: float) -> NBest:
    channel, key = block.items[0].channel, block.key
    words: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    last_begin = 0.0
    for line, other, begin, duration, word in block.items:
        if other != channel:
            message = f"the file has the channels {channel!r} and {other!r}; make them part of the key"
            raise FormatError(f"{message} (--from ctm:keys=file-channel)", path, key=key, line=line)
        if begin < last_begin:
            raise FormatError(f"a word begins at {begin} s, before the one above it", path, key=key, line=line)
        last_begin = begin
        if word == EPSILON_NAME:
            continue
        words.append(word)
        begins.append(max(round(begin / shift), ends[-1] if ends else 0))
        ends.append(max(round((begin + duration) / shift), begins[-1]))
    none = (0.0,) * (len(words) + 1)
    hypothesis = Hypothesis(tuple(words), none, none, tuple(begins), tuple(ends), line=block.items[0].line)
    return NBest(key, (hypothesis,), shift)


def _entries(content: Content, words: SymbolTable | None, options: CtmOptions) -> Iterator[Entry]:
    return list_entries(read_ctm(content.blocks(), content.name, options), content, words)


FORMAT = Format(
    name="ctm",
    about="words with times of NIST (CTM)",
    holds="nbest",
    extensions=(".ctm",),
    mark=_MARK.match,
    results=True,
    read=Read(_entries, CtmOptions),
)
