"""The threshold of corrections, chosen so that the rate of false corrections is bounded with high confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError, check_range, counted

CONFIDENCE = 0.95
THRESHOLDS = tuple(round(1 - number / 100, 2) for number in range(1, 100))  # strictest first; independent of the data


@dataclass(frozen=True, slots=True)
class BoundedRate:
    """A threshold and the false corrections that were counted with it."""

    threshold: float
    changed: int  # utterances without phrases that are changed
    utterances: int  # utterances without phrases
    upper: float  # upper confidence bound of the rate


def choose_threshold(
    scores: Sequence[float] | npt.NDArray[np.float64], max_rate: float, confidence: float = CONFIDENCE
) -> BoundedRate | None:
    """Return the lowest threshold whose rate of false corrections is bounded; None if no threshold is.

    Learn-then-Test with a fixed sequence: the hypotheses that the rate exceeds `max_rate` are tested from the strictest
    threshold on, each with the exact binomial test at level ``1 - confidence``, until one is not rejected. The
    probability that the rate of the chosen threshold exceeds `max_rate` is then at most ``1 - confidence``.

    Args:
        scores: Largest probability of a change in each utterance without phrases; 0 for no candidate.
        max_rate: Maximum rate of changed utterances, in (0, 1).
        confidence: Confidence of the bound, in (0, 1).

    Raises:
        OptionError: There are too few utterances for any bound.

    Source: Angelopoulos, Bates, Candès, Jordan, Lei 2021, "Learn then Test" (arXiv:2110.01052), section 3;
        Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the binomial".
    """
    needed = num_needed(max_rate, confidence)
    if len(scores) < needed:
        count = counted(len(scores), "utterance has", "utterances have")
        raise OptionError(
            f"{count} no phrases, but at least {needed} are needed to bound the rate of false corrections at "
            f"{max_rate:g} with {confidence:.0%} confidence; give more utterances, or a larger rate"
        )
    values = np.asarray(scores, np.float64)
    chosen: BoundedRate | None = None
    for threshold in THRESHOLDS:
        changed = int((values >= threshold).sum())
        if binomial_tail(changed, len(values), max_rate) > 1 - confidence:
            break
        chosen = BoundedRate(threshold, changed, len(values), upper_bound(changed, len(values), confidence))
    return chosen


def num_needed(max_rate: float, confidence: float = CONFIDENCE) -> int:
    """Return the smallest number of utterances that bounds a rate if none of them is changed."""
    check_range("max_rate", max_rate, above=0)
    if not max_rate < 1 or not 0 < confidence < 1:
        raise OptionError(f"the rate {max_rate:g} and the confidence {confidence:g} must be between 0 and 1")
    return math.ceil(math.log(1 - confidence) / math.log1p(-max_rate))


def binomial_tail(count: int, trials: int, rate: float) -> float:
    """Return the probability of at most `count` events in independent trials."""
    if count >= trials:
        return 1.0
    total = 0.0
    for number in range(count + 1):
        ways = math.lgamma(trials + 1) - math.lgamma(number + 1) - math.lgamma(trials - number + 1)
        total += math.exp(ways + number * math.log(rate) + (trials - number) * math.log1p(-rate))
    return min(total, 1.0)


def upper_bound(count: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the upper Clopper-Pearson bound of the rate of events in independent trials."""
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
