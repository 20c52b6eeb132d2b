"""Reader for CTM: the words of a 1-best hypothesis with times, confidences and a channel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ninja.errors import FormatError
from ninja.formats.content import Content, Pieces, check_choice, check_encoding
from ninja.formats.format import Format, Read, Write
from ninja.formats.hypotheses.mixed import lost_others
from ninja.formats.nbest.ctm_writing import KEPT, CtmEncoder, CtmLine, CtmLines
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.text_rows import Block, Line, blocks, each_row, number, split
from ninja.formats.nbest.timed import TimedOptions
from ninja.lattice.lattice import ListRecord, Origin, checked_shift
from ninja.lattice.nbest import NBest, sentence
from ninja.lattice.symbols import EPSILON_NAME

LAST_FRAME = 2**31 - 2
# A line with a file, a channel, a start, a duration, a word that is not a number and optionally a confidence. The start
# or the duration has a decimal point.
_MARK = re.compile(
    rb"\s*(?:;;[^\n]*\n\s*)*\S+[ \t]+\S+[ \t]+(?:\d*\.\d+[ \t]+[\d.]+|\d+[ \t]+\d*\.\d+(?![ \t]+\d+\s))"
    rb"[ \t]+(?!(?:[-+]|\d*\.\d|\d+[eE])[-+\d.eE]*\s*(?:\n|\Z))\S+(?:[ \t]+\S+)?[ \t\r]*(?:\n|\Z)"
)
_COMMENT = ";;"


@dataclass(frozen=True, slots=True)
class CtmOptions:
    """Options for reading a CTM file."""

    frame_shift: float = 0.01  # seconds per frame; times are rounded to frames
    keys: Literal["file", "file-channel"] = "file"  # fields that form the utterance id
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)
        check_choice("keys", self.keys, "file", "file-channel")


class _Word(NamedTuple):
    """A word in a CTM file, and its line."""

    line: int
    channel: str
    begin: float  # seconds
    duration: float
    word: str
    confidence: float | None
    row: str
    comments: tuple[str, ...]  # lines without a word that directly precede this line


def read_ctm(
    content: Pieces, path: str | None = None, options: CtmOptions | None = None
) -> Iterator[NBest | FormatError]:
    """Read a CTM file with lines ``file channel start duration word [confidence]``, in which times are in seconds.

    There are no scores, so both costs are 0. A word that overlaps the previous word after rounding to frames begins at
    the end of the previous word. Confidences (``NA`` for none), channels, comments (``;;``), empty lines and ``<eps>``
    (Kaldi's symbol for silence) are stored in the ``record`` of the n-best list.

    Yields:
        Each utterance, or its first error: a line is malformed, times decrease, a file has two channels or
        its lines are not consecutive, there are alternatives (``<ALT>``), or the last line lacks a newline.

    Raises:
        FormatError: There are no words.

    Source: NIST, SCTK, doc/infmts.htm, the format ctm.
    """
    options = options or CtmOptions()
    block: Block[_Word] | None = None
    comments: list[str] = []
    for block in blocks(_lines(content, path, options, comments), path):
        try:
            if block.error is not None:
                raise block.error
            yield _utterance(block, path, options, tuple(comments))
        except FormatError as error:
            yield error
    if block is None:
        raise FormatError("there are no words", path)


def _lines(content: Pieces, path: str | None, options: CtmOptions, comments: list[str]) -> Iterator[Line[_Word]]:
    """Yield each word of a CTM file, or the error of its line.

    At the end, `comments` contains the comments and empty lines below the last word.
    """
    parts = 1 if options.keys == "file" else 2
    key = ""

    def key_of(fields: list[str]) -> str:
        return "-".join(fields[:parts]) if len(fields) >= parts else key  # probably the key of the previous line

    for line, row in each_row(content, path, options.encoding, comment=_COMMENT, key_of=key_of):
        if isinstance(row, FormatError):
            yield row.key or "", line, row
            continue
        fields = split(row)
        if not fields or fields[0].startswith(_COMMENT):
            comments.append(row)
            continue
        key = "-".join(fields[:parts])
        above = tuple(comments)
        comments.clear()
        try:
            yield key, line, _word(fields, row, line, path, key, options.frame_shift)._replace(comments=above)
        except FormatError as error:
            yield key, line, error


def _word(fields: list[str], row: str, line: int, path: str | None, key: str, shift: float) -> _Word:
    if len(fields) not in (5, 6):
        raise FormatError(f"expected file, channel, start, duration and word, found {row[:60]!r}", path, line=line)
    _, channel, begin_text, duration_text, word = fields[:5]
    if word.upper().startswith("<ALT"):
        raise FormatError("there are alternatives (<ALT>); keep only one of them", path, line=line)
    begin = number(begin_text, "the start time of a word", path, line, key)
    duration = number(duration_text, "the duration of a word", path, line, key)
    confidence = None
    if len(fields) == 6 and fields[5] != "NA":
        confidence = number(fields[5], "a confidence", path, line, key)
    if begin < 0 or duration < 0 or (begin + duration) / shift > LAST_FRAME:
        message = f"a word begins at {begin} s and lasts {duration} s, which is out of range"
        raise FormatError(message, path, key=key, line=line)
    return _Word(line, channel, begin, duration, word, confidence, row, ())


def _utterance(block: Block[_Word], path: str | None, options: CtmOptions, comments: tuple[str, ...]) -> NBest:
    """Convert the CTM lines of an utterance to an n-best list.

    Args:
        block: The lines of the utterance.
        path: File name for messages.
        options: Options of the format.
        comments: Comments below the last word of the file; empty unless this is the last utterance.

    Raises:
        FormatError: The utterance has several channels, or its times decrease.
    """
    shift, channel, key = options.frame_shift, block.items[0].channel, block.key
    spoken: list[_Word] = []
    begins: list[int] = []
    ends: list[int] = []
    last_begin = 0.0
    for item in block.items:
        if item.channel != channel:
            message = f"the file has the channels {channel!r} and {item.channel!r}; make them part of the key"
            raise FormatError(f"{message} (--from ctm:keys=file-channel)", path, key=key, line=item.line)
        begin = item.begin
        if begin < last_begin:
            raise FormatError(
                f"a word begins at {begin} s, before the word on the line above", path, key=key, line=item.line
            )
        last_begin = begin
        if item.word == EPSILON_NAME:
            continue
        spoken.append(item)
        begins.append(max(round(begin / shift), ends[-1] if ends else 0))
        ends.append(max(round((begin + item.duration) / shift), begins[-1]))
    words = tuple(item.word for item in spoken)
    hypothesis = sentence(words, line=block.items[0].line, times=(tuple(begins), tuple(ends)))
    lines = tuple(CtmLine(item.row, item.word != EPSILON_NAME, item.comments) for item in block.items)
    confidences = tuple(item.confidence for item in spoken)
    origin = Origin(
        CtmLines(path or "", key, lines, comments, options.encoding, FORMAT.name),
        0,
        0,
        words,
        channel=channel,
        confidences=confidences if any(confidence is not None for confidence in confidences) else (),
    )
    others = {"channel"} | ({"confidence"} if origin.confidences else set())
    record = ListRecord({"channel": channel}, {}, frozenset(others), origin=origin)
    return NBest(key, (hypothesis,), shift, record)


def _read(content: Content, options: CtmOptions) -> Iterator[NBest | FormatError]:
    return read_ctm(content.blocks(), content.name, options)


FORMAT = Format(
    name="ctm",
    about="NIST CTM: words with times",
    holds="nbest",
    extensions=(".ctm",),
    mark=_MARK.match,
    results=True,
    read=Read(list_entries(_read), CtmOptions),
    keeps=KEPT,
    write=Write(
        encoder=CtmEncoder,
        options=TimedOptions,
        also_lost=lambda nbest, _: lost_others(nbest, "ctm", "channel", "confidence"),
        key_is_field=True,
        unique_keys=True,
        restores=True,
    ),
)
