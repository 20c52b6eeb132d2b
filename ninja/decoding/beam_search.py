"""Beam search with a contextual tracker, for models that predict the next unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ninja.decoding.hypothesis import Hypothesis
from ninja.errors import ModelError, OptionError, check_range
from ninja.lm.protocol import lock_of

if TYPE_CHECKING:
    from ninja.context.entities.lists import PhraseList
    from ninja.context.grammar.tracker import Tracker
    from ninja.decoding.ctc_prefix import CtcPrefixes
    from ninja.decoding.pointer_tracker import PointerTracker
    from ninja.decoding.spelled_tracker import SpelledTracker

    UnitTracker: TypeAlias = Tracker | SpelledTracker | PointerTracker  # units are words or spell words

ROUNDING = 1e-3  # maximum value above 0 that is accepted as a log-probability

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# Maps (states of n hypotheses, last units int64 [n]) to (log-probabilities [n, units], next states).
Step = Callable[[Any, Ints], tuple[npt.ArrayLike, Any]]


@dataclass(frozen=True, slots=True)
class BeamOptions:
    """Beams for the search, and score weights; see `Hypothesis` for the total score."""

    beam: int = 16  # maximum number of hypotheses per utterance; 0 means no limit
    score_beam: float = 20.0  # hypotheses are dropped if their score is more than this below the best score, nats
    max_units: int = 50  # number of most probable units tried after each hypothesis; 0 tries all
    max_length: int = 200  # maximum number of units per hypothesis
    context_scale: float = 1.0  # factor applied to the scores of the tracker
    length_reward: float = 0.0  # reward for each unit, nats
    ctc_weight: float = 0.3  # weight λ of CTC scores, if any; the weight of the other model is 1 − λ
    # With CTC scores, the search of an utterance ends if, for this many lengths in a row, the best finished hypothesis
    # of that length is worse than the best of all lengths by more than `end_beam` nats; 0 disables this criterion.
    end_lengths: int = 3
    end_beam: float = 10.0

    def __post_init__(self) -> None:
        for name, least in (("beam", 0), ("max_units", 0), ("max_length", 1), ("end_lengths", 0)):
            check_range(name, getattr(self, name), least=least)
        check_range("ctc_weight", self.ctc_weight, least=0, most=1)
        check_range("end_beam", self.end_beam, above=0)
        check_range("score_beam", self.score_beam, above=0)
        check_range("context_scale", self.context_scale, least=0, finite=True)
        check_range("length_reward", self.length_reward, finite=True)


@dataclass(slots=True)
class _Active:
    """The unfinished hypotheses, grouped by utterance, best first."""

    utterance: Ints
    units: list[tuple[int, ...]]
    model: Floats  # log-probability of the model, without CTC scores
    context: Floats
    state: Ints  # states of the tracker
    prefix: Floats | None  # states of the CTC prefixes


_Finished = tuple[float, tuple[int, ...], float, float]  # score, units, model score, context score


def beam_search(
    step: Step,
    states: Any,
    tracker: UnitTracker,
    lists: Sequence[Sequence[PhraseList]],
    options: BeamOptions | None = None,
    *,
    bos: int,
    eos: int,
    ctc: CtcPrefixes | None = None,
) -> list[list[Hypothesis]]:
    """Search for the unit sequences with the best combined model and context scores.

    With CTC scores, the model score is λ · ln p of the CTC model + (1 - λ) · ln p of `step`, where λ is `ctc_weight`.
    All utterances are searched in one batch; results do not depend on other utterances in the batch. Searches with the
    same tracker in other threads wait until this one ends.

    Args:
        step: The model: a function that takes states and the last units, int64 [n], and returns the natural
            log-probabilities of the next units, [n, units], and the new states.
        states: The model's initial states, one per utterance: an array or tensor whose first axis is the utterance, or
            a tuple, list or dict of arrays or tensors. Later calls of `step` receive rows of the states that earlier
            calls returned.
        tracker: The contextual tracker; its states are cleared first.
        lists: The phrase lists for each utterance.
        options: Beams and weights.
        bos: Unit that is passed to `step` before the first unit.
        eos: Unit that ends a hypothesis.
        ctc: Output of a CTC model for each utterance; its columns are the units of `step`.

    Returns:
        At most `BeamOptions.beam` finished hypotheses for each utterance, best first; an empty list if every hypothesis
        ends with probability zero.

    Raises:
        ModelError: `step` returns NaN, values above 0 or an array of the wrong shape.
        OptionError: A unit is missing from `step`, the tracker or the CTC model, or `ctc` and `lists` differ in the
            number of utterances.

    Source: Chen, Jain, Wang, Seltzer and Fuegen 2018, arXiv:1812.02142, section 3.2; for CTC scores and the stopping
    criterion, Watanabe and others 2017 (see `CtcPrefixes`).
    """
    with lock_of(tracker):
        return _search(step, states, tracker, lists, options or BeamOptions(), bos, eos, ctc)


def _search(
    step: Step,
    states: Any,
    tracker: UnitTracker,
    lists: Sequence[Sequence[PhraseList]],
    options: BeamOptions,
    bos: int,
    eos: int,
    ctc: CtcPrefixes | None,
) -> list[list[Hypothesis]]:
    tracker.clear()
    starts = [tracker.start(of_utterance) for of_utterance in lists]
    count = len(starts)
    if ctc is not None and len(ctc) != count:
        raise OptionError(f"ctc has {len(ctc)} utterances, but lists has {count}; pass both for the same utterances")
    finished: list[list[_Finished]] = [[] for _ in starts]
    active = _Active(
        np.arange(count),
        [()] * count,
        np.zeros(count),
        np.zeros(count),
        np.array(starts, np.int64),
        None if ctc is None else ctc.start(),
    )
    for length in range(options.max_length + 1):
        if not active.units:
            break
        last = np.array([units[-1] if units else bos for units in active.units], np.int64)
        output, states = step(states, last)
        logprob = _check_step(output, len(last), max(bos, eos))
        row, unit = _candidates(logprob, options.max_units if length < options.max_length else None, eos)
        model = active.model[row] + logprob[row, unit]
        ends = unit == eos
        after, gain = np.full(len(row), -1, np.int64), np.zeros(len(row))
        gain[ends] = tracker.final(active.state[row[ends]])
        after[~ends], gain[~ends] = tracker.advance(active.state[row[~ends]], unit[~ends].astype(np.int32))
        context = active.context[row] + gain
        joint, prefix = model, None
        if ctc is not None:
            ctc_score, prefix = _prefix_scores(ctc, active, row, unit, ends)
            joint = _interpolate(model, ctc_score, options.ctc_weight)
        score = combine(
            joint, context, np.where(ends, length, length + 1), options.context_scale, options.length_reward
        )
        chosen = _within_beams(active.utterance[row], score, options, finished)
        for at in chosen[ends[chosen]].tolist():
            ended = (float(score[at]), active.units[row[at]], float(joint[at]), float(context[at]))
            finished[int(active.utterance[row[at]])].append(ended)
        chosen = chosen[~ends[chosen]]
        if ctc is not None and options.end_lengths:
            is_over = np.array([_is_over(of_utterance, length, options) for of_utterance in finished])
            chosen = chosen[~is_over[active.utterance[row[chosen]]]]
        units = [(*active.units[at], new) for at, new in zip(row[chosen].tolist(), unit[chosen].tolist(), strict=True)]
        states = _rows(states, row[chosen])
        active = _Active(
            active.utterance[row[chosen]],
            units,
            model[chosen],
            context[chosen],
            after[chosen],
            None if prefix is None else prefix[chosen],
        )
    return [
        [
            make_hypothesis(tracker, start, units, score, model, context)
            for score, units, model, context in sorted(of_utterance, key=lambda ended: (-ended[0], ended[1]))[
                : options.beam or None
            ]
        ]
        for start, of_utterance in zip(starts, finished, strict=True)
    ]


def make_hypothesis(
    tracker: UnitTracker, start: int, units: tuple[int, ...], score: float, model: float, context: float
) -> Hypothesis:
    """Create a hypothesis with the words and phrases that a tracker assigns to its units."""
    words = tuple((word,) for word in tracker.spell(units))
    return Hypothesis(words, units, score, model, context, tuple(tracker.matches(start, units)))


def combine(model: Floats, context: Floats, length: Ints, context_scale: float, length_reward: float) -> Floats:
    """Return the total scores of hypotheses, or -inf for hypotheses that the model or the tracker does not allow."""
    with np.errstate(invalid="ignore"):  # 0 · -inf
        score = model + context_scale * context + length_reward * length
    return np.where(np.isneginf(context), -np.inf, score)


def _prefix_scores(
    ctc: CtcPrefixes, active: _Active, row: Ints, unit: Ints, ends: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return ``(CTC scores after adding a unit or the end, states after adding a unit)`` for hypotheses."""
    assert active.prefix is not None
    utterance, state = active.utterance[row], active.prefix[row]
    last = np.array([units[-1] if units else -1 for units in active.units], np.int64)[row]
    score = np.empty(len(row))
    score[ends] = ctc.final(utterance[ends], state[ends])
    score[~ends], state[~ends] = ctc.extend(utterance[~ends], state[~ends], last[~ends], unit[~ends])
    return score, state


def _interpolate(model: Floats, ctc: Floats, weight: float) -> Floats:
    """Return weighted means of log-probabilities; a model with weight 0 is ignored, even if it gives probability 0."""
    parts = [(share, score) for share, score in ((weight, ctc), (1.0 - weight, model)) if share]
    mean: Floats = np.sum([share * score for share, score in parts], axis=0)
    return mean


def _is_over(finished: Sequence[_Finished], length: int, options: BeamOptions) -> bool:
    """Return whether the search for an utterance ends at a given length; see `BeamOptions.end_lengths`."""
    best = max((score for score, *_ in finished), default=-np.inf)
    for one in range(length, length - options.end_lengths, -1):
        of_length = [score for score, units, *_ in finished if len(units) == one]
        if not of_length or max(of_length) >= best - options.end_beam:
            return False
    return True


def most_probable(logprob: Floats, count: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the `count` most probable units in each row, including ties, bool [rows, units]."""
    least = np.partition(logprob, -count, axis=1)[:, -count]
    return logprob >= least[:, None]


def _check_step(output: npt.ArrayLike, num_rows: int, largest: int) -> Floats:
    logprob = np.asarray(output, np.float64)
    if logprob.ndim != 2:
        shape = f"{logprob.shape}, but must be [{num_rows}, units]"
        raise ModelError(f"step: log-probabilities have shape {shape}")
    if np.isnan(logprob).any():
        row, unit = np.argwhere(np.isnan(logprob))[0]
        raise ModelError(f"step: the log-probability of unit {unit} in row {row} is NaN")
    if logprob.size and logprob.max() > ROUNDING:
        row, unit = np.argwhere(logprob > ROUNDING)[0]
        raise ModelError(
            f"step: the log-probability of unit {unit} in row {row} is {logprob[row, unit]:.4g}, above 0; "
            "if these are logits, apply log_softmax"
        )
    if len(logprob) != num_rows:
        raise ModelError(f"step: log-probabilities have shape {logprob.shape}, but there are {num_rows} hypotheses")
    if logprob.shape[1] <= largest:
        raise OptionError(f"bos or eos is {largest}, but the model has only the units 0 to {logprob.shape[1] - 1}")
    return logprob


def _candidates(logprob: Floats, max_units: int | None, eos: int) -> tuple[Ints, Ints]:
    """Return ``(rows, units)``: pairs of a row of `logprob` (a hypothesis) and a unit to append to it.

    The units of each row are the `max_units` most probable units, or all units if `max_units` is 0, and `eos`; units
    with probability zero are left out. If `max_units` is None, the only unit of each row is `eos`.
    """
    num_rows, num_units = logprob.shape
    if max_units is None:
        return np.arange(num_rows), np.full(num_rows, eos, np.int64)
    is_tried = np.isfinite(logprob)
    if 0 < max_units < num_units:
        is_tried &= most_probable(logprob, max_units)
        is_tried[:, eos] = np.isfinite(logprob[:, eos])
    row, unit = np.nonzero(is_tried)
    return row, unit


def _within_beams(
    utterance: Ints, score: Floats, options: BeamOptions, finished: Sequence[Sequence[_Finished]]
) -> Ints:
    """Return the candidates within the beams of their utterance, grouped by utterance, best first.

    Finished hypotheses remain in the beam; the search therefore ends when no unfinished hypothesis is better.
    """
    ended = [(number, one[0]) for number, of_utterance in enumerate(finished) for one in of_utterance]
    owner = np.concatenate([np.array([number for number, _ in ended], np.int64), utterance])
    scores = np.concatenate([np.array([one for _, one in ended]), score])
    order = np.lexsort((-scores, owner))  # a stable sort, so the first of several equal scores wins
    owner, scores = owner[order], scores[order]
    first = np.searchsorted(owner, owner)
    inside = np.isfinite(scores) & (scores >= scores[first] - options.score_beam)
    if options.beam:
        inside &= np.arange(len(order)) - first < options.beam
    chosen: Ints = order[inside] - len(ended)
    return chosen[chosen >= 0]


def _rows(states: Any, rows: Ints) -> Any:
    """Select the states of hypotheses by indexing the first axis of the arrays or tensors in a model's states.

    The arrays can be nested in tuples, lists and dicts.
    """
    if isinstance(states, tuple) and hasattr(states, "_fields"):
        return type(states)(*(_rows(part, rows) for part in states))
    if isinstance(states, tuple | list):
        return type(states)(_rows(part, rows) for part in states)
    if isinstance(states, dict):
        return {name: _rows(part, rows) for name, part in states.items()}
    return states[rows]
