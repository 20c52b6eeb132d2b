"""Models of Hugging Face: a word's score is the sum over its pieces, however it is asked for."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_rescore import close, path_costs, path_costs_under
from strategies import lattices

from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load
from ninja.lm.huggingface.causal import CausalLM
from ninja.rescoring import RescoreOptions, rescore

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed: ninja-asr[hf]")

from reference_transformer import stepwise  # noqa: E402
from tiny_hf import (  # noqa: E402
    TABLE,
    folder,
    make_trie,
    metaspace_unigram,
    no_network,  # noqa: F401
    one_quiet_thread,  # noqa: F401
    spelled,
)

CAUSAL = ["gpt2", "opt", "llama", "mistral", "bloom", "mamba"]


class Plain:
    """The library's own scores: the whole sentence split, and the network run over all of it."""

    def __init__(self, path):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
        self.known = {}

    def pieces(self, words):
        return self.tokenizer(" ".join(words), add_special_tokens=False)["input_ids"] if words else []

    @torch.no_grad()
    def logprob(self, history, word):
        """ln P(word | <s>, history), all of them spelled."""
        if (history, word) not in self.known:
            before = self.pieces(history)
            whole = [*before, self.tokenizer.eos_token_id] if word == "</s>" else self.pieces([*history, word])
            assert whole[: len(before)] == before
            read = [self.tokenizer.bos_token_id, *whole]
            scores = self.model(torch.tensor([read])).logits[0].double().log_softmax(-1)
            places = range(len(before), len(whole))
            self.known[history, word] = float(sum(scores[place, read[place + 1]] for place in places))
        return self.known[history, word]

    def trie(self, vocabulary, parent, word):
        ways = []
        for above, last in zip(parent.tolist(), word.tolist(), strict=True):
            ways.append([*(ways[above] if above >= 0 else ()), vocabulary.word(last)])
        return np.array([self.logprob(tuple(way[:-1]), way[-1]) for way in ways])


# Causal models


@pytest.mark.parametrize("kind", CAUSAL)
def test_scores_are_the_sums_of_the_librarys_own(kind):
    lm = load(folder(kind), words=TABLE)
    parent, word = make_trie(lm)
    expected = Plain(folder(kind)).trie(lm.vocabulary, parent, word)
    assert expected.std() > 1  # the scores differ enough for a mistake to show
    np.testing.assert_allclose(lm.score_trie(parent, word), expected, atol=1e-4)
    np.testing.assert_allclose(stepwise(lm, parent, word), expected, atol=1e-4)
    assert lm.num_slots == 0


def test_what_an_architecture_cannot_do_is_gone_without():
    able = {}
    for kind in CAUSAL:
        pieces = load(folder(kind), words=TABLE)._pieces
        able[kind] = (pieces._cache is not None, pieces._block_nodes is not None)
    # Mistral's window is narrower than sentences here, Bloom's positions are in its mask, Mamba has no attention.
    both, caches = (True, True), (True, False)
    assert able == {
        "gpt2": both, "opt": both, "llama": both, "mistral": caches, "bloom": caches, "mamba": (False, False)
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_scores_without_key_value_caches_and_without_masks_are_the_same(kind, monkeypatch):
    from ninja.lm.huggingface import piece_network

    lm = load(folder(kind), words=TABLE)
    parent, word = make_trie(lm, 60, seed=1)
    expected = lm.score_trie(parent, word)
    lm._pieces.reads_tries(False)
    np.testing.assert_allclose(lm.score_trie(parent, word), expected, atol=1e-5)
    monkeypatch.setattr(piece_network, "_cache_layers", lambda *_: None)
    without = load(folder(kind), words=TABLE)
    np.testing.assert_allclose(stepwise(without, parent, word), expected, atol=1e-5)


@pytest.mark.parametrize("max_batch", [1, 3])
def test_the_batch_changes_no_score(max_batch):
    whole, cut = load(folder("llama"), words=TABLE), load(folder("llama"), words=TABLE, max_batch=max_batch)
    parent, word = make_trie(whole)
    expected = whole.score_trie(parent, word)
    np.testing.assert_allclose(cut.score_trie(parent, word), expected, atol=1e-4)
    np.testing.assert_allclose(stepwise(cut, parent, word), expected, atol=1e-4)
    with pytest.raises(OptionError, match="max_batch is 0"):
        load(folder("llama"), words=TABLE, max_batch=0)


@pytest.fixture(scope="module")
def gpt2():
    return load(folder("gpt2"), words=TABLE), Plain(folder("gpt2"))


NAMED = SymbolTable.from_words(["<eps>", "the", "cat", "sat", "catalogue", "saturated", "theatre", "he", "mats"])
EXACT = RescoreOptions(
    lm_weight=0.75, acoustic_scale=0.5, max_unknown=1.0, max_hyps=0, max_active=0, max_trie_nodes=0, num_best=1000,
    min_posterior=0.0, merge_order=0, beam=math.inf, prune_beam=math.inf,
)  # fmt: skip


def run(lattice, lm, algorithm):
    [(_, result)] = rescore([(lattice.key, lattice)], lm, replace(EXACT, algorithm=algorithm))
    return path_costs(result)


@pytest.mark.parametrize("algorithm", ["arcbeam", "pushforward", "cover", "trie"])
@settings(max_examples=10)
@given(lattice=lattices(max_states=5, max_word=8))
def test_rescoring_a_lattice_equals_scoring_every_path(gpt2, algorithm, lattice):
    lattice = replace(lattice, words=NAMED)
    lm, plain = gpt2
    assert close(run(lattice, lm, algorithm), path_costs_under(lattice, plain.logprob, EXACT, 0.25))


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_a_device_that_torch_lacks_is_named(kind):
    with pytest.raises(OptionError, match="torch cannot use the device 'toaster'"):
        load(folder(kind), "toaster", words=TABLE)


@pytest.mark.parametrize("kind", ["gpt2", "opt", "llama", "mistral"])
def test_what_follows_more_pieces_than_a_network_reads_has_no_score(kind, monkeypatch):
    from ninja.lm.huggingface import piece_network

    lm = load(folder(kind), words=TABLE)
    the = lm.vocabulary.id("the")
    chain = np.arange(-1, 79, dtype=np.int32), np.full(80, the, np.int32)
    short = np.full(2, -1, np.int32), np.full(2, the, np.int32)
    expected = lm.score_trie(*short)
    monkeypatch.setattr(piece_network, "_cache_layers", lambda *_: None)
    for each in (lm, load(folder(kind), words=TABLE)):
        for scores in (each.score_trie, lambda parent, word, each=each: stepwise(each, parent, word)):
            both = scores(np.concatenate((chain[0], short[0])), np.concatenate((chain[1], short[1])))
            assert np.isfinite(both).tolist() == [True] * 64 + [False] * 16 + [True] * 2
            np.testing.assert_allclose(both[-2:], expected, atol=1e-5)


# Words and pieces


def test_a_space_belongs_to_the_word_behind_it():
    lm, tokenizer = load(folder("gpt2"), words=TABLE), transformers.AutoTokenizer.from_pretrained(folder("gpt2"))
    for word in ("the", "zebra", "Zoë", "it's"):
        assert tokenizer.decode(spelled(lm, word)) == f" {word}"
        assert tokenizer.decode(spelled(lm, word, first=True)) == word
    assert tokenizer.convert_ids_to_tokens(spelled(lm, "the")) == ["Ġthe"]
    assert spelled(lm, "<s>") == spelled(lm, "</s>") == [0]
    llama, unigram = load(folder("llama"), words=TABLE), metaspace_unigram()
    assert unigram.convert_ids_to_tokens(spelled(llama, "the")) == ["▁the"]
    assert spelled(llama, "the") == spelled(llama, "the", first=True)
    assert (spelled(llama, "<s>"), spelled(llama, "</s>")) == ([1], [2])


def test_a_word_that_cannot_be_spelled_is_unknown():
    llama, gpt2 = load(folder("llama"), words=TABLE), load(folder("gpt2"), words=TABLE)
    assert llama.vocabulary.id("Zoë") is None
    assert llama.vocabulary.word(llama.unk) == "<unk>"
    assert spelled(llama, "<unk>") == [0]
    assert gpt2.vocabulary.id("Zoë") is not None  # bytes spell everything
    assert gpt2.vocabulary.id("<eps>") is None


@given(st.data())
@settings(max_examples=10)
def test_words_of_one_history_score_as_if_asked_alone(gpt2, data):
    lm: CausalLM = gpt2[0]
    words = data.draw(st.lists(st.integers(2, len(lm.vocabulary) - 1), min_size=1, max_size=12))
    root = lm.start(1)
    slot = lm.advance(root, np.array(words[:1], np.int32))
    together = lm.logprob(np.repeat(slot, len(words)), np.array(words, np.int32))
    alone = [lm.logprob(slot, np.array([word], np.int32))[0] for word in words]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    lm.release(np.concatenate((root, slot)))
    assert lm.num_slots == 0


# Masked models


@pytest.fixture(scope="module")
def bert():
    return load(folder("bert"), words=TABLE)


@torch.no_grad()
def pseudo_logprob(path, sentence):
    """Hide one piece after the other, each in a pass of its own."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForMaskedLM.from_pretrained(path).eval()
    pieces = tokenizer(" ".join(sentence), add_special_tokens=False)["input_ids"]
    whole = [tokenizer.cls_token_id, *pieces, tokenizer.sep_token_id]
    total = 0.0
    for place in range(1, len(whole) - 1):
        hidden = [*whole[:place], tokenizer.mask_token_id, *whole[place + 1 :]]
        total += float(model(torch.tensor([hidden])).logits[0, place].double().log_softmax(-1)[whole[place]])
    return total


SENTENCES = ["the cat sat on the mat", "theatre", "", "the dog saw a catalogue", "the cat saw the theatre and the mats"]


def test_a_masked_model_predicts_each_piece_from_all_others(bert, monkeypatch):
    from ninja.lm.huggingface import masked

    ids = [[bert.vocabulary.id(word) for word in sentence.split()] for sentence in SENTENCES]
    expected = [pseudo_logprob(folder("bert"), sentence.split()) for sentence in SENTENCES]
    np.testing.assert_allclose(bert.score_sentences(ids), expected, atol=1e-4)
    monkeypatch.setattr(masked, "BATCH_PIECES", 12)
    np.testing.assert_allclose(bert.score_sentences(ids), expected, atol=1e-4)
    alone = load(folder("bert"), words=TABLE, max_batch=1)
    np.testing.assert_allclose(alone.score_sentences(ids), expected, atol=1e-4)


def test_a_masked_model_scores_a_trie_of_whole_sentences(bert):
    the, cat, dog, eos = (bert.vocabulary.id(word) for word in ("the", "cat", "dog", "</s>"))
    parent = np.array([-1, 0, 0, 1, 2, 0, -1], np.int32)
    word = np.array([the, cat, dog, eos, eos, eos, eos], np.int32)
    score = bert.score_trie(parent, word)
    assert not score[:3].any()
    np.testing.assert_allclose(score[3:], bert.score_sentences([[the, cat], [the, dog], [the], []]), atol=1e-5)


@settings(max_examples=10)
@given(lattice=lattices(max_states=5, max_word=8))
def test_a_masked_model_rescores_the_sentences_of_n_best_lists(bert, lattice):
    lattice = replace(lattice, words=NAMED)

    def logprob(history, word):
        sentence = np.array([bert.vocabulary.id(each) for each in history])
        return float(bert.score_sentences([sentence])[0]) if word == "</s>" else 0.0

    exact = path_costs_under(lattice, logprob, EXACT, 0.25)
    found = run(lattice, bert, "nbest")
    assert {cost.words for cost in found} == {cost.words for cost in exact}
    assert all(any(close([cost], [other]) for other in exact) for cost in found)
    for algorithm in ("arcbeam", "cover", "trie"):
        with pytest.raises(ModelError, match=f"scores whole sentences; {algorithm} scores words, so use nbest"):
            run(lattice, bert, algorithm)


def test_a_masked_model_gives_up_sentences_that_it_cannot_read(bert):
    the = bert.vocabulary.id("the")
    short, long = bert.score_sentences([[the] * 62, [the] * 63])
    assert np.isfinite(short)
    assert np.isnan(long)


def test_a_masked_model_refuses_what_is_no_whole_sentence(bert):
    with pytest.raises(ModelError, match="scores whole sentences, not words after a history; use nbest"):
        bert.start(1)
    for call in (bert.advance, bert.logprob):
        with pytest.raises(ModelError, match="whole sentences"):
            call(np.zeros(1, np.int64), np.zeros(1, np.int32))
    with pytest.raises(ModelError, match="whole sentences"):
        bert.score_trie(np.array([-1], np.int32), np.array([3], np.int32))
