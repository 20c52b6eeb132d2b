"""`WordMap.grown`: the map of a table with new words equals a new map of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import given
from hypothesis import strategies as st

from ninja.graph import from_arcs
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalForms
from ninja.lm import LanguageModel
from ninja.lm.lexical import LexicalLM
from ninja.lm.word_map import WordMap
from ninja.rescoring import coverage

WORDS = ["w1", "W2", "w3,", "—", "<s>", "</s>", "<unk>", "[UNK]", "new", "other", "w4-w5", "w6"]


def equal_maps(word_map: WordMap, reference: WordMap) -> bool:
    arrays = ("lm_word", "extra", "is_empty", "_listed", "_known")
    return (word_map.unk_penalty, word_map.mapped) == (reference.unk_penalty, reference.mapped) and all(
        np.array_equal(getattr(word_map, name), getattr(reference, name)) for name in arrays
    )


@given(
    parts=st.lists(st.lists(st.sampled_from(WORDS), max_size=5), max_size=4),
    penalty=st.none() | st.just(2.0),
    map_words=st.sampled_from([(), ("case",), ("case", "unk")]),
    form=st.sampled_from([None, "basic", "auto"]),
    has_unk=st.booleans(),
)
def test_a_grown_map_equals_a_new_map(
    parts: list[list[str]], penalty: float | None, map_words: Sequence, form: str | None, has_unk: bool
) -> None:
    def model() -> LanguageModel:
        lm = FakeLM(unk=has_unk)
        return lm if form is None else LexicalLM(lm, LexicalForms(form))

    table = SymbolTable.growing()
    lm = model()
    word_map = WordMap(table, lm, penalty, map_words=map_words)
    for part in parts:
        old_lm_word = word_map.lm_word.copy()
        table.intern(part)
        grown_map = word_map.grown()
        assert np.array_equal(word_map.lm_word, old_lm_word)  # lattices in progress use the old map
        assert equal_maps(grown_map, WordMap(table, lm, penalty, map_words=map_words))
        word_map = grown_map


def test_a_grown_map_looks_up_only_new_words(monkeypatch: pytest.MonkeyPatch) -> None:
    lm, table = FakeLM(), SymbolTable.growing()
    table.intern(f"x{number}" for number in range(1000))
    word_map = WordMap(table, lm, 1.0)
    lookups: list[str] = []
    monkeypatch.setattr(
        type(lm.vocabulary), "ids", lambda vocabulary, words: [lookups.append(word) or -1 for word in words]
    )
    table.intern(["w1", "w2"])
    lookups.clear()
    word_map.grown()
    assert lookups == ["w1", "w2"]


def test_a_map_does_not_cover_new_words_with_ids_below_the_largest() -> None:
    table = SymbolTable([("<eps>", 0), ("w1", 1), ("w2", 50)]).growing_copy()
    word_map = WordMap(table, FakeLM(), 1.0)
    [new] = table.intern(["w3"])
    lattice = from_arcs("a", [0], [1], [new], [0.0], finals={1: 0.0}, words=table)
    assert not word_map.covers(lattice)
    assert word_map.grown().of(lattice)[0].tolist() == FakeLM().vocabulary.ids(["w3"])


@pytest.mark.parametrize("unk_penalty", [None, 1.0])
def test_coverage_counts_words_that_are_added_to_a_growing_table(unk_penalty: float | None) -> None:
    words = SymbolTable.growing()

    def sentences() -> Iterator[Lattice]:
        for sentence in (["w1"], ["w1", "zzz"]):
            ids = words.intern(sentence)
            states = range(len(ids))
            ends = [state + 1 for state in states]
            yield from_arcs("a", [*states], ends, ids, [0.0] * len(ids), finals={len(ids): 0.0}, words=words)

    result = coverage(sentences(), FakeLM(), unk_penalty)
    assert (result.num_arcs, result.lacking) == ({"w1": 2, "zzz": 1}, {"zzz"})
