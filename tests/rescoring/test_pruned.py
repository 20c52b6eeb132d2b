"""Pruned composition, compared with a slow implementation, its definition, and its invariants."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_pruned import Composition
from reference_rescore import path_costs
from rescoring_cases import (
    TABLE,
    assert_agrees_with_enumeration,
    assert_keeps_paths_within_the_beam,
    random_lattice,
    run,
    with_symbols,
)
from strategies import lattices

from ninja.errors import LatticeError, ModelError
from ninja.lattice import Lattice
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

PRUNED = RescoreOptions(
    algorithm="pruned", lm_weight=0.75, acoustic_scale=0.5, word_penalty=0.25, unk_penalty=2.0, max_unknown=1.0
)


def assert_like_the_twin(lattice: Lattice, options: RescoreOptions) -> None:
    expected = Composition(lattice, FakeLM(), options).compose()
    result = run(lattice, options)
    assert result.num_states == len(expected)
    for state, (lattice_state, final_graph, expected_arcs) in enumerate(expected):
        arcs = range(result.arc_begin[state], result.arc_begin[state + 1])
        assert result.final_graph[state] == np.float32(final_graph)
        assert sorted((int(result.dst[a]), float(result.graph[a]), int(result.word[a])) for a in arcs) == sorted(
            (to, graph, int(lattice.word[arc])) for to, arc, graph in expected_arcs
        )
        if np.isfinite(final_graph):
            assert result.final_acoustic[state] == lattice.final_acoustic[lattice_state]


@settings(max_examples=20, deadline=None)
@given(
    lattice=lattices(max_states=6, max_word=8),
    beam=st.sampled_from([0.0, 2.0, 6.0, math.inf]),
    order=st.sampled_from([0, 2, 3, 4]),
    max_arcs=st.sampled_from([1, 5, 100_000]),
)
def test_small_compositions_agree_with_kaldi_arc_for_arc(
    lattice: Lattice, beam: float, order: int, max_arcs: int
) -> None:
    assert_like_the_twin(with_symbols(lattice), replace(PRUNED, beam=beam, max_ngram_order=order, max_arcs=max_arcs))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "changed",
    [
        {"beam": 8.0},
        {"beam": 10.0, "max_ngram_order": 4},
        {"beam": 6.0, "max_ngram_order": 2, "growth_ratio": 1.1},
        {"beam": 20.0, "max_arcs": 400},
    ],
)
def test_large_compositions_agree_with_kaldi_arc_for_arc(seed: int, changed: dict[str, float]) -> None:
    lattice = random_lattice(
        seed, num_states=40 if seed else 130, fan=4 if seed else 1
    )  # the first lattice is very long
    assert_like_the_twin(lattice, replace(PRUNED, **changed))  # type: ignore[arg-type]


@given(lattice=lattices(max_states=6, max_word=8))
def test_unlimited_composition_equals_enumeration_of_all_paths(lattice: Lattice) -> None:
    assert_agrees_with_enumeration(lattice, replace(PRUNED, beam=math.inf, max_ngram_order=0))


@pytest.mark.parametrize("seed", range(5))
def test_an_exact_look_ahead_keeps_the_paths_within_the_beam(seed: int) -> None:
    options = replace(PRUNED, lm_weight=0.0, beam=4.0, max_ngram_order=0)
    lattice = random_lattice(seed, num_states=10, fan=1)
    assert_keeps_paths_within_the_beam(lattice, options, prunes=True, tolerance=1e-3)


def test_every_slot_is_released() -> None:
    lm = FakeLM()
    pairs = [(f"{i}", random_lattice(i)) for i in range(20)]
    list(rescore(pairs, lm, PRUNED))
    assert not lm.history
    stopped = rescore(pairs, lm, PRUNED)
    next(stopped)
    stopped.close()
    assert not lm.history


@pytest.mark.parametrize("seed", range(3))
def test_only_histories_with_scored_successors_are_advanced(seed: int) -> None:
    # Kaldi creates a state for the last word of every expanded arc. Some additional histories are computed in advance,
    # which reduces the number of waves.
    options = replace(PRUNED, beam=4.0, max_ngram_order=4)
    lattice = random_lattice(seed, num_states=60, fan=8)
    lm, report = FakeLM(), RescoreReport()
    list(rescore([("a", lattice)], lm, options, report=report))
    composition = Composition(lattice, FakeLM(), options)
    composition.compose()
    num_needed = len({state.lm_state for state in composition.states if state.sorted_arc_index})
    assert report.histories == lm.num_advanced
    assert num_needed - 1 <= report.histories < min(1.2 * num_needed, 0.8 * len(composition.representative))
    assert report.calls < report.histories / 2


def test_max_arcs_bounds_the_expansion_and_keeps_a_path() -> None:
    lattice = random_lattice(1, num_states=60, fan=8)
    report = RescoreReport()
    options = replace(PRUNED, beam=30.0, max_arcs=70)
    [(_, result)] = rescore([("a", lattice)], FakeLM(), options, report=report)
    assert result.is_final.any()
    assert report.expanded_arcs < 120


def test_paths_exactly_at_the_beam_are_pruned() -> None:
    fan = Lattice.from_arrays(
        "k", [0, 3, 3], [1, 1, 1], [1, 2, 3], [0, 1, 2], [0, 0, 0], [np.inf, 0], words=TABLE
    )  # fmt: skip
    options = replace(PRUNED, lm_weight=0.0, beam=2.0)
    assert [cost.words for cost in path_costs(run(fan, options))] == [(1,), (2,)]


def test_ties_in_single_precision_are_resolved_for_the_earlier_arc() -> None:
    # The second arc is better by 0.005, which is lost in single precision next to a cost of a million. The arc that is
    # expanded first defines the history before </s>.
    lattice = Lattice.from_arrays(
        "k", [0, 2, 3, 3], [1, 1, 2], [1, 2, 3], [2**20, 2**20, 0], [0.01, 0, 0], [np.inf, np.inf, 0], words=TABLE
    )  # fmt: skip
    options = replace(PRUNED, max_ngram_order=2)
    result = run(lattice, options)
    lm = FakeLM()
    first, _, last = lm.vocabulary.ids(["w1", "w2", "w3"])
    assert result.final_graph[-1] == options.lm_weight * -lm.score((first, last), lm.eos)
    assert_like_the_twin(lattice, options)


def test_nan_scores_of_pruned_arcs_are_ignored() -> None:
    class Broken(FakeLM):
        def score(self, history: tuple[int, ...], word: int) -> float:
            return math.nan if word == self.vocabulary.id("w7") else super().score(history, word)

    # The second arc is far beyond the beam, but is scored in the same call as the first.
    fan = Lattice.from_arrays(
        "k", [0, 2, 2], [1, 1], [1, 7], [1, 30], [0, 0], [np.inf, 0], words=TABLE
    )  # fmt: skip
    assert run(fan, replace(PRUNED, beam=2.0), Broken()).num_arcs == 1
    with pytest.raises(ModelError, match="NaN"):
        run(fan, replace(PRUNED, beam=math.inf), Broken())


def test_dead_ends_are_removed_and_a_lattice_without_a_path_is_refused() -> None:
    half_dead = Lattice.from_arrays(
        "k", [0, 2, 2, 2], [1, 2], [1, 2], [0, 5], [0, 0], [np.inf, np.inf, 0], words=TABLE
    )  # fmt: skip
    assert [cost.words for cost in path_costs(run(half_dead, PRUNED))] == [(2,)]
    dead = Lattice.from_arrays("dead", [0, 1, 1, 1], [1], [1], [0], [0], [np.inf, np.inf, 0], words=TABLE)
    with pytest.raises(LatticeError, match="no final state"):
        run(dead, PRUNED)


def test_defaults_equal_those_of_kaldi() -> None:
    options = RescoreOptions(algorithm="pruned")
    assert (options.search_beam, options.max_arcs, options.growth_ratio) == (6.0, 100_000, 1.5)
    assert options.history_words == 2
    assert replace(options, max_ngram_order=0).history_words == 0
    assert RescoreOptions().search_beam == 6.0
    assert RescoreOptions(algorithm="trie").search_beam == 8.0
