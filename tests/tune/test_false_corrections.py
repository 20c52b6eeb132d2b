"""Upper bounds of the rate of false corrections, by exact tests in a fixed sequence."""

from fractions import Fraction
from itertools import combinations, product
from math import comb, floor

import numpy as np
import pytest

from ninja.errors import OptionError
from ninja.tune.false_corrections import (
    THRESHOLDS,
    binomial_tail,
    choose_threshold,
    exceedance_tail,
    num_needed,
    tail,
    upper_bound,
)


@pytest.mark.parametrize(("count", "trials", "rate"), list(product((0, 1, 3), (5, 40), (0.01, 0.3))))
def test_binomial_tail_is_the_sum_of_the_distribution(count, trials, rate):
    exact = sum(comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(count + 1))
    assert binomial_tail(count, trials, rate) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("count", "future_count"), list(product((0, 1, 3), (1, 2, 4))))
def test_exceedance_tail_agrees_with_enumeration_of_divisions(count, future_count):
    events = range(count + future_count)  # of 10 utterances, 5 are in the first set
    divisions = [sum(number in events for number in first) for first in combinations(range(10), 5)]
    exact = Fraction(sum(events_of_first <= count for events_of_first in divisions), len(divisions))
    assert exceedance_tail(count, 5, future_count, 5) == pytest.approx(float(exact), rel=1e-9)


def test_tail_of_a_large_future_set_is_binomial():
    assert tail(3, 500, 0.02, 10**7) == pytest.approx(binomial_tail(3, 500, 0.02), rel=1e-3)


def test_upper_bound_agrees_with_clopper_and_pearson():
    assert upper_bound(0, 299, None) == pytest.approx(1 - 0.05 ** (1 / 299), rel=1e-6)
    assert binomial_tail(2, 500, upper_bound(2, 500, None)) == pytest.approx(0.05, rel=1e-6)
    assert upper_bound(7, 7, None) == 1.0


def test_upper_bound_of_a_future_set_is_the_last_count_not_rejected():
    upper = round(upper_bound(2, 500, 400) * 400)
    assert exceedance_tail(2, 500, upper, 400) > 0.05 >= exceedance_tail(2, 500, upper + 1, 400)
    assert upper_bound(7, 7, 9) == 1.0


@pytest.mark.parametrize("rate", [0.003, 0.01, 0.05, 0.2, 0.5])
def test_a_future_set_of_the_same_size_needs_more_utterances_than_an_infinite_one(rate):
    num_utterances = num_needed(rate, is_finite=True)
    assert num_utterances > num_needed(rate, is_finite=False)
    assert all(tail(0, size, rate, size) <= 0.05 for size in range(num_utterances, 3 * num_utterances))
    assert tail(0, num_utterances - 1, rate, num_utterances - 1) > 0.05
    for size, count in product(range(num_utterances, num_utterances + 60, 7), range(5)):
        assert tail(count, size, rate, size) > 0.05 or tail(count, size, rate, None) <= 0.05


def test_too_few_utterances_raise_an_error_with_the_required_number():
    assert num_needed(0.01, is_finite=False) == 299
    assert num_needed(0.01, is_finite=True) == 400
    with pytest.raises(
        OptionError,
        match=r"at least 299 utterances without phrases are needed .* 0.01 .*, but only 102 utterances have none",
    ):
        choose_threshold([0.0] * 102, 0.01, None)
    with pytest.raises(
        OptionError,
        match=r"at least 400 utterances without phrases are needed .* 0.01 .*, but only 399 utterances have none",
    ):
        choose_threshold([0.0] * 399, 0.01, 399)
    assert choose_threshold([0.0] * 299, 0.01, None).threshold == THRESHOLDS[-1]
    assert choose_threshold([0.0] * 400, 0.01, 400).threshold == THRESHOLDS[-1]


@pytest.mark.parametrize("num_future", [None, 1000])
def test_lowest_threshold_before_the_first_failure_is_chosen(num_future):
    scores = [0.0] * 990 + [0.3] * 3 + [0.15] * 7
    bound = choose_threshold(scores, 0.01, num_future)
    assert (bound.threshold, bound.changed, bound.utterances) == (0.16, 3, 1000)
    assert bound.upper <= 0.01
    assert choose_threshold([1.0] * 50 + [0.0] * 400, 0.01, num_future) is None


def test_bound_holds_in_95_of_100_samples():
    rng = np.random.default_rng(7)
    population = np.sort(rng.beta(0.15, 6.0, size=200_000))  # the largest probability of a change per utterance
    num_violations = 0
    for _ in range(400):
        bound = choose_threshold(rng.choice(population, 800), 0.02, None)
        if bound is not None:
            rate = 1 - np.searchsorted(population, bound.threshold) / len(population)
            num_violations += rate > 0.02
    assert num_violations <= 0.05 * 400 + 2 * (400 * 0.05 * 0.95) ** 0.5


def test_bound_holds_in_the_second_half_of_95_of_100_divisions():
    rng = np.random.default_rng(8)
    scores = rng.beta(0.15, 6.0, size=1600)
    num_violations = 0
    for _ in range(400):
        first, second = np.split(rng.permutation(scores), 2)
        bound = choose_threshold(first, 0.02, 800)
        if bound is not None:
            assert round(bound.upper * 800) <= floor(0.02 * 800)
            num_violations += (second >= bound.threshold).mean() > 0.02
    assert 0 < num_violations <= 0.05 * 400 + 2 * (400 * 0.05 * 0.95) ** 0.5
