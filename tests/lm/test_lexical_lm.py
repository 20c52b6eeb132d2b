"""`LexicalLM` and `merge_forms`: written words have the scores of their lexical forms."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import given
from hypothesis import strategies as st

from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC, LOOKS_WRITTEN, LexicalForms, make_normalizer
from ninja.lm.lexical import FIRST_FORM, LexicalLM, merge_forms, models_of, with_lexical_forms
from ninja.lm.mixture import Mixture
from ninja.lm.trie import score_trie
from ninja.lm.word_map import NO_WORD, WordMap

WRITTEN = ["W1,", "w1", "w2-w3", "W3.", ",", "W4-W1-w4!", "w5"]


def lexical(lm: FakeLM | None = None, name: str = "basic") -> LexicalLM:
    return LexicalLM(lm or FakeLM(), LexicalForms(name))


@given(st.lists(st.lists(st.sampled_from(WRITTEN), max_size=5), min_size=1, max_size=4))
def test_a_written_sentence_has_the_score_of_its_lexical_words(sentences):
    lm = FakeLM()
    model = lexical(lm)
    for sentence in sentences:
        history: tuple[int, ...] = ()
        slot = model.start(1)
        slots = [slot]
        for word in [*sentence, "</s>"]:
            number = model.eos if word == "</s>" else model.vocabulary.id(word)
            expected = 0.0
            for part in BASIC(word):
                unit = lm.vocabulary.id(part)
                expected += lm.score(history, unit)
                history = (*history, unit)
            assert model.logprob(slot, np.array([number], np.int32)).tolist() == [expected]
            if word != "</s>":
                slot = model.advance(slot, np.array([number], np.int32))
                slots.append(slot)
        model.release(np.concatenate(slots))
    assert lm.history == {}  # every slot is released once


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(WRITTEN)), min_size=1, max_size=8))
def test_a_batch_has_the_scores_of_its_single_words(pairs):
    lm = FakeLM()
    model = lexical(lm)
    start = model.start(4)
    slots = start[[row for row, _ in pairs]]
    words = np.array(model.vocabulary.ids([word for _, word in pairs]), np.int32)
    batch_scores = model.logprob(slots, words)
    assert batch_scores.tolist() == [float(model.logprob(slots[[i]], words[[i]])[0]) for i in range(len(pairs))]
    model.release(np.concatenate([model.advance(slots, words), start]))
    assert lm.history == {}


@given(st.lists(st.tuples(st.integers(-1, 5), st.sampled_from(WRITTEN)), max_size=8))
def test_trie_scores_do_not_depend_on_the_method(nodes):
    model = lexical()
    parent = np.array([min(draw, node - 1) for node, (draw, _) in enumerate(nodes)], np.int32)
    word = np.array(model.vocabulary.ids([name for _, name in nodes]), np.int32)
    scores = score_trie(model, parent, word)
    model.scores_tries = True  # scores a trie of units
    assert score_trie(model, parent, word).tolist() == scores.tolist()


def test_words_of_equal_form_share_an_id():
    model = lexical()
    assert len(set(model.vocabulary.ids(["W1,", "w1", "“W1”"]))) == 1
    assert model.vocabulary.ids(["W2-w3", "w2 w3"]) == [FIRST_FORM + 1] * 2
    assert model.vocabulary.ids([",", "…"]) == [FIRST_FORM] * 2
    assert model.vocabulary.ids(["lacking", "w1-lacking"]) == [-1, -1]


def test_a_form_of_several_words_maps_to_a_single_word_of_the_model():
    lm = FakeLM(extra_words=("e-mail", "a.m.", "it's"))
    assert lexical(lm).vocabulary.ids(["E-Mail,", "A.M."]) == lm.vocabulary.ids(["e-mail", "a.m."])
    english = lexical(lm, "english")
    assert make_normalizer("english")("It's") == ("it", "is")
    assert english.vocabulary.id("It’s,") == lm.vocabulary.id("it's")


def test_a_word_matches_another_spelling_of_its_form_in_the_model():
    lm = FakeLM(extra_words=("THE", "Chen", "gonna", "colour"))
    the, chen, gonna, colour = lm.vocabulary.ids(["THE", "Chen", "gonna", "colour"])
    basic = lexical(lm).vocabulary
    assert basic.ids(["the", "The,", "THE", "chen"]) == [the, the, the, chen]
    assert basic.id("the-chen") == basic.id("The-Chen,") == FIRST_FORM + 1
    english = lexical(lm, "english").vocabulary
    assert english.ids(["the", "The", "colour", "color", "Gonna"]) == [the, the, colour, colour, gonna]


def test_a_word_map_ignores_words_with_empty_forms():
    words = SymbolTable.from_words(["<eps>", *WRITTEN])
    word_map = WordMap(words, lexical())
    lm_word = dict(zip(WRITTEN, word_map.lm_word[1:].tolist(), strict=True))
    assert lm_word[","] == NO_WORD
    assert lm_word["W1,"] == lm_word["w1"]
    coverage = word_map.coverage_of(np.ones(len(words), np.int64))
    assert coverage.num_arcs == Counter(word for word in WRITTEN if word != ",")
    assert not coverage.lacking


def test_a_mixture_scores_forms_and_merges_equal_ones():
    forms = LexicalForms("basic")
    lms = [FakeLM(), FakeLM(salt=1)]
    mixture = with_lexical_forms(Mixture([(lms[0], 0.5), (lms[1], -0.5)]), forms)
    assert all(isinstance(lm, LexicalLM) for lm in models_of(mixture))
    words = SymbolTable.from_words(["<eps>", "<s>", "</s>", *WRITTEN])
    mixed_lm = mixture.over(words)
    numbers = np.array(words.ids(WRITTEN), np.int32)
    slots = mixed_lm.start(1).repeat(len(numbers))
    first_scores = {word: lms[0].score((), lms[0].vocabulary.id(word)) for word in ("w1", "w3")}
    second_scores = {word: lms[1].score((), lms[1].vocabulary.id(word)) for word in ("w1", "w3")}
    scores = dict(zip(WRITTEN, mixed_lm.logprob(slots, numbers).tolist(), strict=True))
    assert scores["W1,"] == scores["w1"] == (first_scores["w1"] - second_scores["w1"]) / 2
    assert scores["W3."] == (first_scores["w3"] - second_scores["w3"]) / 2
    assert scores[","] == 0
    next_slots = mixed_lm.advance(slots, numbers)
    mixed_lm.release(np.concatenate([next_slots, slots[:1]]))
    assert lms[0].history == lms[1].history == {}
    form_ids = merge_forms(words, np.arange(len(words), dtype=np.int32), BASIC)
    by_word = dict(zip(WRITTEN, form_ids[3:].tolist(), strict=True))
    assert by_word["W1,"] == by_word["w1"] == words.id("w1")
    assert by_word[","] == -1


def test_models_of_written_text_are_not_wrapped():
    class WrittenLM(FakeLM):
        reads_written = True

    forms = LexicalForms("basic")
    lm = WrittenLM()
    assert with_lexical_forms(lm, forms) is lm
    assert isinstance(with_lexical_forms(lm, forms, "lexical"), LexicalLM)
    assert isinstance(with_lexical_forms(FakeLM(), forms), LexicalLM)
    plain_lm = FakeLM()
    assert with_lexical_forms(plain_lm, forms, "written") is plain_lm
    assert with_lexical_forms(None, forms) is None


def test_auto_normalizes_only_after_words_look_written():
    notes: list[str] = []
    lm = FakeLM()
    model = LexicalLM(lm, LexicalForms(note=notes.append))
    assert model.vocabulary.ids(["w1", "W1"]) == [lm.vocabulary.id("w1"), -1]
    assert model.vocabulary.ids(["w1", "W1,"]) == [lm.vocabulary.id("w1")] * 2
    assert notes == [LOOKS_WRITTEN]


@pytest.mark.parametrize("name", ["none", "auto"])
def test_lexical_words_keep_their_ids(name):
    lm = FakeLM()
    names = ["w1", "w2", "lacking"]
    assert lexical(lm, name).vocabulary.ids(names) == lm.vocabulary.ids(names)


@pytest.mark.parametrize("kind", ["byte_level_bpe", "metaspace_unigram", "word_piece"])
@pytest.mark.parametrize("is_written", [False, True])
def test_pieces_with_capitals_or_commas_indicate_written_text(kind, is_written, monkeypatch):
    pytest.importorskip("transformers")
    import tiny_hf

    from ninja.lm.huggingface.spelling import Spelling

    if is_written:
        text = [f"{line}, said Tom Chen." for line in tiny_hf.TEXT]
        monkeypatch.setattr(tiny_hf, "TEXT", text if kind != "word_piece" else [line.lower() for line in text])
    tokenizer = getattr(tiny_hf, kind)()
    assert Spelling(tokenizer, 0, 1, len(tokenizer)).has_written_pieces is is_written


def test_written_text_has_the_perplexity_of_its_lexical_words(ninja, tmp_path):
    (tmp_path / "written").write_text("a The cat sat, on the twenty-three mats.\nb Hello there , friend!\n")
    (tmp_path / "lexical").write_text("a the cat sat on the twenty three mats\nb hello there friend\n")
    written_run = ninja("lm", "score", "english-ngram", tmp_path / "written")
    lexical_run = ninja("lm", "score", "english-ngram", tmp_path / "lexical")
    assert "words end with punctuation" in written_run[2]
    assert written_run[2].splitlines()[-2:] == lexical_run[2].splitlines()[-2:]
    scores = [[float(number) for number in line.split()[1:]] for line in written_run[1].splitlines()]
    assert [len(row) for row in scores] == [8, 5]
    assert scores[1][2] == 0  # the score of the comma
    plain_run = ninja("lm", "score", "english-ngram", tmp_path / "written", "--normalizer", "none")
    assert "7 OOVs" in plain_run[2]
