"""Paired comparison of two systems: difference in word error rates, its confidence interval, and its significance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ninja.evaluate.bootstrap import Interval

CONFIDENCE = 0.95  # confidence of intervals and two-sided tests
POWER = 0.8  # probability that a test detects a true difference

Values = npt.NDArray[np.float64] | npt.NDArray[np.int64]
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Difference in word error rate between two systems on the same utterances (second minus first)."""

    interval: Interval  # 95% confidence interval, in percent absolute
    standard_error: float  # percent absolute; infinite for fewer than two groups
    num_groups: int
    num_words: int

    @property
    def is_significant(self) -> bool:
        """Whether the confidence interval excludes 0."""
        return 0.0 not in self.interval

    @property
    def words_needed(self) -> int | None:
        """Number of reference words needed to detect a true difference as large as the estimate, with a power of 80%.

        The squared standard error is inversely proportional to the number of words N, so the required number is
        N · ((z(0.975) + z(0.8)) · standard error / difference)². It is None if the difference is 0 or its standard
        error is infinite.

        Source: http://micquality.com/six_sigma_glossary/sample_size_hypothesis.htm, with quantiles of the normal
            distribution.
        """
        if self.interval.mean == 0.0 or not math.isfinite(self.standard_error):
            return None
        quantiles = _NORMAL.inv_cdf(0.5 + CONFIDENCE / 2) + _NORMAL.inv_cdf(POWER)
        return math.ceil(self.num_words * (quantiles * self.standard_error / self.interval.mean) ** 2)

    def __str__(self) -> str:
        """Format the difference with its confidence interval."""
        return f"{self.interval.mean:+.2f} [{self.interval.low:+.2f}, {self.interval.high:+.2f}]"


def paired_difference(first: Values, second: Values, words: Values) -> PairedDifference:
    """Estimate the difference between two word error rates from errors on the same groups of utterances.

    Groups are speakers if speakers are known, otherwise utterances; errors within a group can depend on each other. The
    variance is estimated as for a ratio of sums. The interval uses the quantile of Student's t for the number of
    groups.

    Args:
        first: Errors of the first system in each group, [groups]; counts or expected values.
        second: Errors of the second system in each group, [groups].
        words: Number of reference words in each group, [groups]; the sum must be positive.

    Source: Cochran, 1977, "Sampling Techniques", 3rd edition, section 2.11.
    """
    total = float(words.sum())
    mean = float((second - first).sum()) / total
    error = 100.0 * float(ratio_error((second - first)[None], words)[0])
    quantile = student_quantile(0.5 + CONFIDENCE / 2, len(words) - 1) if len(words) > 1 else 1.0
    return PairedDifference(Interval(100.0 * mean, quantile * error), error, len(words), int(total))


def ratio_error(differences: Values, words: Values) -> npt.NDArray[np.float64]:
    """Return the standard error of the ratio ``sum(differences) / sum(words)``, float64 [...].

    The error is infinite if there are fewer than two groups, or no words.

    Args:
        differences: Errors minus the errors of a baseline system, [..., groups].
        words: Number of reference words in each group, [groups].
    """
    num_groups = len(words)
    if num_groups < 2 or not words.any():
        return np.full(differences.shape[:-1], np.inf)
    residual = differences - differences.sum(-1, keepdims=True) / words.sum() * words
    deviation: npt.NDArray[np.float64] = np.sqrt(num_groups / (num_groups - 1) * (residual**2).sum(-1)) / words.sum()
    return deviation


def student_quantile(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution.

    Args:
        probability: Cumulative probability at the quantile, between 0 and 1.
        freedom: Degrees of freedom, ≥ 1.

    Returns:
        The quantile. It is exact for one and two degrees of freedom; for more, its error is below 1% for probabilities
        from 0.01 to 0.99.

    Source: Abramowitz and Stegun, 1964, "Handbook of Mathematical Functions", formula 26.7.5.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        return (2 * probability - 1) * math.sqrt(2 / (4 * probability * (1 - probability)))
    z = _NORMAL.inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / float(freedom) ** power for power, term in enumerate(terms, 1))
