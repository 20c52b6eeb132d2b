"""Lattices whose written words are replaced by numbers of lexical words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import lattices

import ninja
from ninja import _core
from ninja.errors import SymbolError
from ninja.graph.lexical import lexical_lattice
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.form_numbers import FIRST_OTHER, FormNumbers
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC, LexicalTable, Normalizer

WORDS = SymbolTable(
    [("<eps>", 0), ("tom", 1), ("Tom", 2), ("chen", 3), (",", 4), ("a-b", 900), ("ann", 901), ("Bo.", 902), ("A-B!", 5)]
)
LOWER = Normalizer("lower", lambda names: [(name.lower(),) for name in names])
ARRAYS = ("arc_begin", "dst", "graph", "acoustic", "ali_begin", "ali", "final_graph", "final_acoustic",
          "final_ali_begin", "final_ali")  # fmt: skip


@st.composite
def written_lattices(draw: st.DrawFn) -> Lattice:
    lattice = draw(lattices())
    ids = st.sampled_from([0, 1, 1, 1, 2, 3, 4, 900, 901, 902, 5])
    word = draw(st.lists(ids, min_size=lattice.num_arcs, max_size=lattice.num_arcs))
    time = np.sort(draw(st.lists(st.integers(0, 9), min_size=lattice.num_states, max_size=lattice.num_states)))
    return lattice.replace(
        word=np.array(word, np.int32), words=WORDS, time=draw(st.sampled_from([None, time.astype(np.int32)]))
    )


def forms_of(lattice: Lattice) -> dict[str, tuple[str, ...]]:
    return {word: BASIC(word) for word in WORDS.spell(lattice.word[lattice.word != 0])}


def has_clashes(lattice: Lattice) -> bool:
    """Return whether different words have the same form, or a form does not have exactly one lexical word."""
    forms = forms_of(lattice)
    return len(set(forms.values())) < len(forms) or any(len(form) != 1 for form in forms.values())


@given(st.lists(written_lattices(), max_size=4), st.booleans())
def test_numbered_lattices_have_words_and_arcs_of_the_lexical_lattices(examples, all_changed):
    table = LexicalTable(WORDS, BASIC)
    for source in (Batch.of(examples), *examples):
        batch = [source] if isinstance(source, Lattice) else examples
        numbered = table.numbers.lattices(source, all_changed=all_changed)
        assert numbered.changed.tolist() == [
            place
            for place, lattice in enumerate(batch)
            if (
                any(form != (word,) for word, form in forms_of(lattice).items())
                if all_changed
                else has_clashes(lattice)
            )
        ]
        assert (numbered.items is None) == (len(numbered.changed) == 0)
        if numbered.items is None:
            continue
        for place, (lattice, result) in enumerate(zip(batch, Batch.of(batch).like(numbered.items), strict=True)):
            if place not in numbered.changed:
                assert result.word.tolist() == lattice.word.tolist()
                continue
            lexical = lexical_lattice(lattice, table)
            for name in ARRAYS:
                assert np.array_equal(getattr(result, name), getattr(lexical.lattice, name)), name
            assert (result.time is None) == (lexical.lattice.time is None)
            assert result.time is None or np.array_equal(result.time, lexical.lattice.time)
            names = ["" if number == 0 else table.numbers.names([number])[0] for number in result.word.tolist()]
            assert names == ["" if number == 0 else table.lexical.word(number) for number in lexical.lattice.word]
            source_arcs = _core.written_arcs(numbered.items, place)
            if source_arcs is None:
                assert lexical.is_first.all()
            else:
                assert np.array_equal(
                    np.where(lexical.is_first, lexical.source_arc, -1 - lexical.source_arc), source_arcs
                )


@given(written_lattices())
def test_each_numbered_arc_has_its_written_form(lattice):
    table = LexicalTable(WORDS, BASIC)
    numbered = table.numbers.lattices(lattice, all_changed=True)
    if numbered.items is None:
        return
    form, parts = numbered.forms()
    lexical = lexical_lattice(lattice, table)
    assert len(form) == lexical.lattice.num_arcs
    for number, source, name in zip(form.tolist(), lexical.source_arc, lexical.lattice.word, strict=True):
        word = int(lattice.word[source])
        if number >= 0:
            assert number == word
            assert len(BASIC(WORDS.word(word))) < 2 or word == 0
        else:
            written_word, piece = parts[-1 - number].tolist()
            assert written_word == word
            assert BASIC(WORDS.word(word))[piece] == table.lexical.word(int(name))


def test_equal_lexical_words_have_equal_numbers():
    numbers = FormNumbers(WORDS, BASIC)
    assert numbers.of(["tom", "bo", "b", "bo"]) == [1, FIRST_OTHER, FIRST_OTHER + 1, FIRST_OTHER]
    assert numbers.names([1, FIRST_OTHER + 1]) == ["tom", "b"]
    assert numbers.of_written(np.array([2, 0, 4, 5, 902], np.int32)).tolist() == numbers.of(["tom", "a", "b", "bo"])


def test_a_form_keeps_its_number_when_it_is_added_to_the_symbol_table():
    words = SymbolTable.growing()
    numbers = FormNumbers(words, LOWER)

    def number_of(name: str) -> int:
        words.intern([name])
        lattice = ninja.from_nbest("utt", [([name], -1.0)])
        lattice = lattice.replace(word=np.array(words.ids([name]), np.int32), words=words)
        numbered = numbers.lattices(lattice, all_changed=True)
        if numbered.items is None:
            return int(lattice.word[0])
        return int(Batch.of([lattice]).like(numbered.items)[0].word[0])

    assert number_of("Ann") == number_of("ann") == FIRST_OTHER
    assert number_of("tom") == number_of("Tom") == words.id("tom")


def test_a_word_outside_the_table_is_reported():
    lattice = ninja.from_nbest("utt", [(["ann", "bob"], -1.0)])
    for number in (len(WORDS), 899, 2**31 - 1):
        unknown_word = lattice.replace(word=np.array([1, number], np.int32), words=WORDS)
        with pytest.raises(SymbolError, match=f"word id {number} is not in the symbol table"):
            FormNumbers(WORDS, BASIC).lattices(unknown_word)
