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
from reference_rescore import close, path_costs, rescored_path_costs, total
from rescoring_cases import TABLE, named, random_lattice, run
from strategies import lattices

from ninja.errors import LatticeError, ModelError
from ninja.lattice import Lattice
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

PRUNED = RescoreOptions(
    algorithm="pruned", lm_weight=0.75, acoustic_scale=0.5, word_penalty=0.25, unk_penalty=2.0, max_unknown=1.0
)


def assert_like_the_twin(lattice: Lattice, options: RescoreOptions) -> None:
    expected = Composition(lattice, FakeLM(), options).compose()
    found = run(lattice, options)
    assert found.num_states == len(expected)
    for state, (lattice_state, final_graph, arcs) in enumerate(expected):
        mine = range(found.arc_begin[state], found.arc_begin[state + 1])
        assert found.final_graph[state] == np.float32(final_graph)
        assert sorted((int(found.dst[a]), float(found.graph[a]), int(found.word[a])) for a in mine) == sorted(
            (to, graph, int(lattice.word[arc])) for to, arc, graph in arcs
        )
        if np.isfinite(final_graph):
            assert found.final_acoustic[state] == lattice.final_acoustic[lattice_state]


@settings(max_examples=20, deadline=None)
@given(
    lattice=lattices(max_states=6, max_word=8),
    beam=st.sampled_from([0.0, 2.0, 6.0, math.inf]),
    order=st.sampled_from([0, 2, 3, 4]),
    max_arcs=st.sampled_from([1, 5, 100_000]),
)
def test_small_compositions_are_kaldis_arc_for_arc(lattice: Lattice, beam: float, order: int, max_arcs: int) -> None:
    assert_like_the_twin(named(lattice), replace(PRUNED, beam=beam, max_ngram_order=order, max_arcs=max_arcs))


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
def test_large_compositions_are_kaldis_arc_for_arc(seed: int, changed: dict[str, float]) -> None:
    lattice = random_lattice(seed, num_states=40 if seed else 130, fan=4 if seed else 1)  # the first is very long
    assert_like_the_twin(lattice, replace(PRUNED, **changed))  # type: ignore[arg-type]


@given(lattice=lattices(max_states=6, max_word=8))
def test_without_limits_it_is_the_enumeration_of_all_paths(lattice: Lattice) -> None:
    options = replace(PRUNED, beam=math.inf, max_ngram_order=0)
    lattice = named(lattice)
    assert close(path_costs(run(lattice, options)), rescored_path_costs(lattice, FakeLM(), options))


@pytest.mark.parametrize("seed", range(5))
def test_an_exact_look_ahead_keeps_the_paths_within_the_beam(seed: int) -> None:
    options = replace(PRUNED, lm_weight=0.0, beam=4.0, max_ngram_order=0)
    lattice = random_lattice(seed, num_states=10, fan=1)
    every = path_costs(lattice)
    best = min(total(cost, options) for cost in every)
    kept = path_costs(run(lattice, options))
    assert len(kept) < len(every)
    for cost in every:
        if total(cost, options) <= best + options.search_beam - 1e-3:
            assert any(close([cost], [other]) for other in kept)


def test_a_lattice_scores_the_same_alone_in_a_batch_and_in_any_order() -> None:
    options = replace(PRUNED, max_ngram_order=4)
    many = [(lattice.key, lattice) for lattice in map(random_lattice, range(40))]
    alone = {key: run(lattice, options) for key, lattice in many}
    for order, batch_arcs in ((many, 2000), (many[::-1], 2000), (many[:5], 1)):
        together = list(rescore(order, FakeLM(), replace(options, batch_arcs=batch_arcs)))
        assert [key for key, _ in together] == [key for key, _ in order]
        for key, lattice in together:
            assert lattice.identical(alone[key])


def test_every_slot_is_given_back() -> None:
    lm = FakeLM()
    pairs = [(f"{i}", random_lattice(i)) for i in range(20)]
    list(rescore(pairs, lm, PRUNED))
    assert not lm.history
    stopped = rescore(pairs, lm, PRUNED)
    next(stopped)
    stopped.close()
    assert not lm.history


@pytest.mark.parametrize("seed", range(3))
def test_only_histories_that_are_scored_from_are_advanced(seed: int) -> None:
    # Kaldi makes a state for the last word of every arc it expands. Some histories more than needed are made in
    # advance, so that waves are few.
    options = replace(PRUNED, beam=4.0, max_ngram_order=4)
    lattice = random_lattice(seed, num_states=60, fan=8)
    lm, report = FakeLM(), RescoreReport()
    list(rescore([("a", lattice)], lm, options, report=report))
    composition = Composition(lattice, FakeLM(), options)
    composition.compose()
    needed = {state.lm_state for state in composition.states if state.sorted_arc_index}
    assert report.histories == lm.num_advanced
    assert len(needed) - 1 <= report.histories < min(1.2 * len(needed), 0.8 * len(composition.representative))
    assert report.calls < report.histories / 2


def test_the_arcs_of_an_expansion_are_bounded_and_a_path_is_kept() -> None:
    lattice = random_lattice(1, num_states=60, fan=8)
    report = RescoreReport()
    options = replace(PRUNED, beam=30.0, max_arcs=70)
    [(_, result)] = rescore([("a", lattice)], FakeLM(), options, report=report)
    assert result.is_final.any()
    assert report.expanded_arcs < 120


def test_paths_exactly_at_the_beam_are_left_out() -> None:
    fan = Lattice.from_arrays(
        "k", [0, 3, 3], [1, 1, 1], [1, 2, 3], [0, 1, 2], [0, 0, 0], [np.inf, 0], words=TABLE
    )  # fmt: skip
    options = replace(PRUNED, lm_weight=0.0, beam=2.0)
    assert [cost.words for cost in path_costs(run(fan, options))] == [(1,), (2,)]


def test_costs_that_are_equal_as_floats_are_a_tie_which_the_earlier_arc_wins() -> None:
    # The second arc is the better one by 0.005, of which a float knows nothing beside a million. What is expanded
    # first is what the history before </s> is.
    lattice = Lattice.from_arrays(
        "k", [0, 2, 3, 3], [1, 1, 2], [1, 2, 3], [2**20, 2**20, 0], [0.01, 0, 0], [np.inf, np.inf, 0], words=TABLE
    )  # fmt: skip
    options = replace(PRUNED, max_ngram_order=2)
    found = run(lattice, options)
    lm = FakeLM()
    first, _, last = lm.vocabulary.ids(["w1", "w2", "w3"])
    assert found.final_graph[-1] == options.lm_weight * -lm.score((first, last), lm.eos)
    assert_like_the_twin(lattice, options)


def test_a_score_nobody_needs_may_be_nan() -> None:
    class Broken(FakeLM):
        def score(self, history: tuple[int, ...], word: int) -> float:
            return math.nan if word == self.vocabulary.id("w7") else super().score(history, word)

    # The second arc is far beyond the beam, but asked for together with the first.
    fan = Lattice.from_arrays(
        "k", [0, 2, 2], [1, 1], [1, 7], [1, 30], [0, 0], [np.inf, 0], words=TABLE
    )  # fmt: skip
    assert run(fan, replace(PRUNED, beam=2.0), Broken()).num_arcs == 1
    with pytest.raises(ModelError, match="NaN"):
        run(fan, replace(PRUNED, beam=math.inf), Broken())


def test_dead_ends_are_left_out_and_a_lattice_without_a_path_is_refused() -> None:
    half_dead = Lattice.from_arrays(
        "k", [0, 2, 2, 2], [1, 2], [1, 2], [0, 5], [0, 0], [np.inf, np.inf, 0], words=TABLE
    )  # fmt: skip
    assert [cost.words for cost in path_costs(run(half_dead, PRUNED))] == [(2,)]
    dead = Lattice.from_arrays("dead", [0, 1, 1, 1], [1], [1], [0], [0], [np.inf, np.inf, 0], words=TABLE)
    with pytest.raises(LatticeError, match="no final state"):
        run(dead, PRUNED)


def test_the_defaults_are_kaldis() -> None:
    options = RescoreOptions(algorithm="pruned")
    assert (options.search_beam, options.max_arcs, options.growth_ratio) == (6.0, 100_000, 1.5)
    assert options.history_words == 2
    assert replace(options, max_ngram_order=0).history_words == 0
    assert RescoreOptions().search_beam == 6.0
    assert RescoreOptions(algorithm="trie").search_beam == 8.0
