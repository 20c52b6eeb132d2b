"""Slow implementation of context for written text, sentence by sentence."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from ninja.lattice.text import Normalizer


def slow_respell(words: Sequence[str], lists: Sequence[Sequence[str]], normalizer: Normalizer) -> list[str]:
    """Return the words of a sentence with phrases in the written form of their lists; the search runs from the end."""
    lists = [phrases for phrases in lists if any(phrase != phrase.lower() for phrase in phrases)]
    spelled = [phrase.split() for phrases in lists for phrase in phrases]
    phrases = [(phrase, normalizer.words(phrase)) for phrase in spelled if all(map(normalizer, phrase))]
    starts, is_start = [], True
    for word in words:
        starts.append(is_start)
        is_start = _ends(word) or (is_start and not normalizer(word))
    result: list[str] = []
    end = len(words)
    while end:
        if not normalizer(words[end - 1]):
            matches = []
        else:
            matches = [
                (len(form), begin, phrase)
                for begin in range(end)
                for phrase, form in phrases
                if normalizer(words[begin]) and normalizer.words(words[begin:end]) == form
            ]
        if matches:
            longest = max(length for length, _, _ in matches)
            _, begin, phrase = next(match for match in matches if match[0] == longest)
            phrase = _fit_phrase(list(phrase), words[begin], words[end - 1], starts[begin])
        else:
            begin, phrase = end - 1, [words[end - 1]]
        result[:0] = phrase
        end = begin
    return result


def _fit_phrase(phrase: list[str], first: str, last: str, is_start: bool) -> list[str]:
    bare = first.strip("".join(filter(_is_mark, first)))
    if is_start and bare[0].isupper() and phrase[0] == phrase[0].lower():
        phrase[0] = phrase[0][0].upper() + phrase[0][1:]
    phrase[0] = first[: first.index(bare)] + phrase[0]
    marks = "".join(filter(_is_mark, last))
    after = last[len(last.rstrip(marks)) :] if marks else ""
    if after and phrase[-1].endswith(after):
        after = ""
    phrase[-1] += after
    return phrase


def _ends(word: str) -> bool:
    return any(char in ".?!" for char in word[len(word.rstrip(".?!,")) :])


def _is_mark(char: str) -> bool:
    return unicodedata.category(char).startswith("P")
