"""Connection, beam pruning and the depth limit: the remaining states and arcs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from linear_time import assert_linear
from reference_graph import cost_of, end_of, labels_of, paths, through_costs
from strategies import costs, lattices
from strategies_graph import SCALES, scales_of, timed_lattices

from ninja.errors import LatticeError, OptionError
from ninja.graph import best_path, connect, depth_per_frame, from_arcs, limit_depth, prune, select_arcs, state_times
from ninja.lattice import Lattice, Scales, check
from ninja.lattice.batch import Batch


def assert_is_part(smaller: Lattice, lattice: Lattice, arc_map: np.ndarray) -> None:
    """Check that the smaller lattice consists of the mapped arcs, unchanged, all of them on complete paths."""
    check(smaller)
    for name in ("word", "graph", "acoustic"):
        assert np.array_equal(getattr(smaller, name), getattr(lattice, name)[arc_map])
    old_state = {0: 0}
    for arc, old_arc in enumerate(arc_map):
        assert old_state[int(smaller.src[arc])] == lattice.src[old_arc]
        assert old_state.setdefault(int(smaller.dst[arc]), int(lattice.dst[old_arc])) == lattice.dst[old_arc]
        labels = smaller.ali[smaller.ali_begin[arc] : smaller.ali_begin[arc + 1]]
        assert np.array_equal(labels, lattice.ali[lattice.ali_begin[old_arc] : lattice.ali_begin[old_arc + 1]])
    assert set(old_state) == set(range(smaller.num_states))
    for path in paths(smaller):
        old_path = tuple(int(arc_map[arc]) for arc in path)
        assert cost_of(smaller, path) == cost_of(lattice, old_path)
        assert labels_of(smaller, path) == labels_of(lattice, old_path)
        assert old_state[end_of(smaller, path)] == end_of(lattice, old_path)
    assert {arc for path in paths(smaller) for arc in path} == set(range(smaller.num_arcs))


@given(lattices(max_states=7, connected=False))
def test_connect_keeps_exactly_the_arcs_on_complete_paths(lattice: Lattice) -> None:
    all_paths = paths(lattice)
    if not all_paths:
        with pytest.raises(LatticeError, match="no path leads from the start to a final state"):
            connect(lattice)
        return
    connected, arc_map = connect(lattice, return_arc_map=True)
    assert arc_map.tolist() == sorted({arc for path in all_paths for arc in path})
    assert_is_part(connected, lattice, arc_map)
    assert [tuple(arc_map[list(path)]) for path in paths(connected)] == all_paths


@given(lattices(max_states=7, connected=False), st.data())
def test_select_arcs_keeps_the_selected_arcs_on_complete_paths(lattice: Lattice, data: st.DataObject) -> None:
    size = lattice.num_arcs
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool)
    all_paths = [path for path in paths(lattice) if keep[list(path)].all()]
    if not all_paths:
        with pytest.raises(LatticeError, match="no path"):
            select_arcs(lattice, keep)
        return
    selected, arc_map = select_arcs(lattice, keep, return_arc_map=True)
    assert arc_map.tolist() == sorted({arc for path in all_paths for arc in path})
    assert_is_part(selected, lattice, arc_map)
    with pytest.raises(LatticeError, match="keep has shape"):
        select_arcs(lattice, np.ones(size + 1, bool))
    with pytest.raises(LatticeError, match="keep has shape"):
        select_arcs(Batch.of([]), np.ones(1, bool))


@given(lattices(max_states=7, connected=False), costs(0, 20), SCALES)
def test_prune_agrees_with_enumeration(lattice: Lattice, beam: float, scales: dict[str, float]) -> None:
    all_paths = paths(lattice)
    assume(all_paths)
    best = min(cost_of(lattice, path, **scales) for path in all_paths)
    pruned, arc_map = prune(lattice, beam, scales_of(scales), return_arc_map=True)
    through = through_costs(lattice, **scales)
    assert arc_map.tolist() == sorted(arc for arc, cost in through.items() if cost <= best + beam)
    assert_is_part(pruned, lattice, arc_map)
    ends = {end_of(lattice, path) for path in all_paths if cost_of(lattice, path, **scales) <= best + beam}
    finals = {end_of(lattice, tuple(arc_map[list(path)])) for path in paths(pruned)}
    assert finals == ends


@given(lattices(max_states=7), st.floats(0, 30), st.floats(0, 2), st.floats(0.01, 2), st.floats(-3, 3))
def test_prune_keeps_the_best_path(
    lattice: Lattice, beam: float, acoustic_scale: float, lm_scale: float, word_penalty: float
) -> None:
    scales = Scales(acoustic_scale, lm_scale, word_penalty)
    before, after = best_path(lattice, scales), best_path(prune(lattice, beam, scales), scales)
    assert after.cost(scales) == pytest.approx(before.cost(scales), abs=1e-5)


@given(lattices(max_states=7, connected=False), st.data())
def test_prune_keeps_an_arc_exactly_at_the_beam(lattice: Lattice, data: st.DataObject) -> None:
    through = through_costs(lattice)
    assume(through)
    best = min(cost_of(lattice, path) for path in paths(lattice))
    edge = data.draw(st.sampled_from(sorted(through.values())))
    _, arc_map = prune(lattice, edge - best, return_arc_map=True)
    assert arc_map.tolist() == sorted(arc for arc, cost in through.items() if cost <= edge)


def test_prune_with_a_beam_below_rounding_keeps_the_best_path() -> None:
    cost = np.random.default_rng(1).normal(0, 1e4, 300)
    chain = from_arcs("a", np.arange(300), np.arange(1, 301), np.ones(300), cost, cost[::-1], finals={300: 1.0})
    assert prune(chain, 0.0, Scales(0.1)).num_arcs == 300


def test_prune_with_an_infinite_beam_only_connects() -> None:
    lattice = from_arcs("a", [0, 0, 1], [1, 2, 3], [1, 2, 3], [0, 1e6, 0], finals={3: 0})
    pruned, arc_map = prune(lattice, float("inf"), return_arc_map=True)
    assert arc_map.tolist() == [0, 2]
    assert pruned.num_states == 3


@pytest.mark.parametrize("beam", [-1.0, float("nan")])
def test_prune_refuses_an_invalid_beam(beam: float) -> None:
    with pytest.raises(OptionError, match=f"beam is {beam}, but must be 0 or more"):
        prune(from_arcs("a", [0], [1], [1], [0], finals={1: 0}), beam)


def test_prune_keeps_state_times_and_metadata() -> None:
    lattice = from_arcs(
        "a",
        [0, 0, 1, 2],
        [1, 2, 3, 3],
        [1, 2, 3, 4],
        [9, 0, 0, 0],
        finals={3: 0},
        time=[0, 10, 20, 30],
        frame_shift=0.01,
    )
    pruned = prune(lattice, 1.0)
    assert pruned.time is not None
    assert pruned.time.tolist() == [0, 20, 30]
    assert (pruned.key, pruned.kind, pruned.frame_shift) == ("a", "compact", 0.01)
    assert not pruned.time.flags.writeable


def test_pruned_arrays_are_read_only() -> None:
    pruned = prune(from_arcs("a", [0, 0], [1, 1], [1, 2], [0, 9], finals={1: 0}, labels=[[1], [2]]), 1.0)
    for name in ("arc_begin", "dst", "word", "graph", "ali", "final_graph", "final_ali_begin"):
        assert not getattr(pruned, name).flags.writeable


@given(timed_lattices(), st.integers(1, 4))
def test_limit_depth_keeps_the_best_arcs_of_each_frame(lattice: Lattice, limit: int) -> None:
    through, time, src = through_costs(lattice), state_times(lattice), lattice.src
    float32_costs = {arc: np.float32(cost - min(through.values())) for arc, cost in through.items()}
    assume(len(set(float32_costs.values())) == len(float32_costs))  # nth_element breaks ties, as in Kaldi
    dropped_arcs = set()
    for frame in range(int(time.max())):
        crossing = [arc for arc in through if time[src[arc]] <= frame < time[lattice.dst[arc]]]
        dropped_arcs |= set(sorted(crossing, key=lambda arc: float32_costs[arc])[limit:])
    shallow_paths = [path for path in paths(lattice) if not dropped_arcs & set(path)]
    limited, arc_map = limit_depth(lattice, limit, return_arc_map=True)
    assert arc_map.tolist() == sorted({arc for path in shallow_paths for arc in path})
    assert_is_part(limited, lattice, arc_map)


@pytest.mark.parametrize("limit", [1, 20])
def test_limit_depth_of_a_large_lattice_keeps_the_best_arcs_of_each_frame(limit: int) -> None:
    size, random = 3000, np.random.default_rng(limit)
    src, step = np.repeat(np.arange(size), 8), random.integers(2, 60, 8 * size)
    step[::8] = 1
    src, step = src[src + step <= size], step[src + step <= size]
    cost = np.where(step == 1, 0, 1 + random.permutation(step.size))  # the best path, of cost 0, visits every state
    lattice = from_arcs("a", src, src + step, [1] * step.size, cost, finals={size: 0}, time=list(range(size + 1)))
    keep = np.ones(lattice.num_arcs, bool)
    for frame in range(size):
        crossing = np.flatnonzero((lattice.src <= frame) & (lattice.dst > frame))
        keep[crossing[np.argsort(lattice.graph[crossing])[limit:]]] = False
    expected = select_arcs(lattice, keep, return_arc_map=True)[1]
    assert limit_depth(lattice, limit, return_arc_map=True)[1].tolist() == expected.tolist()


def test_limit_depth_keeps_a_path_among_ties() -> None:
    pairs = [(state, state + 1) for state in range(6) for _ in range(5)]
    src, dst = zip(*pairs, strict=True)
    lattice = from_arcs("a", src, dst, range(30), [1.0] * 30, finals={6: 0}, labels=[[1, 2]] * 30)
    limited = limit_depth(lattice, 1)
    assert limited.num_arcs == 6
    crossing = from_arcs(
        "b",
        [0, 0, 1, 2, 2],
        [1, 2, 3, 3, 3],
        [1, 2, 3, 4, 5],
        [0] * 5,
        finals={3: 0},
        labels=[[1], [1, 1], [1, 1], [1], [1]],
    )
    assert len(paths(limit_depth(crossing, 1))) == 1
    parallel = [[1, 1], [3, 2, 2, 2, 3], [2, 1, 3], [3, 3, 3]]
    lattice = from_arcs("c", [0, 0, 1, 1], [1, 2, 2, 2], [1, 0, 1, 2], [0] * 4, finals={2: 0}, labels=parallel)
    assert depth_per_frame(limit_depth(lattice, 1)).tolist() == [1] * 5


@pytest.mark.parametrize("levels", [1, 1000])
def test_limit_depth_is_linear_in_the_number_of_overlapping_arcs(levels: int) -> None:
    def make_run(size: int) -> Callable[[], object]:
        cost = [number % levels for number in range(size)]
        src, dst = [0] * size + list(range(1, size)), [*range(1, size + 1), *[size] * (size - 1)]
        time = list(range(0, size + 1))  # the arcs into the last state all end at the same time
        lattice = from_arcs("a", src, dst, [1] * len(src), cost + [0] * (size - 1), finals={size: 0}, time=time)
        return lambda: limit_depth(lattice, 5)

    assert_linear(make_run, 20_000)


def test_limit_depth_refuses_a_limit_below_one() -> None:
    with pytest.raises(OptionError, match="max_arcs_per_frame is 0, but must be 1 or more"):
        limit_depth(from_arcs("a", [0], [1], [1], [0], finals={1: 0}), 0)
