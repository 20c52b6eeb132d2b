"""Changes of words in a text whose other characters stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ninja.formats.hypotheses.alignment import Change, Correspondence, lexical
from ninja.formats.hypotheses.json_spans import Splice

_WORD = re.compile(r"[^ \t\r\n\v\f]+")


class Word(NamedTuple):
    """A word in one of several strings."""

    string: int  # number of the string
    begin: int
    end: int
    text: str


def words_of(strings: Sequence[str]) -> list[Word]:
    """Return the words of strings, which are separated by ASCII blanks."""
    return [
        Word(number, match.start(), match.end(), match[0])
        for number, string in enumerate(strings)
        for match in _WORD.finditer(string)
    ]


def form_of(words: Sequence[str], others: Sequence[str]) -> Callable[[str], str]:
    """Return the function that writes a new word as other words are written.

    It is the lexical form, without capitals and punctuation, if all the others have it and the words have not.
    """
    if list(words) != list(others) and others and all(word == lexical(word) for word in others):
        return lexical
    return str


def text_splices(
    strings: Sequence[str], words: Sequence[str], changes: Sequence[Change], least_share: float = 0.0
) -> tuple[dict[int, list[Splice]], int]:
    """Return the splices of strings that have some words, possibly in another form, for changes of the words.

    New words are separated by blanks; with a word that is removed, the blanks before it are, or those behind the first
    word of a string.

    Args:
        strings: Strings that have the words together.
        words: The words before the changes.
        changes: Changes of the words, in order.
        least_share: Share of the words that the strings must have in their order; else nothing is changed.

    Returns:
        The splices by the number of the string, and the number of changes whose place in the strings is unknown.
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
        for number, splice in _splices(strings, present, *stretch, new):
            splices.setdefault(number, []).append(splice)
    return splices, num_unmatched


def _splices(
    strings: Sequence[str], present: Sequence[Word], begin: int, end: int, new: str
) -> list[tuple[int, Splice]]:
    """Return the splices that put new words in the place of words `begin` to `end`, each with its string."""
    if begin == end:
        if not new:
            return []
        if begin:
            before = present[begin - 1]
            return [(before.string, Splice(before.end, before.end, f" {new}"))]
        if present:
            return [(present[0].string, Splice(present[0].begin, present[0].begin, f"{new} "))]
        return [(0, Splice(len(strings[0]), len(strings[0]), new))] if strings else []
    found: dict[int, tuple[int, int]] = {}  # first and last word of each string
    for place in range(begin, end):
        first, _ = found.get(present[place].string, (place, place))
        found[present[place].string] = first, place
    splices = []
    for number, (first, last) in found.items():
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
