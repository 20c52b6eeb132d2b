"""Choice of a point in a search by its expected word errors; the defaults are kept unless the data justify a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.evaluate.bootstrap import Interval
from ninja.evaluate.paired import PairedDifference, paired_difference, ratio_error, student_quantile

MIN_WORDS = 500  # number of reference words below which the defaults are kept
MAX_FOLDS = 10  # maximum number of folds of the cross-validation
CONFIRMED = 0.9  # one-sided confidence of the cross-validated difference
MIN_GROUPS = 5  # number of speakers below which utterances are resampled instead
MAX_GROUPS = 200  # maximum number of groups of utterances or speakers, to limit memory

Doubles = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
Reason = Literal["better", "best", "too few words", "chance"]


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Word errors in each group of utterances at each point of a search."""

    expected: Doubles  # [points, groups], expected errors over the posteriors of the sentences
    errors: Doubles  # [points, groups], errors of the best sentences
    words: Int64s  # [groups], number of reference words

    def of_groups(self, groups: npt.NDArray[np.int64]) -> Outcomes:
        """Return the outcomes for the given groups."""
        return Outcomes(self.expected[:, groups], self.errors[:, groups], self.words[groups])

    def of_points(self, points: npt.NDArray[np.int64]) -> Outcomes:
        """Return the outcomes at the given points."""
        return Outcomes(self.expected[points], self.errors[points], self.words)

    def wer(self, point: int) -> float:
        """Return the word error rate of the best sentences at a point, in percent."""
        return 100.0 * float(self.errors[point].sum()) / max(int(self.words.sum()), 1)


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen point, and the statistics that justify the choice."""

    point: int
    candidate: int  # index of the simplest point within one standard error of the best point
    reason: Reason  # reason for the choice of the point
    # Cross-validated difference, candidate minus defaults; negative if the candidate is better.
    difference: PairedDifference

    @property
    def expected_difference(self) -> Interval:
        """Cross-validated change in WER from the defaults to the chosen point, in percent absolute."""
        return self.difference.interval if self.reason == "better" else Interval(0.0, 0.0)


def choose_point(outcomes: Outcomes, num_moved: npt.NDArray[np.int64], default: int, min_words: int) -> Choice:
    """Choose the simplest point that is about as good as the best, or the defaults if they are not significantly worse.

    The best point has the fewest expected errors. The candidate is the simplest point within one standard error of the
    best point: the point with the fewest weights that differ from the defaults and, of several such points, the point
    with the fewest expected errors. The defaults are kept unless (1) the best point has significantly fewer expected
    errors than the defaults, with 95% confidence, and (2) in cross-validation, the candidates chosen on the other folds
    have fewer errors than the defaults, with a one-sided confidence of 90%. Differences are paired by group, and folds
    consist of whole groups.

    Args:
        outcomes: Errors of all points on a development set.
        num_moved: Number of weights that differ from the defaults at each point, [points].
        default: Index of the point with the defaults.
        min_words: If there are fewer reference words, the defaults are kept.

    Source: Hastie, Tibshirani and Friedman, 2009, "The Elements of Statistical Learning", section 7.10, for the
        one-standard-error rule.
    """
    words = outcomes.words
    best, candidate = _candidate(outcomes, num_moved)
    crossed = cross_validated(outcomes, num_moved)
    difference = paired_difference(outcomes.errors[default], crossed, words)
    advantage = paired_difference(outcomes.expected[default], outcomes.expected[best], words)
    reason: Reason = "better"
    if default in (best, candidate):
        reason = "best"
    elif not advantage.is_significant or not _is_confirmed(difference):
        reason = "chance"
    if int(words.sum()) < min_words:
        reason = "too few words"
    return Choice(candidate if reason == "better" else default, candidate, reason, difference)


def _is_confirmed(difference: PairedDifference) -> bool:
    if difference.num_groups < 2:
        return False
    quantile = student_quantile(CONFIRMED, difference.num_groups - 1)
    return difference.interval.mean < -quantile * difference.standard_error


def cross_validated(outcomes: Outcomes, num_moved: npt.NDArray[np.int64]) -> Doubles:
    """Return the errors in each group at the candidate point chosen without the group's fold, float64 [groups]."""
    num_groups = len(outcomes.words)
    num_folds = min(MAX_FOLDS, num_groups)
    errors = np.zeros(num_groups)
    fold = np.arange(num_groups) % num_folds
    for number in range(num_folds):
        others = np.flatnonzero(fold != number) if num_folds > 1 else np.arange(num_groups)
        _, candidate = _candidate(outcomes.of_groups(others), num_moved)
        errors[fold == number] = outcomes.errors[candidate, fold == number]
    return errors


def _candidate(outcomes: Outcomes, num_moved: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return ``(best, simplest)``: the point with the fewest expected errors, and the simplest point near it.

    A point is near if its expected errors exceed the minimum by at most one standard error. Of equally simple points,
    the point with the fewest expected errors is returned.
    """
    total = outcomes.expected.sum(1)
    best = int(np.lexsort((num_moved, total))[0])
    num_words = max(float(outcomes.words.sum()), 1.0)
    excess = (total - total[best]) / num_words
    error = np.nan_to_num(ratio_error(outcomes.expected - outcomes.expected[best], outcomes.words), posinf=0.0)
    near = np.flatnonzero(excess <= error)
    simplest = near[num_moved[near] == num_moved[near].min()]
    return best, int(simplest[total[simplest].argmin()])


def explain(choice: Choice, candidate: str, num_words: int, unit: str, default: str = "initial weights") -> str:
    """Return a sentence that explains a choice.

    Args:
        choice: The choice.
        candidate: The settings of ``choice.candidate``.
        num_words: Number of reference words in the set.
        unit: Unit of cross-validation, such as "speaker".
        default: Name for the defaults in the sentence.
    """
    if choice.reason == "best":
        return f"the {default} are kept: no other values have significantly fewer expected errors"
    if choice.reason == "too few words":
        return f"the {default} are kept: {num_words} words are too few to choose other weights"
    difference = f"{choice.difference} percentage points (95% interval, cross-validated by {unit})"
    needed = choice.difference.words_needed
    is_small = not choice.difference.is_significant and needed is not None and needed > num_words
    advice = f"; about {rounded_up(needed or 0):,} words would show such a difference" if is_small else ""
    if choice.reason == "better":
        small = f"; {num_words} words are too few to be certain" if is_small else ""
        return f"difference from the {default}: {difference}{small}{advice}"
    return (
        f"the {default} are kept: {num_words} words do not show that other values ({candidate}) are better; "
        f"the difference is {difference}{advice}"
    )


def rounded_up(number: int) -> int:
    """Round up to two significant digits."""
    unit = int(10 ** max(len(str(number)) - 2, 0))
    return -(-number // unit) * unit
