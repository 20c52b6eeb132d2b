"""Retrieval: the phones of a lattice's spans, and the most similar phrases of long lists."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import lattices

from ninja.context.augmentation.augment import Augmenter
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.deep.encoder import PhraseEncoder
from ninja.context.deep.symbols import Symbols
from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.retrieval.phrase_index import PhraseIndex
from ninja.context.retrieval.retriever import RetrievalOptions, Retriever, likely_spans
from ninja.context.retrieval.vector_cache import VectorCache
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Pronouncer
from ninja.errors import LatticeError
from ninja.graph import forward_backward
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.models.entity_encoder import Config, EntityEncoder

SCALE = 0.5
SOUNDS = [(), ("K", "AE"), ("T",), ("D", "AE"), None, ("M",)]
CONFUSION = Confusion.articulatory()


def encoder(seed=1):
    torch.manual_seed(seed)
    network = EntityEncoder(Config(29, len(CONFUSION.phones) + 2, hidden=4, embedding=4)).eval()
    return PhraseEncoder(network, Symbols("abcdefghijklmnopqrstuvwxyz'", CONFUSION.phones), {})


def enumerated(lattice, unit, options):
    """Enumerate paths; return the phones of all spans with the lowest negative log posterior of such a path."""
    marginals = forward_backward(lattice, Scales(acoustic=SCALE))
    cost = lattice.graph.astype(float) + SCALE * lattice.acoustic.astype(float)
    cost_of = {}

    def follow(state, prefix_cost, sound, words):
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            if SOUNDS[unit[arc]] is None or words + bool(SOUNDS[unit[arc]]) > options.max_words:
                continue
            after, dst = prefix_cost + cost[arc], int(lattice.dst[arc])
            path_cost = after + marginals.beta[dst] - marginals.total
            if path_cost <= options.beam:
                longer = sound + SOUNDS[unit[arc]]
                if longer:
                    cost_of[longer] = min(cost_of.get(longer, np.inf), path_cost)
                follow(dst, after, longer, words + bool(SOUNDS[unit[arc]]))

    for state in range(lattice.num_states):
        if np.isfinite(marginals.alpha[state]):
            follow(state, marginals.alpha[state], (), 0)
    return cost_of


def dense(seed: int) -> Lattice:
    """Return a lattice with few words and many paths, so that equal sequences end in several states."""
    rng = np.random.default_rng(seed)
    dst = np.concatenate([np.minimum(state + rng.integers(1, 4, size=3), 7) for state in range(7)])
    final = np.where(np.arange(8) == 7, 0.0, np.inf)
    return Lattice.from_arrays(
        "a", np.minimum(np.arange(9) * 3, 21), dst, rng.integers(0, 4, size=21), rng.uniform(0, 2, 21), np.zeros(21),
        final, final,
    )  # fmt: skip


@given(
    lattices(max_states=6, max_arcs=3) | st.integers(0, 10_000).map(dense),
    st.integers(1, 4),
    st.sampled_from([0.31, 3.7, 6.3]),
)
def test_likely_spans_agree_with_enumeration(lattice, max_words, beam):
    unit = np.minimum(lattice.word, 5).astype(np.int32)
    options = RetrievalOptions(max_words=max_words, beam=beam)
    try:
        slow = enumerated(lattice, unit, options)
    except LatticeError:
        with pytest.raises(LatticeError):
            likely_spans(lattice, unit, SOUNDS, SCALE, options)
        return
    fast = likely_spans(lattice, unit, SOUNDS, SCALE, options)
    assert set(fast) == set(slow)
    costs = [slow[sound] for sound in fast]
    assert all(first <= second + 1e-5 for first, second in pairwise(costs))


@given(st.integers(0, 1000), st.integers(1, 30))
def test_nearest_phrases_have_the_largest_products(seed, number):
    rng = np.random.default_rng(seed)
    retriever = Retriever(encoder(), RetrievalOptions(phrases=number))
    spans = [tuple(rng.choice(CONFUSION.phones, size=rng.integers(1, 6)).tolist()) for _ in range(7)]
    phrases = rng.normal(size=(20, 64)).astype(np.float32)
    nearest = retriever.nearest(spans, PhraseIndex(phrases))
    vectors = np.concatenate([retriever.encoder.vectors([""], [span]) for span in spans])
    best = (vectors @ phrases.T).max(axis=0)
    assert len(nearest) == min(number, 20)
    assert (np.diff(nearest) > 0).all()
    assert best[nearest].min() >= np.delete(best, nearest).max(initial=-np.inf) - 1e-5
    # The second call uses cached vectors.
    np.testing.assert_array_equal(retriever.nearest(spans[::-1], PhraseIndex(phrases)), nearest)


@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=8), max_size=12), st.integers(1, 15))
def test_cache_returns_the_same_vectors_after_eviction(calls, max_vectors):
    cache, requests = VectorCache(max_vectors), []
    for keys in calls:
        computed = []

        def make(positions, keys=keys, computed=computed):
            computed += [keys[position] for position in positions]
            return np.array([[keys[position], -keys[position]] for position in positions], np.float32)

        np.testing.assert_array_equal(cache.get(keys, make), np.array([[key, -key] for key in keys], np.float32))
        assert len(cache) <= max_vectors
        if len({*requests, *keys}) <= max_vectors:
            assert sorted(computed) == sorted(set(keys) - set(requests))
        requests += keys


def test_cache_evicts_least_recently_used_vectors():
    cache = VectorCache(6)
    computed = []

    def make(keys):
        return lambda positions: (
            computed.extend(keys[position] for position in positions),
            np.ones((len(positions), 2), np.float32),
        )[1]

    for keys in ([1, 2, 3, 4, 5], [4, 2], [6, 7], [4, 2], [5]):
        cache.get(keys, make(keys))
    assert computed == [1, 2, 3, 4, 5, 6, 7, 5]


def test_lattice_without_spans_has_no_nearest_phrases():
    retriever = Retriever(encoder(), RetrievalOptions(phrases=2))
    assert retriever.nearest([], PhraseIndex(np.eye(5, 64, dtype=np.float32))).size == 0


WORDS = SymbolTable.from_words(["<eps>", "cat", "dad", "mad", "tom", "kat", "dat", "matt", "tam"])
LEXICON = {
    "cat": ["K AE T"], "kat": ["K AE T"], "dad": ["D AE D"], "dat": ["D AE T"], "mad": ["M AE D"],
    "matt": ["M AE T"], "tom": ["T AA M"], "tam": ["T AE M"],
}  # fmt: skip
PHRASES = PhraseList("*", {"@name": tuple(Phrase(text) for text in ("kat", "matt dat", "tam", "tam kat"))})


def additions(lattice: Lattice, phrases: PhraseList, retriever: Retriever | None = None):
    options = AugmentOptions(acoustic_scale=SCALE, max_distance=0.6, choice_penalty=0.0)
    augmenter = Augmenter(WORDS, Pronouncer(LEXICON), CONFUSION, options, retriever=retriever)
    return augmenter(lattice.with_words(WORDS), [phrases])[1]


@given(lattices(max_states=6, max_arcs=3, max_word=4))
def test_retrieval_of_all_phrases_gives_the_same_additions(lattice):
    retriever = Retriever(encoder(), RetrievalOptions(from_phrases=1, phrases=5, beam=1e9))
    assert additions(lattice, PHRASES, retriever) == additions(lattice, PHRASES)


@given(lattices(max_states=6, max_arcs=3, max_word=4))
def test_utterance_list_is_searched_without_retrieval(lattice):
    private = PhraseList("", PHRASES.classes)
    retriever_of_one = Retriever(encoder(), RetrievalOptions(from_phrases=1, phrases=1))
    assert additions(lattice, private, retriever_of_one) == additions(lattice, private)
    assert not retriever_of_one.vectors([], []).size


@given(lattices(max_states=6, max_arcs=3, max_word=4))
def test_retrieval_of_few_phrases_gives_a_subset_of_the_additions(lattice):
    retriever = Retriever(encoder(), RetrievalOptions(from_phrases=1, phrases=2))
    added = additions(lattice, PHRASES, retriever)
    assert set(added) <= set(additions(lattice, PHRASES))
    assert len({addition.phrase for addition in added}) <= 2
