"""Slow implementations of alignment and of spotting phrases in word sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

Pair = tuple[str | None, str | None]
COST = {"match": 0, "insertion": 3, "deletion": 3, "substitution": 4}


def cost(pairs: Sequence[Pair]) -> int:
    """Return the sum of the benchmark's costs."""
    return sum(
        COST[
            "insertion"
            if reference is None
            else "deletion"
            if hypothesis is None
            else "match"
            if reference == hypothesis
            else "substitution"
        ]
        for reference, hypothesis in pairs
    )


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[Pair, ...]:
    """Align as the benchmark does: for equal costs, diagonal before insertion before deletion."""

    @cache
    def best(i: int, j: int) -> tuple[Pair, ...]:
        ways = []
        if i and j:
            ways.append((*best(i - 1, j - 1), (reference[i - 1], hypothesis[j - 1])))
        if j:
            ways.append((*best(i, j - 1), (None, hypothesis[j - 1])))
        if i:
            ways.append((*best(i - 1, j), (reference[i - 1], None)))
        return min(ways, key=cost, default=())

    return best(len(reference), len(hypothesis))


def all_alignments(reference: Sequence[str], hypothesis: Sequence[str]) -> Iterator[tuple[Pair, ...]]:
    """Return every alignment of two sequences."""
    if not reference and not hypothesis:
        yield ()
    if reference and hypothesis:
        yield from (((reference[0], hypothesis[0]), *pairs) for pairs in all_alignments(reference[1:], hypothesis[1:]))
    if reference:
        yield from (((reference[0], None), *pairs) for pairs in all_alignments(reference[1:], hypothesis))
    if hypothesis:
        yield from (((None, hypothesis[0]), *pairs) for pairs in all_alignments(reference, hypothesis[1:]))


def counts(pairs: Sequence[Pair]) -> tuple[int, int, int, int]:
    """Return the numbers of reference words, substitutions, insertions, deletions."""
    return (
        sum(reference is not None for reference, _ in pairs),
        sum(None not in pair and pair[0] != pair[1] for pair in pairs),
        sum(reference is None for reference, _ in pairs),
        sum(hypothesis is None for _, hypothesis in pairs),
    )


def spots(words: Sequence[str], class_of: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """Return position, class and text of non-overlapping entities: the earliest first, then the longest."""
    candidates = [
        (begin, -end, class_of[text])
        for begin in range(len(words))
        for end in range(begin + 1, len(words) + 1)
        if (text := " ".join(words[begin:end])) in class_of
    ]
    entities: list[tuple[int, str, str]] = []
    free = 0
    for begin, negative_end, name in sorted(candidates):
        if begin >= free:
            free = -negative_end
            entities.append((begin, name, " ".join(words[begin:free])))
    return entities


def occurrences(words: Sequence[str], text: str) -> int:
    """Return how often a phrase occurs in words, without overlap."""
    return f" {'  '.join(words)} ".count(f" {text.replace(' ', '  ')} ")
