"""N-best lists and oracle paths by lexical words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import cost_of, paths, words_of
from strategies import lattices

import ninja
from ninja.errors import LatticeError
from ninja.graph import lattice_nbest, lexical_lattice, nbest, oracle
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC, LexicalTable

WORDS = SymbolTable.from_words(["<eps>", "Tom", "tom", "Chen,", ",", "tom-chen"])


@st.composite
def written_lattices(draw: st.DrawFn) -> Lattice:
    lattice = draw(lattices())
    word = draw(st.lists(st.integers(0, 5), min_size=lattice.num_arcs, max_size=lattice.num_arcs))
    return lattice.replace(word=np.array(word, np.int32), words=WORDS)


@given(written_lattices(), st.integers(1, 5))
def test_each_sequence_of_lexical_words_occurs_once_with_its_best_path(lattice, n):
    best: dict[tuple[str, ...], float] = {}
    for path in paths(lattice):
        words = tuple(BASIC.words(WORDS.spell(words_of(lattice, path))))
        best[words] = min(best.get(words, np.inf), cost_of(lattice, path))
    table = LexicalTable(WORDS, BASIC)
    nbest_paths = nbest(lattice, n, forms=table)
    assert [path.cost() for path in nbest_paths] == pytest.approx(sorted(best.values())[:n], abs=1e-4)
    for path in nbest_paths:
        assert tuple(path.words.tolist()) == words_of(lattice, path.arcs.tolist())
        assert best.pop(tuple(BASIC.words(WORDS.spell(path.words)))) == pytest.approx(path.cost(), abs=1e-4)
    batch = nbest(Batch.of([lattice, lattice]), n, forms=table)
    assert [linear.word[linear.word != 0].tolist() for linear in batch] == 2 * [
        path.words.tolist() for path in nbest_paths
    ]
    assert batch.keys == 2 * [f"{lattice.key}-{number}" for number in range(1, len(nbest_paths) + 1)]


def test_a_lattice_without_a_path_is_a_fault_of_its_batch():
    lattice = ninja.from_nbest("utt", [(["Tom,"], -1.0)])
    broken = lattice.replace(final_graph=np.full(2, np.inf, np.float32), final_acoustic=np.full(2, np.inf, np.float32))
    batch = nbest(Batch.of([broken, lattice]), 2, forms=LexicalTable(lattice.words, BASIC))
    assert batch.keys == ["utt-1"]
    ((place, error),) = batch.faults
    assert place == 0
    with pytest.raises(LatticeError, match="no path leads"):
        raise error


def test_lattice_nbest_has_the_best_written_form_of_each_hypothesis():
    lattice = ninja.from_nbest("utt", [(["tom", "chen"], -2.0), (["Tom", "Chen,"], -1.0), (["Tim"], -3.0)])
    hypotheses = lattice_nbest(lattice, 5, forms=LexicalTable(lattice.words, BASIC)).hypotheses
    assert [hypothesis.words for hypothesis in hypotheses] == [("Tom", "Chen,"), ("Tim",)]


@given(written_lattices(), st.lists(st.sampled_from(["Tom", "chen", "CHEN.", "tom-chen", "!", "ann"]), max_size=5))
def test_oracle_by_lexical_words_agrees_with_the_lexical_lattice(lattice, reference):
    table = LexicalTable(WORDS, BASIC)
    nearest = oracle(lattice, table.ids(reference), forms=table)
    lexical_nearest = oracle(lexical_lattice(lattice, table).lattice, table.ids(reference))
    for name in ("substitutions", "insertions", "deletions", "num_words"):
        assert getattr(nearest, name) == getattr(lexical_nearest, name)
    assert tuple(nearest.words.tolist()) == words_of(lattice, nearest.arcs.tolist())
    assert BASIC.words(WORDS.spell(nearest.words)) == table.lexical.spell(lexical_nearest.words)


def test_wildcards_match_any_written_form():
    lattice = ninja.from_nbest("utt", [(["[noise]", "Tom,", "Uh,"], -1.0)])
    table = LexicalTable(lattice.words, BASIC)
    wildcards = lattice.words.ids(["[noise]", "Uh,"])
    nearest = oracle(lattice, table.ids(["uh", "tom"]), wildcards, forms=table)
    assert (nearest.edits, nearest.num_words) == (0, 1)
    assert lattice.words.spell(nearest.words) == ["Tom,"]


def test_wildcards_of_several_lexical_words_are_no_errors():
    lattice = ninja.from_nbest("utt", [(["Uh-huh,", "Tom,", "uh-huh"], -1.0)])
    table = LexicalTable(lattice.words, BASIC)
    wildcards = lattice.words.ids(["uh-huh"])
    for reference in (["tom"], ["uh", "tom"], ["tom", "uh-huh"], ["uh", "uh-huh", "tom"]):
        nearest = oracle(lattice, table.ids(reference), wildcards, forms=table)
        assert (nearest.deletions, nearest.insertions) == (reference.count("uh"), 0)
        assert nearest.num_words == 1 + reference.count("uh")
