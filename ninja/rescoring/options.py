"""Options shared by the rescoring algorithms, the `Algorithm` record, and default weights for each type of input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeVar, get_args

from ninja.errors import OptionError
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import ListLattice, has_graph_costs, to_python_numbers
from ninja.lattice.text import AUTO, NORMALIZER_HELP
from ninja.lm.lexical import LMText
from ninja.lm.word_map import WordMapping

Output = Literal["lattice", "input", "best"]
LookAhead = Literal["calibrated", "first-pass", "none"]

LARGEST = 2**31 - 1  # the kernel stores counts as int32
MAX_ARCS = 10_000_000  # maximum number of arcs per expanded lattice, to limit memory
DEFAULT_ALGORITHM = "arcbeam"
DEFAULT_LIST_ALGORITHM = "nbest"  # default algorithm for n-best lists
DEFAULT_MERGE_ORDER = 5

Default = TypeVar("Default")
Options = TypeVar("Options", bound="EngineOptions")


def option(
    default: Default,
    help: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    or_zero: bool = False,
    choices: tuple[str, ...] = (),
) -> Default:
    """Define a dataclass field with a help text and either a range or choices; `or_zero` adds 0 to the range."""
    metadata = {"help": help, "low": low, "high": high, "or_zero": or_zero, "choices": choices}
    option_field: Default = field(default=default, metadata=metadata)
    return option_field


@dataclass(frozen=True)
class ScoreOptions:
    """Options that determine the new scores; all costs are natural-log costs at LM scale 1."""

    section: ClassVar[str] = "Models"

    backward: bool = option(False, "The models read sentences backward, last word first.")
    lm_weight: float = option(0.5, "Weight of the language model in the graph cost, 0 to 1.", 0, 1)
    acoustic_scale: float = option(
        0.1,
        "Factor applied to acoustic costs; use 1 for Kaldi chain models decoded without --post-decode-acwt 10.  "
        "[default: 0.1; 1 for n-best lists and CTC lattices]",
        0,
    )
    word_penalty: float = option(0.0, "Cost per word during the search; it is not included in the output.")
    unk_penalty: float | None = option(
        None,
        "Cost added to the cost of <unk> for an unknown word.  [default: ln of the number of words that map to <unk>]",
    )
    max_unknown: float = option(
        0.5, "Reject an input if more than this fraction of its arcs have words that are unknown to the model.", 0, 1
    )
    map_words: tuple[WordMapping, ...] = option(
        (), "Look up unknown words in lower or upper case (case), or treat other spellings of <unk> as <unk> (unk)."
    )
    normalizer: str = option(AUTO, NORMALIZER_HELP)
    lm_text: LMText = option(
        "auto",
        "Text that the models score: words as written in the lattice, or their lexical forms.  "
        "[default: written for subword models that distinguish case, else lexical]",
        choices=get_args(LMText),
    )


@dataclass(frozen=True)
class SearchOptions:
    """Options of the search algorithms; ``pruned`` and ``trie`` use only some of them."""

    section: ClassVar[str] = "Search"

    max_hyps: int | None = option(
        None,
        "Maximum number of active hypotheses per arc or state; 0 means no limit.  [default: 4 per arc, 5 per state]",
        0,
        LARGEST,
    )
    beam: float | None = option(
        None,
        "Drop hypotheses whose cost exceeds the best cost by more than this; inf keeps all.  "
        "[default: 6; 8 for nbest, cover and trie]",
        0,
    )
    prune_beam: float | None = option(
        None,
        "Drop an arc before the search if the cost of every path through it exceeds the best cost by more than this.  "
        "[default: beam + 2; 5 for cover]",
        0,
    )
    merge_order: int | None = option(
        None,
        "Merge hypotheses if this many of their last history words are equal; 0 compares whole histories.  "
        "[default: 5; 0 if --max-hyps is 0]",
        0,
        LARGEST,
    )
    max_active: int = option(
        256,
        "Maximum number of active hypotheses in all states of a lattice at the same depth; 0 means no limit. The "
        "depth of a state is the number of arcs on the longest path from the start.",
        0,
        LARGEST,
    )
    look_ahead: LookAhead = option(
        "calibrated",
        "Estimate of the cost from a state to the end of the lattice: the first-pass cost (first-pass), the "
        "first-pass cost corrected by the new model (calibrated), or 0 (none).",
        choices=get_args(LookAhead),
    )


@dataclass(frozen=True)
class EngineOptions(SearchOptions, ScoreOptions):
    """Options that every engine receives; subclasses add the options of particular algorithms."""

    section: ClassVar[str] = "Search"
    algorithms: ClassVar[Mapping[str, Algorithm]] = {}  # by name; set by `RescoreOptions`

    algorithm: str | None = option(None, "Search algorithm.")  # described in `RescoreOptions`
    output: Output = option(
        "lattice",
        "Write the expanded lattice (lattice), the input lattice with new graph costs (input), or the best path "
        "(best).",
        choices=get_args(Output),
    )
    batch_arcs: int = option(200_000, "Lattices are added to a batch until it has at least this many arcs.", 1)

    def __post_init__(self) -> None:
        """Validate the values."""
        to_python_numbers(self)
        for setting in fields(self):
            value, limits = getattr(self, setting.name), setting.metadata
            low, high, is_zero = limits["low"], limits["high"], limits["or_zero"] and value == 0
            if isinstance(value, int | float) and not (low <= value <= high or is_zero):  # also rejects NaN
                zero = "be 0 or " if limits["or_zero"] else ""
                raise OptionError(f"{setting.name} is {value}, but must {zero}be in [{low}, {high}]")
            choices = limits["choices"]
            if choices and value not in choices and (value is not None or setting.default is not None):
                raise OptionError(f"{setting.name} is {value!r}, but must be one of {', '.join(choices)}")
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
        return self.algorithms[self.algorithm or DEFAULT_ALGORITHM]

    def for_lattice(self: Options, lattice: Lattice) -> Options:
        """Return the options; if `algorithm` is None, replace it with the default for this type of lattice."""
        if self.algorithm is not None:
            return self
        is_list = isinstance(lattice, ListLattice)
        return replace(self, algorithm=DEFAULT_LIST_ALGORITHM if is_list else DEFAULT_ALGORITHM)

    @property
    def hypotheses(self) -> int:
        """Maximum number of active hypotheses per arc or state; 0 means no limit."""
        return self.record.max_hyps if self.max_hyps is None else self.max_hyps

    @property
    def history_words(self) -> int:
        """Number of final words that two histories must share to be merged; 0 compares whole histories."""
        return self.record.history_words(self)

    @property
    def scales(self) -> Scales:
        """Acoustic scale and word penalty that determine the total cost of a path."""
        return Scales(self.acoustic_scale, word_penalty=self.word_penalty)

    @property
    def search_beam(self) -> float:
        """Search beam: the maximum cost difference between a hypothesis and the best one."""
        return self.record.beam if self.beam is None else self.beam

    @property
    def first_pass_beam(self) -> float:
        """First-pass beam: arcs with first-pass costs outside this beam are dropped before the search."""
        if self.prune_beam is not None:
            return self.prune_beam
        return self.search_beam + 2.0 if self.record.prune_beam is None else self.record.prune_beam


def merge_order(options: EngineOptions) -> int:
    """Return the number of final words that histories must share to be merged; 0 compares whole histories."""
    if options.merge_order is not None:
        return options.merge_order
    return DEFAULT_MERGE_ORDER if options.hypotheses else 0


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A rescoring algorithm; `ninja.rescoring.algorithms.ALGORITHMS` lists all algorithms."""

    name: str
    options: type[Any]  # a base class of `RescoreOptions`; its `section` is the heading in the help
    make_engine: Callable[..., Any]  # takes the arguments of `Engine` and returns an `Engine`
    about: str  # short description for help texts
    beam: float = 6.0  # default value of the option
    prune_beam: float | None = None  # default value of the option; None means beam + 2
    max_hyps: int = 0  # default value of the option
    scores_sentences: bool = False  # whether models that can score only whole sentences are supported
    history_words: Callable[[Any], int] = merge_order


@dataclass(frozen=True, slots=True)
class DefaultWeights:
    """Default weights for one type of input, from which tuning starts.

    The weights assume an acoustic scale of 0.1 for lattices and 1 for n-best lists.
    """

    kind: str
    lm_weight: float
    word_penalty: float

    def __str__(self) -> str:
        return f"LM weight {self.lm_weight:g}, word penalty {self.word_penalty:g}"


# Weights for the lattices of hybrid recognisers, chosen for PocketSphinx by `python -m benchmarks.results splits`.
LATTICES = DefaultWeights("lattices with graph costs", 0.8, 0.5)
# Weights for the n-best lists of attention models, chosen for Whisper by the same benchmark.
LISTS = DefaultWeights("n-best lists without graph costs", 0.15, -1.0)


def default_weights(lattice: Lattice) -> DefaultWeights | None:
    """Return the default weights for a lattice; None if there are none for its type, such as CTC lattices."""
    is_list = isinstance(lattice, ListLattice)
    if has_graph_costs(lattice):
        return None if is_list else LATTICES
    return LISTS if is_list else None
