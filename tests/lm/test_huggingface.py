"""Models of Hugging Face: a word's score is the sum over its pieces, for every method of scoring."""

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
from ninja.lm.huggingface.causal import CausalLM
from ninja.rescoring import RescoreOptions, rescore

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed: ninja-asr[hf]")

from reference_transformer import stepwise  # noqa: E402
from tiny_hf import (  # noqa: E402
    folder,
    load_model,
    make_trie,
    metaspace_unigram,
    no_network,  # noqa: F401
    one_quiet_thread,  # noqa: F401
    word_pieces,
)

CAUSAL = ["gpt2", "opt", "llama", "mistral", "bloom", "mamba", "gemma2"]


class TransformersScores:
    """Scores by transformers: it tokenizes the whole sentence and applies the network to all pieces."""

    def __init__(self, path):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
        self.cache = {}

    def pieces(self, words):
        return self.tokenizer(" ".join(words), add_special_tokens=False)["input_ids"] if words else []

    @torch.no_grad()
    def logprob(self, history, word):
        """Return ln P(word | <s>, history); history and word are texts."""
        if (history, word) not in self.cache:
            history_pieces = self.pieces(history)
            pieces = [*history_pieces, self.tokenizer.eos_token_id] if word == "</s>" else self.pieces([*history, word])
            assert pieces[: len(history_pieces)] == history_pieces
            ids = [self.tokenizer.bos_token_id, *pieces]
            scores = self.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
            places = range(len(history_pieces), len(pieces))
            self.cache[history, word] = float(sum(scores[place, ids[place + 1]] for place in places))
        return self.cache[history, word]

    def trie(self, vocabulary, parent, word):
        paths = []
        for parent_node, word_id in zip(parent.tolist(), word.tolist(), strict=True):
            paths.append([*(paths[parent_node] if parent_node >= 0 else ()), vocabulary.word(word_id)])
        return np.array([self.logprob(tuple(path[:-1]), path[-1]) for path in paths])


# Causal models


@pytest.mark.parametrize("kind", CAUSAL)
def test_word_scores_are_sums_of_transformers_piece_scores(kind):
    lm = load_model(kind)
    parent, word = make_trie(lm)
    expected = TransformersScores(folder(kind)).trie(lm.vocabulary, parent, word)
    assert expected.std() > 1  # the scores differ enough to reveal a mistake
    np.testing.assert_allclose(lm.score_trie(parent, word), expected, atol=1e-4)
    np.testing.assert_allclose(stepwise(lm, parent, word), expected, atol=1e-4)
    assert lm.num_slots == 0


def test_architectures_use_only_supported_features():
    features = {}
    for kind in CAUSAL:
        pieces = load_model(kind)._pieces
        features[kind] = (pieces._cache is not None, pieces._block_nodes is not None)
    # The window of this Mistral is shorter than the sentences, Bloom encodes positions in its mask, and Mamba has no
    # attention.
    all_features, cache_only = (True, True), (True, False)
    assert features == {
        "gpt2": all_features,
        "opt": all_features,
        "llama": all_features,
        "mistral": cache_only,
        "bloom": cache_only,
        "mamba": (False, False),
        "gemma2": all_features,
    }


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_scores_do_not_depend_on_key_value_caches_and_masks(kind, monkeypatch):
    from ninja.lm.huggingface import piece_network

    lm = load_model(kind)
    parent, word = make_trie(lm, 60, seed=1)
    expected = lm.score_trie(parent, word)
    lm._pieces.enable_tries(False)
    np.testing.assert_allclose(lm.score_trie(parent, word), expected, atol=1e-5)
    monkeypatch.setattr(piece_network, "_cache_layers", lambda *_: None)
    lm_without_cache = load_model(kind)
    np.testing.assert_allclose(stepwise(lm_without_cache, parent, word), expected, atol=1e-5)


@pytest.mark.parametrize("max_batch", [1, 3])
def test_scores_do_not_depend_on_the_batch(max_batch):
    unlimited_lm, limited_lm = load_model("llama"), load_model("llama", max_batch=max_batch)
    parent, word = make_trie(unlimited_lm)
    expected = unlimited_lm.score_trie(parent, word)
    np.testing.assert_allclose(limited_lm.score_trie(parent, word), expected, atol=1e-4)
    np.testing.assert_allclose(stepwise(limited_lm, parent, word), expected, atol=1e-4)
    with pytest.raises(OptionError, match="max_batch is 0"):
        load_model("llama", max_batch=0)


@pytest.fixture(scope="module")
def gpt2():
    return load_model("gpt2"), TransformersScores(folder("gpt2"))


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
    lm, reference = gpt2
    assert close(run(lattice, lm, algorithm), path_costs_under(lattice, reference.logprob, EXACT, 0.25))


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_an_unknown_device_is_refused(kind):
    with pytest.raises(OptionError, match="torch cannot use the device 'toaster'"):
        load_model(kind, device="toaster")


class Windows(TransformersScores):
    """Scores by transformers with a sliding window, one pass per piece."""

    LONGEST = 64

    @torch.no_grad()
    def logprob(self, history, word):
        history_pieces = self.pieces(history)
        pieces = [*history_pieces, self.tokenizer.eos_token_id] if word == "</s>" else self.pieces([*history, word])
        ids = [self.tokenizer.bos_token_id, *pieces]
        total = 0.0
        for place in range(len(history_pieces) + 1, len(ids)):  # the pieces in the window predict it
            half = self.LONGEST // 2
            first = half * -(-max(place - self.LONGEST, 0) // half)
            scores = self.model(torch.tensor([ids[first:place]])).logits[0, -1].double().log_softmax(-1)
            total += float(scores[ids[place]])
        return total


@pytest.mark.parametrize("kind", ["gpt2", "opt", "llama", "gemma2"])
@pytest.mark.parametrize("cached", [True, False])
def test_a_long_sentence_is_scored_with_a_sliding_window(kind, cached, monkeypatch):
    from ninja.lm.huggingface import piece_network

    if not cached:
        monkeypatch.setattr(piece_network, "_cache_layers", lambda *_: None)
    lm = load_model(kind)
    words = lm.vocabulary.ids(["the", "cat", "sat", "on", "mat", "dog"])
    # A chain of 60 words with many more pieces than 64, two continuations of it, and a short sentence.
    chain = [*np.random.default_rng(1).choice(words, 60), words[0], words[1], lm.eos, words[5], lm.eos, words[2]]
    parent = np.array([*range(-1, 59), 59, 60, 61, 59, 63, -1], np.int32)
    word = np.array(chain, np.int32)
    expected = Windows(folder(kind)).trie(lm.vocabulary, parent, word)
    np.testing.assert_allclose(lm.score_trie(parent, word), expected, atol=2e-4)
    np.testing.assert_allclose(stepwise(lm, parent, word), expected, atol=2e-4)
    assert lm.num_slots == 0


# Words and pieces


def test_a_space_belongs_to_the_next_word():
    lm, tokenizer = load_model("gpt2"), transformers.AutoTokenizer.from_pretrained(folder("gpt2"))
    for word in ("the", "zebra", "Zoë", "it's"):
        assert tokenizer.decode(word_pieces(lm, word)) == f" {word}"
        assert tokenizer.decode(word_pieces(lm, word, first=True)) == word
    assert tokenizer.convert_ids_to_tokens(word_pieces(lm, "the")) == ["Ġthe"]
    assert word_pieces(lm, "<s>") == word_pieces(lm, "</s>") == [0]
    llama, unigram = load_model("llama"), metaspace_unigram()
    assert unigram.convert_ids_to_tokens(word_pieces(llama, "the")) == ["▁the"]
    assert word_pieces(llama, "the") == word_pieces(llama, "the", first=True)
    assert (word_pieces(llama, "<s>"), word_pieces(llama, "</s>")) == ([1], [2])


def test_a_word_that_cannot_be_spelled_is_unknown():
    llama, gpt2 = load_model("llama"), load_model("gpt2")
    assert llama.vocabulary.id("Zoë") is None
    assert llama.vocabulary.word(llama.unk) == "<unk>"
    assert word_pieces(llama, "<unk>") == [0]
    assert gpt2.vocabulary.id("Zoë") is not None  # byte-level pieces can spell any word
    assert gpt2.vocabulary.id("<eps>") is None


@given(st.data())
@settings(max_examples=10)
def test_words_of_one_history_have_the_same_scores_in_a_batch(gpt2, data):
    lm: CausalLM = gpt2[0]
    words = data.draw(st.lists(st.integers(2, len(lm.vocabulary) - 1), min_size=1, max_size=12))
    root = lm.start(1)
    slot = lm.advance(root, np.array(words[:1], np.int32))
    batch_scores = lm.logprob(np.repeat(slot, len(words)), np.array(words, np.int32))
    single_scores = [lm.logprob(slot, np.array([word], np.int32))[0] for word in words]
    np.testing.assert_allclose(batch_scores, single_scores, atol=1e-5)
    lm.release(np.concatenate((root, slot)))
    assert lm.num_slots == 0


# Masked models


@pytest.fixture(scope="module")
def bert():
    return load_model("bert")


@torch.no_grad()
def pseudo_logprob(path, sentence):
    """Return the sum of the log-probabilities of the pieces, each masked in a separate pass."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForMaskedLM.from_pretrained(path).eval()
    pieces = tokenizer(" ".join(sentence), add_special_tokens=False)["input_ids"]
    ids = [tokenizer.cls_token_id, *pieces, tokenizer.sep_token_id]
    total = 0.0
    for place in range(1, len(ids) - 1):
        masked_ids = [*ids[:place], tokenizer.mask_token_id, *ids[place + 1 :]]
        total += float(model(torch.tensor([masked_ids])).logits[0, place].double().log_softmax(-1)[ids[place]])
    return total


SENTENCES = ["the cat sat on the mat", "theatre", "", "the dog saw a catalogue", "the cat saw the theatre and the mats"]


def test_a_masked_model_predicts_each_piece_from_all_others(bert, monkeypatch):
    from ninja.lm.huggingface import masked

    ids = [[bert.vocabulary.id(word) for word in sentence.split()] for sentence in SENTENCES]
    expected = [pseudo_logprob(folder("bert"), sentence.split()) for sentence in SENTENCES]
    np.testing.assert_allclose(bert.score_sentences(ids), expected, atol=1e-4)
    monkeypatch.setattr(masked, "BATCH_PIECES", 12)
    np.testing.assert_allclose(bert.score_sentences(ids), expected, atol=1e-4)
    single_lm = load_model("bert", max_batch=1)
    np.testing.assert_allclose(single_lm.score_sentences(ids), expected, atol=1e-4)


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
        sentence = np.array([bert.vocabulary.id(past_word) for past_word in history])
        return float(bert.score_sentences([sentence])[0]) if word == "</s>" else 0.0

    expected = path_costs_under(lattice, logprob, EXACT, 0.25)
    costs = run(lattice, bert, "nbest")
    assert {cost.words for cost in costs} == {cost.words for cost in expected}
    assert all(any(close([cost], [expected_cost]) for expected_cost in expected) for cost in costs)
    for algorithm in ("arcbeam", "cover", "trie"):
        with pytest.raises(ModelError, match=f"but the algorithm {algorithm} scores words; use nbest"):
            run(lattice, bert, algorithm)


@torch.no_grad()
def test_a_masked_model_scores_long_sentences_with_a_centered_window(bert):
    words = ["the", "cat", "saw", "that", "dog", "on"] * 25
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("bert"))
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder("bert")).eval()
    pieces = tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]
    assert len(pieces) > 2 * 62
    expected = 0.0
    for place, piece in enumerate(pieces):
        first = min(max(place - 31, 0), len(pieces) - 62)
        window = pieces[first : first + 62]
        window[place - first] = tokenizer.mask_token_id
        ids = torch.tensor([[tokenizer.cls_token_id, *window, tokenizer.sep_token_id]])
        expected += float(model(ids).logits[0, place - first + 1].double().log_softmax(-1)[piece])
    short_sentence = ["the", "cat"]
    scores = bert.score_sentences([bert.vocabulary.ids(short_sentence), bert.vocabulary.ids(words)])
    assert scores == pytest.approx([pseudo_logprob(folder("bert"), short_sentence), expected], abs=2e-3)


def test_a_masked_model_refuses_partial_sentences(bert):
    with pytest.raises(
        ModelError, match="can score only whole sentences, not words after a history; use --algorithm nbest"
    ):
        bert.start(1)
    for call in (bert.advance, bert.logprob):
        with pytest.raises(ModelError, match="whole sentences"):
            call(np.zeros(1, np.int64), np.zeros(1, np.int32))
    with pytest.raises(ModelError, match="whole sentences"):
        bert.score_trie(np.array([-1], np.int32), np.array([3], np.int32))
