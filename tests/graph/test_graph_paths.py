"""Best path and n-best lists, compared with an enumeration of all paths."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_graph import best_sequences, cost_of, costs_of, end_of, labels_of, paths, words_of
from strategies import lattices
from strategies_graph import SCALES, scales_of

from ninja.errors import LatticeError, OptionError
from ninja.graph import Path, best_path, from_arcs, nbest, path_lattice
from ninja.lattice import Lattice, Scales, check


def assert_matches_its_arcs(path: Path, lattice: Lattice) -> None:
    """Check words, labels and costs of a path against its arcs, from the start to a final state."""
    arcs = tuple(path.arcs.tolist())
    states = [0, *lattice.dst[path.arcs].tolist()]
    assert lattice.src[path.arcs].tolist() == states[:-1]
    assert lattice.is_final[end_of(lattice, arcs)]
    assert tuple(path.words.tolist()) == words_of(lattice, arcs)
    assert path.alignment.tolist() == labels_of(lattice, arcs)
    assert (path.graph_cost, path.acoustic_cost) == pytest.approx(costs_of(lattice, arcs), abs=1e-9)


@given(lattices(max_states=7, connected=False), SCALES)
def test_best_path_agrees_with_enumeration(lattice: Lattice, scales: dict[str, float]) -> None:
    all_paths = paths(lattice)
    if not all_paths:
        with pytest.raises(LatticeError, match="no path"):
            best_path(lattice, scales_of(scales))
        return
    path = best_path(lattice, scales_of(scales))
    assert_matches_its_arcs(path, lattice)
    assert path.cost(scales_of(scales)) == min(cost_of(lattice, candidate, **scales) for candidate in all_paths)


@given(lattices(max_states=6))
def test_best_path_takes_the_smaller_graph_cost_of_equal_totals(lattice: Lattice) -> None:
    path = best_path(lattice)
    least = min(cost_of(lattice, candidate) for candidate in paths(lattice))
    tied_graph_costs = [
        costs_of(lattice, candidate)[0] for candidate in paths(lattice) if cost_of(lattice, candidate) == least
    ]
    assert path.graph_cost == min(tied_graph_costs)


def test_best_path_takes_the_first_of_equal_arcs() -> None:
    lattice = from_arcs("a", [0, 0, 0], [1, 1, 1], [5, 6, 7], [2, 1, 1], [0, 1, 1], finals={1: 0})
    assert best_path(lattice).words.tolist() == [6]


@given(lattices(max_states=6), SCALES)
def test_a_path_lattice_has_exactly_its_path(lattice: Lattice, scales: dict[str, float]) -> None:
    path = best_path(lattice, scales_of(scales))
    linear = path_lattice(lattice, path)
    check(linear)
    assert len(paths(linear)) == 1
    linear_path = best_path(linear)
    assert linear_path.words.tolist() == path.words.tolist()
    assert linear_path.alignment.tolist() == path.alignment.tolist()
    assert (linear_path.graph_cost, linear_path.acoustic_cost) == (path.graph_cost, path.acoustic_cost)
    assert (linear.key, linear.kind) == (lattice.key, lattice.kind)


def test_a_path_of_another_lattice_is_refused() -> None:
    lattice = from_arcs("a", [0, 0, 1], [1, 2, 2], [1, 2, 3], [0, 0, 0], finals={2: 0})
    renumbered = from_arcs("b", [0, 0, 1], [2, 1, 2], [1, 2, 3], [1, 0, 0], finals={2: 0})
    with pytest.raises(LatticeError, match="key 'a': arc 1 does not leave state 1"):
        path_lattice(lattice, Path(np.array([0, 1]), np.array([]), np.array([]), 0.0, 0.0))
    with pytest.raises(LatticeError, match="the path ends in state 1, which is not final"):
        path_lattice(lattice, Path(np.array([0]), np.array([]), np.array([]), 0.0, 0.0))
    assert best_path(renumbered).words.tolist() == [2, 3]


@given(lattices(max_states=7, max_word=3, connected=False), st.integers(1, 40), SCALES)
@settings(max_examples=40)
def test_nbest_agrees_with_enumeration(lattice: Lattice, n: int, scales: dict[str, float]) -> None:
    expected = best_sequences(lattice, **scales)
    if not expected:
        with pytest.raises(LatticeError, match="no path"):
            nbest(lattice, n, scales_of(scales))
        return
    nbest_paths = nbest(lattice, n, scales_of(scales))
    for path in nbest_paths:
        assert_matches_its_arcs(path, lattice)
        assert path.cost(scales_of(scales)) == expected[tuple(path.words.tolist())]
    assert len({tuple(path.words.tolist()) for path in nbest_paths}) == len(nbest_paths)
    assert [path.cost(scales_of(scales)) for path in nbest_paths] == sorted(expected.values())[:n]


def test_nbest_finds_few_sequences_among_exponentially_many_paths() -> None:
    # 2**60 paths have only two word sequences: enumerating paths would not terminate.
    src = [state for state in range(60) for _ in range(3)]
    word = [0, 0, 0] * 30 + [4, 4, 0] + [0, 0, 0] * 29
    cost = [0.0, 0.5, 1.0] * 60
    lattice = from_arcs("a", src, [state + 1 for state in src], word, cost, finals={60: 0.25})
    begin = time.thread_time()
    nbest_paths = nbest(lattice, 50)
    assert time.thread_time() - begin < 0.5
    assert [(path.words.tolist(), path.cost()) for path in nbest_paths] == [([4], 0.25), ([], 1.25)]


def test_nbest_merges_equal_word_sequences_of_separate_states() -> None:
    # Each step doubles the number of paths with the same words, through separate states.
    src, dst, word, cost = [], [], [], []
    for step in range(40):
        for side in (0, 1):
            for next_side in (0, 1):
                src.append(2 * step + side)
                dst.append(2 * step + 2 + next_side)
                word.append(1 + step % 3 if next_side == 0 or step != 20 else 9)
                cost.append(0.5 * side + 0.25 * next_side)
    lattice = from_arcs("a", src, dst, word, cost, finals={80: 0.0, 81: 0.125})
    begin = time.thread_time()
    nbest_paths = nbest(lattice, 10)
    assert time.thread_time() - begin < 0.5
    assert len(nbest_paths) == 2
    assert nbest_paths[0].cost() == 0.0
    assert nbest_paths[1].words[20] == 9


@given(st.integers(0, 2**32 - 1), st.integers(1, 300))
@settings(max_examples=12)
def test_nbest_of_larger_lattices_with_real_costs_agrees_with_enumeration(seed: int, n: int) -> None:
    random = np.random.default_rng(seed)
    src = np.repeat(np.arange(7), 4)
    dst = np.minimum(src + random.integers(1, 3, 28), 7)
    lattice = from_arcs(
        "a", src, dst, random.integers(0, 4, 28), random.normal(0, 30, 28), random.normal(0, 300, 28), finals={7: 0.3}
    )
    expected = sorted(best_sequences(lattice, acoustic_scale=0.1).values())[:n]
    assert [path.cost(Scales(0.1)) for path in nbest(lattice, n, Scales(0.1))] == pytest.approx(expected, abs=1e-9)


def test_nbest_finds_paths_whose_large_costs_cancel() -> None:
    costs = [3e38, -3e38, 0.125, 0.25]
    lattice = from_arcs("u", [0, 1, 2, 2], [1, 2, 3, 3], [0, 0, 5, 6], costs, [0.0] * 4, finals={3: (0.0, 0.0)})
    assert [path.words.tolist() for path in nbest(lattice, 1)] == [[5]]


def test_nbest_refuses_n_below_one() -> None:
    with pytest.raises(OptionError, match="n is 0, but must be 1 or more"):
        nbest(from_arcs("a", [0], [1], [1], [0], finals={1: 0}), 0)


@pytest.mark.parametrize("name", ["acoustic_scale", "lm_scale", "word_penalty"])
def test_scales_that_are_not_numbers_are_refused(name: str) -> None:
    lattice = from_arcs("a", [0], [1], [1], [0], finals={1: 0})
    for value in (float("nan"), float("inf")):
        with pytest.raises(OptionError, match=f"{name} is {value}, but must be finite"):
            best_path(lattice, scales_of({name: value}))
    for huge in (1e308, -1e308, 10**400):  # costs times the scale are infinite
        with pytest.raises(OptionError, match=rf"{name} is -?1.*, but must be (between -1e\+200 and 1e\+200|finite)"):
            best_path(lattice, scales_of({name: huge}))


def test_a_lattice_of_one_state_has_one_empty_path() -> None:
    lattice = Lattice.from_arrays("a", [0, 0], [], [], [], [], [1.5])
    assert best_path(lattice).words.tolist() == []
    assert [path.cost() for path in nbest(lattice, 5)] == [1.5]
    assert path_lattice(lattice, best_path(lattice)).num_states == 1
