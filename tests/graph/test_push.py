"""Push and minimize compared with enumerated completions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_algebra import all_ways, best_completion, common_labels, completions, num_completion_classes
from reference_openfst import with_random_costs
from strategies import lattices

from ninja.errors import LatticeError, OptionError
from ninja.graph import connect, determinize, from_arcs, minimize, push, remove_epsilons, union
from ninja.lattice import Lattice, check

SEEDS = st.integers(0, 2**32 - 1)
SMALL = lattices(max_states=7, max_word=3)


@given(SMALL, st.booleans(), st.booleans())
def test_push_keeps_every_path(lattice: Lattice, strings: bool, weights: bool) -> None:
    pushed = push(lattice, strings=strings, weights=weights)
    check(pushed)
    assert all_ways(pushed) == all_ways(lattice)


@given(lattices(max_states=7, max_word=3, kind="compact"))
def test_push_moves_labels_as_far_forward_as_all_completions_agree(lattice: Lattice) -> None:
    num_common = [common_labels(completions(lattice, state)) if state else 0 for state in range(lattice.num_states)]
    pushed = push(lattice, weights=False)
    length = np.diff(lattice.ali_begin) + np.array(num_common)[lattice.dst] - np.array(num_common)[lattice.src]
    assert np.diff(pushed.ali_begin).tolist() == length.tolist()
    for state in range(1, pushed.num_states):
        assert common_labels(completions(pushed, state)) == 0


@st.composite
def shared_label_lattices(draw: st.DrawFn) -> Lattice:
    """Draw a lattice with only the labels 1 and 2 and paths of equal length, so that many completions are equal."""
    num_states = draw(st.integers(2, 6))
    arcs = [(state, state + 1) for state in range(num_states - 1) for _ in range(draw(st.integers(1, 2)))]
    labels = [draw(st.lists(st.integers(1, 2), min_size=2, max_size=2)) for _ in arcs]
    src, dst = zip(*arcs, strict=True)
    final = draw(st.lists(st.integers(1, 2), max_size=3))
    return from_arcs(
        "alike", src, dst, range(1, len(arcs) + 1), [1.0] * len(arcs), finals={num_states - 1: 0.5}, labels=labels,
        final_labels={num_states - 1: final},
    )  # fmt: skip


@settings(max_examples=40)
@given(shared_label_lattices())
def test_push_moves_common_labels_over_many_arcs(lattice: Lattice) -> None:
    pushed = push(lattice)
    assert all_ways(pushed) == all_ways(lattice)
    for state in range(1, pushed.num_states):
        assert common_labels(completions(pushed, state)) == 0


@st.composite
def long_label_lattices(draw: st.DrawFn) -> Lattice:
    """Draw a lattice with only the labels 1 and 2, up to 40 per arc, which often have common prefixes."""
    num_states = draw(st.integers(2, 5))
    arcs = [(state, draw(st.integers(state + 1, num_states - 1))) for state in range(num_states - 1) for _ in range(3)]
    prefix = draw(st.lists(st.integers(1, 2), min_size=40, max_size=40))
    labels = []
    for _ in arcs:
        length = draw(st.integers(0, 40))
        labels.append([*prefix[:length], *draw(st.lists(st.integers(1, 2), max_size=2))])
    src, dst = zip(*arcs, strict=True)
    return from_arcs(
        "long", src, dst, range(1, len(arcs) + 1), [1.0] * len(arcs), finals={num_states - 1: 0.5}, labels=labels
    )


@given(long_label_lattices())
def test_push_moves_long_alignments_as_far_forward_as_completions_agree(lattice: Lattice) -> None:
    lattice = connect(lattice)
    pushed, small = push(lattice), minimize(lattice)
    check(pushed)
    check(small)
    assert all_ways(pushed) == all_ways(small) == all_ways(lattice)
    num_common = np.array(
        [common_labels(completions(lattice, state)) if state else 0 for state in range(lattice.num_states)]
    )
    length = np.diff(lattice.ali_begin) + num_common[lattice.dst] - num_common[lattice.src]
    assert np.diff(pushed.ali_begin).tolist() == length.tolist()


def test_push_handles_an_arc_that_ends_before_the_labels_diverge() -> None:
    lattice = from_arcs(
        "k", [0, 1, 1, 1, 2, 3], [1, 2, 3, 2, 4, 4], range(1, 7), [0.0] * 6, finals={4: 0.0},
        labels=[[9], [1, 2, 3], [1], [1, 2, 4], [7], [5]],
    )  # fmt: skip
    assert push(lattice).ali.tolist() == [9, 1, 2, 3, 7, 5, 2, 4, 7]


def test_final_labels_of_non_final_states_are_dropped() -> None:
    lattice = Lattice.from_arrays(
        "k", [0, 1, 2, 2], [1, 2], [1, 2], [0, 0], [0, 0], [np.inf, np.inf, 0], ali_begin=[0, 1, 2], ali=[5, 6],
        final_ali_begin=[0, 0, 3, 4], final_ali=[7, 8, 9, 10],
    )  # fmt: skip
    for result in (push(lattice), minimize(lattice), push(lattice, weights=False)):
        check(result)
        assert result.ali.tolist() == [5, 6, 10]
        assert result.final_ali.tolist() == []


def test_push_stops_where_completions_diverge_after_equal_arcs() -> None:
    lattice = from_arcs(
        "k", [0, 1, 1, 2, 3], [1, 2, 3, 4, 4], [1, 2, 3, 4, 5], [0.0] * 5, finals={4: 0.0},
        labels=[[1], [5], [5], [6], [7]],
    )  # fmt: skip
    pushed = push(lattice)
    assert pushed.ali.tolist() == [1, 5, 6, 7]
    assert pushed.ali_begin.tolist() == [0, 2, 3, 4, 4, 4]


@given(SMALL, st.sampled_from([1.0, 0.5]))
def test_best_completions_of_a_pushed_lattice_cost_0(lattice: Lattice, acoustic_scale: float) -> None:
    pushed = push(lattice, strings=False, acoustic_scale=acoustic_scale)
    for state in range(1, pushed.num_states):
        least = min(way.total(acoustic_scale) for way in completions(pushed, state))
        assert least == pytest.approx(0.0, abs=1e-3)
    if acoustic_scale == 1.0:
        for state in range(1, pushed.num_states):
            best = best_completion(completions(pushed, state))
            assert (best.graph, best.acoustic) == pytest.approx((0.0, 0.0), abs=1e-3)


@given(SMALL)
def test_push_and_minimize_are_idempotent(lattice: Lattice) -> None:
    pushed = push(lattice)
    assert push(pushed).identical(pushed)
    small = minimize(lattice)
    minimized_twice = minimize(small)
    assert (minimized_twice.num_states, minimized_twice.num_arcs) == (small.num_states, small.num_arcs)
    assert np.array_equal(minimized_twice.ali, small.ali)


@given(SMALL, st.booleans(), st.booleans())
def test_minimize_keeps_every_path_and_adds_no_states(lattice: Lattice, strings: bool, weights: bool) -> None:
    small = minimize(lattice, strings=strings, weights=weights)
    check(small)
    assert small.num_states <= lattice.num_states
    assert all_ways(small) == all_ways(lattice)


@st.composite
def branching_lattices(draw: st.DrawFn) -> Lattice:
    """Draw a deterministic lattice with similar states: two different words, labels and costs."""
    num_states = draw(st.integers(2, 9))
    rows = []
    for state in range(num_states - 1):
        for word in draw(st.lists(st.integers(1, 2), unique=True, min_size=1)):
            rows.append((state, draw(st.integers(state + 1, num_states - 1)), word))
    src, dst, word = zip(*rows, strict=True)
    cost = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=len(rows), max_size=len(rows)))
    labels = [draw(st.lists(st.integers(1, 2), max_size=2)) for _ in rows]
    finals = dict.fromkeys([*draw(st.lists(st.integers(0, num_states - 1))), num_states - 1], 0.0)
    return from_arcs("b", src, dst, word, cost, [-3.0 * value for value in cost], finals=finals, labels=labels)


@given(branching_lattices())
def test_minimized_deterministic_lattice_has_one_state_per_set_of_completions(lattice: Lattice) -> None:
    plain = determinize(lattice)
    small = minimize(plain)
    assert small.num_states == num_completion_classes(plain)
    assert all_ways(small) == all_ways(plain)


@given(SMALL, SEEDS, st.sampled_from([0.25, 4.0]))
def test_minimize_merges_costs_within_delta(lattice: Lattice, seed: int, delta: float) -> None:
    lattice = with_random_costs(lattice, seed)
    small = minimize(lattice, delta=delta)
    expected = sorted((way.words, way.alignment, way.total()) for way in all_ways(lattice).elements())
    minimized = sorted((way.words, way.alignment, way.total()) for way in all_ways(small).elements())
    assert [way[:2] for way in minimized] == [way[:2] for way in expected]
    for path, expected_path in zip(minimized, expected, strict=True):
        assert abs(path[2] - expected_path[2]) <= 4 * delta * lattice.num_states


def test_states_that_differ_only_in_an_inner_label_are_not_merged() -> None:
    # The number of labels and the first and last label are equal; the inner label differs.
    lattice = from_arcs(
        "k", [0, 0, 1, 1, 2, 2], [1, 2, 3, 3, 3, 3], [1, 2, 3, 4, 3, 4], [0.0] * 6, finals={3: 0.0},
        labels=[[], [], [1, 2, 3], [5, 5, 5], [1, 4, 3], [5, 5, 5]],
    )  # fmt: skip
    assert minimize(lattice).num_states == 4
    assert all_ways(minimize(lattice)) == all_ways(lattice)


def test_minimize_bounds_the_comparisons_of_similar_states() -> None:
    # Each of 300 states has another difference between the costs of its two arcs, so none are merged.
    count = 300
    src = [*[0] * count, *np.repeat(np.arange(1, count + 1), 2)]
    dst = [*range(1, count + 1), *[count + 1] * (2 * count)]
    word = [*range(1, count + 1), *[1, 2] * count]
    cost = [*[0.0] * count, *(value for state in range(count) for value in (0.0, float(state)))]
    assert minimize(from_arcs("k", src, dst, word, cost, finals={count + 1: 0.0})).num_states == count + 2


def test_push_that_would_create_too_many_labels_is_refused() -> None:
    # 2,000 states lead to one state, after which 2,000 frames follow on a single path.
    count, frames = 2000, 2000
    src = [*[0] * count, *range(1, count + 1), count + 1]
    dst = [*range(1, count + 1), *[count + 1] * count, count + 2]
    word = [*range(1, 2 * count + 2)]
    labels = [*[[]] * (2 * count), [5] * frames]
    lattice = from_arcs("k", src, dst, word, [0.0] * len(src), finals={count + 2: 0.0}, labels=labels)
    with pytest.raises(LatticeError, match="key 'k': pushing would create 4000000 labels of 2000; push costs only"):
        push(lattice)
    assert push(lattice, strings=False).ali.size == frames


def test_push_of_labels_makes_a_raw_lattice_compact() -> None:
    raw = from_arcs("k", [0, 1], [1, 2], [1, 0], [0.0, 0.0], finals={2: 0.0}, labels=[[4], [5]], kind="raw")
    assert push(raw, strings=False).kind == "raw"
    assert push(raw).kind == "compact"
    assert push(raw).ali_begin.tolist() == [0, 2, 2]


def union_with_another(lattice: Lattice) -> Lattice:
    return union([lattice, from_arcs("a", [0, 1], [1, 2], [1, 5], [-3e38, 0], finals={2: 0.0})])


@pytest.mark.parametrize("operation", [push, minimize, remove_epsilons, union_with_another])
def test_costs_beyond_float32_are_refused(operation: Callable[[Lattice], Lattice]) -> None:
    src, dst, word = [0, 1, 0, 1, 0, 2, 1, 3], [1, 4, 2, 3, 3, 4, 2, 4], [1, 0, 2, 3, 1, 4, 1, 4]
    lattice = from_arcs("a", src, dst, word, [3e38, 3e38, 1, 3e38, 1, 3e38, 1, -3e38], finals={4: 3e38})
    with pytest.raises(LatticeError, match="exceed the range of float32; scale the costs down first"):
        operation(lattice)


def test_options_out_of_range_are_refused() -> None:
    lattice = from_arcs("a", [0], [1], [1], [0.0], finals={1: 0.0})
    with pytest.raises(OptionError, match="acoustic_scale is nan"):
        push(lattice, acoustic_scale=math.nan)
    with pytest.raises(OptionError, match=r"delta is inf, but must be above 0 and finite"):
        minimize(lattice, delta=math.inf)
