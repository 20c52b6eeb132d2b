"""Combined weights of a class model and a contextual model, and the tables of docs/context.md on read sentences."""

import pytest
from stored_pages import check_page

pytest.importorskip("torch")

from benchmarks.context import combination
from benchmarks.context.combination import BOTH, CLASS_MODEL, CONTEXTUAL, choose, shares, trials, weights

SIZE = 100
WORDS = 1000  # biased and unbiased words per utterance
CLASS_ERRORS = ([200, 200, 200, 200], [410, 410, 410, 410])
CONTEXTUAL_ERRORS = ([210, 210, 210, 210], [400, 400, 400, 400])
WORSE = ([300, 300, 300, 300], [300, 300, 300, 300])


def cell(unbiased, biased):
    """Return a table cell with the rates and the errors per utterance."""
    rates = [sum(errors) / (WORDS / 100 * len(errors)) for errors in (unbiased, biased)]
    return {
        "wer": sum(rates) / 2,
        "unbiased": rates[0],
        "biased": rates[1],
        "unbiased_errors": unbiased,
        "biased_errors": biased,
    }


def cells(errors, groups=(0, 1, 2, 3)):
    """Return the cells of the dev sets, where errors maps weights to unbiased and biased errors per utterance."""
    words = {"unbiased_words": [WORDS] * 4, "biased_words": [WORDS] * 4, "group": list(groups)}
    result = {f"dev, {sentences}": words for sentences in combination.SETS}
    for values in weights(SIZE):
        result |= {trial.name: cell(*errors.get(values, WORSE)) for trial in trials("dev", SIZE, BOTH, values)}
    for method, method_errors in ((CLASS_MODEL, CLASS_ERRORS), (CONTEXTUAL, CONTEXTUAL_ERRORS)):
        result |= {trial.name: cell(*method_errors) for trial in trials("dev", SIZE, method)}
    return result


def test_weights_within_the_limits_are_preferred_to_a_lower_wer():
    first, second, *_ = weights(SIZE)
    uneven, even = ([80, 80, 80, 205], [390, 390, 390, 390]), ([199, 199, 199, 199], [399, 399, 399, 399])
    dev = cells({first: uneven, second: even})
    assert choose(dev, SIZE) == second
    share = shares(dev, SIZE)
    # A set exceeds the limit only if all four draws are the last utterance.
    assert share == {first: pytest.approx((1 - 1 / 256) ** 2, abs=0.004), second: 1.0}
    assert share[first] < 1.0


def test_lowest_wer_breaks_ties_of_shares():
    first, second, *_ = weights(SIZE)
    higher, lower = ([199] * 4, [399] * 4), ([199] * 4, [398] * 4)
    assert choose(cells({first: higher, second: lower}), SIZE) == second


@pytest.mark.parametrize(
    ("unbiased", "biased", "is_within"), [(201, 400, True), (202, 400, False), (201, 401, False), (190, 401, False)]
)
def test_unbiased_errors_may_rise_by_a_tenth_of_a_percent(unbiased, biased, is_within):
    first, second, *_ = weights(SIZE)
    share = shares(cells({first: ([unbiased] * 4, [biased] * 4), second: ([190] * 4, [390] * 4)}), SIZE)
    assert share == ({first: 1.0, second: 1.0} if is_within else {second: 1.0})


@pytest.mark.parametrize("rate", ["unbiased", "biased"])
@pytest.mark.parametrize("number", [0, 1])
def test_weights_that_raise_the_rate_of_either_set_are_not_chosen(rate, number):
    first, second, *_ = weights(SIZE)
    dev = cells({first: ([190] * 4, [390] * 4), second: ([199] * 4, [399] * 4)})
    assert choose(dev, SIZE) == first
    dev[trials("dev", SIZE, BOTH, first)[number].name][rate] += 1.5
    assert choose(dev, SIZE) == second


def test_limits_come_from_the_better_model_of_each_replication():
    first, *_ = weights(SIZE)
    dev = cells({first: ([200] * 4, [400] * 4)})
    assert shares(dev, SIZE) == {first: 1.0}
    # In half of the utterances the contextual model is far better, and in the other half far worse.
    uneven = cell([100, 100, 320, 320], [400] * 4)
    dev |= {trial.name: uneven for trial in trials("dev", SIZE, CONTEXTUAL)}
    # A set is within the limit if at most two of its four draws are from the first half: 11 of 16 cases.
    assert shares(dev, SIZE) == {first: pytest.approx((11 / 16) ** 2, abs=0.02)}


def test_replications_draw_whole_groups():
    first, *_ = weights(SIZE)
    errors = {first: ([150, 150, 205, 205], [390] * 4)}
    # With two speakers, both draws are the second one in a quarter of the replications of a set.
    assert shares(cells(errors, groups=(0, 0, 1, 1)), SIZE) == {first: pytest.approx((3 / 4) ** 2, abs=0.02)}
    assert shares(cells(errors), SIZE) == {first: pytest.approx((15 / 16) ** 2, abs=0.02)}


def test_documented_tables_match_the_stored_measurements(tmp_path):
    check_page(combination.main, "context.md", combination.STORED, tmp_path)
