"""KenLM binaries: scores agree with the library, and words come from the file or a separate list."""

from pathlib import Path

import numpy as np
import pytest
from reference_ngram import TRIGRAM, SlowNgram, histories, write_arpa

from ninja.errors import DependencyError, ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel, load, sentence_logprobs

DATA = Path(__file__).parents[1] / "data" / "ngram"
MODEL = SlowNgram(3, {**TRIGRAM.closed().ngrams, ("<unk>",): (-2.0, 0.0)})
ALL_WORDS = ["</s>", "<s>", "<unk>", "a", "b"]


def vocabulary(lm):
    return sorted(word for word, _ in lm.vocabulary)


@pytest.fixture
def words():
    return SymbolTable.from_words(["<eps>", "a", "zebra", "b"])


@pytest.mark.parametrize("name", ["probing", "trie"])
def test_binary_scores_agree_with_the_slow_twin_and_the_arpa_file(tmp_path, name):
    pytest.importorskip("kenlm")
    lm = load(DATA / f"{name}.kenlm")
    assert isinstance(lm, LanguageModel)
    assert vocabulary(lm) == ALL_WORDS
    (tmp_path / "lm.arpa").write_bytes(write_arpa(MODEL))
    arpa = load(tmp_path / "lm.arpa")
    sentences = list(histories(MODEL))

    def scores(model):
        return sentence_logprobs(model, [[model.vocabulary.id(word) for word in words] for words in sentences])

    expected = [
        sum(MODEL.score(("<s>", *words[:place]), word) for place, word in enumerate([*words, "</s>"]))
        for words in sentences
    ]
    np.testing.assert_allclose(scores(lm), expected, rtol=1e-5)
    np.testing.assert_allclose(scores(arpa), scores(lm), rtol=1e-5)


def test_released_slots_are_reused():
    pytest.importorskip("kenlm")
    lm = load(DATA / "trie.kenlm")
    first = lm.start(3)
    assert len(set(first.tolist())) == 3
    next_slot = lm.advance(first[:1], np.array([lm.vocabulary.id("a")], np.int32))
    assert next_slot[0] not in first
    lm.release(first)
    assert set(lm.start(3).tolist()) == set(first.tolist())
    b = np.array([lm.vocabulary.id("b")], np.int32)
    assert lm.logprob(next_slot, b)[0] == pytest.approx(MODEL.score(("<s>", "a"), "b"))
    with pytest.raises(OptionError, match="the word id 99 is not in the model's range"):
        lm.logprob(next_slot, np.array([99], np.int32))


def test_a_symbol_table_replaces_words_missing_from_the_file(words):
    pytest.importorskip("kenlm")
    with pytest.raises(
        ModelError, match=r"no_words.kenlm: the file does not contain the model's words; .*\(path, words="
    ):
        load(DATA / "no_words.kenlm")
    lm = load(DATA / "no_words.kenlm", words=words)
    assert vocabulary(lm) == ALL_WORDS
    np.testing.assert_allclose(
        sentence_logprobs(lm, [[lm.vocabulary.id("a"), lm.unk]]),
        [MODEL.score(("<s>",), "a") + MODEL.score(("<s>", "a"), "<unk>") + MODEL.score((), "</s>")],
        rtol=1e-5,
    )


def test_a_model_without_unk_has_no_unk_id(words):
    pytest.importorskip("kenlm")
    for lm in (load(DATA / "no_unk.kenlm"), load(DATA / "no_unk.kenlm", words=words)):
        assert lm.unk is None
        assert vocabulary(lm) == ["</s>", "<s>", "a", "b"]


def test_a_damaged_binary_is_refused(tmp_path):
    pytest.importorskip("kenlm")
    content = (DATA / "trie.kenlm").read_bytes()
    for length in range(40, len(content), 7):
        (tmp_path / "lm").write_bytes(content[:length])
        with pytest.raises(ModelError, match="lm: "):
            load(tmp_path / "lm")
    (tmp_path / "lm").write_bytes(content.replace(b"</s>\0", b"</x>\0"))
    assert vocabulary(load(tmp_path / "lm")) == ALL_WORDS  # KenLM looks words up by hash, which did not change for </s>


def test_a_missing_library_is_reported(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kenlm", None)
    with pytest.raises(DependencyError, match="pip install kenlm"):
        load(DATA / "trie.kenlm")
