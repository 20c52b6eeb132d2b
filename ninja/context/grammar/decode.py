"""Token-passing beam search for models that give the next unit's probabilities, such as attention and transducers.

A hypothesis has several grammar states, each with the score of the best way to it: outside all phrases, or inside one.
The trackers keep such a set under one number, so that a search carries an integer for each hypothesis. ``decode_ctc``
has the search for models that give the probabilities of each frame.
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

# (the model's states of n hypotheses, their last units int64 [n]) -> (log-probabilities [n, units], states after them)
Step = Callable[[Any, npt.NDArray[np.int64]], tuple[npt.ArrayLike, Any]]


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

    utterance: npt.NDArray[np.int64]
    units: list[tuple[int, ...]]
    model: npt.NDArray[np.float64]
    context: npt.NDArray[np.float64]
    state: npt.NDArray[np.int64]  # of the tracker


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
        options: Beams and weights.
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
        after, gain = _advance(tracker, kept.state, row, unit, eos)
        context = kept.context[row] + gain
        score = combined(model, context, np.where(unit == eos, length, length + 1), options)
        chosen = _best(kept.utterance[row], score, options, finished)
        ends = unit[chosen] == eos
        for at in chosen[ends].tolist():
            ended = (float(score[at]), kept.units[row[at]], float(model[at]), float(context[at]))
            finished[int(kept.utterance[row[at]])].append(ended)
        chosen = chosen[~ends]
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


def combined(
    model: npt.NDArray[np.float64],
    context: npt.NDArray[np.float64],
    length: npt.NDArray[np.int64],
    options: BeamOptions,
) -> npt.NDArray[np.float64]:
    """Combine model, context and length to scores; -inf where the model or the tracker forbids a hypothesis."""
    with np.errstate(invalid="ignore"):  # 0 · -inf
        score = model + options.context_scale * context + options.length_reward * length
    return np.where(np.isneginf(context), -np.inf, score)


def checked_logprob(given: npt.ArrayLike, expected: str, where: str) -> npt.NDArray[np.float64]:
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


def _checked(given: npt.ArrayLike, rows: int, largest: int) -> npt.NDArray[np.float64]:
    logprob = checked_logprob(given, f"[{rows}, units]", "step")
    if len(logprob) != rows:
        raise ModelError(f"step: log-probabilities have the shape {logprob.shape}, but there were {rows} hypotheses")
    if logprob.shape[1] <= largest:
        raise OptionError(f"bos or eos is {largest}, but the model has {logprob.shape[1]} units")
    return logprob


def _tried(
    logprob: npt.NDArray[np.float64], max_units: int | None, eos: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the (row, unit) pairs to try: the most probable units and the end; None: the end alone."""
    rows, num_units = logprob.shape
    if max_units is None:
        return np.arange(rows), np.full(rows, eos, np.int64)
    wanted = np.isfinite(logprob)
    if 0 < max_units < num_units:
        wanted &= most_probable(logprob, max_units)
        wanted[:, eos] = np.isfinite(logprob[:, eos])
    row, unit = np.nonzero(wanted)
    return row, unit


def most_probable(logprob: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.bool_]:
    """Tell which units are among the `count` most probable of their row; all that are as probable as the last one."""
    least = np.partition(logprob, -count, axis=1)[:, -count]
    return logprob >= least[:, None]


def _advance(
    tracker: UnitTracker,
    state: npt.NDArray[np.int64],
    row: npt.NDArray[np.int64],
    unit: npt.NDArray[np.int64],
    eos: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Let the tracker score each unit after the state of its row."""
    after = np.full(len(row), -1, np.int64)
    gain = np.zeros(len(row))
    ends = unit == eos
    gain[ends] = tracker.final(state[row[ends]])
    after[~ends], gain[~ends] = tracker.advance(state[row[~ends]], unit[~ends].astype(np.int32))
    return after, gain


def _best(
    utterance: npt.NDArray[np.int64],
    score: npt.NDArray[np.float64],
    options: BeamOptions,
    finished: Sequence[Sequence[tuple[float, tuple[int, ...], float, float]]],
) -> npt.NDArray[np.int64]:
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
    return chosen[chosen >= 0]


def _rows(states: Any, rows: npt.NDArray[np.int64]) -> Any:
    """Pick rows of a model's states."""
    if isinstance(states, tuple) and hasattr(states, "_fields"):
        return type(states)(*(_rows(each, rows) for each in states))
    if isinstance(states, tuple | list):
        return type(states)(_rows(each, rows) for each in states)
    if isinstance(states, dict):
        return {name: _rows(each, rows) for name, each in states.items()}
    return states[rows]
