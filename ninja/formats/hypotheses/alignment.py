"""Word alignment between two versions of a text, such as before and after a correction."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

MOST_EDITS = 400  # maximum number of edits in an exact comparison, which takes quadratic time in this number


class Change(NamedTuple):
    """A replacement of the old words ``begin : end`` with new words."""

    begin: int
    end: int  # equal to ``begin`` if words are inserted
    words: tuple[str, ...]  # empty if words are removed


class Block(NamedTuple):
    """Corresponding spans in two sequences, which match if `is_equal` is True and differ otherwise."""

    begin: int
    end: int
    other_begin: int
    other_end: int
    is_equal: bool


def changed_words(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """Return the changes that turn old words into new words, in order.

    A changed span with equal numbers of old and new words is returned as one change per word.

    Args:
        old: Words before the correction.
        new: Words after the correction.
    """
    changes: list[Change] = []
    for block in blocks(old, new):
        begin, end, first, last, is_equal = block
        if is_equal:
            continue
        if end - begin == last - first:
            for index, word in enumerate(new[first:last], start=begin):
                if old[index] != word:
                    changes.append(Change(index, index + 1, (word,)))
        else:
            changes.append(Change(begin, end, tuple(new[first:last])))
    return changes


def applied(old: Sequence[str], changes: Sequence[Change]) -> list[str]:
    """Apply changes to old words, and return the new words."""
    words: list[str] = []
    at = 0
    for begin, end, replacement in changes:
        words += [*old[at:begin], *replacement]
        at = end
    return [*words, *old[at:]]


class Correspondence:
    """A mapping from the words of one version of a text to the words of another version.

    Args:
        words: The words of the text.
        others: The words of the other version, for example without capitals and punctuation.
        least_share: Minimum fraction of the words that must match in order; if fewer match, no words correspond.
    """

    def __init__(self, words: Sequence[str], others: Sequence[str], least_share: float = 0.0) -> None:
        self.is_equal = list(words) == list(others)
        # For each boundary between words: index in `others` at which the counterpart of the next word begins, if known.
        self._after: list[int | None] = [None] * (len(words) + 1)
        # For each boundary between words: index in `others` at which the counterpart of the last word ends, if known.
        self._before: list[int | None] = [None] * (len(words) + 1)
        if self.is_equal:
            self._after = self._before = list(range(len(words) + 1))
            return
        stretches = list(blocks(words, others, lexical))
        if sum(one.end - one.begin for one in stretches if one.is_equal) < least_share * len(words):
            return
        for begin, end, first, last, _ in stretches:
            if end - begin == last - first:
                for step in range(end - begin):
                    self._after[begin + step] = first + step
                    self._before[begin + step + 1] = first + step + 1
            elif end > begin:
                self._after[begin], self._before[end] = first, last

    def stretch(self, begin: int, end: int) -> tuple[int, int] | None:
        """Return the span ``(start, end)`` in `others` that corresponds to ``words[begin:end]``, or None if unknown.

        If ``begin == end``, the span is empty. It is located after the counterpart of the preceding word or, if that is
        unknown, before the counterpart of the next word.
        """
        if begin == end:
            at = self._before[begin] if self._before[begin] is not None else self._after[begin]
            at = 0 if at is None and begin == 0 and len(self._after) == 1 else at
            return None if at is None else (at, at)
        first, last = self._after[begin], self._before[end]
        return None if first is None or last is None else (first, last)


def lexical(word: str) -> str:
    """Return a word in lower case, without leading and trailing punctuation."""
    folded = word.casefold()
    begin, end = 0, len(folded)
    while begin < end and _is_punctuation(folded[begin]):
        begin += 1
    while end > begin and _is_punctuation(folded[end - 1]):
        end -= 1
    return folded[begin:end]


def _is_punctuation(letter: str) -> bool:
    return unicodedata.category(letter)[0] == "P"


def blocks(
    old: Sequence[str], new: Sequence[str], form: Callable[[str], Hashable] = lambda word: word
) -> Iterator[Block]:
    """Yield spans in two sequences that alternately match and differ; words are compared by `form(word)`."""
    at = other = 0
    matches = _matches([form(word) for word in old], [form(word) for word in new], 0, 0)
    begin = first = length = 0  # start in each sequence, and length, of the current common span
    for place, other_place, size in chain(matches, [(len(old), len(new), 0)]):
        if size and (place, other_place) == (begin + length, first + length):
            length += size
            continue
        if length:
            yield Block(begin, begin + length, first, first + length, is_equal=True)
            at, other = begin + length, first + length
        if (place, other_place) != (at, other):
            yield Block(at, place, other, other_place, is_equal=False)
        begin, first, length = place, other_place, size


def _matches(old: list[Hashable], new: list[Hashable], begin: int, first: int) -> Iterator[tuple[int, int, int]]:
    """Yield ``(start in old, start in new, length)`` for each common span; spans may be adjacent.

    Args:
        begin: Index of the first element of `old` in the whole old sequence.
        first: Index of the first element of `new` in the whole new sequence.
    """
    least = min(len(old), len(new))
    ahead = next((place for place in range(least) if old[place] != new[place]), least)
    if ahead:
        yield begin, first, ahead
    old, new, begin, first = old[ahead:], new[ahead:], begin + ahead, first + ahead
    least = min(len(old), len(new))
    behind = next((place for place in range(least) if old[-place - 1] != new[-place - 1]), least)
    end, last = len(old) - behind, len(new) - behind
    if end and last:
        pairs = _shortest_script(old[:end], new[:last])
        if pairs is None:
            at = other = 0
            anchors = _anchors(old[:end], new[:last])
            for place, other_place in anchors:
                yield from _matches(old[at:place], new[other:other_place], begin + at, first + other)
                yield begin + place, first + other_place, 1
                at, other = place + 1, other_place + 1
            halves = [] if anchors else [(end // 2, last // 2)]
            for place, other_place in [*halves, (end, last)]:
                yield from _matches(old[at:place], new[other:other_place], begin + at, first + other)
                at, other = place, other_place
        else:
            yield from ((begin + place, first + other, 1) for place, other in pairs)
    if behind:
        yield begin + end, first + last, behind


def _shortest_script(old: list[Hashable], new: list[Hashable]) -> list[tuple[int, int]] | None:
    """Return the index pairs of words matched by a shortest edit script, or None if it exceeds ``MOST_EDITS`` edits.

    Source: Myers 1986, "An O(ND) difference algorithm and its variations", the greedy algorithm.
    """
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(MOST_EDITS, len(old) + len(new)) + 1):
        trace.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            before = _previous(furthest, diagonal, edits)
            at = furthest[before] + (before < diagonal)
            while at < len(old) and at - diagonal < len(new) and old[at] == new[at - diagonal]:
                at += 1
            furthest[diagonal] = at
            if at >= len(old) and at - diagonal >= len(new):
                return _walked_back(trace, len(old), len(new))
    return None


def _previous(furthest: dict[int, int], diagonal: int, edits: int) -> int:
    """Return the neighbouring diagonal from which the last edit reaches the furthest point on a diagonal."""
    if diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1]):
        return diagonal + 1
    return diagonal - 1


def _walked_back(trace: list[dict[int, int]], at: int, other: int) -> list[tuple[int, int]]:
    """Trace an edit path back from the word indices `at` and `other`; return the index pairs of equal words on it."""
    pairs: list[tuple[int, int]] = []
    for edits in range(len(trace) - 1, -1, -1):
        before = _previous(trace[edits], at - other, edits)
        begin = trace[edits][before]
        while at > begin and other > begin - before:
            at, other = at - 1, other - 1
            pairs.append((at, other))
        at, other = begin, begin - before
    return pairs[::-1]


def _anchors(old: list[Hashable], new: list[Hashable]) -> list[tuple[int, int]]:
    """Return the longest increasing sequence of index pairs, for words that occur exactly once in each list."""
    places, others = _unique(old), _unique(new)
    pairs = [(place, others[word]) for word, place in places.items() if word in others]
    least: list[int] = []  # for each length, the smallest last index in `new` of an increasing sequence
    ends: list[int] = []  # positions in `pairs` of the pairs with these last indices
    previous: list[int] = []
    for index, (_, other) in enumerate(pairs):
        length = bisect_left(least, other)
        if length == len(least):
            least.append(other)
            ends.append(index)
        else:
            least[length], ends[length] = other, index
        previous.append(ends[length - 1] if length else -1)
    chosen = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = previous[index]
    return chosen[::-1]


def _unique(words: list[Hashable]) -> dict[Hashable, int]:
    """Return the index of each word that occurs exactly once, in the order of the words."""
    places: dict[Hashable, int] = {}
    for place, word in enumerate(words):
        places[word] = -1 if word in places else place
    return {word: place for word, place in places.items() if place >= 0}
