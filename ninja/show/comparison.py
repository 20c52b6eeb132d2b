"""Comparison of the word errors in lattices before and after rescoring."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ninja.errors import FormatError, LatticeError
from ninja.evaluate import Alignment, ErrorRate, align, oracle_rate
from ninja.evaluate.normal_form import composed_words, reference_ids
from ninja.graph.best_path import best_path
from ninja.graph.oracle import oracle
from ninja.lattice import Lattice, Scales
from ninja.lattice.times import depth


@dataclass(frozen=True, slots=True)
class Outcome:
    """The best path, the size and the oracle errors of a lattice."""

    words: tuple[str, ...]  # words of the best path
    arcs: int  # number of arcs
    depth: float | None  # mean number of arcs that cross a frame; None if the lattice has no consistent times
    oracle: ErrorRate | None  # fewest errors of any path; None without a reference


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Function object that computes the outcome of a lattice."""

    references: Mapping[str, Sequence[str]]  # reference words by utterance id
    scales: Scales = Scales()

    def __call__(self, lattice: Lattice) -> Outcome:
        """Return the outcome for a lattice, which must have a symbol table."""
        if lattice.words is None:
            raise LatticeError(
                "the lattice has word ids but no symbol table; specify the symbol table", key=lattice.key
            )
        best = best_path(lattice, self.scales)
        reference = self.references.get(lattice.key)
        nearest = None if reference is None else oracle_rate(oracle(lattice, reference_ids(lattice.words, reference)))
        try:
            crossing = depth(lattice)
        except LatticeError:
            crossing = 0.0
        return Outcome(tuple(lattice.words.spell(best.words.tolist())), lattice.num_arcs, crossing or None, nearest)


@dataclass(frozen=True, slots=True)
class Utterance:
    """The outcomes and alignments of an utterance before and after rescoring."""

    key: str
    reference: tuple[str, ...]
    before: Outcome
    after: Outcome
    alignment_before: Alignment
    alignment_after: Alignment

    @property
    def errors_before(self) -> int:
        """Number of word errors before rescoring."""
        return self.alignment_before.rate().errors

    @property
    def errors_after(self) -> int:
        """Number of word errors after rescoring."""
        return self.alignment_after.rate().errors

    @property
    def change(self) -> int:
        """Change in the number of word errors due to rescoring; negative for an improvement."""
        return self.errors_after - self.errors_before


@dataclass(frozen=True, slots=True)
class Absence:
    """Utterance ids that are missing from one of the inputs."""

    description: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcomes for a test set. Error rates cover the utterances that have a reference and both lattices."""

    utterances: tuple[Utterance, ...]  # in the order of the references
    absences: tuple[Absence, ...] = ()  # each with at least one key

    @property
    def rates(self) -> tuple[ErrorRate, ErrorRate]:
        """Word error rates of the best paths: ``(before rescoring, after rescoring)``."""
        return _sums((item.alignment_before.rate(), item.alignment_after.rate()) for item in self.utterances)

    @property
    def oracle_rates(self) -> tuple[ErrorRate, ErrorRate]:
        """Oracle word error rates: ``(before rescoring, after rescoring)``."""
        return _sums((item.before.oracle or ErrorRate(), item.after.oracle or ErrorRate()) for item in self.utterances)

    @property
    def gained(self) -> list[Utterance]:
        """Utterances with fewer errors after rescoring, sorted by decreasing gain, then in reference order."""
        return sorted((item for item in self.utterances if item.change < 0), key=lambda item: item.change)

    @property
    def lost(self) -> list[Utterance]:
        """Utterances with more errors after rescoring, sorted by decreasing loss, then in reference order."""
        return sorted((item for item in self.utterances if item.change > 0), key=lambda item: -item.change)


def compare(
    references: Mapping[str, Sequence[str]],
    before: Mapping[str, Outcome],
    after: Mapping[str, Outcome],
    failed: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Comparison:
    """Align the outcomes before and after rescoring with the references.

    Args:
        references: Reference words by utterance id.
        before: Outcomes before rescoring by utterance id.
        after: Outcomes after rescoring by utterance id.
        failed: Keys of the failed lattices, as ``(before rescoring, after rescoring)``.

    Raises:
        FormatError: No utterance occurs in all three inputs.
    """
    utterances = tuple(
        Utterance(key, tuple(reference), first, second, *(_aligned(reference, outcome) for outcome in (first, second)))
        for key, reference in references.items()
        if (first := before.get(key)) and (second := after.get(key))
    )
    if not utterances:
        raise FormatError(
            "no utterance has a reference and lattices before and after rescoring; check that the utterance ids match"
        )
    absences = {
        "failed lattices, before rescoring": failed[0],
        "failed lattices, after rescoring": failed[1],
        "references without a lattice, before rescoring": _without(references, {*before, *failed[0]}),
        "references without a lattice, after rescoring": _without(references, {*after, *failed[1]}),
        "lattices without a reference, before rescoring": _without(before, references),
        "lattices without a reference, after rescoring": _without(after, references),
    }
    return Comparison(utterances, tuple(Absence(name, tuple(keys)) for name, keys in absences.items() if keys))


def _aligned(reference: Sequence[str], outcome: Outcome) -> Alignment:
    return align(composed_words(reference), composed_words(outcome.words))


def _without(keys: Iterable[str], others: Container[str]) -> list[str]:
    return [key for key in keys if key not in others]


def _sums(pairs: Iterable[tuple[ErrorRate, ErrorRate]]) -> tuple[ErrorRate, ErrorRate]:
    both = list(pairs)
    return sum((before for before, _ in both), ErrorRate()), sum((after for _, after in both), ErrorRate())
