"""Rescoring options, the registry of algorithms, and the default weights for each kind of input."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar, get_args

from ninja.errors import OptionError, documented
from ninja.lattice import Lattice
from ninja.lattice.lattice import ListLattice, has_graph_costs
from ninja.lm.word_map import WordMapping
from ninja.rescoring.algorithm import (
    DEFAULT_ALGORITHM,
    DEFAULT_LIST_ALGORITHM,
    LARGEST,
    Algorithm,
    EngineOptions,
    LookAhead,
    Output,
    option,
)
from ninja.rescoring.search import ARCBEAM, PRUNED, PUSHFORWARD, PrunedOptions
from ninja.rescoring.sentences import COVER, NBEST, TRIE, SentenceOptions

ALGORITHMS = {algorithm.name: algorithm for algorithm in (ARCBEAM, PUSHFORWARD, PRUNED, NBEST, COVER, TRIE)}
CHOICES = {"output": get_args(Output), "look_ahead": get_args(LookAhead)}


@documented
@dataclass(frozen=True)
class RescoreOptions(SentenceOptions, PrunedOptions, EngineOptions):
    """Options of ``ninja.rescore``.

    Options that the selected algorithm does not use have no effect.
    """

    section: ClassVar[str] = "Search"

    algorithm: str | None = option(
        None,
        "Search algorithm: "
        f"{', '.join(f'{algorithm.name} ({algorithm.about})' for algorithm in ALGORITHMS.values())}.  "
        f"[default: {DEFAULT_ALGORITHM}; {DEFAULT_LIST_ALGORITHM} if the first lattice is an n-best list]",
        choices=tuple(ALGORITHMS),
    )

    def __post_init__(self) -> None:
        """Validate the values."""
        for setting in fields(self):
            value, low, high = getattr(self, setting.name), setting.metadata["low"], setting.metadata["high"]
            if isinstance(value, int | float) and not low <= value <= high:  # also rejects NaN
                raise OptionError(f"{setting.name} is {value}, but must lie in [{low}, {high}]")
            choices = setting.metadata["choices"] or CHOICES.get(setting.name)
            if choices and value not in choices and (value is not None or setting.default is not None):
                raise OptionError(f"{setting.name} is {value!r}, but must be one of {', '.join(choices)}")
        if self.max_ngram_order == 1:
            raise OptionError(f"max_ngram_order is 1, but must be 0 or lie in [2, {LARGEST}]")
        for name in ("acoustic_scale", "word_penalty", "unk_penalty"):
            if not math.isfinite(getattr(self, name) or 0.0):
                raise OptionError(f"{name} is {getattr(self, name)}, but must be finite")
        for mapping in self.map_words:
            if mapping not in get_args(WordMapping):
                raise OptionError(
                    f"map_words contains {mapping!r}, but must contain only {', '.join(get_args(WordMapping))}"
                )

    @property
    def record(self) -> Algorithm:
        """The selected algorithm, or the default algorithm for lattices if none is selected."""
        return ALGORITHMS[self.algorithm or DEFAULT_ALGORITHM]


HELP: dict[str, str] = {setting.name: setting.metadata["help"] for setting in fields(RescoreOptions)}


@dataclass(frozen=True, slots=True)
class UsualWeights:
    """Default weights at an acoustic scale of 0.1 (lattices) or 1 (n-best lists); tuning starts with them."""

    kind: str
    lm_weight: float
    word_penalty: float

    def __str__(self) -> str:
        return f"LM weight {self.lm_weight:g}, word penalty {self.word_penalty:g}"


# Weights for the lattices of hybrid recognisers, chosen for PocketSphinx by `python -m benchmarks.results splits`.
LATTICES = UsualWeights("lattices with graph costs", 0.8, 0.5)
# Weights for the n-best lists of attention models, chosen for Whisper by the same benchmark.
LISTS = UsualWeights("n-best lists without graph costs", 0.15, -1.0)


def usual_weights(lattice: Lattice) -> UsualWeights | None:
    """Return the default weights for a lattice; None for a kind without default weights, such as CTC lattices."""
    is_list = isinstance(lattice, ListLattice)
    if has_graph_costs(lattice):
        return None if is_list else LATTICES
    return LISTS if is_list else None
