"""Lattices of the matrices that CTC models give: prefix beam search, with a lexicon or without."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja import _ctc
from ninja.ctc.found import CtcFound, CtcHypothesis, found_of
from ninja.ctc.lexicon import NO_LEXICON, CtcLexicon
from ninja.ctc.units import CtcUnits
from ninja.errors import LatticeError, ModelError, OptionError, check_range, described
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

ROUNDING = 0.1  # nats by which the probabilities of a frame may miss 1: matrices come in half precision, too


@dataclass(frozen=True, slots=True)
class CtcOptions:
    """Widths of the search."""

    beam: int = described(100, "Prefixes kept at each frame; 0 is all.")
    score_beam: float = described(20.0, "Drop prefixes that are worse than the best by more, in nats.")
    max_units: int = described(0, "Units that may follow a prefix at each frame, the most probable; 0 is all.")
    min_logprob: float = described(-math.inf, "Drop less probable units, except a frame's best, in nats.")

    def __post_init__(self) -> None:
        for name in ("beam", "max_units"):
            check_range(name, getattr(self, name), least=0)
        check_range("score_beam", self.score_beam, above=0)
        check_range("min_logprob", self.min_logprob, most=0)


def log_probabilities(
    matrix: npt.ArrayLike, scale: Literal["logprob", "logit", "prob"] = "logprob", key: str | None = None
) -> npt.NDArray[np.float64]:
    """Return a model's output [frames, units] as natural log-probabilities, float64.

    `scale` is the kind of its numbers: natural log-probabilities, scores before the softmax, or probabilities.

    Raises:
        ModelError: It is no matrix, a number is NaN or +inf, or the frames' probabilities do not sum to 1.
        OptionError: ``scale`` is none of these.
    """
    values = np.ascontiguousarray(matrix, np.float64)
    if values.ndim != 2 or not values.shape[1]:
        raise ModelError(f"a matrix [frames, units] is needed, but its shape is {list(values.shape)}", key=key)
    if (bad := np.isnan(values) | np.isposinf(values)).any():
        frame, unit = np.argwhere(bad)[0]
        raise ModelError(f"frame {frame}, unit {unit} is {values[frame, unit]}", key=key)
    if scale == "prob":
        if (bad := values < 0).any():
            frame, unit = np.argwhere(bad)[0]
            raise ModelError(f"frame {frame}, unit {unit} has the probability {values[frame, unit]}", key=key)
        with np.errstate(divide="ignore"):
            values = np.log(values)
    elif scale not in ("logprob", "logit"):
        raise OptionError(f"scale is {scale!r}, but must be logprob, logit or prob")
    if not len(values):
        return values
    most = values.max(axis=1, keepdims=True)
    if not np.isfinite(most).all():
        frame = int(np.flatnonzero(~np.isfinite(most[:, 0]))[0])
        raise ModelError(f"in frame {frame} no unit is possible", key=key)
    total = most[:, 0] + np.log(np.exp(values - most).sum(axis=1))
    if scale == "logit":
        return values - total[:, None]
    if (bad := np.abs(total) > ROUNDING).any():
        frame = int(np.flatnonzero(bad)[0])
        message = f"the probabilities of frame {frame} sum to {math.exp(min(total[frame], 700.0)):.6g}, not to 1; "
        raise ModelError(message + "say if these are logit or prob instead of natural log-probabilities", key=key)
    return values


def ctc_nbest(
    logprob: npt.ArrayLike,
    units: CtcUnits,
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    *,
    key: str | None = None,
) -> list[CtcHypothesis]:
    """Find the most probable word sequences by a CTC model.

    A sequence has the probability of all its alignments together: repeats of a unit count once unless a blank stands
    between, and so do boundaries. Prefixes that fell out of the beams are not counted.

    Args:
        logprob: Natural log-probabilities of all units at each frame, [frames, units].
        units: The units of the columns.
        lexicon: The words allowed; None: any.
        options: Beams.
        key: Utterance id, for messages.

    Returns:
        Word sequences, each once, the most probable first; no more than the beam, and none if the lexicon allows none.

    Raises:
        ModelError: Not log-probabilities, or not one for each unit.

    Source: Graves and Jaitly 2014, "Towards end-to-end speech recognition with recurrent neural networks", algorithm 1;
    Hannun, Maas, Jurafsky and Ng 2014, arXiv:1408.2873.
    """
    return ctc_search(logprob, units, lexicon, options, key=key).hypotheses()


def ctc_search(
    logprob: npt.ArrayLike,
    units: CtcUnits,
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    *,
    key: str | None = None,
) -> CtcFound:
    """Search as ``ctc_nbest``, with arrays as the result."""
    options = options or CtcOptions()
    values = log_probabilities(logprob, key=key)
    if values.shape[1] != len(units.names):
        message = f"the matrix has {values.shape[1]} columns, but there are {len(units.names)} units"
        raise ModelError(message, key=key)
    if options.min_logprob > -math.inf:
        kept = (values >= options.min_logprob) | (values == values.max(axis=1, keepdims=True, initial=-math.inf))
        values = np.where(kept, values, -np.inf)
    tree = NO_LEXICON if lexicon is None else lexicon
    found = _ctc.search(
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
    return found_of(found, len(values), units, lexicon)


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
    has its share by the best alignment, and the last arc, without a word, the rest. Graph costs are 0. States stand at
    the frames of the best alignment of the first hypothesis through them; silence is an arc without a word. The label
    of a frame is its column in that alignment + 1, the blank's between words.

    Args:
        logprob: As for ``ctc_nbest``.
        units: The units of the columns.
        key: Utterance id.
        lexicon: The words allowed; None: any.
        options: Beams.
        words: Symbol table that the words must be in; None: one of the words found is made, epsilon 0.
        unknown: Word of the table that stands for those it lacks; None: these are refused.
        frame_shift: Seconds per frame of the matrix.

    Raises:
        LatticeError: The lexicon allows no hypothesis.
        SymbolError: A word is not in ``words``.
        ModelError: As for ``ctc_nbest``.
    """
    found = ctc_search(logprob, units, lexicon, options, key=key)
    if not len(found):
        raise LatticeError("no hypothesis within the beam is made of words of the lexicon; widen it", key=key)
    return found.lattice(key, words, unknown, frame_shift)
