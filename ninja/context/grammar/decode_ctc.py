"""Prefix beam search for CTC models with a contextual tracker.

``ninja.ctc`` makes lattices and n-best lists without one: its kernel prunes by bounds that boosts would break, as they
let scores rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.context.entities.lists import PhraseList
from ninja.context.grammar.decode import (
    BeamOptions,
    Hypothesis,
    UnitTracker,
    checked_logprob,
    combined,
    most_probable,
)
from ninja.errors import OptionError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Prefixes:
    """Hypotheses at a frame, best first; a row each."""

    units: list[tuple[int, ...]]
    with_blank: Floats  # log-probability of all alignments that end with a blank
    without: Floats  # of those that end with the last unit
    context: Floats  # the tracker's score so far
    state: Ints  # the tracker's
    after: Ints  # the tracker's after each unit, [rows, units], where `gain` is known
    gain: Floats  # score of each unit, [rows, units]; NaN: not known yet


def ctc_prefix_beam_search(
    log_probs: npt.ArrayLike,
    tracker: UnitTracker,
    lists: Sequence[PhraseList] = (),
    options: BeamOptions | None = None,
    *,
    blank: int = 0,
) -> list[Hypothesis]:
    """Search for the unit sequences that a CTC model and the context together find best.

    A sequence has the probability of all its alignments together; the tracker scores each sequence once.

    Args:
        log_probs: Natural log-probabilities of blank and units at each frame, [frames, units].
        tracker: The context; what it followed before is forgotten.
        lists: The phrases of the utterance.
        options: Beams and weights; ``max_units`` are those tried at each frame.
        blank: Which unit is the blank.

    Returns:
        The hypotheses, best first, no more than the beam.

    Raises:
        ModelError: Not log-probabilities [frames, units].
        OptionError: A unit that the tracker does not know, or a blank that is none of the units.

    Source: Graves and Jaitly 2014, "Towards end-to-end speech recognition with recurrent neural networks", algorithm 1
    (prefix search); Chen, Jain, Wang, Seltzer and Fuegen 2018, arXiv:1812.02142 (token passing).
    """
    options = options or BeamOptions()
    logprob = checked_logprob(log_probs, "[frames, units]", "log_probs")
    num_units = logprob.shape[1]
    if not 0 <= blank < num_units:
        raise OptionError(f"blank is {blank}, but the model has {num_units} units")
    tracker.clear()
    start = tracker.start(lists)
    tried = np.isfinite(logprob)
    if 0 < options.max_units < num_units:
        tried &= most_probable(logprob, options.max_units)
    tried[:, blank] = False
    none = np.full(1, -np.inf)
    unasked = np.full((1, num_units), -1, np.int64), np.full((1, num_units), np.nan)
    now = _Prefixes([()], np.zeros(1), none, np.zeros(1), np.array([start], np.int64), *unasked)
    for frame, units in zip(logprob, tried, strict=True):
        now = _next(now, frame, np.flatnonzero(units), blank, tracker, options)
    return _hypotheses(now, start, tracker, options)


def _next(
    now: _Prefixes, frame: Floats, unit: Ints, blank: int, tracker: UnitTracker, options: BeamOptions
) -> _Prefixes:
    """Go on by one frame."""
    _ask(now, unit, tracker)
    last = np.array([units[-1] if units else blank for units in now.units], np.int64)
    total = np.logaddexp(now.with_blank, now.without)
    with_blank = total + frame[blank]
    without = now.without + frame[last]
    # A unit that is said twice needs a blank between.
    longer = np.where(unit == last[:, None], now.with_blank[:, None], total[:, None]) + frame[unit]  # [rows, tried]
    place = {each: at for at, each in enumerate(unit.tolist())}
    number_of = {units: number for number, units in enumerate(now.units)}
    for number, units in enumerate(now.units):
        shorter = number_of.get(units[:-1]) if units else None
        if shorter is not None and (at := place.get(units[-1])) is not None:  # there already
            without[number] = np.logaddexp(without[number], longer[shorter, at])
            longer[shorter, at] = -np.inf

    # From here on column 0 is a prefix as it is, column k the same with the k-th unit tried.
    label = np.concatenate([[blank], unit])
    length = np.array([len(units) for units in now.units], np.int64)[:, None] + (np.arange(len(label)) > 0)
    with_blank = np.column_stack([with_blank, np.full(longer.shape, -np.inf)])
    without = np.column_stack([without, longer])
    context = np.column_stack([now.context, now.context[:, None] + now.gain[:, unit]])
    score = combined(np.logaddexp(with_blank, without), context, length, options)
    chosen = _best(score.ravel(), options)
    row, taken = chosen // len(label), chosen % len(label)
    new, said = taken > 0, label[taken]
    pairs = zip(row.tolist(), taken.tolist(), strict=True)
    return _Prefixes(
        [(*now.units[at], int(label[column])) if column else now.units[at] for at, column in pairs],
        with_blank[row, taken],
        without[row, taken],
        context[row, taken],
        np.where(new, now.after[row, said], now.state[row]),
        np.where(new[:, None], -1, now.after[row]),
        np.where(new[:, None], np.nan, now.gain[row]),
    )


def _ask(now: _Prefixes, unit: Ints, tracker: UnitTracker) -> None:
    """Fill in the tracker's scores of those units after each prefix that are not known yet."""
    row, at = np.nonzero(np.isnan(now.gain[:, unit]))
    if row.size:
        after, gain = tracker.advance(now.state[row], unit[at].astype(np.int32))
        now.after[row, unit[at]] = after
        now.gain[row, unit[at]] = gain


def _best(score: Floats, options: BeamOptions) -> Ints:
    """Return which candidates are within the beams, best first; of equals the first."""
    inside = np.flatnonzero(np.isfinite(score) & (score >= score.max(initial=-np.inf) - options.score_beam))
    if 0 < options.beam < len(inside):
        least = np.partition(score[inside], -options.beam)[-options.beam]
        inside = inside[score[inside] >= least]
    order = inside[np.argsort(-score[inside], kind="stable")]
    return order[: options.beam] if options.beam else order


def _hypotheses(now: _Prefixes, start: int, tracker: UnitTracker, options: BeamOptions) -> list[Hypothesis]:
    """Return the prefixes of the last frame as hypotheses, with the end of the sentence scored."""
    model = np.logaddexp(now.with_blank, now.without)
    context = now.context + tracker.final(now.state)
    length = np.array([len(units) for units in now.units], np.int64)
    score = combined(model, context, length, options)
    order = [at for at in np.argsort(-score, kind="stable").tolist() if np.isfinite(score[at])]
    return [
        Hypothesis(units, float(score[at]), float(model[at]), float(context[at]), tuple(tracker.matches(start, units)))
        for at in order
        for units in [now.units[at]]
    ]
