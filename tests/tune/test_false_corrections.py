"""The bound of the rate of false corrections: exact binomial tests in a fixed sequence."""

from itertools import product
from math import comb

import numpy as np
import pytest

from ninja.errors import OptionError
from ninja.tune.false_corrections import THRESHOLDS, binomial_tail, choose_threshold, num_needed, upper_bound


@pytest.mark.parametrize(("count", "trials", "rate"), list(product((0, 1, 3), (5, 40), (0.01, 0.3))))
def test_the_tail_is_the_sum_of_the_binomial_distribution(count, trials, rate):
    exact = sum(comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(count + 1))
    assert binomial_tail(count, trials, rate) == pytest.approx(exact, rel=1e-9)


def test_the_upper_bound_is_that_of_clopper_and_pearson():
    assert upper_bound(0, 299) == pytest.approx(1 - 0.05 ** (1 / 299), rel=1e-6)
    assert binomial_tail(2, 500, upper_bound(2, 500)) == pytest.approx(0.05, rel=1e-6)
    assert upper_bound(7, 7) == 1.0


def test_the_number_of_utterances_needed_is_told():
    assert num_needed(0.01) == 299
    with pytest.raises(OptionError, match=r"102 utterances have no phrases, but at least 299 are needed .* 0.01"):
        choose_threshold([0.0] * 102, 0.01)
    assert choose_threshold([0.0] * 299, 0.01).threshold == THRESHOLDS[-1]


def test_the_lowest_threshold_before_the_first_failure_is_chosen():
    scores = [0.0] * 990 + [0.3] * 4 + [0.15] * 6
    bound = choose_threshold(scores, 0.01)
    assert (bound.threshold, bound.changed, bound.utterances) == (0.16, 4, 1000)
    assert bound.upper <= 0.01
    assert choose_threshold([1.0] * 50 + [0.0] * 400, 0.01) is None


def test_the_bound_holds_in_95_of_100_samples():
    rng = np.random.default_rng(7)
    population = np.sort(rng.beta(0.15, 6.0, size=200_000))  # the largest probabilities of a change
    broken = 0
    for _ in range(400):
        bound = choose_threshold(rng.choice(population, 800), 0.02)
        if bound is not None:
            rate = 1 - np.searchsorted(population, bound.threshold) / len(population)
            broken += rate > 0.02
    assert broken <= 0.05 * 400 + 2 * (400 * 0.05 * 0.95) ** 0.5
