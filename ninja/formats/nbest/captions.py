"""Division of timed words into captions and lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

# Source: Netflix, Timed Text Style Guide, General Requirements and English (42 characters, two lines, 7 seconds, 20
# characters per second).
LINE = 42  # maximum number of characters per line, unless a word is longer
LINES = 2  # maximum number of lines of a caption
LONGEST = 7.0  # maximum duration of a caption in seconds, unless a word is longer
SHORTEST = 1.0  # minimum duration of a caption in seconds, if the next caption begins late enough
SPEED = 20.0  # maximum number of characters per second, if the next caption begins late enough
PAUSE = 1.0  # minimum duration of a pause that ends a caption, in seconds
_SENTENCE_END = re.compile(r".*[.?!…。？！؟।][\"'”’»)\]]*", re.DOTALL)
_CLAUSE_ENDS = (",", ";", ":", "،", "、", "，", "—", "–")
_ABBREVIATION = re.compile(r"(?:Mr|Mrs|Ms|Dr|St|Prof|[A-Z])\.")


@dataclass(frozen=True, slots=True)
class Caption:
    """Lines of text that are shown together."""

    begin: float  # seconds
    end: float
    lines: tuple[str, ...]


def captions(words: Sequence[str], begins: Sequence[float], ends: Sequence[float]) -> list[Caption]:
    """Divide timed words into captions.

    A caption ends at the end of a sentence, before a pause of at least a second, or before a word that would make the
    caption exceed 7 seconds or two lines of 42 characters. In the last case, it ends instead after the last comma
    (or semicolon, colon or dash) in its second half, if there is one. The end of a sentence does not end a caption if
    the next word begins within a second of the caption's start.

    A caption is shown from the start of its first word to the end of its last word. If another caption follows, a
    time of less than one second per 20 characters (at least 1 and at most 7 seconds) is extended to this value, but
    not beyond the start of the next caption.

    Args:
        words: The words.
        begins: Start of each word in seconds.
        ends: End of each word in seconds.
    """
    result: list[Caption] = []
    first = 0
    place = 1
    while first < len(words):
        is_end = place == len(words) or begins[place] - ends[place - 1] >= PAUSE
        is_end = is_end or (_ends_sentence(words[place - 1]) and begins[place] - begins[first] >= SHORTEST)
        if not is_end and ends[place] - begins[first] <= LONGEST and len(wrapped(words[first : place + 1])) <= LINES:
            place += 1
            continue
        if not is_end:
            clauses = (stop for stop in range(place, first, -1) if words[stop - 1].endswith(_CLAUSE_ENDS))
            stop = next(clauses, place)
            place = stop if 2 * (stop - first) >= place - first else place
        result.append(Caption(begins[first], max(ends[first:place]), balanced(words[first:place])))
        first, place = place, place + 1
    return [_shown(caption, after.begin) for caption, after in pairwise(result)] + result[-1:]


def _shown(caption: Caption, limit: float) -> Caption:
    """Extend a caption to the time needed to read it, but not beyond the start of the next caption.

    Args:
        caption: The caption.
        limit: Start of the next caption in seconds.
    """
    seconds = min(max(SHORTEST, sum(map(len, caption.lines)) / SPEED), LONGEST)
    return replace(caption, end=max(caption.end, min(caption.begin + seconds, limit)))


def _ends_sentence(word: str) -> bool:
    return _SENTENCE_END.fullmatch(word) is not None and _ABBREVIATION.fullmatch(word) is None


def wrapped(words: Sequence[str]) -> list[str]:
    """Divide words into lines that are as long as possible, with at most 42 characters unless a word is longer."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= LINE:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def balanced(words: Sequence[str]) -> tuple[str, ...]:
    """Divide words into as many lines as ``wrapped`` does; for two lines, minimise the length of the longer line."""
    lines = wrapped(words)
    if len(lines) != 2:
        return tuple(lines)
    pairs = [(" ".join(words[:index]), " ".join(words[index:])) for index in range(1, len(words))]
    return min(pairs, key=lambda pair: max(map(len, pair)))
