"""Scoring tries of words: the score of each node, the number of calls of the model, and the release of states."""

from itertools import pairwise

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import given
from hypothesis import strategies as st

from ninja.errors import ModelError, OptionError
from ninja.lm.trie import WordTrie, score_trie

SENTENCES = st.lists(st.lists(st.integers(3, 7), max_size=5), min_size=1, max_size=12)


def trie_of(sentences, eos=1):
    """Return a trie of sentences with </s>, and the node of each word of each sentence."""
    trie = WordTrie()
    sentences_with_eos = [[*sentence, eos] for sentence in sentences]
    begin = np.cumsum([0, *map(len, sentences_with_eos)])
    node = trie.add(np.concatenate([np.array(s, np.int32) for s in sentences_with_eos]), begin)
    return trie, [node[a:b] for a, b in pairwise(begin)]


@given(SENTENCES)
def test_a_trie_holds_each_distinct_prefix_once(sentences):
    trie, nodes = trie_of(sentences)
    prefixes = {(*s, 1)[:n] for s in map(tuple, sentences) for n in range(1, len(s) + 2)}
    assert len(trie) == len(prefixes)
    parent, word = trie.parent, trie.word
    assert (parent < np.arange(len(trie))).all()
    for sentence, path in zip(sentences, nodes, strict=True):
        assert word[path].tolist() == [*sentence, 1]
        assert parent[path].tolist() == [-1, *path[:-1]]


@given(SENTENCES, SENTENCES)
def test_joined_tries_equal_the_trie_of_all_sentences(first, second):
    trie, _ = trie_of(first)
    second_trie, nodes = trie_of(second)
    node_map = trie.add_trie(second_trie.parent, second_trie.word)
    joint, expected = trie_of([*first, *second])
    assert (trie.parent.tolist(), trie.word.tolist()) == (joint.parent.tolist(), joint.word.tolist())
    assert [node_map[path].tolist() for path in nodes] == [path.tolist() for path in expected[len(first) :]]


@given(SENTENCES, st.sampled_from([1, 2, 3, 100]))
def test_nodes_are_scored_after_their_ancestors_and_histories_advanced_once(sentences, max_histories):
    trie, nodes = trie_of(sentences)
    lm = FakeLM()
    score = score_trie(lm, trie.parent, trie.word, max_histories=max_histories)
    for sentence, path in zip(sentences, nodes, strict=True):
        words = (*sentence, 1)
        assert score[path].tolist() == [lm.score(words[:n], word) for n, word in enumerate(words)]
    assert lm.num_scored == len(trie)
    assert lm.num_advanced == len({tuple(s[:n]) for s in sentences for n in range(1, len(s) + 1)})
    assert not lm.history


def test_max_histories_limits_the_slots_in_use():
    class Counting(FakeLM):
        largest = 0

        def _new(self, histories):
            slots = super()._new(histories)
            self.largest = max(self.largest, len(self.history))
            return slots

    sentences = [
        [3 + a, 3 + b, 3 + c, 3 + d, 4] for a in range(4) for b in range(4) for c in range(4) for d in range(4)
    ]
    trie, _ = trie_of(sentences)
    lm = Counting()
    score_trie(lm, trie.parent, trie.word, max_histories=8)
    assert lm.largest <= 8 * 6
    unlimited_lm = Counting()
    score_trie(unlimited_lm, trie.parent, trie.word)
    assert unlimited_lm.largest > 256


def test_each_level_needs_one_call():
    trie, _ = trie_of([[3, 4, 5], [3, 4, 6], [4]])
    rounds = []
    score_trie(FakeLM(), trie.parent, trie.word, on_call=lambda: rounds.append(1))
    assert len(rounds) == 4


def test_a_model_that_scores_tries_is_called_once():
    class TrieLM(FakeLM):
        scores_tries = True

        def score_trie(self, parent, word):
            return -np.arange(len(parent), dtype=np.float32)

    trie, _ = trie_of([[3, 4], [3, 5]])
    lm = TrieLM()
    assert score_trie(lm, trie.parent, trie.word).tolist() == [0, -1, -2, -3, -4]
    assert lm.next_slot == 0


@pytest.mark.parametrize("method", ["advance", "logprob"])
def test_slots_are_released_when_the_model_fails(method, monkeypatch):
    lm = FakeLM()
    calls = []
    original = getattr(FakeLM, method)

    def failing(self, *batch):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of order")
        return original(self, *batch)

    monkeypatch.setattr(FakeLM, method, failing)
    trie, _ = trie_of([[3, 4, 5, 6], [3, 4, 6, 5], [4, 5, 5, 5]])
    with pytest.raises(RuntimeError, match="out of order"):
        score_trie(lm, trie.parent, trie.word, max_histories=1)
    assert not lm.history


@pytest.mark.parametrize("method", ["advance", "logprob"])
def test_a_model_that_returns_too_few_values_is_refused(method, monkeypatch):
    original = getattr(FakeLM, method)
    monkeypatch.setattr(FakeLM, method, lambda self, *batch: original(self, *batch)[:-1])
    trie, _ = trie_of([[3, 4]])
    with pytest.raises(ModelError, match=rf"{method} returned an array of shape \(0,\), but must return shape \(1,\)"):
        score_trie(FakeLM(), trie.parent, trie.word)


@pytest.mark.parametrize(
    ("parent", "word", "message"),
    [
        ([0], [3], "node 0 precedes its parent 0"),
        ([-1, 2, 1], [3, 3, 3], "node 1 precedes its parent 2"),
        ([-1], [99], "the word id 99 is not in the model's range"),
        ([-1], [-1], "the word id -1 is not in the model's range"),
        ([-1, 0], [3], "both must have shape"),
    ],
)
def test_malformed_tries_are_refused(parent, word, message):
    with pytest.raises(OptionError, match=message):
        score_trie(FakeLM(), np.array(parent, np.int32), np.array(word, np.int32))


def test_an_empty_trie_has_no_scores():
    assert score_trie(FakeLM(), np.empty(0, np.int32), np.empty(0, np.int32)).size == 0


def test_the_trie_refuses_invalid_arrays():
    with pytest.raises(ValueError, match="rise from 0"):
        WordTrie().add(np.array([1], np.int32), np.array([0, 2]))
    with pytest.raises(ValueError, match="rise from 0"):
        WordTrie().add(np.array([1, 2], np.int32), np.array([0, 5, 2]))
    with pytest.raises(ValueError, match="before its parent"):
        WordTrie().add_trie(np.array([0], np.int32), np.array([1], np.int32))
    with pytest.raises(TypeError):
        WordTrie().add(np.array([1.0]), np.array([0, 1]))
