"""Consensus decoding with lexical forms, and the written forms of its words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_consensus import slow_decode
from strategies import lattices
from strategies_graph import SCALES, scales_of, timed_lattices

import ninja
from ninja import _consensus
from ninja.consensus import Consensus, confusion_network, consensus_ctm, mbr_decode, sentence_confidence
from ninja.consensus.written import arc_forms
from ninja.graph import lexical_lattice
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC, NONE, LexicalTable, Normalizer

WORDS = SymbolTable.from_words(["<eps>", "Tom", "tom", "Chen,", ",", "tom-chen", ".", "Tom-Chen"])
LEXICAL = SymbolTable.from_words(["<eps>", "tom", "chen", "ann"])


@st.composite
def written_lattices(draw: st.DrawFn) -> Lattice:
    """Draw a lattice of written words with times."""
    lattice = draw(timed_lattices())
    word = draw(st.lists(st.integers(0, 7), min_size=lattice.num_arcs, max_size=lattice.num_arcs))
    return replace(lattice, word=np.array(word, np.int32), words=WORDS)


def list_of(*texts: tuple[str, float]) -> Lattice:
    return ninja.from_nbest("utt", [(text.split(), score) for text, score in texts])


def decode(lattice: Lattice, **options: object) -> tuple[list[str], Consensus]:
    result = mbr_decode(lattice, forms=LexicalTable(lattice.words, BASIC), **options)
    return (result.symbols or lattice.words).spell(result.words), result


@given(written_lattices(), SCALES, st.booleans())
def test_bins_agree_with_the_lexical_lattice(lattice, scales, decode_mbr):
    table = LexicalTable(WORDS, BASIC)
    options = {"scales": scales_of(scales), "decode_mbr": decode_mbr}
    result = mbr_decode(lattice, forms=table, **options)
    lexical = mbr_decode(lexical_lattice(lattice, table).lattice, **options)
    spelling = result.symbols or WORDS
    assert BASIC.words(spelling.spell(result.words)) == table.lexical.spell(lexical.words)
    assert [BASIC.words([spelling.word(word)]) if word else [] for word in result.word.tolist()] == [
        [table.lexical.word(word)] if word else [] for word in lexical.word.tolist()
    ]
    for name in ("posterior", "bin_begin", "bin_times", "word_times", "bayes_risk", "rounds", "touches_band"):
        assert np.array_equal(getattr(result, name), getattr(lexical, name))


@given(written_lattices(), SCALES)
def test_forms_in_bins_are_the_most_probable(lattice, scales):
    arcs = arc_forms(lattice, LexicalTable(WORDS, BASIC))
    if arcs is None:
        return
    *_, (_, word, *_), _, (_, form, whole, mark, share, _) = _consensus.decode_mbr(
        arcs.batch, scales_of(scales), None, (arcs.changed, arcs.form), True, False
    )
    slow = slow_decode(arcs.batch[0], **scales, form=arcs.form.tolist())
    lexical_word = dict(zip(arcs.form.tolist(), arcs.batch[0].word.tolist(), strict=True))
    entries = iter(zip(word.tolist(), form.tolist(), whole.tolist(), strict=True))
    for bin_, (forms, marks) in enumerate(zip(slow.forms, slow.marks, strict=True)):
        for lexical, _ in slow.bins[bin_]:
            number, best, best_whole = next(entries)
            assert lexical == number
            shares = {form_id: gamma for form_id, gamma in forms.items() if lexical_word[form_id] == number != 0}
            wholes = {form_id: gamma for form_id, gamma in shares.items() if form_id > 0}
            assert shares.get(best, 0.0) >= max(shares.values(), default=0.0) - 1e-6
            assert wholes.get(best_whole, 0.0) >= max(wholes.values(), default=0.0) - 1e-6
        none = 1.0 - sum(marks.values())
        if mark[bin_]:
            assert marks[mark[bin_]] >= max(none, *marks.values()) - 1e-6
            assert min(marks[mark[bin_]], 1.0) == pytest.approx(share[bin_], abs=1e-6)
        else:
            assert max(marks.values(), default=0.0) <= max(none, 0.0) + 1e-6


@given(timed_lattices(), SCALES)
def test_lexical_words_are_decoded_without_changes(lattice, scales):
    lattice = lattice.replace(word=lattice.word % 4, words=LEXICAL)
    scales = scales_of(scales)
    for normalizer in (NONE, BASIC):
        assert_same(mbr_decode(lattice, scales, forms=LexicalTable(LEXICAL, normalizer)), mbr_decode(lattice, scales))


def assert_same(result: Consensus, expected: Consensus) -> None:
    for name in Consensus.__dataclass_fields__:
        assert np.array_equal(getattr(result, name), getattr(expected, name)), name


@given(st.lists(written_lattices(), max_size=4))
def test_a_batch_is_decoded_like_its_lattices(several):
    table = LexicalTable(WORDS, BASIC)
    batch = mbr_decode(Batch.of(several), forms=table)
    for lattice, result in zip(several, batch, strict=True):
        assert_same(result, mbr_decode(lattice, forms=table))


def test_each_word_has_its_most_probable_form_in_its_bin():
    words, result = decode(
        list_of(("Call Ann, call Ann.", -1.0), ("call Ann, Call Ann.", -1.5), ("Call Anne. Call Ann!", -1.2))
    )
    assert words == ["Call", "Ann,", "Call", "Ann."]  # e^-1.5 + e^-1.2 > e^-1
    assert result.confidences[2] == pytest.approx(1.0)


def test_the_smaller_id_of_equally_probable_forms_wins():
    lattice = list_of(("ANN", -1.0), ("Ann", -1.0))
    words, _ = decode(lattice)
    assert words == [lattice.words.word(1)]


def test_parts_of_a_word_are_joined_if_it_is_their_most_probable_form():
    words, result = decode(
        list_of(("room Twenty-three is", -1.0), ("room twenty three is", -1.3), ("room thirty three is", -3.0))
    )
    assert words == ["room", "Twenty-three", "is"]
    assert result.confidences[1] == pytest.approx((np.exp(-1) + np.exp(-1.3)) / np.exp([-1, -1.3, -3]).sum(), abs=1e-6)


def test_parts_are_lexical_words_if_another_form_is_more_probable():
    lattice = list_of(("twenty-three", -1.0), ("thirty-four", -1.1), ("thirty-five", -1.2))
    words, result = decode(lattice)
    assert words == ["thirty", "three"]
    assert result.symbols is not None
    assert set(result.symbols.spell(result.word)) == {"twenty", "thirty", "three", "four", "five"}
    assert lattice.words.id("thirty") is None  # the table of the lattice does not grow


def test_punctuation_is_kept_if_it_is_more_probable_than_none():
    comma, without = ("no , thanks", -1.0), ("no thanks", -1.3)
    assert decode(list_of(comma, without))[0] == ["no", ",", "thanks"]
    assert decode(list_of(("no , thanks", -1.3), ("no thanks", -1.0)))[0] == ["no", "thanks"]
    assert decode(list_of(comma, ("no ! thanks", -1.1), without))[0] == ["no", ",", "thanks"]
    assert decode(list_of(("¿ no", -1.0), ("no", -2.0)))[0] == ["¿", "no"]
    assert decode(list_of(("!", -1.0), ("?", -2.0)))[0] == ["!"]


def test_networks_and_ctm_lines_have_written_words():
    lattice = list_of(("Ann-Marie, yes .", -1.0), ("Ann Mary yes .", -1.5))
    lattice = lattice.replace(time=np.arange(lattice.num_states, dtype=np.int32))
    _, result = decode(lattice)
    network = confusion_network(result, words=result.symbols)
    assert {"Ann", "marie", "Mary", "yes"} == {word for word in network.words if word is not None}
    lines = [line.split()[4] for line in consensus_ctm(result, words=result.symbols).splitlines()]
    assert lines == ["Ann-Marie,", "yes", "."]


def test_a_hypothesis_of_written_words_is_compared_by_its_forms():
    lattice = list_of(("Ann is here.", -1.0), ("Anne is here.", -2.0))
    start = lattice.words.ids(["Anne", "is", "here."])
    words, result = decode(lattice, hypothesis=start, decode_mbr=False)
    assert words == ["Anne", "is", "here."]
    assert result.confidences[0] == pytest.approx(np.exp(-1) / (np.exp(-1) + 1), abs=1e-6)


@given(lattices())
def test_sentence_confidence_ignores_written_copies_of_paths(lattice):
    normalizer = Normalizer("upper", lambda words: [(word.lower(),) for word in words])
    words = SymbolTable.from_words(["<eps>", "a", "b", "c", "d", "A", "B", "C", "D"])
    lattice = lattice.replace(word=lattice.word % 5, words=words)
    capital = lattice.replace(word=np.where(lattice.word == 0, 0, lattice.word + 4).astype(np.int32))
    both = ninja.graph.union([lattice, capital], determinize=False)
    assert sentence_confidence(both, forms=LexicalTable(words, normalizer)) == pytest.approx(
        sentence_confidence(lattice), abs=1e-4
    )
