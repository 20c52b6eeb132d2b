"""CTC prefix beam search: n-best lists and lattices of a model's output, with a lexicon or a contextual tracker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ninja import _ctc
from ninja.decoding.boosted_ctc import boosted_search
from ninja.decoding.ctc_options import CtcOptions
from ninja.decoding.ctc_result import CtcResult, make_result
from ninja.decoding.emissions import Scale, log_probabilities
from ninja.decoding.hypothesis import Hypothesis
from ninja.decoding.lexicon import NO_LEXICON, CtcLexicon
from ninja.decoding.units import CtcUnits, Scheme, ctc_units
from ninja.errors import LatticeError, ModelError, OptionError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

if TYPE_CHECKING:
    from ninja.context.entities.lists import PhraseList
    from ninja.decoding.beam_search import UnitTracker


def ctc_nbest(
    logprob: npt.ArrayLike,
    units: CtcUnits,
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    *,
    tracker: UnitTracker | None = None,
    lists: Sequence[PhraseList] = (),
    key: str | None = None,
) -> list[Hypothesis]:
    """Find the best word sequences by a CTC model and, with a tracker, the context.

    A sequence has the probability of all its alignments together: repeats of a unit count once unless a blank is
    between them, and so do boundaries. Pruned prefixes are not counted.

    Args:
        logprob: Natural log-probabilities of all units at each frame, [frames, units].
        lexicon: The words allowed; None allows any.
        tracker: The context, whose units are the columns; its states are cleared first. The search is then in Python,
            takes no lexicon, and distinguishes sequences by their units.
        lists: The utterance's phrases, for the tracker.

    Returns:
        Distinct word sequences, best first, no more than the beam; none if the lexicon allows none.

    Raises:
        ModelError: Not log-probabilities, or not one for each unit.
        OptionError: There are a lexicon and a tracker, phrases or a length reward without a tracker, or a unit that the
            tracker does not know.

    Source: Graves and Jaitly 2014, "Towards end-to-end speech recognition with recurrent neural networks", algorithm 1;
    Hannun, Maas, Jurafsky and Ng 2014, arXiv:1408.2873.
    """
    if tracker is None:
        if lists:
            raise OptionError("lists are phrases for a tracker; give one, such as SpelledTracker(Spelling(...))")
        return ctc_search(logprob, units, lexicon, options, key=key).hypotheses()
    if lexicon is not None:
        raise OptionError("a search with a tracker takes no lexicon; leave one of them out")
    options = options or CtcOptions()
    return boosted_search(_emissions(logprob, units, options, key), units.blank, tracker, lists, options)


def ctc_search(
    logprob: npt.ArrayLike,
    units: CtcUnits,
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    key: str | None = None,
) -> CtcResult:
    """Search as ``ctc_nbest`` without a tracker, with arrays as the result."""
    options = options or CtcOptions()
    if options.length_reward:
        raise OptionError("length_reward counts in a search with a tracker only; leave it out")
    values = _emissions(logprob, units, options, key)
    tree = NO_LEXICON if lexicon is None else lexicon
    arrays = _ctc.search(
        values,
        units.blank,
        units.kind,
        tree.child_begin,
        tree.unit,
        tree.child,
        tree.is_word,
        options.beam,
        options.score_beam,
        options.max_units,
    )
    return make_result(arrays, len(values), units, lexicon)


def _emissions(
    logprob: npt.ArrayLike, units: CtcUnits, options: CtcOptions, key: str | None
) -> npt.NDArray[np.float64]:
    values = log_probabilities(logprob, key=key)
    if values.shape[1] != len(units.names):
        message = f"the matrix has {values.shape[1]} columns, but there are {len(units.names)} units"
        raise ModelError(message, key=key)
    if options.min_logprob > -math.inf:
        is_kept = (values >= options.min_logprob) | (values == values.max(axis=1, keepdims=True, initial=-math.inf))
        values = np.where(is_kept, values, -np.inf)
    return values


def ctc_lattice(
    logprob: npt.ArrayLike,
    units: CtcUnits,
    key: str,
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    *,
    words: SymbolTable | None = None,
    unknown: str | None = None,
    frame_shift: float | None = None,
) -> Lattice:
    """Make a lattice whose paths are the hypotheses of a CTC search, with their costs.

    Hypotheses share arcs as long as their words are the same. A path costs what its hypothesis does, -log p: each word
    has its share by the best alignment, and the last arc, without a word, the rest. Graph costs are 0. The time of a
    state is that of the best alignment of the first hypothesis through it; silence is an arc without a word. The label
    of a frame is its column in that alignment + 1, the blank's between words.

    Args:
        logprob: As for ``ctc_nbest``.
        lexicon: The words allowed; None allows any.
        words: Symbol table that must have the words; by default one of the words found is made, epsilon 0.
        unknown: Word of the table for words that it lacks; without it these are refused.
        frame_shift: Seconds per frame of the matrix.

    Raises:
        LatticeError: The lexicon allows no hypothesis.
        SymbolError: A word is not in ``words``.
        ModelError: As for ``ctc_nbest``.
    """
    result = ctc_search(logprob, units, lexicon, options, key=key)
    if not len(result):
        raise LatticeError("no hypothesis within the beam is made of words of the lexicon; widen it", key=key)
    return result.lattice(key, words, unknown, frame_shift)


def from_ctc(
    key: str,
    matrix: Any,
    units: CtcUnits | Sequence[str],
    blank: int | str | None = None,
    *,
    scale: Scale = "logprob",
    scheme: Scheme = "letters",
    boundary: str | None = None,
    never: Iterable[str] = (),
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    words: SymbolTable | None = None,
    frame_shift: float | None = None,
) -> Lattice:
    """Make a lattice of the output matrix of a CTC model for one utterance.

    Combines `log_probabilities`, `ctc_units` and `ctc_lattice`; see these for the search and the costs. Paths are the
    word sequences within the beam, their acoustic costs ``-log p`` in nats; graph costs are 0.

    Args:
        key: Utterance id.
        matrix: Output of the model, [frames, units]: of numpy, of torch on any device, or nested lists.
        units: Name of each column, in their order, or units that `ctc_units` made.
        blank: Which of the names is the blank: its number (-1: the last) or the name.
        scale: Domain of the numbers: natural log-probabilities, scores before the softmax, or probabilities.
        scheme: How units make words, see `ctc_units`; so are `boundary` and `never`.
        lexicon: The words allowed; None allows any.
        options: Widths of the search.
        words: Symbol table that must have the words, or ``SymbolTable.growing()``, which adds them; by default the
            lattice gets a table of its own.
        frame_shift: Seconds per frame of the matrix.

    Raises:
        ModelError: The numbers are not of the named scale, or there is not one for each unit.
        OptionError: There is no blank, or a name is none of the units.
        LatticeError: No hypothesis within the beam is made of the lexicon's words.
    """
    if not isinstance(units, CtcUnits):
        if blank is None:
            raise OptionError("blank is missing: say which unit is the blank, by its number or its name")
        units = ctc_units(units, blank, scheme, boundary=boundary, never=never)
    if hasattr(matrix, "detach"):
        matrix = matrix.detach().cpu().double().numpy()
    logprob = log_probabilities(matrix, scale, key)
    return ctc_lattice(logprob, units, key, lexicon, options, words=words, frame_shift=frame_shift)
