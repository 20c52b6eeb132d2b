"""The paired difference of two error rates, its interval, and the size of a test set that makes it significant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninja.evaluate.bootstrap import resample
from ninja.evaluate.paired import paired_difference, student_quantile


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_standard_error_agrees_with_the_bootstrap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = rng.integers(10, 40, 80)
    first, second = rng.poisson(words * 0.2), rng.poisson(words * 0.15)
    difference = paired_difference(first, second, words)
    sums, drawn_words = resample([second - first, words], 4000, seed)
    rates = 100 * sums / drawn_words
    assert difference.interval.mean == pytest.approx(100 * (second - first).sum() / words.sum())
    assert difference.standard_error == pytest.approx(rates.std(), rel=0.1)
    assert difference.interval.half_width == pytest.approx(student_quantile(0.975, 79) * difference.standard_error)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (6, 2.447), (10, 2.228), (30, 2.042), (1000, 1.962)]
)
def test_student_quantiles_agree_with_published_tables(freedom: int, quantile: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(quantile, rel=0.01)
    assert student_quantile(0.025, freedom) == pytest.approx(-quantile, rel=0.01)


def test_words_needed_give_a_power_of_80_percent() -> None:
    rng = np.random.default_rng(0)
    words = np.full(30, 20)
    difference = paired_difference(rng.poisson(4, 30), rng.poisson(3.6, 30), words)
    assert not difference.is_significant
    words_needed = difference.words_needed
    assert words_needed is not None
    assert words_needed > 600
    mean, error = difference.interval.mean, difference.standard_error * np.sqrt(600 / words_needed)
    estimates = rng.normal(mean, error, 20_000)
    assert (np.abs(estimates) > 1.96 * error).mean() == pytest.approx(0.8, abs=0.02)


def test_equal_systems_and_single_groups_are_not_significant() -> None:
    words = np.array([10, 20])
    equal = paired_difference(words, words, words)
    assert (equal.interval.mean, equal.interval.half_width, equal.words_needed) == (0.0, 0.0, None)
    assert not equal.is_significant
    single = paired_difference(np.array([3]), np.array([1]), np.array([10]))
    assert single.interval.half_width == np.inf
    assert not single.is_significant
    assert str(equal) == "+0.00 [+0.00, +0.00]"
