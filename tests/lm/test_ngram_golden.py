"""N-gram models of the shared data: three formats of one model, Kaldi's scores, and the recogniser's trigram."""

from functools import lru_cache

import numpy as np
import pytest
from english_models import first_pass_trigram
from reference_graph import SHARED

from ninja.graph import best_path, scale
from ninja.io import read
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load, sentence_logprobs
from ninja.lm.ngram.compose import compose_ngram
from ninja.lm.word_map import WordMap

RNNLM = SHARED / "data" / "rnnlm"
ENGLISH = SHARED / "data" / "english"
FILES = ["lm_bg.arpa.gz", "G_bg.carpa.gz", "G_bg.fst.gz"]

# conftest.py requires these models and lattices in CI.
needs_rnnlm = pytest.mark.skipif(not RNNLM.is_dir(), reason="the shared models are not here (in CI they must be)")
needs_english = pytest.mark.skipif(not ENGLISH.is_dir(), reason="the shared lattices are not here (in CI they must be)")


@lru_cache
def bigram(name):
    return load(RNNLM / "ngram" / name)


def keyed_numbers(name):
    lines = (RNNLM / "scores" / name).read_text().splitlines()
    return {line.split()[0]: np.array(line.split()[1:], np.float64) for line in lines}


@lru_cache
def sentences():
    lines = (RNNLM / "scores" / "text").read_text().splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


def ids_of(lm, words):
    ids = [lm.vocabulary.id(word) for word in words]
    return [lm.unk if word is None else word for word in ids]


def word_logprobs(lm, words):
    slot, scores = lm.start(1), []
    for word in [*ids_of(lm, words), lm.eos]:
        scores.append(lm.logprob(slot, np.array([word], np.int32))[0])
        slot = lm.advance(slot, np.array([word], np.int32))
    return np.array(scores)


@needs_rnnlm
@pytest.mark.parametrize("name", FILES)
def test_scores_agree_with_kaldi(name):
    lm = bigram(name)
    assert lm.order == 2
    expected = keyed_numbers("ngram_lm_bg.wordlogprobs.txt")
    assert len(expected) == 100
    for key, scores in expected.items():
        np.testing.assert_allclose(word_logprobs(lm, sentences()[key]), scores, atol=1e-4)
    totals = keyed_numbers("ngram_lm_bg.sentlogprobs.txt")
    sentence_scores = sentence_logprobs(lm, [ids_of(lm, sentences()[key]) for key in totals])
    np.testing.assert_allclose(sentence_scores, np.concatenate(list(totals.values())), atol=2e-3)


@needs_rnnlm
def test_three_formats_of_one_model_give_the_same_scores():
    models = [bigram(name) for name in FILES]
    for words in sentences().values():
        reference, *results = [word_logprobs(lm, words) for lm in models]
        for scores in results:
            np.testing.assert_allclose(scores, reference, atol=1e-4)


@pytest.fixture(scope="module")
def first_pass():
    if not ENGLISH.is_dir():
        # The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
        pytest.skip("the shared lattices are not here (in CI they must be)")
    words = SymbolTable.read(ENGLISH / "words.txt.gz")
    lm = first_pass_trigram()
    assert lm.order == 3
    return lm, WordMap(words, lm, unk_penalty=0.0), words


def extreme_path(lattice, sign):
    """Return the minimum over all paths of `sign` times the graph cost."""
    cost = np.full(lattice.num_states, np.inf)
    cost[0] = 0.0
    graph = sign * lattice.graph.astype(np.float64)
    for state in range(lattice.num_states):
        begin, end = lattice.arc_begin[state : state + 2]
        np.minimum.at(cost, lattice.dst[begin:end], cost[state] + graph[begin:end])
    final = np.isfinite(lattice.final_graph)
    return float((cost[final] + sign * lattice.final_graph[final]).min())


@needs_english
@pytest.mark.parametrize("part", ["test/libri", "dev/general"])
def test_subtracting_the_first_pass_model_removes_all_graph_costs(first_pass, part):
    lm, word_map, words = first_pass
    for _, lattice in read(ENGLISH / part / "lat.ark.gz", words=words):
        remainder = compose_ngram(lattice, lm, -1.0, word_map=word_map)
        assert max(-extreme_path(remainder, 1.0), -extreme_path(remainder, -1.0)) < 1e-2


@needs_english
def test_the_first_pass_model_reproduces_graph_costs_of_best_paths(first_pass):
    lm, _, words = first_pass
    word_ids, expected = [], []
    for _, lattice in read(ENGLISH / "dev/calls" / "lat.ark.gz", words=words):
        path = best_path(scale(lattice, acoustic_scale=0.1))
        word_ids.append(ids_of(lm, words.spell(path.words)))
        expected.append(-path.graph_cost)
    np.testing.assert_allclose(sentence_logprobs(lm, word_ids), expected, atol=1e-2)
