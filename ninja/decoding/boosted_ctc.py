"""CTC prefix beam search with a contextual tracker.

The compiled search cannot be used: its pruning bounds do not hold if boosts raise the score of a prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ninja.decoding.beam_search import Floats, Ints, combine, make_hypothesis, most_probable
from ninja.decoding.ctc_options import CtcOptions
from ninja.decoding.hypothesis import Hypothesis
from ninja.decoding.units import NEVER, CtcUnits
from ninja.lm.protocol import lock_of

if TYPE_CHECKING:
    from ninja.context.entities.lists import PhraseList
    from ninja.decoding.beam_search import UnitTracker


@dataclass(slots=True)
class _Prefixes:
    """The prefixes in the beam at a frame, one per row, best first."""

    units: list[tuple[int, ...]]
    blank: Floats  # log-probability of all alignments that end with a blank
    label: Floats  # log-probability of all alignments that end with the last unit
    context: Floats  # score of the tracker so far
    state: Ints  # state of the tracker
    after: Ints  # state of the tracker after each unit, [rows, units], if `gain` is known
    gain: Floats  # score of each unit, [rows, units]; NaN if it is not known yet


def boosted_search(
    logprob: Floats, units: CtcUnits, tracker: UnitTracker, lists: Sequence[PhraseList], options: CtcOptions
) -> list[Hypothesis]:
    """Return the unit sequences with the best sum of CTC and tracker scores, best first.

    The CTC score of a sequence is the log of the sum of the probabilities of its alignments; the tracker scores each
    sequence once. Searches with the same tracker in other threads wait until this one ends.

    Args:
        logprob: Natural log-probabilities, [frames, units].
        units: Units of the model, one for each column of `logprob`.
        tracker: The contextual tracker; its states are cleared first.
        lists: The phrase lists for the utterance.
        options: Beams and weights.

    Source: Graves and Jaitly 2014, "Towards end-to-end speech recognition with recurrent neural networks", algorithm 1
    (prefix search); Chen, Jain, Wang, Seltzer and Fuegen 2018, arXiv:1812.02142 (token passing).
    """
    with lock_of(tracker):
        return _search(logprob, units, tracker, lists, options)


def _search(
    logprob: Floats, units: CtcUnits, tracker: UnitTracker, lists: Sequence[PhraseList], options: CtcOptions
) -> list[Hypothesis]:
    num_units = logprob.shape[1]
    tracker.clear()
    start = tracker.start(lists)
    is_tried = np.isfinite(logprob)
    if 0 < options.max_units < num_units:
        is_tried &= most_probable(logprob, options.max_units)
    is_tried[:, units.kind == NEVER] = False  # the kind of the blank is also NEVER
    prefixes = _Prefixes(
        [()],
        np.zeros(1),
        np.full(1, -np.inf),
        np.zeros(1),
        np.array([start], np.int64),
        np.full((1, num_units), -1, np.int64),
        np.full((1, num_units), np.nan),
    )
    for frame, mask in zip(logprob, is_tried, strict=True):
        prefixes = _next_frame(prefixes, frame, np.flatnonzero(mask), units.blank, tracker, options)
    model = np.logaddexp(prefixes.blank, prefixes.label)
    context = prefixes.context + tracker.final(prefixes.state)
    length = np.array(list(map(len, prefixes.units)), np.int64)
    score = combine(model, context, length, options.context_scale, options.length_reward)
    return [
        make_hypothesis(tracker, start, prefixes.units[row], float(score[row]), float(model[row]), float(context[row]))
        for row in np.argsort(-score, kind="stable").tolist()
        if np.isfinite(score[row])
    ]


def _next_frame(
    now: _Prefixes, frame: Floats, unit: Ints, blank: int, tracker: UnitTracker, options: CtcOptions
) -> _Prefixes:
    unknown, column = np.nonzero(np.isnan(now.gain[:, unit]))
    if unknown.size:
        pairs = unknown, unit[column]
        now.after[pairs], now.gain[pairs] = tracker.advance(now.state[unknown], unit[column].astype(np.int32))
    last = np.array([units[-1] if units else blank for units in now.units], np.int64)
    total = np.logaddexp(now.blank, now.label)
    with_blank = total + frame[blank]
    with_label = now.label + frame[last]
    # A repeated unit requires a blank in between.
    longer = np.where(unit == last[:, None], now.blank[:, None], total[:, None]) + frame[unit]  # [rows, tried]
    column_of = {number: column for column, number in enumerate(unit.tolist())}
    row_of = {units: number for number, units in enumerate(now.units)}
    for number, units in enumerate(now.units):
        shorter = row_of.get(units[:-1]) if units else None
        if shorter is not None and (at := column_of.get(units[-1])) is not None:  # the longer prefix is in the beam
            with_label[number] = np.logaddexp(with_label[number], longer[shorter, at])
            longer[shorter, at] = -np.inf

    # From here on, column 0 is the prefix itself, and column k is the prefix followed by the k-th unit tried.
    label = np.concatenate([[blank], unit])
    length = np.array([len(units) for units in now.units], np.int64)[:, None] + (np.arange(len(label)) > 0)
    with_blank = np.column_stack([with_blank, np.full(longer.shape, -np.inf)])
    with_label = np.column_stack([with_label, longer])
    context = np.column_stack([now.context, now.context[:, None] + now.gain[:, unit]])
    model = np.logaddexp(with_blank, with_label)
    score = combine(model, context, length, options.context_scale, options.length_reward)
    chosen = within_beams(score.ravel(), options.beam, options.score_beam)
    row, column = chosen // len(label), chosen % len(label)
    is_longer, last = column > 0, label[column]
    return _Prefixes(
        [
            (*now.units[at], int(label[extension])) if extension else now.units[at]
            for at, extension in zip(row.tolist(), column.tolist(), strict=True)
        ],
        with_blank[row, column],
        with_label[row, column],
        context[row, column],
        np.where(is_longer, now.after[row, last], now.state[row]),
        np.where(is_longer[:, None], -1, now.after[row]),
        np.where(is_longer[:, None], np.nan, now.gain[row]),
    )


def within_beams(score: Floats, beam: int, score_beam: float) -> Ints:
    """Return the candidates within the beams, best first; among equal scores, the first candidate wins."""
    inside = np.flatnonzero(np.isfinite(score) & (score >= score.max(initial=-np.inf) - score_beam))
    if 0 < beam < len(inside):
        least = np.partition(score[inside], -beam)[-beam]
        inside = inside[score[inside] >= least]
    order = inside[np.argsort(-score[inside], kind="stable")]
    return order[: beam or None]
