"""`HistoryCache`: histories and scores are computed once, and memory is bounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import given
from hypothesis import strategies as st
from rescoring_cases import EXACT, random_lattice

from ninja.errors import OptionError
from ninja.lm.history_cache import HistoryCache, cached
from ninja.lm.mixture import Mixture
from ninja.rescoring import rescore


def array(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@given(st.lists(st.lists(st.integers(3, 10), max_size=4), min_size=1, max_size=8), st.integers(1, 6))
def test_scores_equal_those_of_the_model_for_any_capacity(sentences: list[list[int]], capacity: int) -> None:
    lm = FakeLM()
    cache = HistoryCache(lm, capacity)
    for sentence in [*sentences, *sentences]:
        slots = [int(cache.start(1)[0])]
        for place, word in enumerate(sentence):
            assert cache.logprob(array(slots[-1]), array(word))[0] == lm.score(tuple(sentence[:place]), word)
            slots.append(int(cache.advance(array(slots[-1]), array(word))[0]))
        cache.release(array(*slots))
        assert cache.num_histories <= max(capacity, 1)
        assert len(lm.history) == cache.num_histories


def test_cached_histories_and_scores_are_not_computed_again() -> None:
    lm = FakeLM()
    cache = HistoryCache(lm, 100)
    for _ in range(3):
        start = cache.start(1)
        slots = cache.advance(np.repeat(start, 3), array(3, 4, 3))
        cache.logprob(slots, array(5, 5, 5))
        cache.logprob(slots[:1], array(5))
        cache.release(np.concatenate([start, slots]))
    assert (lm.num_advanced, lm.num_scored, cache.num_scores) == (2, 2, 2)


def test_histories_in_use_are_not_dropped() -> None:
    lm = FakeLM()
    cache = HistoryCache(lm, 2)
    start = cache.start(1)
    slot = cache.advance(start, array(3))
    for word in range(4, 9):
        cache.release(cache.advance(slot, array(word)))
    assert cache.num_histories <= 3
    assert cache.logprob(slot, array(5))[0] == lm.score((3,), 5)
    cache.release(np.concatenate([start, slot]))


def test_rescoring_through_caches_gives_the_same_lattices() -> None:
    lattices = [(f"utt{seed}", random_lattice(seed, 12, 2)) for seed in range(4)]
    mixture = Mixture(((FakeLM(), 0.7), (FakeLM(salt=1), 0.3)))
    for model in (FakeLM(), mixture):
        expected = [result for _, result in rescore(lattices, model, replace(EXACT, max_hyps=3))]
        for capacity in (1, 10_000):
            results = [result for _, result in rescore(lattices, cached(model, capacity), replace(EXACT, max_hyps=3))]
            assert all(
                np.array_equal(result.graph, reference.graph)
                for result, reference in zip(results, expected, strict=True)
            )
    assert cached(None, 10) is None


def test_models_without_reusable_histories_are_refused() -> None:
    class Phrases(FakeLM):
        takes_phrases = True

    class Masked(FakeLM):
        whole_sentences = True

    with pytest.raises(OptionError, match="a session cannot use a context model"):
        HistoryCache(Phrases(), 10)
    with pytest.raises(OptionError, match="scores only whole sentences"):
        HistoryCache(Masked(), 10)
