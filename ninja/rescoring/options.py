"""What a user may choose about rescoring, with the field's defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from ninja.errors import OptionError
from ninja.lm.word_map import WordMapping

Algorithm = Literal["arcbeam", "pushforward", "pruned", "nbest", "cover", "trie"]
SENTENCES = ("nbest", "cover", "trie")  # algorithms that choose what is scored on first-pass costs alone
Output = Literal["lattice", "input", "best"]
LookAhead = Literal["calibrated", "first-pass", "none"]

DEFAULT_MAX_HYPS = {"arcbeam": 4, "pushforward": 5, "pruned": 0}
DEFAULT_BEAM = {"arcbeam": 8.0, "pushforward": 8.0, "pruned": 6.0, "nbest": 8.0, "cover": 8.0, "trie": 8.0}
COVER_PRUNE_BEAM = 5.0
DEFAULT_MERGE_ORDER = 5
LARGEST = 2**31 - 1  # the kernel counts in int32
MAX_ARCS = 10_000_000  # of one lattice's expansion; beyond, the lattice is given up rather than the machine


@dataclass(frozen=True, slots=True)
class RescoreOptions:
    """Options of ``ninja.rescore``; costs are natural-log costs at LM scale 1."""

    algorithm: Algorithm = "arcbeam"  # hypotheses compete per arc (arcbeam), per state (pushforward), or all (pruned)
    output: Output = "lattice"  # expanded lattice, input topology with replaced graph costs, or best path

    backward: bool = False  # the LM reads sentences from their end: it was trained on reversed text

    lm_weight: float = 0.5  # share λ of the new LM in the graph cost, 0..1
    acoustic_scale: float = 0.1  # as in Kaldi's rescoring tools; 1.0 for chain models
    word_penalty: float = 0.0  # added to the cost of each word while searching; never written back
    unk_penalty: float | None = None  # cost of a word the LM lacks, beyond <unk>'s; None: ln of how many share it
    max_unknown: float = 0.5  # refuse when a larger share of arcs carries words the LM lacks
    map_words: tuple[WordMapping, ...] = ()  # where to find words the LM lacks: in other case, as other forms of <unk>

    max_hyps: int | None = None  # live hypotheses per cell; None: 4 per arc or 5 per state; 0: unlimited
    beam: float | None = None  # keep hypotheses within this expected cost of the best; None: 8, pruned 6; inf: all
    prune_beam: float | None = None  # drop arcs this far off the first pass's best path; None: beam + 2
    merge_order: int | None = None  # words of history that keep hypotheses apart; None: 5, or all (0) if max_hyps is 0
    max_active: int = 256  # live hypotheses per lattice and level; 0: unlimited
    look_ahead: LookAhead = "calibrated"  # cost still to come, as a hypothesis's prospect estimates it

    max_ngram_order: int = 3  # pruned: hypotheses equal in their last words, one fewer than this, are one; 0: in all
    max_arcs: int = 100_000  # pruned: expand no more than this of a lattice once a path is complete
    growth_ratio: float = 1.5  # pruned: how much an expansion grows before all its costs are looked at again

    num_best: int = 100  # nbest: sentences of each lattice
    min_posterior: float = 0.5  # cover: an arc of higher posterior leads to a copy of its own of the state it enters
    max_trie_nodes: int = 1000  # trie: word prefixes of each lattice; 0: as many as the beam holds

    batch_arcs: int = 200_000  # arcs of lattices in flight at once

    def __post_init__(self) -> None:
        """Refuse values out of range.

        Raises:
            OptionError: Names the option, its value and its range.
        """
        ranges: list[tuple[str, float, float, float]] = [
            ("lm_weight", self.lm_weight, 0.0, 1.0),
            ("acoustic_scale", self.acoustic_scale, 0.0, math.inf),
            ("max_unknown", self.max_unknown, 0.0, 1.0),
            ("max_hyps", self.max_hyps or 0, 0, LARGEST),
            ("beam", self.beam or 0.0, 0.0, math.inf),
            ("prune_beam", self.prune_beam or 0.0, 0.0, math.inf),
            ("merge_order", self.merge_order or 0, 0, LARGEST),
            ("max_active", self.max_active, 0, LARGEST),
            ("max_ngram_order", self.max_ngram_order or 2, 2, LARGEST),
            ("max_arcs", self.max_arcs, 1, MAX_ARCS),
            ("growth_ratio", self.growth_ratio, 1.01, 1e6),
            ("num_best", self.num_best, 1, LARGEST),
            ("min_posterior", self.min_posterior, 0.0, 1.0),
            ("max_trie_nodes", self.max_trie_nodes, 0, LARGEST),
            ("batch_arcs", self.batch_arcs, 1, math.inf),
        ]
        for name, value, low, high in ranges:
            if not low <= value <= high:  # NaN fails too
                raise OptionError(f"{name} is {value}, but must lie in [{low}, {high}]")
        finite = {"acoustic_scale": self.acoustic_scale, "word_penalty": self.word_penalty}
        for name, cost in {**finite, "unk_penalty": self.unk_penalty or 0.0}.items():
            if not math.isfinite(cost):
                raise OptionError(f"{name} is {cost}, but must be finite")
        for how in self.map_words:
            if how not in get_args(WordMapping):
                raise OptionError(f"map_words has {how!r}, but takes {', '.join(get_args(WordMapping))}")
        choices = {"algorithm": Algorithm, "output": Output, "look_ahead": LookAhead}
        for name, kind in choices.items():
            allowed = get_args(kind)
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name} is {getattr(self, name)!r}, but must be one of {', '.join(allowed)}")

    @property
    def hypotheses(self) -> int:
        """Live hypotheses per cell, 0 for unlimited."""
        return DEFAULT_MAX_HYPS[self.algorithm] if self.max_hyps is None else self.max_hyps

    @property
    def history_words(self) -> int:
        """Words of history that keep hypotheses of one cell apart, 0 for all."""
        if self.algorithm == "pruned":
            return max(self.max_ngram_order - 1, 0)
        if self.merge_order is not None:
            return self.merge_order
        if self.algorithm in SENTENCES:
            return DEFAULT_MERGE_ORDER if self.max_trie_nodes else 0
        return DEFAULT_MERGE_ORDER if self.hypotheses else 0

    @property
    def search_beam(self) -> float:
        """Beam on the expected cost of hypotheses."""
        return DEFAULT_BEAM[self.algorithm] if self.beam is None else self.beam

    @property
    def first_pass_beam(self) -> float:
        """Beam on first-pass costs within which arcs are looked at."""
        if self.prune_beam is not None:
            return self.prune_beam
        return COVER_PRUNE_BEAM if self.algorithm == "cover" else self.search_beam + 2.0
