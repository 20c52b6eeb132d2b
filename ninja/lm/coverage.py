"""`Coverage`: how well a language model knows the words of some lattices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ninja.lm.protocol import OOVScore

WordMapping = Literal["case", "unk"]

NUM_NAMED = 8  # unknown words in a message
MAP_WORDS = "map_words may find it"  # advice on unknown words


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of the words of some lattices by a language model; those of several parts of a run add up."""

    num_arcs: Counter[str]  # that carry each word
    lacking: frozenset[str]  # words that the model lacks
    unk_penalty: float  # cost added to <unk> for each of them
    model: str = "the language model"  # name in messages
    has_unk: bool = True  # the model has a word for the unknown ones
    oov_score: OOVScore | None = None  # that such words have where the model itself has no <unk>
    advice: str = MAP_WORDS  # on unknown words of a model without <unk>
    warning: str | None = None  # of words of a kind that the model hardly knows
    mapped: tuple[tuple[WordMapping, frozenset[str]], ...] = ()  # words that were found in another spelling
    other_case: frozenset[str] = frozenset()  # unknown words that the model has in lower or upper case

    def __add__(self, other: Coverage) -> Coverage:
        """Return the coverage of both parts of a run by the same model."""
        mapped = tuple((how, words | dict(other.mapped).get(how, frozenset())) for how, words in self.mapped)
        return replace(
            other,
            num_arcs=self.num_arcs + other.num_arcs,
            lacking=self.lacking | other.lacking,
            warning=self.warning or other.warning,
            mapped=mapped,
            other_case=self.other_case | other.other_case,
        )

    @property
    def arcs(self) -> int:
        """Number of arcs that carry a word."""
        return self.num_arcs.total()

    @property
    def unknown_arcs(self) -> int:
        """Number of arcs whose word the model lacks."""
        return sum(self.num_arcs[word] for word in self.lacking)

    @property
    def words(self) -> int:
        """Number of distinct words on arcs."""
        return len(self.num_arcs)

    @property
    def unknown_words(self) -> int:
        """Number of distinct words that the model lacks."""
        return len(self.lacking)

    @property
    def in_case(self) -> int:
        """Number of unknown words that the model has in lower or upper case, which were not looked for."""
        return len(self.other_case)

    @property
    def share(self) -> float:
        """Share of arcs whose word the model lacks, in [0, 1]."""
        return self.unknown_arcs / self.arcs if self.num_arcs else 0.0

    @property
    def facts(self) -> str:
        """Number of arcs whose words the model lacks, and these words."""
        mapped = "".join(f"; {len(words)} words found by {how}" for how, words in self.mapped)
        if not self.lacking:
            return f"{self.model} knows all {self.words} words of the lattices{mapped}"
        unknown = [(word, count) for word, count in self.num_arcs.items() if word in self.lacking]
        unknown.sort(key=lambda each: -each[1])
        commonest = ", ".join(word for word, _ in unknown[:NUM_NAMED])
        if self.in_case:
            mapped += f"; map_words case would find {self.in_case} of them"
        return (
            f"{self.share:.1%} of arcs carry words unknown to {self.model} ({self.unknown_words} of "
            f"{self.words} words; commonest: {commonest}){mapped}"
        )

    def __str__(self) -> str:
        warning = "" if self.warning is None else f"; warning: {self.warning}"
        return f"{self._scored}{warning}"

    @property
    def _scored(self) -> str:
        if not self.lacking:
            return self.facts
        if not self.has_unk:
            return f"{self.facts}; it has no <unk>, so lattices with such words fail; {self.advice}"
        if self.oov_score is not None:
            score = self.oov_score if isinstance(self.oov_score, str) else f"{self.oov_score:g}"
            penalty = f" and penalty {self.unk_penalty:.2f}" if self.unk_penalty else ""
            return f"{self.facts}; it has no <unk>: scored with oov_score {score}{penalty}"
        return f"{self.facts}; scored as <unk> with penalty {self.unk_penalty:.2f}"


def added(before: Sequence[Coverage], more: Sequence[Coverage]) -> tuple[Coverage, ...]:
    """Add the coverages of a part of a run, model by model."""
    return tuple(one + other for one, other in zip(before, more, strict=True)) if before and more else (*before, *more)
