"""Slow implementations of the counts in the scoring of transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

Pair = tuple[str | None, str | None]


def kaldi_alignment(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[Pair, ...]:
    """Align as Kaldi's align-text does: traced back from the end, a pair before a deletion before an insertion."""
    rows, columns = len(reference), len(hypothesis)
    edits = [[i + j if 0 in (i, j) else 0 for j in range(columns + 1)] for i in range(rows + 1)]

    def moves(i: int, j: int) -> list[tuple[int, int, int]]:
        found = []
        if i and j:
            found.append((edits[i - 1][j - 1] + (reference[i - 1] != hypothesis[j - 1]), i - 1, j - 1))
        if i:
            found.append((edits[i - 1][j] + 1, i - 1, j))
        if j:
            found.append((edits[i][j - 1] + 1, i, j - 1))
        return found

    for i, j in product(range(1, rows + 1), range(1, columns + 1)):
        edits[i][j] = min(moves(i, j))[0]
    pairs: list[Pair] = []
    i, j = rows, columns
    while i or j:
        _, before, earlier = min(moves(i, j), key=lambda move: move[0])  # the first of equals
        pairs.append((reference[before] if before < i else None, hypothesis[earlier] if earlier < j else None))
        i, j = before, earlier
    return tuple(reversed(pairs))


def kaldi_counts(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, int, int]:
    """Count insertions, deletions and substitutions as Kaldi's compute-wer does, over prefixes."""
    before = [(i, 0, i, 0) for i in range(len(reference) + 1)]  # edits, insertions, deletions, substitutions
    for heard in hypothesis:
        edits, insertions, deletions, substitutions = before[0]
        here = [(edits + 1, insertions + 1, deletions, substitutions)]
        for i, said in enumerate(reference, start=1):
            inserted, deleted, paired = before[i], here[i - 1], before[i - 1]
            wrong = int(said != heard)
            if paired[0] + wrong < min(inserted[0], deleted[0]) + 1:
                here.append((paired[0] + wrong, paired[1], paired[2], paired[3] + wrong))
            elif deleted[0] < inserted[0]:
                here.append((deleted[0] + 1, deleted[1], deleted[2] + 1, deleted[3]))
            else:
                here.append((inserted[0] + 1, inserted[1] + 1, inserted[2], inserted[3]))
        before = here
    return before[-1][1:]


def bootstrap_rates(words: Sequence[int], errors: Sequence[int]) -> list[float]:
    """Return the error rate, in percent, of every test set that could be drawn, all equally probable."""
    rates = []
    for drawn in product(range(len(words)), repeat=len(words)):
        said = sum(words[each] for each in drawn)
        if said:
            rates.append(100.0 * sum(errors[each] for each in drawn) / said)
    return rates
