"""The order of paths with equal costs, which is fixed so that repeated runs write the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from fake_lm import FakeLM, symbols

from ninja.graph import best_path, from_arcs, nbest
from ninja.rescoring import RescoreOptions, rescore


class AfterSecond(FakeLM):
    """A model with cost 3 for words after w2, and cost 1 otherwise."""

    def score(self, history: tuple[int, ...], word: int) -> float:
        return -3.0 if history and history[-1] == self.vocabulary.id("w2") else -1.0


@pytest.mark.parametrize("words", [[1, 2, 3], [3, 1, 2], [2, 3, 1]])
def test_word_sequences_of_equal_cost_keep_the_order_of_the_arcs(words: list[int]) -> None:
    lattice = from_arcs("t", [0, 0, 0, 1, 1], [1, 1, 1, 2, 2], [*words, 5, 4], [1.0] * 5, finals={2: 0.0, 1: 1.0})
    single_words = [[word] for word in words]
    assert [path.words.tolist() for path in nbest(lattice, 20)] == [
        *single_words,
        *([a, b] for a in words for b in (5, 4)),
    ]
    assert [path.words.tolist() for path in nbest(lattice, 2)] == single_words[:2]
    assert best_path(lattice).words.tolist() == single_words[0]


@pytest.mark.parametrize("first", [1, 2])
def test_rescoring_keeps_the_hypothesis_of_the_first_arc_among_ties(first: int) -> None:
    arcs = [0, 0, 1], [1, 1, 2], [first, 3 - first, 3]
    lattice = from_arcs("t", *arcs, [1.0] * 3, finals={2: 0.0}, words=symbols())
    options = RescoreOptions(algorithm="pushforward", lm_weight=1.0, max_hyps=1, merge_order=1, beam=0.0)
    [(_, result)] = rescore([("t", lattice)], AfterSecond(), options)
    costs = result.graph[result.word == 3]
    assert np.unique(costs).tolist() == [3.0 if first == 2 else 1.0]
