"""Weights of a class model and a contextual model together, and the table of docs/context.md on read sentences."""

import pytest
from stored_pages import check_page

pytest.importorskip("torch")

from benchmarks.context import combination
from benchmarks.context.combination import BOTH, CLASS_MODEL, CONTEXTUAL, choose, trials, weights

SIZE = 100


def cells(rates):
    """Return cells of dev with WER, U-WER and B-WER by weights; rates of real sentences are 10 higher."""
    rates_of = {
        trial.name: (9.0, 99.0, 99.0) for values in weights(SIZE) for trial in trials("dev", SIZE, BOTH, values)
    }
    for values, three in rates.items():
        rates_of |= {trial.name: three for trial in trials("dev", SIZE, BOTH, values)}
    for method, three in ((CLASS_MODEL, (22.0, 20.0, 41.0)), (CONTEXTUAL, (23.0, 21.0, 40.0))):
        rates_of |= {trial.name: three for trial in trials("dev", SIZE, method)}
    return {
        name: dict(zip(("wer", "unbiased", "biased"), (rate + 10.0 * ("real" in name) for rate in three), strict=True))
        for name, three in rates_of.items()
    }


def test_the_lowest_wer_is_chosen_among_weights_that_raise_no_rate():
    first, second, third, fourth, *_ = weights(SIZE)
    rates = {
        first: (21.0, 20.0, 40.0),
        second: (20.0, 20.1, 30.0),
        third: (20.0, 19.0, 40.1),
        fourth: (20.5, 20.0, 40.0),
    }
    assert choose(cells(rates), SIZE) == fourth


@pytest.mark.parametrize("rate", ["unbiased", "biased"])
def test_the_rates_of_neither_set_may_rise(rate):
    first, second, *_ = weights(SIZE)
    rates = cells({first: (19.0, 19.0, 39.0), second: (20.0, 20.0, 40.0)})
    assert choose(rates, SIZE) == first
    rates[trials("dev", SIZE, BOTH, first)[1].name][rate] += 1.5
    assert choose(rates, SIZE) == second


def test_the_smallest_rise_decides_if_all_weights_raise_a_rate():
    first, second, *_ = weights(SIZE)
    assert choose(cells({first: (19.0, 20.5, 30.0), second: (25.0, 20.25, 40.0)}), SIZE) == second


def test_the_table_is_made_from_the_stored_measurements(tmp_path):
    check_page(combination.main, "context.md", combination.STORED, tmp_path)
