"""Changes to words in a text, with all other characters unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ninja.formats.hypotheses.alignment import Change, Correspondence, lexical
from ninja.formats.hypotheses.json_spans import Splice

_WORD = re.compile(r"[^ \t\r\n\v\f]+")
_BLANKS = re.compile(r"\s*")


class Word(NamedTuple):
    """A word in one of several strings."""

    string: int  # index of the string that contains the word
    begin: int
    end: int
    text: str


def words_of(strings: Sequence[str]) -> list[Word]:
    """Split strings into words at ASCII spaces."""
    return [
        Word(number, match.start(), match.end(), match[0])
        for number, string in enumerate(strings)
        for match in _WORD.finditer(string)
    ]


def form_of(words: Sequence[str], others: Sequence[str]) -> Callable[[str], str]:
    """Return a function that converts new words from the spelling of `words` to the spelling of `others`.

    If `others` differ from `words`, are in lower case, and have no leading or trailing punctuation, the function
    converts words to lower case and removes such punctuation; otherwise, it returns them unchanged.

    Args:
        words: Words of an utterance.
        others: The same words in the spelling of another text or of a word list.
    """
    if list(words) != list(others) and others and all(word == lexical(word) for word in others):
        return lexical
    return str


def word_like(old: str, other: str, new: str) -> str:
    """Convert a new word to the spelling that a word list or another text uses for the old word.

    Args:
        old: The word before its change.
        other: The same word in the list or the text, possibly without punctuation or without a capital letter.
        new: The word after the change.
    """
    at = old.lower().find(other.lower()) if other else -1
    if old == other or at < 0:
        return new
    before, behind = old[:at], old[at + len(other) :]
    if new.startswith(before) and new.endswith(behind) and len(new) > len(before) + len(behind):
        core = new[len(before) : len(new) - len(behind)]
        return core.lower() if other == other.lower() and old[at : at + len(other)] != other else core
    return new


def places_within(strings: Sequence[str], parts: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return ``(string number, start index)`` of each part, or None if the strings do not consist of these parts.

    Args:
        strings: Strings that contain all parts in order, separated only by spaces.
        parts: Texts without spaces around them.
    """
    places = []
    number = at = 0
    for part in parts:
        at = _after_spaces(strings[number], at)
        while at == len(strings[number]):
            number += 1
            if number == len(strings):
                return None
            at = _after_spaces(strings[number], 0)
        if not strings[number].startswith(part, at):
            return None
        places.append((number, at))
        at += len(part)
    remaining = [strings[number][at:], *strings[number + 1 :]]
    return None if any(text.strip() for text in remaining) else places


def _after_spaces(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()


def text_splices(
    strings: Sequence[str], words: Sequence[str], changes: Sequence[Change], least_share: float = 0.0
) -> tuple[dict[int, list[Splice]], int]:
    """Return the splices that apply word changes to strings, even if the strings spell the words differently.

    New words are separated by spaces. Removing a word also removes the spaces before it or, for the first word of a
    string, the spaces after it.

    Args:
        strings: Strings that together contain the words.
        words: The words before the changes.
        changes: Changes to the words, in order.
        least_share: Minimum fraction of the words that the strings must contain in order; if they contain fewer,
            nothing is changed.

    Returns:
        The splices, keyed by string number, and the number of changes whose position in the strings is unknown.
    """
    present = words_of(strings)
    texts = [word.text for word in present]
    matching = Correspondence(words, texts, least_share)
    form = form_of(words, texts)
    splices: dict[int, list[Splice]] = {}
    num_unmatched = 0
    for begin, end, replacement in changes:
        stretch = matching.stretch(begin, end)
        if stretch is None:
            num_unmatched += 1
            continue
        new = " ".join(filter(None, map(form, replacement)))
        if len(replacement) == end - begin == stretch[1] - stretch[0] == 1:
            new = word_like(words[begin], texts[stretch[0]], new)
        for number, splice in _splices(strings, present, *stretch, new):
            splices.setdefault(number, []).append(splice)
    return splices, num_unmatched


def _splices(
    strings: Sequence[str], present: Sequence[Word], begin: int, end: int, new: str
) -> list[tuple[int, Splice]]:
    """Return ``(index of string, splice)`` pairs; the splices replace the words ``begin : end`` with `new`."""
    if begin == end:
        if not new:
            return []
        if begin:
            before = present[begin - 1]
            return [(before.string, Splice(before.end, before.end, f" {new}"))]
        if present:
            return [(present[0].string, Splice(present[0].begin, present[0].begin, f"{new} "))]
        return [(0, Splice(len(strings[0]), len(strings[0]), new))] if strings else []
    range_of: dict[int, tuple[int, int]] = {}  # string number -> indices of its first and last word
    for index in range(begin, end):
        first, _ = range_of.get(present[index].string, (index, index))
        range_of[present[index].string] = first, index
    splices = []
    for number, (first, last) in range_of.items():
        first_word, last_word = present[first], present[last]
        if new:
            splices.append((number, Splice(first_word.begin, last_word.end, new)))
            new = ""
            continue
        is_first = first == 0 or present[first - 1].string != number
        is_last = last + 1 == len(present) or present[last + 1].string != number
        if is_first and not is_last:
            splices.append((number, Splice(first_word.begin, present[last + 1].begin, "")))
        elif is_first:
            splices.append((number, Splice(first_word.begin, last_word.end, "")))
        else:
            splices.append((number, Splice(present[first - 1].end, last_word.end, "")))
    return splices
