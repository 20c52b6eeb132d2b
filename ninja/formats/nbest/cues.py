"""Cues in subtitle files (SubRip, WebVTT) and in Whisper's TSV; each cue is an utterance with one hypothesis."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ninja.errors import FormatError, SymbolError
from ninja.files.stream import BOM
from ninja.formats.content import Content, check_choice, check_encoding
from ninja.formats.hypotheses.document import CHANGED, Corrections, Document, Rewritten
from ninja.formats.nbest.cue_text import Markup, Token, tokens, voice, with_words
from ninja.formats.nbest.text_rows import decoded
from ninja.formats.nbest.word_times import frames_of
from ninja.formats.nbest.writing import spelled
from ninja.formats.textual import encoded
from ninja.lattice.lattice import ListRecord, Origin, checked_shift
from ninja.lattice.nbest import NBest, sentence

LATEST = 2**31 - 2  # largest time in milliseconds or frames
ARROW = b"-->"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_TIME = re.compile(rb"(-?)(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9})[.,]([0-9]{1,3})")
_TIMES = re.compile(rb"[ \t]*(\S+)[ \t]+-->[ \t]*(\S+)(?:[ \t].*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CueOptions:
    """Options for reading cues."""

    order: Literal["rising", "any"] = "rising"  # order of start times; any: a cue may begin before the previous cue
    frame_shift: float = 0.001  # seconds per frame; word times are rounded to frames
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_choice("order", self.order, "rising", "any")
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)


@dataclass(frozen=True, slots=True)
class Cue:
    """The position of a cue in its file."""

    line: int  # number of the line that contains the times
    head: bytes  # line that contains the times
    times: tuple[bytes, bytes] | None  # start and end as text; None if the line has no times
    text_line: int  # line number of the first line of the text
    begin: int  # byte offset of the text
    end: int  # byte offset of the end of the text


Scan = Callable[[bytes, str | None], Iterable[Cue | FormatError]]  # (content of a file, its name) -> its cues


@dataclass(frozen=True, slots=True)
class Syntax:
    """The syntax of a subtitle format."""

    form: str  # name of the format
    markup: Markup
    scan: Scan
    header: bytes  # first bytes of a new file
    cue: Callable[[int, int, int, Sequence[str]], str]  # (number, start in ms, end in ms, lines) -> encoded cue
    has_voices: bool = False  # whether cues may specify their speaker
    is_ended_by_arrow: bool = False  # whether a line with "-->" ends the text of a cue


def milliseconds(text: bytes) -> int:
    """Convert a time such as ``1:02:03.456`` to milliseconds; the hours are optional.

    Raises:
        ValueError: The text is not a valid time.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a time such as 00:01:02.345, found {ascii(text.decode('latin-1'))[:40]}")
    sign, hours, minutes, seconds, fraction = match.groups()
    if sign:
        raise ValueError(f"the time {text.decode()} is negative")
    if int(minutes) > 59 or int(seconds) > 59:
        raise ValueError(f"the time {text.decode()} has more than 59 minutes or seconds")
    total = 3_600_000 * int(hours or 0) + 60_000 * int(minutes) + 1000 * int(seconds) + int(fraction.ljust(3, b"0"))
    if total > LATEST:
        raise ValueError(f"the time {text.decode()} is too large")
    return total


def times_of(line: bytes) -> tuple[bytes, bytes] | None:
    """Return ``(start, end)`` from a line ``start --> end settings``, or None for any other line."""
    match = _TIMES.fullmatch(line.rstrip(b"\r\n"))
    return None if match is None else (match[1], match[2])


def clock(time: int, point: str) -> str:
    """Format milliseconds as hours, minutes and seconds, with `point` as the decimal separator."""
    minutes, milliseconds = divmod(time, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{milliseconds // 1000:02d}{point}{milliseconds % 1000:03d}"


def shown(line: bytes) -> str:
    """Format a line for messages."""
    return ascii(line.strip().decode("latin-1")[:60])


def line_begins(lines: Sequence[bytes]) -> list[int]:
    """Return the byte offset at which each line begins, followed by the total number of bytes."""
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    return begins


def read_cues(
    content: bytes,
    path: str | None,
    syntax: Syntax,
    options: CueOptions = CueOptions(),
    *,
    key_of: Callable[[int, int], str] = lambda number, count: str(number),
    document: Document | None = None,
) -> Iterator[NBest | FormatError]:
    """Yield each cue in a file as an n-best list with one hypothesis, or its error.

    Words have times if each word, except possibly the first, is preceded by a time tag (``<00:00:01.000>``).

    Args:
        content: The whole file.
        path: File name for messages.
        syntax: Syntax of the format.
        options: Options of the format.
        key_of: Function that returns the key of a cue, given its 1-based number and the number of cues.
        document: The file as a document, which is stored in the origin of each list for writers that replace the words
            in the file.  [default: none]

    Yields:
        Each cue, or its first error: the cue has no times or invalid times, ends before it begins, begins before a cue
        above it (unless ``options.order`` is "any"), or cannot be decoded. Text outside cues is an error without a key.

    Raises:
        FormatError: There are no cues.
    """
    content = content.removeprefix(BOM)
    listed = list(syntax.scan(content, path))
    if not listed:
        raise FormatError("there are no cues", path)
    count = sum(isinstance(item, Cue) for item in listed)
    number = last = 0
    for cue in listed:
        if isinstance(cue, FormatError):
            yield cue
            continue
        number += 1
        key = key_of(number, count)
        try:
            begin, end = _times(cue, path)
            if begin < last and options.order == "rising":
                message = f"the cue begins at {_seconds(begin)} s, before a cue above it ({_seconds(last)} s); sort "
                raise FormatError(
                    f"{message}the file, or read it with --from {syntax.form}:order=any", path, line=cue.line
                )
            last = max(last, begin)
            yield _list(key, cue, (begin, end), content, path, syntax, options, document, number - 1)
        except FormatError as error:
            error.key = key
            yield error


def _times(cue: Cue, path: str | None) -> tuple[int, int]:
    """Return ``(start, end)`` of a cue in milliseconds."""
    if cue.times is None:
        raise FormatError(f"expected the times of a cue, found {shown(cue.head)}", path, line=cue.line)
    try:
        begin, end = map(milliseconds, cue.times)
    except ValueError as error:
        raise FormatError(str(error), path, line=cue.line) from error
    if end < begin:
        message = f"the cue ends at {_seconds(end)} s, before it begins at {_seconds(begin)} s; correct its times"
        raise FormatError(message, path, line=cue.line)
    return begin, end


def _seconds(time: int) -> str:
    return f"{time / 1000:.3f}".rstrip("0").rstrip(".")


def _list(
    key: str,
    cue: Cue,
    times: tuple[int, int],
    content: bytes,
    path: str | None,
    syntax: Syntax,
    options: CueOptions,
    document: Document | None,
    place: int,
) -> NBest:
    text = _decoded(content[cue.begin : cue.end], path, cue.text_line, options.encoding)
    spoken = tokens(text, syntax.markup)
    words = tuple(token.word for token in spoken)
    start, end = (time / 1000 for time in times)
    origin = Origin(document, 0, place, words, start, end, speaker=voice(text, syntax.markup))
    record = ListRecord({"start": start, "end": end}, {}, frozenset({"start", "end"}), origin=origin)
    spans = _word_times(times, spoken, cue, path)
    if spans is None:
        return NBest(key, (sentence(words, line=cue.line),), None, record)
    try:
        frames = frames_of(spans, words, options.frame_shift)
    except ValueError as error:
        raise FormatError(str(error), path, line=cue.text_line) from error
    hypothesis = sentence(words, line=cue.line, times=(frames.begin, frames.end))
    return NBest(key, (hypothesis,), options.frame_shift, record)


def _decoded(text: bytes, path: str | None, line: int, encoding: str) -> str:
    """Decode a text; the error for an invalid byte contains its line number."""
    try:
        return text.decode(encoding)
    except UnicodeDecodeError as error:
        return decoded(text, path, line + len(_LINE_END.findall(text[: error.start])), encoding)


def _word_times(
    times: tuple[int, int], spoken: Sequence[Token], cue: Cue, path: str | None
) -> list[tuple[float, float]] | None:
    """Return ``(start, end)`` in seconds for each word, or None if a word has no times."""
    segments = [token.segment for token in spoken]
    if not segments or segments[-1] == 0 or segments[0] > 1 or len({*segments}) < len(segments):
        return None
    try:
        begins = [times[0] if token.time is None else milliseconds(token.time.encode()) for token in spoken]
    except ValueError as error:
        raise FormatError(str(error), path, line=cue.text_line) from error
    if begins[0] < times[0]:
        message = f"times run backwards: the first word begins at {_seconds(begins[0])} s, before the cue ("
        raise FormatError(f"{message}{_seconds(times[0])} s)", path, line=cue.text_line)
    return [(begin / 1000, end / 1000) for begin, end in pairwise([*begins, times[1]])]


def rewrite_cues(content: bytes, corrections: Corrections, document: Document, syntax: Syntax) -> Rewritten:
    """Return the content of a file with new words in its cues; all other bytes are unchanged."""
    mark = BOM if content.startswith(BOM) else b""
    content = content.removeprefix(BOM)
    cues = [item for item in syntax.scan(content, document.name) if isinstance(item, Cue)]
    pieces = [mark]
    at = 0
    for place, nbest in sorted(corrections.items()):
        if place >= len(cues):
            raise FormatError(CHANGED, document.name)
        cue = cues[place]
        words = spelled(nbest.hypotheses[0], None, nbest.key)
        text = content[cue.begin : cue.end].decode(document.encoding)
        if words != [token.word for token in tokens(text, syntax.markup)]:
            for word in words:
                check_word(word, syntax, nbest.key)
            changed = with_words(text, syntax.markup, words)
            pieces += [content[at : cue.begin], encoded(changed, document.encoding, nbest.key)]
            at = cue.end
    return Rewritten(b"".join([*pieces, content[at:]]), len(cues))


def check_word(word: str, syntax: Syntax, key: str) -> None:
    """Raise SymbolError for a word that would end the text of a cue."""
    if syntax.is_ended_by_arrow and ARROW.decode() in word:
        raise SymbolError(f"{word!r} cannot be written, because it would be read as the end of the cue", key=key)


def read_document(content: Content, options: CueOptions, syntax: Syntax) -> Iterator[NBest | FormatError]:
    """Yield the cues in a file that can be rewritten; see `read_cues`."""
    document = Document.of(content, syntax.form, options=options)
    assert document.content is not None

    def key_of(number: int, count: int) -> str:
        return content.key if count == 1 else content.numbered(number)

    return read_cues(document.content, content.name, syntax, options, key_of=key_of, document=document)
