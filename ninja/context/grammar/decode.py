"""Beam searches with a contextual tracker: token passing for models of the next unit, prefixes for CTC models.

A hypothesis has several grammar states, each with the score of the best way to it: outside all phrases, or inside one.
The trackers keep such a set under one number, so that a search carries an integer for each hypothesis.
``ninja.decoding.search`` makes lattices and n-best lists without a tracker: its kernel prunes by bounds that boosts
break, as they let scores rise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.context.entities.lists import PhraseList
from ninja.context.grammar.spelled import SpelledTracker
from ninja.context.grammar.tracker import Match, Tracker
from ninja.errors import ModelError, OptionError, check_range

ROUNDING = 1e-3  # a log-probability may be above 0 by this much

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# (the model's states of n hypotheses, their last units int64 [n]) -> (log-probabilities [n, units], states after them)
Step = Callable[[Any, Ints], tuple[npt.ArrayLike, Any]]
UnitTracker = Tracker | SpelledTracker  # of units that are words, or that spell words


@dataclass(frozen=True, slots=True)
class BeamOptions:
    """Widths of the search, and weights of the scores.

    score = model's log-probability + context_scale · tracker's score + length_reward · number of units
    """

    beam: int = 16  # hypotheses kept of each utterance; 0: all
    score_beam: float = 20.0  # hypotheses worse than the best by more are dropped, nats
    max_units: int = 50  # units tried after each hypothesis, the model's most probable; 0: all
    max_length: int = 200  # units of a hypothesis; no bound in CTC, where there are at most as many as frames
    context_scale: float = 1.0  # factor of the tracker's scores
    length_reward: float = 0.0  # added for each unit, nats

    def __post_init__(self) -> None:
        for name, least in (("beam", 0), ("max_units", 0), ("max_length", 1)):
            check_range(name, getattr(self, name), least=least)
        check_range("score_beam", self.score_beam, above=0)
        check_range("context_scale", self.context_scale, least=0, finite=True)
        check_range("length_reward", self.length_reward, finite=True)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A unit sequence that a search found."""

    units: tuple[int, ...]  # without the end
    score: float  # all together, nats; more is better
    model_score: float  # log-probability by the model
    context_score: float  # the tracker's, not scaled
    matches: tuple[Match, ...]  # phrases of the context in it, by words


@dataclass(slots=True)
class _Kept:
    """The hypotheses of all utterances that go on, those of one utterance together, best first."""

    utterance: Ints
    units: list[tuple[int, ...]]
    model: Floats
    context: Floats
    state: Ints  # of the tracker


def beam_search(
    step: Step,
    states: Any,
    tracker: UnitTracker,
    lists: Sequence[Sequence[PhraseList]],
    options: BeamOptions | None = None,
    *,
    bos: int,
    eos: int,
) -> list[list[Hypothesis]]:
    """Search for the unit sequences that a model and the context together find best.

    All utterances go through the model in one batch. Their results do not depend on each other.

    Args:
        step: The model: given its states before some units and the units, int64 [n], it returns the natural
            log-probabilities of the unit after each, [n, units], and its states there.
        states: The model's states at the start, one of each utterance: an array or a tensor whose first axis they are,
            or a tuple, list or dict of such. `step` gets rows of what it returned.
        tracker: The context; what it followed before is forgotten.
        lists: The phrase lists of each utterance; their number is that of the utterances.
        bos: Unit that `step` gets at the start.
        eos: Unit that ends a hypothesis.

    Returns:
        The finished hypotheses of each utterance, best first, no more than the beam; none where every end that was
        reached has probability zero.

    Raises:
        ModelError: `step` gives something else than log-probabilities of the right shape.
        OptionError: A unit that the tracker does not know.

    Source: Chen, Jain, Wang, Seltzer and Fuegen 2018, arXiv:1812.02142, section 3.2.
    """
    options = options or BeamOptions()
    tracker.clear()
    starts = [tracker.start(each) for each in lists]
    count = len(starts)
    finished: list[list[tuple[float, tuple[int, ...], float, float]]] = [[] for _ in starts]
    kept = _Kept(np.arange(count), [()] * count, np.zeros(count), np.zeros(count), np.array(starts, np.int64))
    for length in range(options.max_length + 1):
        if not kept.units:
            break
        last = np.array([units[-1] if units else bos for units in kept.units], np.int64)
        given, states = step(states, last)
        logprob = _checked(given, len(last), max(bos, eos))
        row, unit = _tried(logprob, options.max_units if length < options.max_length else None, eos)
        model = kept.model[row] + logprob[row, unit]
        ends = unit == eos
        after, gain = np.full(len(row), -1, np.int64), np.zeros(len(row))
        gain[ends] = tracker.final(kept.state[row[ends]])
        after[~ends], gain[~ends] = tracker.advance(kept.state[row[~ends]], unit[~ends].astype(np.int32))
        context = kept.context[row] + gain
        score = _combined(model, context, np.where(ends, length, length + 1), options)
        chosen = _best(kept.utterance[row], score, options, finished)
        for at in chosen[ends[chosen]].tolist():
            ended = (float(score[at]), kept.units[row[at]], float(model[at]), float(context[at]))
            finished[int(kept.utterance[row[at]])].append(ended)
        chosen = chosen[~ends[chosen]]
        units = [(*kept.units[at], new) for at, new in zip(row[chosen].tolist(), unit[chosen].tolist(), strict=True)]
        states = _rows(states, row[chosen])
        kept = _Kept(kept.utterance[row[chosen]], units, model[chosen], context[chosen], after[chosen])
    return [
        [
            Hypothesis(units, score, model, context, tuple(tracker.matches(start, units)))
            for score, units, model, context in sorted(each, key=lambda ended: (-ended[0], ended[1]))[
                : options.beam or None
            ]
        ]
        for start, each in zip(starts, finished, strict=True)
    ]


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
    logprob = _checked_logprob(log_probs, "[frames, units]", "log_probs")
    num_units = logprob.shape[1]
    if not 0 <= blank < num_units:
        raise OptionError(f"blank is {blank}, but the model has {num_units} units")
    tracker.clear()
    start = tracker.start(lists)
    tried = np.isfinite(logprob)
    if 0 < options.max_units < num_units:
        tried &= _most_probable(logprob, options.max_units)
    tried[:, blank] = False
    none = np.full(1, -np.inf)
    unasked = np.full((1, num_units), -1, np.int64), np.full((1, num_units), np.nan)
    now = _Prefixes([()], np.zeros(1), none, np.zeros(1), np.array([start], np.int64), *unasked)
    for frame, units in zip(logprob, tried, strict=True):
        now = _next_frame(now, frame, np.flatnonzero(units), blank, tracker, options)
    model = np.logaddexp(now.with_blank, now.without)
    context = now.context + tracker.final(now.state)
    score = _combined(model, context, np.array([len(units) for units in now.units], np.int64), options)
    found = (
        Hypothesis(units, float(score[at]), float(model[at]), float(context[at]), tuple(tracker.matches(start, units)))
        for at, units in enumerate(now.units)
        if np.isfinite(score[at])
    )
    return sorted(found, key=lambda each: -each.score)


def _next_frame(
    now: _Prefixes, frame: Floats, unit: Ints, blank: int, tracker: UnitTracker, options: BeamOptions
) -> _Prefixes:
    """Advance by one frame."""
    unknown, column = np.nonzero(np.isnan(now.gain[:, unit]))
    if unknown.size:
        asked = unknown, unit[column]
        now.after[asked], now.gain[asked] = tracker.advance(now.state[unknown], unit[column].astype(np.int32))
    last = np.array([units[-1] if units else blank for units in now.units], np.int64)
    total = np.logaddexp(now.with_blank, now.without)
    with_blank = total + frame[blank]
    without = now.without + frame[last]
    # A repeated unit needs a blank between.
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
    score = _combined(np.logaddexp(with_blank, without), context, length, options)
    chosen = _within_beams(score.ravel(), options)
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


def _within_beams(score: Floats, options: BeamOptions) -> Ints:
    """Return which candidates are within the beams, best first; of equals the first."""
    inside = np.flatnonzero(np.isfinite(score) & (score >= score.max(initial=-np.inf) - options.score_beam))
    if 0 < options.beam < len(inside):
        least = np.partition(score[inside], -options.beam)[-options.beam]
        inside = inside[score[inside] >= least]
    order = inside[np.argsort(-score[inside], kind="stable")]
    return order[: options.beam] if options.beam else order


def _combined(
    model: Floats,
    context: Floats,
    length: Ints,
    options: BeamOptions,
) -> Floats:
    """Combine model, context and length to scores; -inf where the model or the tracker forbids a hypothesis."""
    with np.errstate(invalid="ignore"):  # 0 · -inf
        score = model + options.context_scale * context + options.length_reward * length
    return np.where(np.isneginf(context), -np.inf, score)


def _checked_logprob(given: npt.ArrayLike, expected: str, where: str) -> Floats:
    """Return log-probabilities as an array of two dimensions, none of them NaN or above 0."""
    logprob = np.asarray(given, np.float64)
    if logprob.ndim != 2:
        raise ModelError(f"{where}: log-probabilities have the shape {logprob.shape}, but must be {expected}")
    if np.isnan(logprob).any():
        row, unit = np.argwhere(np.isnan(logprob))[0]
        raise ModelError(f"{where}: the log-probability of unit {unit} in row {row} is not a number")
    if logprob.size and logprob.max() > ROUNDING:
        row, unit = np.argwhere(logprob > ROUNDING)[0]
        raise ModelError(
            f"{where}: the log-probability of unit {unit} in row {row} is {logprob[row, unit]:.4g}, above 0; "
            "are these logits? apply log_softmax first"
        )
    return logprob


def _checked(given: npt.ArrayLike, rows: int, largest: int) -> Floats:
    logprob = _checked_logprob(given, f"[{rows}, units]", "step")
    if len(logprob) != rows:
        raise ModelError(f"step: log-probabilities have the shape {logprob.shape}, but there were {rows} hypotheses")
    if logprob.shape[1] <= largest:
        raise OptionError(f"bos or eos is {largest}, but the model has {logprob.shape[1]} units")
    return logprob


def _tried(logprob: Floats, max_units: int | None, eos: int) -> tuple[Ints, Ints]:
    """Return the (row, unit) pairs to try: the most probable units and the end; None: the end alone."""
    rows, num_units = logprob.shape
    if max_units is None:
        return np.arange(rows), np.full(rows, eos, np.int64)
    wanted = np.isfinite(logprob)
    if 0 < max_units < num_units:
        wanted &= _most_probable(logprob, max_units)
        wanted[:, eos] = np.isfinite(logprob[:, eos])
    row, unit = np.nonzero(wanted)
    return row, unit


def _most_probable(logprob: Floats, count: int) -> npt.NDArray[np.bool_]:
    """Tell which units are among the `count` most probable of their row; all that are as probable as the last one."""
    least = np.partition(logprob, -count, axis=1)[:, -count]
    return logprob >= least[:, None]


def _best(
    utterance: Ints,
    score: Floats,
    options: BeamOptions,
    finished: Sequence[Sequence[tuple[float, tuple[int, ...], float, float]]],
) -> Ints:
    """Return which candidates are within the beams of their utterance, each one's together, best first.

    Finished hypotheses keep their place in the beam: a search is over once no unfinished one is better.
    """
    ended = [(number, each[0]) for number, every in enumerate(finished) for each in every]
    of = np.concatenate([np.array([number for number, _ in ended], np.int64), utterance])
    scores = np.concatenate([np.array([each for _, each in ended]), score])
    order = np.lexsort((-scores, of))  # stable: of equals the first
    of, scores = of[order], scores[order]
    first = np.searchsorted(of, of)
    inside = np.isfinite(scores) & (scores >= scores[first] - options.score_beam)
    if options.beam:
        inside &= np.arange(len(order)) - first < options.beam
    chosen = order[inside] - len(ended)
    unfinished: npt.NDArray[np.int64] = chosen[chosen >= 0]
    return unfinished


def _rows(states: Any, rows: Ints) -> Any:
    """Pick rows of a model's states."""
    if isinstance(states, tuple) and hasattr(states, "_fields"):
        return type(states)(*(_rows(each, rows) for each in states))
    if isinstance(states, tuple | list):
        return type(states)(_rows(each, rows) for each in states)
    if isinstance(states, dict):
        return {name: _rows(each, rows) for name, each in states.items()}
    return states[rows]
