"""CTC prefix beam search, optionally with a lexicon or a contextual tracker; results are n-best lists or lattices."""

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
from ninja.lattice.lattice import check_description
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
    """Search for the word sequences with the best CTC scores, to which the scores of a tracker, if any, are added.

    The probability of a sequence is summed over its alignments, except those with pruned prefixes. Repetitions of a
    unit are collapsed unless a blank separates them; repeated boundaries are also collapsed.

    Args:
        logprob: Natural log-probabilities of all units at each frame, [frames, units].
        units: Units of the model, one for each column of `logprob`.
        lexicon: The allowed words.  [default: any word]
        options: Beams and weights.
        tracker: The contextual tracker; its units are the columns, and its states are cleared first. The search
            with a tracker is implemented in Python, does not support a lexicon, and distinguishes sequences by their
            units, not by their words.
        lists: The phrase lists for the utterance, used by the tracker.
        key: Utterance id, for messages.

    Returns:
        At most `CtcOptions.beam` distinct word sequences, best first; an empty list if the lexicon allows none.

    Raises:
        ModelError: `logprob` does not contain log-probabilities, or the number of columns differs from the number of
            units.
        OptionError: Both a lexicon and a tracker are set, phrases or a length reward are set without a tracker, or a
            column is not a unit of the tracker.

    Source: Graves and Jaitly 2014, "Towards end-to-end speech recognition with recurrent neural networks", algorithm 1;
    Hannun, Maas, Jurafsky and Ng 2014, arXiv:1408.2873.
    """
    if tracker is None:
        if lists:
            raise OptionError("phrase lists require a tracker; pass a tracker, such as SpelledTracker(Spelling(...))")
        return ctc_search(logprob, units, lexicon, options, key=key).hypotheses()
    if lexicon is not None:
        raise OptionError("a lexicon cannot be used together with a tracker; omit one of them")
    options = options or CtcOptions()
    return boosted_search(_emissions(logprob, units, options, key), units, tracker, lists, options)


def ctc_search(
    logprob: npt.ArrayLike,
    units: CtcUnits,
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    key: str | None = None,
) -> CtcResult:
    """Search without a tracker and return the result as arrays; see ``ctc_nbest`` for the arguments and errors."""
    options = options or CtcOptions()
    if options.length_reward:
        raise OptionError("length_reward cannot be used without a tracker; omit it")
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
    """Run a CTC search and return a lattice with the hypotheses as paths.

    Hypotheses that begin with the same words share the arcs of these words. The acoustic cost of a path is -ln p
    of the hypothesis: the arc of each word has the cost of the word in the best alignment, and the last arc, which
    has no word, has the remaining cost. Graph costs are 0. The time of a state is its time in the best alignment of
    the first hypothesis through this state. Silence between words is represented by an arc without a word. The label
    of a frame is 1 plus the column that the best alignment assigns to the frame, or 1 plus the blank's column between
    words.

    Args:
        logprob: See ``ctc_nbest``.
        units: Units of the model, one for each column of `logprob`.
        key: Utterance id.
        lexicon: The allowed words.  [default: any word]
        options: Beams.
        words: Symbol table that must contain the words, unless it is a ``SymbolTable.growing()``, to which missing
            words are added.  [default: a new table of the lattice's words]
        unknown: Word in the table that replaces words missing from the table.  [default: raise an error]
        frame_shift: Duration of a frame of `logprob`, in seconds.

    Raises:
        LatticeError: No hypothesis within the beam consists of words in the lexicon, or a frame allows only units that
            are never part of words.
        SymbolError: A word is not in ``words``.
        ModelError: See ``ctc_nbest``.
        OptionError: The key is not a str, ``words`` is not a symbol table, or the frame shift is not above 0.
    """
    check_description(key, words, frame_shift)
    result = ctc_search(logprob, units, lexicon, options, key=key)
    require_hypotheses(result, lexicon, key)
    return result.lattice(key, words, unknown, frame_shift)


def require_hypotheses(result: CtcResult, lexicon: CtcLexicon | None, key: str | None = None) -> None:
    """Raise LatticeError with the cause if the search returned no hypothesis."""
    if len(result):
        return
    if lexicon is not None:
        raise LatticeError("no hypothesis within the beam consists of words in the lexicon; use a larger beam", key=key)
    raise LatticeError(
        "a frame allows only units that are never part of words; check the units in --never (never=)", key=key
    )


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
    """Return a lattice of the CTC hypotheses for one utterance.

    This function combines `log_probabilities`, `ctc_units` and `ctc_lattice`; see these functions for details on the
    search and the costs. The paths are the word sequences within the beam, with acoustic costs ``-ln p`` and graph
    costs 0.

    Args:
        key: Utterance id.
        matrix: Model output, [frames, units]: a numpy array, a torch tensor on any device, or nested lists.
        units: Names of the columns of `matrix`, or the result of `ctc_units`.
        blank: Name of the blank or its 0-based column; -1 is the last column. Ignored if `units` is a
            `CtcUnits`.
        scale: Scale of the values: natural log-probabilities, logits or probabilities.
        scheme: How units form words; see `ctc_units`, also for `boundary` and `never`.
        boundary: Unit between words.
        never: Units that are never part of words.
        lexicon: The allowed words.  [default: any word]
        options: Beams for the search.
        words: Symbol table that must contain the words, unless it is a ``SymbolTable.growing()``, to which missing
            words are added.  [default: a new table]
        frame_shift: Duration of a frame of `matrix`, in seconds.

    Raises:
        ModelError: The values do not match `scale`, or the number of columns differs from the number of units.
        OptionError: The blank is missing, a name is not a unit, the units are a mapping (pass them in the order of the
            columns), or another argument has a wrong type.
        LatticeError: No hypothesis within the beam consists of words in the lexicon, or a frame allows only units that
            are never part of words.
        SymbolError: A word is not in `words`.
    """
    if not isinstance(units, CtcUnits):
        if blank is None:
            raise OptionError("blank is missing; specify the name or the column of the blank")
        units = ctc_units(units, blank, scheme, boundary=boundary, never=never)
    if hasattr(matrix, "detach"):
        matrix = matrix.detach().cpu().double().numpy()
    logprob = log_probabilities(matrix, scale, key)
    return ctc_lattice(logprob, units, key, lexicon, options, words=words, frame_shift=frame_shift)
