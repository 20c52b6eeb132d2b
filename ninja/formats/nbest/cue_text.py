"""Functions that find and replace the words between the tags, line breaks and spaces in the text of a cue."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ninja.formats.hypotheses.alignment import changed_words

_BLANK = " \t\r\n\v\f"  # ASCII whitespace; other Unicode spaces are parts of words
_NOTHING = r"(?!)"
_VOICE = re.compile(r"<v(?:\.[^ \t>]*)?[ \t]+([^>]*)>")
_TIME_TAG = re.compile(r"<((?:[0-9]{1,9}:)?[0-9]{1,2}:[0-9]{1,2}\.[0-9]{1,3})>")


@dataclass(frozen=True, slots=True)
class Markup:
    """The markup of a subtitle format: the parts of a text that are not words."""

    tags: str  # regular expression of tags, which players do not show
    escapes: bool = False  # whether the text may contain HTML character references
    times: bool = False  # whether a tag may contain a time

    def pattern(self) -> re.Pattern[str]:
        """Return a regular expression for the parts of a text: tags, character references, spaces and letters."""
        reference = r"&#?[0-9A-Za-z]{1,32};" if self.escapes else _NOTHING
        return re.compile(
            f"(?P<tag>{self.tags})|[{_BLANK}]+|(?P<reference>{reference})|[^{_BLANK}<&{{]+|.",
            re.DOTALL,
        )


SUBRIP = Markup(r"</?[A-Za-z][^<>\r\n]*>|\{\\[^{}\r\n]*\}")  # HTML tags, and SubStation Alpha tags such as {\an8}
WEBVTT = Markup(r"<[^>]*(?:>|\Z)", escapes=True, times=True)
PLAIN = Markup(_NOTHING)


@dataclass(frozen=True, slots=True)
class Token:
    """A word in a text."""

    word: str
    spans: tuple[tuple[int, int], ...]  # character ranges of the word; more than one if tags divide the word
    time: str | None = None  # last time tag before the word
    segment: int = 0  # number of time tags before the word


def tokens(text: str, markup: Markup) -> list[Token]:
    """Return the words in a text."""
    return list(_tokens(text, markup))


def _tokens(text: str, markup: Markup) -> Iterator[Token]:
    letters: list[str] = []
    spans: list[tuple[int, int]] = []
    time: str | None = None
    segment = 0
    for piece in markup.pattern().finditer(text):
        begin, end = piece.span()
        if piece["tag"] is not None:
            if markup.times and (match := _TIME_TAG.fullmatch(piece[0])) is not None:
                if spans:  # a time tag within a word divides the word into two words
                    yield Token("".join(letters), tuple(spans), time, segment)
                    letters, spans = [], []
                time, segment = match[1], segment + 1
            continue
        letter = piece[0] if piece["reference"] is None else html.unescape(piece[0])
        if not letter.strip(_BLANK):
            if spans:
                yield Token("".join(letters), tuple(spans), time, segment)
            letters, spans = [], []
            continue
        letters.append(letter)
        if spans and spans[-1][1] == begin:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((begin, end))
    if spans:
        yield Token("".join(letters), tuple(spans), time, segment)


def voice(text: str, markup: Markup) -> str | None:
    """Return the speaker (``<v Anna>``) of a text, or None if the text has no speaker or several speakers."""
    if not markup.times:
        return None
    voices = {html.unescape(match[1]).strip() for match in _VOICE.finditer(text)}
    return voices.pop() if len(voices) == 1 else None


def escaped(word: str, markup: Markup) -> str:
    """Replace ``&``, ``<`` and ``>`` in a word with character references if the format has such references."""
    if not markup.escapes:
        return word
    return word.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


Edit = tuple[int, int, str]  # start and end of a character range, and the text that replaces it


def with_words(text: str, markup: Markup, words: Sequence[str]) -> str:
    """Replace the words of a text; unchanged words, tags and line breaks stay as they are.

    A word that replaces another word is put between the same tags. Removing a word also removes the spaces before it
    (or, at the start of a line, after it), and its line if the line contains no other words.
    """
    old = tokens(text, markup)
    if not old:
        return text + " ".join(escaped(word, markup) for word in words)
    new_texts: dict[int, str | None] = {}  # new text of each changed token; None removes the token
    for begin, end, new in changed_words([token.word for token in old], words):
        written = " ".join(escaped(word, markup) for word in new)
        if begin < end:
            new_texts.update(dict.fromkeys(range(begin, end)))
            new_texts[begin] = written or None
        else:  # insert the new words after the previous word or, if there is none, before the first word
            place = max(begin - 1, 0)
            original = new_texts.get(place, _spelled(text, old[place]))
            new_texts[place] = " ".join(filter(None, [original, written] if begin else [written, original]))
    return _with_edits(text, _edits(text, markup, old, new_texts)) if new_texts else text


def _spelled(text: str, token: Token) -> str:
    return "".join(text[begin:end] for begin, end in token.spans)


def _edits(text: str, markup: Markup, old: Sequence[Token], new_texts: dict[int, str | None]) -> Iterator[Edit]:
    """Yield the edits that replace the words of a text, in order."""
    opens = True  # whether the edited line contains no word or tag so far
    at = 0
    for index, token in enumerate(old):
        (begin, end), *others = token.spans
        between = text[at:begin]
        if (line_end := max(between.rfind("\n"), between.rfind("\r"))) >= 0:
            opens, between = True, between[line_end + 1 :]
        opens = opens and not between.strip(" \t\v\f")
        at = token.spans[-1][1]
        if index not in new_texts:
            opens = False
            continue
        new = new_texts[index]
        if new is not None:
            opens = False
            yield begin, end, new
        elif opens:
            yield begin, (end if others else _skipped(text, end)), ""
        else:
            yield max(begin - len(between) + len(between.rstrip(" \t")), 0), end, ""
        yield from ((first, last, "") for first, last in others)


def _skipped(text: str, at: int) -> int:
    """Return the index of the first character at or after index `at` that is neither a space nor a tab."""
    while at < len(text) and text[at] in " \t":
        at += 1
    return at


def _with_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits and remove the lines that become empty. No edit may extend over several lines."""
    lines: list[str] = []
    pending = list(edits)[::-1]
    begin = 0
    for line in re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text):
        end = begin + len(line)
        pieces: list[str] = []
        at = begin
        while pending and pending[-1][0] < end:
            first, last, new = pending.pop()
            pieces += [text[at:first], new]
            at = max(at, last)
        changed = "".join([*pieces, text[at:end]])
        if not pieces or changed.strip(_BLANK):
            lines.append(changed)
        begin = end
    result = "".join(lines)
    return result if text.endswith(("\r", "\n")) else re.sub(r"(?:\r\n|\r|\n)\Z", "", result)
