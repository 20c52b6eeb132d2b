"""Determinization, minimization, epsilon removal and equivalence, compared with enumerated paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_time import assert_linear
from reference_openfst import Way, best_ways, determinized_by_openfst, ways, with_random_costs
from strategies import lattices

from ninja.errors import LatticeError, OptionError
from ninja.graph import connect, from_arcs, nbest
from ninja.graph.determinize import determinize, is_deterministic, remove_epsilons
from ninja.graph.equivalent import equivalent
from ninja.graph.minimize import minimize
from ninja.lattice import Lattice, check

SCALES = st.sampled_from([1.0, 0.1, 0.0, 2.5])
SMALL = lattices(max_states=7, max_word=3)
SEEDS = st.integers(0, 2**32 - 1)


def assert_same(paths: dict[tuple[int, ...], Way], expected: dict[tuple[int, ...], Way]) -> None:
    assert paths.keys() == expected.keys()
    for words, way in paths.items():
        assert way.graph == pytest.approx(expected[words].graph, abs=1e-3)
        assert way.acoustic == pytest.approx(expected[words].acoustic, abs=1e-3)
        assert way.alignment == expected[words].alignment


@given(SMALL, SEEDS, SCALES)
def test_determinize_keeps_the_best_path_of_each_word_sequence(lattice: Lattice, seed: int, scale: float) -> None:
    lattice = with_random_costs(lattice, seed)
    result = determinize(lattice, scale)
    check(result)
    assert is_deterministic(result)
    assert len(list(ways(result))) == len({way.words for way in ways(result)})
    assert_same(best_ways(result, scale), best_ways(lattice, scale))


@settings(deadline=None, max_examples=40)
@given(SMALL, SEEDS, SCALES)
def test_determinize_agrees_with_openfst(lattice: Lattice, seed: int, scale: float) -> None:
    pytest.importorskip("pywrapfst")
    lattice = with_random_costs(lattice, seed)
    reference = determinized_by_openfst(lattice, scale)
    assert determinize(lattice, scale).num_states <= reference.num_states
    assert_same(best_ways(determinize(lattice, scale)), best_ways(reference, scale))


@given(SMALL)
def test_determinize_keeps_the_best_total_cost_of_tied_paths(lattice: Lattice) -> None:
    expected, determinized = best_ways(lattice), best_ways(determinize(lattice))
    assert expected.keys() == determinized.keys()
    assert [expected[words].total() for words in expected] == pytest.approx(
        [determinized[words].total() for words in expected]
    )


@given(SMALL, SEEDS, SCALES)
def test_remove_epsilons_keeps_the_best_path_of_each_word_sequence(lattice: Lattice, seed: int, scale: float) -> None:
    lattice = with_random_costs(lattice, seed)
    result = remove_epsilons(lattice, scale)
    check(result)
    assert (result.word > 0).all()
    assert connect(result).num_arcs == result.num_arcs
    assert_same(best_ways(result, scale), best_ways(lattice, scale))


@given(lattices(max_states=7, max_word=3, connected=False), SEEDS)
def test_operations_remove_states_on_no_path(lattice: Lattice, seed: int) -> None:
    lattice = with_random_costs(lattice, seed)
    expected = best_ways(lattice)
    if not expected:
        for operation in (remove_epsilons, determinize, minimize):
            with pytest.raises(LatticeError, match="no path leads from the start"):
                operation(lattice)
        return
    for operation in (remove_epsilons, determinize, minimize):
        result = operation(lattice)
        assert connect(result).num_states == result.num_states
        assert_same(best_ways(result), expected)


@given(SMALL, SEEDS, SCALES)
def test_minimize_keeps_every_path_of_a_lattice(lattice: Lattice, seed: int, scale: float) -> None:
    lattice = with_random_costs(lattice, seed)
    result = minimize(lattice, scale)
    check(result)
    assert result.num_states <= lattice.num_states
    assert_same(best_ways(result, scale), best_ways(lattice, scale))


def with_copy(lattice: Lattice, shift: float) -> Lattice:
    """Begin with word 98 or 99 and continue in one of two copies of a lattice; shift the final costs of the second."""
    n, m = lattice.num_states, lattice.num_arcs
    copy_graph = np.where(lattice.is_final, lattice.final_graph + np.float32(shift), np.float32(np.inf))
    copy_acoustic = np.where(lattice.is_final, lattice.final_acoustic - np.float32(3 * shift), np.float32(np.inf))
    return Lattice.from_arrays(
        "two",
        np.concatenate([[0], lattice.arc_begin + 2, lattice.arc_begin[1:] + m + 2]),
        np.concatenate([[1, n + 1], lattice.dst + 1, lattice.dst + n + 1]),
        np.concatenate([[98, 99], lattice.word, lattice.word]),
        np.concatenate([[0, 0], lattice.graph, lattice.graph]),
        np.concatenate([[0, 0], lattice.acoustic, lattice.acoustic]),
        np.concatenate([[np.inf], lattice.final_graph, copy_graph]),
        np.concatenate([[np.inf], lattice.final_acoustic, copy_acoustic]),
        ali_begin=np.concatenate([[0, 0], lattice.ali_begin, lattice.ali_begin[1:] + lattice.ali.size]),
        ali=np.concatenate([lattice.ali, lattice.ali]),
        final_ali_begin=np.concatenate(
            [[0], lattice.final_ali_begin, lattice.final_ali_begin[1:] + lattice.final_ali.size]
        ),
        final_ali=np.concatenate([lattice.final_ali, lattice.final_ali]),
    )


@given(SMALL, SEEDS, st.sampled_from([0.0, 1.5, -200.25]))
def test_minimize_merges_copies_that_differ_by_a_constant(lattice: Lattice, seed: int, shift: float) -> None:
    lattice = with_random_costs(lattice, seed)
    copies = with_copy(lattice, shift)
    result = minimize(copies)
    assert result.num_states <= lattice.num_states + 1
    assert_same(best_ways(result), best_ways(copies))


@given(SMALL, SEEDS, SCALES)
def test_equivalence_holds_for_determinized_and_fails_for_changed_lattices(
    lattice: Lattice, seed: int, scale: float
) -> None:
    lattice = with_random_costs(lattice, seed)
    for operation in (remove_epsilons, determinize, minimize):
        assert equivalent(lattice, operation(lattice, scale), 1e-3, scale, costs="both")
    arc = seed % lattice.num_arcs if lattice.num_arcs else None
    if arc is None:
        return
    graph, word = lattice.graph.copy(), lattice.word.copy()
    graph[arc] += 0.5
    word[arc] = 4
    for changed in (replace(lattice, graph=graph), replace(lattice, word=word)):
        before, after = best_ways(lattice, scale), best_ways(changed, scale)
        is_equivalent = before.keys() == after.keys() and all(
            abs(before[words].total(scale) - after[words].total(scale)) < 1e-3 for words in before
        )
        assert equivalent(lattice, changed, 1e-3, scale) == is_equivalent
        assert equivalent(changed, lattice, 1e-3, scale) == is_equivalent


def test_minimize_keeps_long_alignments() -> None:
    frames = 3000  # two words, each with a copy of the same frames: states 1 to 3000 and 3001 to 6000
    src = [0, *range(1, frames), 0, *range(frames + 1, 2 * frames)]
    dst = [*range(1, frames + 1), *range(frames + 1, 2 * frames + 1)]
    word = [7, *[0] * (frames - 1), 8, *[0] * (frames - 1)]
    labels = [[1 + frame] for frame in range(frames)] * 2
    cost = np.ones(2 * frames)
    finals = {frames: 0.0, 2 * frames: 0.0}
    lattice = from_arcs("k", src, dst, word, cost, finals=finals, labels=labels, kind="raw")
    minimized = minimize(lattice)
    assert minimized.num_states == 1 + frames
    for before, after in zip(nbest(lattice, 2), nbest(minimized, 2), strict=True):
        assert before.alignment.tolist() == after.alignment.tolist() == [*range(1, 1 + frames)]


def test_determinize_beyond_max_arcs_is_refused() -> None:
    # Two chains of 40 states spell every word sequence over {1, 2}: as many residual alignments as sequences.
    length = 40
    begin, dst, word, label = [0], [], [], []
    for state in range(2 * length + 1):
        ends = (1, 2) if state == 0 else (state + 2,)
        if state <= 2 * length - 2:
            for end in ends:
                for label_word in (1, 2):
                    dst.append(end)
                    word.append(label_word)
                    label.append(len(label) + 1)
        begin.append(len(dst))
    final = np.full(2 * length + 1, np.inf)
    final[-2:] = 0
    zero = np.zeros(len(dst))
    lattice = Lattice.from_arrays(
        "wide", begin, dst, word, zero, zero, final, ali_begin=np.arange(len(dst) + 1), ali=label
    )
    with pytest.raises(
        LatticeError, match="key 'wide': determinization needs more than 500 arcs, or as much work; prune"
    ):
        determinize(lattice, max_arcs=500)


def test_determinized_costs_beyond_single_precision_are_refused() -> None:
    lattice = from_arcs("k", [0, 0, 1, 2], [1, 2, 3, 3], [1, 1, 2, 3], [3e38, 1.0, 3e38, 1.0], finals={3: 0.0})
    with pytest.raises(
        LatticeError, match=r"key 'k': arc 1 has the costs inf and 0.0, which exceed the range of float32"
    ):
        determinize(lattice)


def test_remove_epsilons_beyond_max_arcs_is_refused() -> None:
    length = 60  # an epsilon chain with a word at each state: every state gets the words of all later states
    begin = np.minimum(np.arange(length + 1) * 2, 2 * (length - 1))
    dst = np.repeat(np.arange(1, length), 2)
    word = np.tile([0, 1], length - 1)
    zero = np.zeros(len(dst))
    lattice = Lattice.from_arrays("long", begin, dst, word, zero, zero, [*[np.inf] * (length - 1), 0.0])
    assert remove_epsilons(lattice).num_arcs == length * (length - 1) // 2
    with pytest.raises(LatticeError, match="key 'long': more than 100 arcs remain without the epsilons; prune"):
        remove_epsilons(lattice, max_arcs=100)


def test_remove_epsilons_bounds_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    src, dst, word = [0, 1, 0, 1, 2], [1, 2, 3, 3, 3], [0, 0, 1, 2, 3]  # the words follow 0, 1 and 2 epsilons
    lattice = from_arcs("k", src, dst, word, [0.0] * 5, finals={3: 0.0}, labels=[[7]] * 5)
    monkeypatch.setitem(remove_epsilons.__globals__, "MAX_LABELS", 6)
    assert len(remove_epsilons(lattice).ali) == 1 + 2 + 3
    monkeypatch.setitem(remove_epsilons.__globals__, "MAX_LABELS", 5)
    with pytest.raises(LatticeError, match="key 'k': more than 5 labels remain without the epsilons; prune the"):
        remove_epsilons(lattice)


def eps_chain(length: int) -> Lattice:
    """Return a chain of epsilons; a word leads from each of its states to the end."""
    states = range(length)
    dst = [*range(1, length + 1), *[length] * length]
    word = [*[0] * length, *range(1, length + 1)]
    return from_arcs("chain", [*states, *states], dst, word, [1.0] * (2 * length), finals={length: 0.0})


def ladder(length: int) -> Lattice:
    """Return two paths with the same words and different costs, which meet at the end."""
    src = [0, 0, *range(1, 2 * length + 1)]
    dst = [*range(1, 2 * length + 1), *[2 * length + 1] * 2]
    word = [place // 2 % 5 + 1 for place in range(len(src))]
    cost = [float(place % 3) for place in range(len(src))]
    return from_arcs("ladder", src, dst, word, cost, finals={2 * length + 1: 0.0})


@pytest.mark.parametrize(
    ("operation", "make", "size"), [(remove_epsilons, eps_chain, 4000), (determinize, ladder, 16000)]
)
def test_time_is_linear_in_the_length_of_chains(
    operation: Callable[[Lattice], Lattice], make: Callable[[int], Lattice], size: int
) -> None:
    def run(length: int) -> Callable[[], Lattice]:
        return partial(operation, make(length))

    assert_linear(run, size)


def test_options_out_of_range_are_refused() -> None:
    lattice = Lattice.from_arrays("a", [0, 1, 1], [1], [1], [0.5], [0.5], [np.inf, 0])
    with pytest.raises(OptionError, match="max_arcs is 0, but must be 1 or more"):
        determinize(lattice, max_arcs=0)
    with pytest.raises(OptionError, match="max_arcs is 0, but must be 1 or more"):
        remove_epsilons(lattice, max_arcs=0)
    with pytest.raises(OptionError, match=r"delta is 0.0, but must be above 0"):
        minimize(lattice, delta=0.0)
    with pytest.raises(OptionError, match="delta is nan, but must be 0 or more"):
        equivalent(lattice, lattice, delta=float("nan"))
    with pytest.raises(OptionError, match="costs is 'acoustic', but must be one of total, both"):
        equivalent(lattice, lattice, costs="acoustic")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="acoustic_scale is nan"):
        determinize(lattice, float("nan"))
