"""Alignment of hypotheses with references, and word error rates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ninja import _graph
from ninja.errors import OptionError
from ninja.libraries import needed_for

SomeCounts = TypeVar("SomeCounts", bound="Counts")
Pair = tuple[str | None, str | None]  # (reference, hypothesis); None in an insertion or a deletion
MAX_CELLS = 1 << 31  # maximum number of word pairs compared by `align_at_costs`, which stores one byte for each pair
_GAP = "\0"  # does not occur in words of text files


@dataclass(frozen=True, slots=True)
class Counts:
    """Base class for counts that are added field by field."""

    def __add__(self: SomeCounts, other: SomeCounts) -> SomeCounts:
        if type(other) is not type(self):
            return NotImplemented
        names = type(self).__dataclass_fields__
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class ErrorRate(Counts):
    """Counts of word errors, which can be added, as in ``sum(rates, ErrorRate())``."""

    words: int = 0  # words of the references
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    sentences: int = 0  # scored sentences
    sentence_errors: int = 0  # sentences with at least one error
    missing: int = 0  # references without a hypothesis
    unreferenced: int = 0  # hypotheses without a reference, which are not scored

    @property
    def correct(self) -> int:
        """Number of reference words that were recognised."""
        return self.words - self.substitutions - self.deletions

    @property
    def errors(self) -> int:
        """Number of substitutions, insertions and deletions."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def wer(self) -> float:
        """Word error rate in percent; for empty references, 0 if there are no errors, and infinity otherwise."""
        return percent(self.errors, self.words)

    @property
    def ser(self) -> float:
        """Sentence error rate in percent."""
        return percent(self.sentence_errors, self.sentences)

    def __str__(self) -> str:
        """Format the rate as three lines, as Kaldi's compute-wer does; percentages are rounded as float32 values."""
        counts = fraction(self.errors, self.words, self.insertions, self.deletions, self.substitutions)
        return (
            f"%WER {np.float32(self.wer):.2f} {counts}{' [PARTIAL]' if self.missing else ''}\n"
            f"%SER {np.float32(self.ser):.2f} [ {self.sentence_errors} / {self.sentences} ]\n"
            f"Scored {self.sentences} sentences, {self.missing} not present in hyp."
        )


@dataclass(frozen=True, slots=True)
class Alignment:
    """The word alignment of a reference and a hypothesis."""

    pairs: tuple[Pair, ...]

    def rate(self) -> ErrorRate:
        """Count the word errors in the alignment of one sentence."""
        return count_errors(self.pairs)

    def __str__(self) -> str:
        """Format the alignment as two lines, reference and hypothesis, with ``***`` for missing words."""
        lines = ["ref:", "hyp:"]
        for pair in self.pairs:
            cells = [word or "***" for word in pair]
            width = max(map(len, cells))
            lines = [f"{line} {cell.ljust(width)}" for line, cell in zip(lines, cells, strict=True)]
        return "\n".join(line.rstrip() for line in lines)


def count_errors(pairs: Sequence[Pair]) -> ErrorRate:
    """Count the errors in the aligned word pairs of one sentence."""
    insertions = sum(reference is None for reference, _ in pairs)
    deletions = sum(hypothesis is None for _, hypothesis in pairs)
    errors = sum(reference != hypothesis for reference, hypothesis in pairs)
    substitutions = errors - insertions - deletions
    return ErrorRate(len(pairs) - insertions, substitutions, insertions, deletions, 1, int(errors > 0))


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Alignment:
    """Align a hypothesis with its reference using the fewest edits.

    Source: kaldialign, ``align``, which follows Kaldi's scoring.
    """
    with needed_for("a word error rate"):
        import kaldialign

    pairs = kaldialign.align(reference, hypothesis, _GAP)
    return Alignment(
        tuple((first if first != _GAP else None, second if second != _GAP else None) for first, second in pairs)
    )


def align_at_costs(
    reference: Sequence[str], hypothesis: Sequence[str], insertion: int, deletion: int, substitution: int
) -> Alignment:
    """Align a hypothesis with its reference so that the total cost of the edits is as small as possible.

    Ties are broken from the last word to the first: pairs of words are preferred to insertions, and insertions to
    deletions. kaldialign breaks ties differently, which affects the errors of individual words.

    Raises:
        OptionError: The product of the numbers of words exceeds 2^31, the maximum number of bytes that is allocated.
    """
    if (len(reference) + 1) * (len(hypothesis) + 1) > MAX_CELLS:
        sizes = f"a reference of {len(reference)} words with a hypothesis of {len(hypothesis)} words"
        raise OptionError(f"cannot align {sizes}: it would take too much memory; split the recording into utterances")
    ids: dict[str, int] = {}
    first, second = (
        np.array([ids.setdefault(word, len(ids)) for word in words], np.int32) for words in (reference, hypothesis)
    )
    first_words, second_words = (
        side.tolist() for side in _graph.align_words(first, second, insertion, deletion, substitution)
    )
    return Alignment(
        tuple(
            (None if i < 0 else reference[i], None if j < 0 else hypothesis[j])
            for i, j in zip(first_words, second_words, strict=True)
        )
    )


def edits(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> int:
    """Return the edit distance: the minimum number of substitutions, insertions and deletions."""
    with needed_for("a word error rate"):
        import kaldialign

    return int(kaldialign.edit_distance(reference, hypothesis)["total"])


def fraction(errors: int, units: int, insertions: int, deletions: int, substitutions: int) -> str:
    """Format error counts in brackets, in the format of Kaldi's compute-wer."""
    return f"[ {errors} / {units}, {insertions} ins, {deletions} del, {substitutions} sub ]"


def percent(part: int, whole: int) -> float:
    """Return ``100 * part / whole``; if `whole` is 0, return 0 if `part` is 0, and infinity otherwise."""
    if whole:
        return 100.0 * part / whole
    return float("inf") if part else 0.0
