"""Kaldi's pruned composition, in which all hypotheses in a lattice compete with each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ninja.rescoring.engine import SearchEngine
from ninja.rescoring.options import LARGEST, MAX_ARCS, Algorithm, EngineOptions, option


@dataclass(frozen=True)
class PrunedOptions(EngineOptions):
    """Options for Kaldi's pruned composition."""

    section: ClassVar[str] = "Search: pruned"

    max_ngram_order: int = option(
        3,
        "pruned: n-gram order up to which histories are distinguished; 0 merges no histories.",
        2,
        LARGEST,
        or_zero=True,
    )
    max_arcs: int = option(
        100_000, "pruned: stop expanding a lattice once it has this many arcs and a complete path.", 1, MAX_ARCS
    )
    growth_ratio: float = option(
        1.5, "pruned: re-estimate costs each time the lattice grows by this factor.", 1.01, 1e6
    )


class PrunedEngine(SearchEngine):
    """Engine for Kaldi's pruned composition, in which all hypotheses in a lattice compete with each other."""

    options: PrunedOptions
    is_pruned = True

    @property
    def growth(self) -> tuple[int, float]:
        """Maximum number of arcs and growth ratio from the options; see `SearchEngine.growth`."""
        return self.options.max_arcs, self.options.growth_ratio


PRUNED = Algorithm(
    "pruned",
    PrunedOptions,
    PrunedEngine,
    "Kaldi's pruned composition",
    history_words=lambda options: max(options.max_ngram_order - 1, 0),
)
