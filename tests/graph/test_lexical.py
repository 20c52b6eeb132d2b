"""Lexical lattices: one arc per lexical word of a written word."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from reference_graph import costs_of, labels_of, paths, words_of
from strategies import lattices

import ninja
from ninja.graph.lexical import lexical_lattice
from ninja.lattice.lattice import ListLattice, check
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC, LexicalTable

WORDS = SymbolTable.from_words(["<eps>", "Tom-Chen,", "the", ",", "a-b-c", "The."])


@given(lattices())
def test_paths_of_a_lexical_lattice_have_the_lexical_words(lattice):
    lattice = lattice.replace(words=WORDS)
    table = LexicalTable(WORDS, BASIC)
    lexical = lexical_lattice(lattice, table)
    check(lexical.lattice)
    lexical_paths = {
        tuple(lexical.written_arcs(np.array(path, np.int64)).tolist()): path for path in paths(lexical.lattice)
    }
    source_paths = paths(lattice)
    assert sorted(lexical_paths) == sorted(source_paths)
    for path in source_paths:
        form = BASIC.words(WORDS.spell(words_of(lattice, path)))
        lexical_path = lexical_paths[path]
        assert table.lexical.spell(words_of(lexical.lattice, lexical_path)) == form
        assert costs_of(lexical.lattice, lexical_path) == costs_of(lattice, path)
        assert labels_of(lexical.lattice, lexical_path) == labels_of(lattice, path)


def test_the_duration_of_a_written_word_is_split_evenly_among_its_lexical_words():
    lattice = ninja.from_nbest("utt", [(["a-b", "c"], -1.0)]).replace(time=np.array([0, 10, 20], np.int32))
    lexical = lexical_lattice(lattice, LexicalTable(lattice.words, BASIC)).lattice
    assert isinstance(lexical, ListLattice)
    assert lexical.time.tolist() == [0, 5, 10, 20]
