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
        candidates = []
        if i and j:
            candidates.append((edits[i - 1][j - 1] + (reference[i - 1] != hypothesis[j - 1]), i - 1, j - 1))
        if i:
            candidates.append((edits[i - 1][j] + 1, i - 1, j))
        if j:
            candidates.append((edits[i][j - 1] + 1, i, j - 1))
        return candidates

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
    for word in hypothesis:
        edits, insertions, deletions, substitutions = before[0]
        row = [(edits + 1, insertions + 1, deletions, substitutions)]
        for i, reference_word in enumerate(reference, start=1):
            inserted, deleted, paired = before[i], row[i - 1], before[i - 1]
            wrong = int(reference_word != word)
            if paired[0] + wrong < min(inserted[0], deleted[0]) + 1:
                row.append((paired[0] + wrong, paired[1], paired[2], paired[3] + wrong))
            elif deleted[0] < inserted[0]:
                row.append((deleted[0] + 1, deleted[1], deleted[2] + 1, deleted[3]))
            else:
                row.append((inserted[0] + 1, inserted[1] + 1, inserted[2], inserted[3]))
        before = row
    return before[-1][1:]


def bootstrap_rates(words: Sequence[int], errors: Sequence[int]) -> list[float]:
    """Return the error rate, in percent, of every resampled test set; all are equally probable."""
    rates = []
    for sample in product(range(len(words)), repeat=len(words)):
        num_words = sum(words[index] for index in sample)
        if num_words:
            rates.append(100.0 * sum(errors[index] for index in sample) / num_words)
    return rates
