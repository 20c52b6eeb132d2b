"""Choice of a correction threshold, with a high-confidence bound on the rate of false corrections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError, check_range, counted

CONFIDENCE = 0.95
ROUNDING = 1e-9  # rounding error of a rate times a number of utterances
# The strictest threshold is first. The sequence must not depend on the data.
THRESHOLDS = tuple(round(1 - number / 100, 2) for number in range(1, 100))


@dataclass(frozen=True, slots=True)
class BoundedRate:
    """The number of false corrections at a threshold, and an upper bound on their rate."""

    threshold: float
    changed: int  # utterances without phrases that are changed
    utterances: int  # utterances without phrases
    upper: float  # upper bound of the rate


def choose_threshold(
    scores: Sequence[float] | npt.NDArray[np.float64],
    max_rate: float,
    num_future: int | None,
    confidence: float = CONFIDENCE,
) -> BoundedRate | None:
    """Return the lowest threshold that bounds the rate of false corrections; None if no threshold does.

    The thresholds are tested in order, from the strictest, at the level ``1 - confidence``, until the null hypothesis
    that the rate exceeds `max_rate` cannot be rejected (Learn-then-Test with a fixed sequence).

    The rate refers to a future set of utterances. If its utterances are exchangeable with the utterances in `scores`,
    the probability that more than a fraction `max_rate` of them is changed is at most ``1 - confidence``. The test uses
    the hypergeometric distribution of the number of changed utterances in `scores`, conditional on the number in both
    sets. Stricter thresholds change fewer utterances, so the test holds for all thresholds simultaneously. For an
    infinite set, it is the exact binomial test.

    Args:
        scores: Probability of the most probable change in each utterance without phrases, or 0 if there is none.
        max_rate: Maximum rate of changed utterances, in (0, 1).
        num_future: Number of utterances in the future set, ≥ 1; None for an infinite set.
        confidence: Confidence of the bound, in (0, 1).

    Raises:
        OptionError: There are too few utterances for any bound.

    Source: Gumbel and von Schelling 1950, "The distribution of the number of exceedances";
        Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the binomial";
        Angelopoulos, Bates, Candès, Jordan, Lei 2021, "Learn then Test" (arXiv:2110.01052), section 3.
    """
    needed = num_needed(max_rate, confidence, is_finite=num_future is not None)
    if len(scores) < needed:
        count = counted(len(scores), "utterance has", "utterances have")
        raise OptionError(
            f"at least {needed} utterances without phrases are needed to bound the rate of false corrections at "
            f"{max_rate:g} with {confidence:.0%} confidence, but only {count} none; use more utterances, or a larger "
            "rate"
        )
    values = np.asarray(scores, np.float64)
    chosen: tuple[float, int] | None = None
    for threshold in THRESHOLDS:
        changed = int((values >= threshold).sum())
        if tail(changed, len(values), max_rate, num_future) > 1 - confidence:
            break
        chosen = threshold, changed
    if chosen is None:
        return None
    return BoundedRate(*chosen, len(values), upper_bound(chosen[1], len(values), num_future, confidence))


def num_needed(max_rate: float, confidence: float = CONFIDENCE, *, is_finite: bool) -> int:
    """Return the minimum number of utterances needed to show that a rate is ≤ `max_rate` if no utterance is changed.

    Args:
        max_rate: Maximum rate, in (0, 1).
        confidence: Confidence of the bound, in (0, 1).
        is_finite: Whether the rate refers to a future set of the same size, instead of an infinite set.
    """
    check_range("max_rate", max_rate, above=0)
    if not max_rate < 1 or not 0 < confidence < 1:
        raise OptionError(f"the rate {max_rate:g} and the confidence {confidence:g} must be between 0 and 1")
    if not is_finite:
        return math.ceil(math.log(1 - confidence) / math.log1p(-max_rate))
    # With no change in this set, e changes in the future set are less probable than 2^-e.
    needed = math.ceil((math.ceil(-math.log2(1 - confidence)) - 1) / max_rate)
    while needed > 1 and tail(0, needed - 1, max_rate, needed - 1) <= 1 - confidence:
        needed -= 1
    return needed


def tail(count: int, trials: int, rate: float, num_future: int | None) -> float:
    """Return an upper bound on the probability of at most `count` events in a set.

    The bound holds if the rate of events in the future set exceeds `rate`.
    """
    if num_future is None:
        return binomial_tail(count, trials, rate)
    least = math.floor(rate * num_future + ROUNDING) + 1
    return exceedance_tail(count, trials, least, num_future)


def exceedance_tail(count: int, trials: int, future_count: int, num_future: int) -> float:
    """Return the probability that at most `count` of ``count + future_count`` events are in the first of two sets.

    Args:
        count: Number of events in the first set.
        trials: Size of the first set, ≥ `count`.
        future_count: Number of events in the second set.
        num_future: Size of the second set. The probability is 0 if it is less than `future_count`.
    """
    if future_count > num_future:
        return 0.0
    num_events, total = count + future_count, trials + num_future
    all_ways = _log_ways(total, trials)
    ways = (_log_ways(num_events, k) + _log_ways(total - num_events, trials - k) for k in range(count + 1))
    return min(sum(math.exp(some - all_ways) for some in ways), 1.0)


def binomial_tail(count: int, trials: int, rate: float) -> float:
    """Return the probability of at most `count` events in independent trials."""
    if count >= trials:
        return 1.0
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    terms = (_log_ways(trials, k) + k * log_rate + (trials - k) * log_rest for k in range(count + 1))
    return min(sum(map(math.exp, terms)), 1.0)


def upper_bound(count: int, trials: int, num_future: int | None, confidence: float = CONFIDENCE) -> float:
    """Return an upper bound on the rate in a future set; for an infinite set, this is the Clopper–Pearson bound."""
    if num_future is not None:
        changed = 0
        while exceedance_tail(count, trials, changed + 1, num_future) > 1 - confidence:
            changed += 1
        return changed / num_future
    if count >= trials:
        return 1.0
    low, high = count / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if binomial_tail(count, trials, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _log_ways(total: int, chosen: int) -> float:
    """Return the logarithm of the binomial coefficient; −inf if the coefficient is 0."""
    if not 0 <= chosen <= total:
        return -math.inf
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)
