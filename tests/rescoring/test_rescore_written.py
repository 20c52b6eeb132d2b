"""Rescoring of written text by models of lexical words."""

from __future__ import annotations

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import given
from hypothesis import strategies as st
from strategies import lattices

import ninja
from ninja.errors import VocabularyError
from ninja.graph import best_path
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC, LOOKS_WRITTEN
from ninja.lm.mixture import Mixture
from ninja.rescoring import RescoreOptions, RescoreReport
from ninja.rescoring.algorithms import ALGORITHMS
from ninja.rescoring.rescorer import Rescorer
from ninja.rescoring.run import rescore

LEXICAL = SymbolTable.from_words(["<eps>", *(f"w{i}" for i in range(1, 6))])
WRITTEN = SymbolTable.from_words(["<eps>", "W1,", "w2.", "“w3”", "W4", "w5?"])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(lattice=lattices(max_states=6), mixed=st.booleans())
def test_written_words_have_the_scores_of_their_lexical_words(algorithm, lattice, mixed):
    def result(words, normalizer):
        lm = Mixture([(FakeLM(), 0.5), (FakeLM(salt=1), 0.25)]) if mixed else FakeLM()
        options = RescoreOptions(algorithm=algorithm, normalizer=normalizer)
        ((_, rescored),) = rescore([(lattice.key, lattice.replace(words=words))], lm, options)
        return rescored

    expected, rescored_text = result(LEXICAL, "none"), result(WRITTEN, "auto")
    for field in ("arc_begin", "dst", "word", "graph", "acoustic", "final_graph"):
        assert np.array_equal(getattr(rescored_text, field), getattr(expected, field))
    assert rescored_text.words is WRITTEN


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_words_with_several_lexical_words_or_none(algorithm):
    forms = [["w1", "w2", "w3"], ["W1-w2,", "w3"], ["w1", ",", "w2-", "w3", "!"]]
    costs = []
    for words in forms:
        lattice = ninja.from_nbest("utt", [(words, -2.0)])
        options = RescoreOptions(algorithm=algorithm, normalizer="basic", lm_weight=1.0)
        ((_, rescored),) = rescore([("utt", lattice)], FakeLM(), options)
        path = best_path(rescored)
        assert rescored.words.spell(path.words) == words
        costs.append(path.graph_cost)
    assert costs == [costs[0]] * 3


def test_hypotheses_of_equal_form_are_merged_and_the_best_one_is_written():
    lattice = ninja.from_nbest("utt", [(["W1", "w2."], -1.0), (["w1,", "w2."], -0.5), (["w3"], -1.2)])
    report = RescoreReport()
    ((_, rescored),) = rescore(
        [("utt", lattice)], FakeLM(), RescoreOptions(lm_weight=0.0, acoustic_scale=1.0), report=report
    )
    assert report.merged == 1
    paths = {" ".join(rescored.words.spell(path.words)): path.acoustic_cost for path in ninja.graph.nbest(rescored, 9)}
    assert paths == pytest.approx({"w1, w2.": -np.logaddexp(-1.0, -0.5), "w3": 1.2})


def test_the_default_normalizer_lets_lexical_models_score_written_words():
    lattice = ninja.from_nbest("utt", [(["Kathy", "Clendenin,", "W1."], -1.0), (["W1", "w2,"], -2.0)])
    notes: list[str] = []
    report = RescoreReport(on_note=notes.append)
    list(rescore([("utt", lattice)], FakeLM(), report=report))
    assert LOOKS_WRITTEN in notes
    with pytest.raises(VocabularyError, match="have words unknown"):
        list(rescore([("utt", lattice)], FakeLM(), RescoreOptions(normalizer="none", max_unknown=0.5)))


def test_submitted_lattices_can_contain_written_words():
    with Rescorer(FakeLM(), RescoreOptions(max_unknown=0.1)) as rescorer:
        plain = rescorer.submit(ninja.from_nbest("a", [(["w1", "w2"], -1.0)])).result()
        punctuated = rescorer.submit(ninja.from_nbest("b", [(["W1,", "w2."], -1.0)])).result()
    assert best_path(plain).graph_cost == best_path(punctuated).graph_cost


@pytest.mark.parametrize("words", [[",", "…"], ["👍"], ["\u0301"], ["—"]])
def test_words_without_lexical_words_cost_as_much_as_no_words(words):
    lattice = ninja.from_nbest("utt", [(words, -1.0)])
    empty = ninja.from_nbest("utt", [([], -1.0)])
    options = RescoreOptions(normalizer="basic")
    costs = []
    for source in (lattice, empty):
        ((_, rescored),) = rescore([("utt", source)], FakeLM(), options)
        costs.append(best_path(rescored).graph_cost)
    assert costs[0] == costs[1]
    assert BASIC.words(words) == []
