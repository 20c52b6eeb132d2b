"""Boosts and a contextual model whose common evidence counts once, and the figures of docs/context.md."""

import numpy as np
import pytest

pytest.importorskip("torch")

from tiny_pointer import BASE, PENALTY, POINTER, TABLE, entities

from benchmarks.command import ROOT
from benchmarks.context.combination import STORED, trials
from benchmarks.context.single_evidence import CELLS, STAGES, SingleMixture, candidates, table
from benchmarks.tables import Cells
from ninja.context.deep.context_lm import ContextMixture
from ninja.context.deep.phrase_list_ids import PhraseListIds

LISTED = ("w6", "w8", "w1")
OTHERS = ("w2", "w3", "w7", "</s>")
WORDS = np.array(TABLE.ids([*LISTED, *OTHERS]), np.int32)


def gains(mixture, phrases=LISTED, **options):
    """Return the gains of words after the history w5, with other lists in the same batch."""
    ids = PhraseListIds()
    lm = mixture(((BASE, 1.0),), pointer=POINTER, phrase_lists=ids, **options).over(TABLE, PENALTY)
    list_ids = [ids.of(entities([(word,) for word in words]).of("*")) for words in (("w3", "w4"), phrases)]
    slots = lm.advance(lm.start(2), np.array([list_id.number for list_id in list_ids], np.int32))
    slots = lm.advance(slots, np.full(2, TABLE.id("w5"), np.int32))
    scored = np.repeat(slots, len(WORDS)), np.tile(WORDS, 2)
    return (lm.logprob(*scored) - lm.below(*scored)).astype(np.float64)[len(WORDS) :]


@pytest.mark.parametrize("weight", [0.5, 1.0])
@pytest.mark.parametrize("boost", [0.0, 0.7, 100.0])
def test_a_reduced_boost_and_the_gain_sum_to_the_larger_of_both(boost, weight):
    gain = gains(ContextMixture, gain=weight)
    assert (gain[: len(LISTED)] > 0).any()
    sums = gains(SingleMixture, gain=weight, boost=boost) + boost
    expected = [max(value, boost) if value > 0 else value + boost for value in gain[: len(LISTED)]]
    assert sums[: len(LISTED)] == pytest.approx(expected, abs=1e-5)
    assert sums[len(LISTED) :] - boost == pytest.approx(gain[len(LISTED) :], abs=1e-5)


def test_normalised_gains_are_shares_that_sum_to_one_in_any_order():
    gain = gains(SingleMixture)
    assert np.exp(gain[: len(LISTED)]).sum() / len(LISTED) == pytest.approx(1.0, abs=1e-5)
    unlisted = gain[len(LISTED) :]
    assert unlisted == pytest.approx(np.full(len(unlisted), unlisted[0]), abs=1e-5)
    assert unlisted[0] == pytest.approx(gains(ContextMixture)[-1], abs=1e-5)
    assert gains(SingleMixture, LISTED[::-1]) == pytest.approx(gain, abs=1e-5)


def test_documented_figures_match_the_stored_measurements():
    cells = Cells(CELLS)
    names = {trial.name for size in (100, 1000) for method in STAGES for values in candidates(size)
             for trial in trials("dev", size, method, values)}  # fmt: skip
    assert cells.keys() == names
    page = (ROOT / "docs/context.md").read_text(encoding="utf-8")
    _, _, *rows = table(Cells(STORED), cells)
    assert len(rows) == 6
    for line in rows:
        assert line.split(" | ")[5].removesuffix("%") in page, line
