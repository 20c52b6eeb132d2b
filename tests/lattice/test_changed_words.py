"""Lattices with words that are not their own lexical forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import lattices

import ninja
from ninja.errors import SymbolError
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC, LexicalTable, Normalizer

WORDS = SymbolTable([("<eps>", 0), ("tom", 1), ("Tom", 2), ("chen", 3), (",", 4), ("a-b", 900), ("ann", 901)])


@st.composite
def written_lattices(draw: st.DrawFn) -> Lattice:
    lattice = draw(lattices())
    ids = st.sampled_from([0, 1, 1, 1, 2, 3, 4, 900, 901])
    word = draw(st.lists(ids, min_size=lattice.num_arcs, max_size=lattice.num_arcs))
    return lattice.replace(word=np.array(word, np.int32), words=WORDS)


@given(st.lists(written_lattices(), max_size=5))
def test_changed_lattices_have_a_word_that_differs_from_its_form(several):
    expected = [
        place
        for place, lattice in enumerate(several)
        if any(BASIC(word) != (word,) for word in WORDS.spell(lattice.word))
    ]
    table = LexicalTable(WORDS, BASIC)
    for _ in range(2):  # words are normalised in the first round
        assert table.changed(Batch.of(several)) == expected
    for place, lattice in enumerate(several):
        assert table.changed(lattice) == [0] * (place in expected)


def test_words_of_a_growing_table_are_found():
    words = SymbolTable.growing()
    table = LexicalTable(words, Normalizer("lower", lambda names: [(name.lower(),) for name in names]))
    for texts, changed in ((["ann"], []), (["ann", "tom"], []), (["ann", "Tom"], [0]), (["tom"], [])):
        words.intern(texts)
        lattice = ninja.from_nbest("utt", [(texts, -1.0)])
        ids = np.array(words.ids(lattice.words.spell(lattice.word)), np.int32)
        assert table.changed(lattice.replace(word=ids, words=words)) == changed


def test_a_word_outside_the_table_is_reported():
    lattice = ninja.from_nbest("utt", [(["ann", "bob"], -1.0)])
    for number in (5, 899, 2**31 - 1):
        other = lattice.replace(word=np.array([1, number], np.int32), words=WORDS)
        with pytest.raises(SymbolError, match=f"word id {number} is not in the symbol table"):
            LexicalTable(WORDS, BASIC).changed(other)
