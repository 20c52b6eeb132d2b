"""Options of rescoring, with the field's defaults; with a dataclass for each algorithm's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeVar, get_args

from ninja.errors import OptionError, documented
from ninja.lattice import Lattice, Scales
from ninja.lattice.list_lattice import ListLattice
from ninja.lm.coverage import Coverage, WordMapping, added
from ninja.log import Log
from ninja.rescoring.vocabulary import VocabularyCheck

Algorithm = Literal["arcbeam", "pushforward", "pruned", "nbest", "cover", "trie"]
SENTENCES = ("nbest", "cover", "trie")  # algorithms that choose what is scored on first-pass costs alone
Output = Literal["lattice", "input", "best"]
LookAhead = Literal["calibrated", "first-pass", "none"]

DEFAULT_ALGORITHM: Algorithm = "arcbeam"
DEFAULT_NUM_BEST = 100
DEFAULT_MAX_HYPS = {"arcbeam": 4, "pushforward": 5, "pruned": 0}
DEFAULT_BEAM = {"arcbeam": 6.0, "pushforward": 6.0, "pruned": 6.0, "nbest": 8.0, "cover": 8.0, "trie": 8.0}
COVER_PRUNE_BEAM = 5.0
DEFAULT_MERGE_ORDER = 5
LARGEST = 2**31 - 1  # the kernel counts in int32
MAX_ARCS = 10_000_000  # of one lattice's expansion; beyond, the lattice is given up rather than the machine

Default = TypeVar("Default")


def option(default: Default, help: str, low: float = -math.inf, high: float = math.inf) -> Default:
    """Make a field with its help text and its range."""
    found: Default = field(default=default, metadata={"help": help, "low": low, "high": high})
    return found


@dataclass(frozen=True)
class SearchOptions:
    """Options of the algorithms that search with the language model: arcbeam, pushforward, in part pruned and trie."""

    section: ClassVar[str] = "Search"

    max_hyps: int | None = option(
        None, "Live hypotheses per arc or state; 0 is unlimited.  [default: 4 per arc, 5 per state]", 0, LARGEST
    )
    beam: float | None = option(
        None, "Keep hypotheses within this cost of the best; inf keeps all.  [default: 6; nbest, cover, trie 8]", 0
    )
    prune_beam: float | None = option(
        None, "Drop arcs this far off the first pass's best path.  [default: beam + 2; cover 5]", 0
    )
    merge_order: int | None = option(
        None, "Words of history that keep hypotheses apart; 0 is all.  [default: 5, or 0 if max_hyps is 0]", 0, LARGEST
    )
    max_active: int = option(256, "Live hypotheses per lattice and level; 0 is unlimited.", 0, LARGEST)
    look_ahead: LookAhead = option("calibrated", "How the cost still to come is estimated.")


@dataclass(frozen=True)
class PrunedOptions:
    """Options of Kaldi's pruned composition."""

    section: ClassVar[str] = "Search: pruned"

    max_ngram_order: int = option(
        3, "pruned: merge histories that share their last words, one fewer than this; 0 keeps all apart.", 0, LARGEST
    )
    max_arcs: int = option(100_000, "pruned: expand no more arcs of a lattice once a path is complete.", 1, MAX_ARCS)
    growth_ratio: float = option(
        1.5, "pruned: re-estimate costs each time the lattice grows by this factor.", 1.01, 1e6
    )


@dataclass(frozen=True)
class SentenceOptions:
    """Options of the algorithms that score whole sentences: nbest, cover, trie."""

    section: ClassVar[str] = "Search: nbest, cover, trie"

    num_best: int | None = option(
        None, "nbest: sentences of each lattice.  [default: 100; all of an n-best list]", 1, LARGEST
    )
    min_posterior: float = option(0.5, "cover: split states after arcs above this posterior.", 0, 1)
    max_trie_nodes: int = option(1000, "trie: word prefixes of each lattice; 0: as many as the beam holds.", 0, LARGEST)


@dataclass(frozen=True)
class ScoreOptions:
    """Options of the new scores; all costs are natural-log costs at LM scale 1."""

    section: ClassVar[str] = "Models"

    backward: bool = option(False, "The models read sentences from their end.")
    lm_weight: float = option(0.5, "Share of the language model in the graph cost, 0 to 1.", 0, 1)
    acoustic_scale: float = option(
        0.1,
        "Factor of acoustic costs; 1 for n-best lists and CTC, where commands take it by default, and for chain models "
        "decoded without --post-decode-acwt 10.",
        0,
    )
    word_penalty: float = option(0.0, "Cost of each word while searching; never written back.")
    unk_penalty: float | None = option(
        None, "Cost of a word the model lacks, beyond <unk>.  [default: ln of how many share it]"
    )
    max_unknown: float = option(0.5, "Refuse files with a larger share of arcs whose words the model lacks.", 0, 1)
    map_words: tuple[WordMapping, ...] = option(
        (), "Find words a model lacks in lower or upper case, or as another spelling of <unk>."
    )


@documented
@dataclass(frozen=True)
class RescoreOptions(SentenceOptions, PrunedOptions, SearchOptions, ScoreOptions):
    """Options of ``ninja.rescore``: those of its scores, of the chosen algorithm, and of the run.

    An option of another algorithm than the chosen one has no effect.
    """

    section: ClassVar[str] = "Search"

    algorithm: Algorithm | None = option(
        None,
        "Hypotheses compete on each arc, in each state, all together (Kaldi's pruned composition), or as whole "
        "sentences.  [default: arcbeam; nbest where the first lattice is an n-best list]",
    )
    output: Output = option("lattice", "Expanded lattice, input topology with replaced graph costs, or best path.")
    batch_arcs: int = option(200_000, "Arcs of lattices in flight at once.", 1)

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        for each in fields(self):
            value, low, high = getattr(self, each.name), each.metadata["low"], each.metadata["high"]
            if isinstance(value, int | float) and not low <= value <= high:  # NaN fails too
                raise OptionError(f"{each.name} is {value}, but must lie in [{low}, {high}]")
        if self.max_ngram_order == 1:
            raise OptionError(f"max_ngram_order is 1, but must be 0 or lie in [2, {LARGEST}]")
        for name in ("acoustic_scale", "word_penalty", "unk_penalty"):
            if not math.isfinite(getattr(self, name) or 0.0):
                raise OptionError(f"{name} is {getattr(self, name)}, but must be finite")
        for how in self.map_words:
            if how not in get_args(WordMapping):
                raise OptionError(f"map_words has {how!r}, but takes {', '.join(get_args(WordMapping))}")
        choices: dict[str, Any] = {"algorithm": Algorithm, "output": Output, "look_ahead": LookAhead}
        for name, kind in choices.items():
            if getattr(self, name) not in get_args(kind) and (name, getattr(self, name)) != ("algorithm", None):
                raise OptionError(f"{name} is {getattr(self, name)!r}, but must be one of {', '.join(get_args(kind))}")

    def for_lattice(self, lattice: Lattice) -> RescoreOptions:
        """Return the options with an algorithm: if there is none, the default one for such a lattice."""
        if self.algorithm is not None:
            return self
        return replace(self, algorithm="nbest" if isinstance(lattice, ListLattice) else DEFAULT_ALGORITHM)

    def sentences_of(self, lattice: Lattice) -> int:
        """Return the largest number of sentences that ``nbest`` takes of a lattice."""
        if self.num_best is not None:
            return self.num_best
        return max(lattice.num_hypotheses, 1) if isinstance(lattice, ListLattice) else DEFAULT_NUM_BEST

    @property
    def hypotheses(self) -> int:
        """Live hypotheses per cell, 0 for unlimited."""
        return DEFAULT_MAX_HYPS[self.algorithm or DEFAULT_ALGORITHM] if self.max_hyps is None else self.max_hyps

    @property
    def history_words(self) -> int:
        """Words of history that keep hypotheses of one cell apart, 0 for all."""
        if self.algorithm == "pruned":
            return max(self.max_ngram_order - 1, 0)
        if self.merge_order is not None:
            return self.merge_order
        limited = self.max_trie_nodes if self.algorithm in SENTENCES else self.hypotheses
        return DEFAULT_MERGE_ORDER if limited else 0

    @property
    def scales(self) -> Scales:
        """Factors of the costs of a path."""
        return Scales(self.acoustic_scale, word_penalty=self.word_penalty)

    @property
    def search_beam(self) -> float:
        """Beam on the expected cost of hypotheses."""
        return DEFAULT_BEAM[self.algorithm or DEFAULT_ALGORITHM] if self.beam is None else self.beam

    @property
    def first_pass_beam(self) -> float:
        """Beam on first-pass costs within which arcs are looked at."""
        if self.prune_beam is not None:
            return self.prune_beam
        return COVER_PRUNE_BEAM if self.algorithm == "cover" else self.search_beam + 2.0


HELP: dict[str, str] = {each.name: each.metadata["help"] for each in fields(RescoreOptions)}
SECTIONS: dict[str, str] = {  # of the help, in which each option stands
    each.name: kind.section
    for kind in (ScoreOptions, RescoreOptions, SearchOptions, PrunedOptions, SentenceOptions)
    for each in fields(kind)
    if each.name in kind.__annotations__
}


@dataclass(slots=True)
class RescoreReport(Log):
    """Log of a run of ``rescore``: its failures and notes, and the work done."""

    arcs: int = 0  # read
    arcs_written: int = 0
    expanded_arcs: int = 0  # (hypothesis, arc) pairs the language model was asked about
    histories: int = 0  # distinct word histories, i.e. steps of the language model
    scores: int = 0  # distinct (history, word) pairs
    calls: int = 0  # batched calls of the language model
    frames: int = 0  # alignment labels on the best paths, where the lattices carry any
    seconds: float = 0.0
    lm_seconds: float = 0.0  # of these, inside the language model
    merged: int = 0  # hypotheses of n-best lists with the text of another, whose probability they were added to
    left_out: int = 0  # hypotheses of n-best lists beyond num_best
    coverages: tuple[Coverage, ...] = ()  # of the words of all lattices, by each language model
    vocabulary: VocabularyCheck | None = None  # made by the caller, who knows the files: stages make none

    def cover(self, coverages: Sequence[Coverage]) -> None:
        """Add the coverage of some lattices' words by the language models."""
        self.coverages = added(self.coverages, coverages)

    def tell_coverage(self) -> None:
        """Pass the coverage of all lattices' words on as notes."""
        for coverage in self.coverages:
            if self.on_note is not None:
                self.on_note(f"vocabulary: {coverage}")

    def summary(self, seconds: float, frame_shift: float) -> str:
        """Sum the run up in a line, given its wall time and the seconds of a frame."""
        audio = self.frames * frame_shift
        sound = f", {audio:.0f} s of audio (real-time factor {seconds / audio:.4f})" if audio else ""
        lists = f", {self.merged} equal texts added up" if self.merged else ""
        lists += f", {self.left_out} hypotheses beyond --num-best left out" if self.left_out else ""
        return (
            f"{self.lattices} lattices{lists}, {self.arcs} arcs ({self.expanded_arcs} expanded), "
            f"{self.histories} histories, {self.calls} LM steps of {self.scores} scores, {seconds:.1f} s "
            f"({self.lm_seconds:.1f} s in the LM){sound}"
        )

    def merge(self, part: Log) -> None:
        """Add the log of a thread."""
        if isinstance(part, RescoreReport) and self.vocabulary is None:
            self.cover(part.coverages)
        Log.merge(self, part)
