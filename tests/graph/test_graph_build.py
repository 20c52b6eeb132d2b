"""Lattices built from arcs, scaling, and state times."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import costs_of, labels_of, paths, words_of
from strategies import costs, lattices
from strategies_graph import timed_lattices

from ninja.errors import LatticeError, OptionError
from ninja.graph import (
    add_word_penalty,
    arc_order,
    depth,
    depth_per_frame,
    from_arcs,
    limit_depth,
    num_frames,
    scale,
    state_times,
    top_sort,
)
from ninja.lattice import Lattice, check


def path_contents(lattice: Lattice) -> list[tuple[object, ...]]:
    """Return the words, labels and costs of all paths, sorted."""
    return sorted((words_of(lattice, p), labels_of(lattice, p), costs_of(lattice, p)) for p in paths(lattice))


@given(lattices(max_states=7, connected=False), st.randoms())
def test_shuffled_arcs_and_states_give_an_equal_lattice(lattice: Lattice, random: object) -> None:
    states, arcs = list(range(lattice.num_states)), list(range(lattice.num_arcs))
    random.shuffle(states)
    random.shuffle(arcs)
    finals = {
        states[s]: (float(lattice.final_graph[s]), float(lattice.final_acoustic[s]))
        for s in np.flatnonzero(lattice.is_final)
    }
    if not paths(lattice):
        return
    pool, final_pool = lattice.ali, lattice.final_ali
    src, dst = [states[lattice.src[arc]] for arc in arcs], [states[lattice.dst[arc]] for arc in arcs]
    built = from_arcs(
        lattice.key,
        src,
        dst,
        lattice.word[arcs],
        lattice.graph[arcs],
        lattice.acoustic[arcs],
        finals=finals,
        start=states[0],
        labels=[pool[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist() for arc in arcs],
        final_labels={
            states[s]: final_pool[lattice.final_ali_begin[s] : lattice.final_ali_begin[s + 1]].tolist()
            for s in range(lattice.num_states)
        },
    )
    _, arc_map = arc_order(src, dst, max([*src, *dst, *finals, states[0]]) + 1, states[0])
    check(built)
    assert path_contents(built) == path_contents(lattice)
    assert np.array_equal(built.graph, lattice.graph[arcs][arc_map])


def test_sorted_states_keep_their_numbers() -> None:
    lattice = from_arcs("a", [0, 1, 0], [2, 2, 1], [1, 2, 3], [0, 0, 0], finals={2: 0, 3: 1})
    assert lattice.num_states == 4
    assert lattice.word.tolist() == [1, 3, 2]


def test_states_are_sorted_as_openfst_sorts_them() -> None:
    # Depth-first search from the start, in the order of the arcs; states are numbered in reverse order of completion.
    begin, dst = [0, 2, 3, 3, 4], [3, 1, 2, 1]
    assert top_sort(begin, dst, 0).tolist() == [0, 2, 3, 1]
    assert top_sort([0, 2, 2, 2], [2, 1], 0).tolist() == [0, 1, 2]
    assert top_sort([0, 0, 1], [0], 0).tolist() == [0, -1]


def test_the_error_for_a_cycle_names_its_states() -> None:
    with pytest.raises(LatticeError, match="key 'utt': the arcs form a cycle: 2 → 4 → 2; a lattice must be acyclic"):
        from_arcs("utt", [0, 2, 4, 4], [2, 4, 2, 5], [1, 1, 1, 1], [0] * 4, finals={5: 0})
    with pytest.raises(LatticeError, match="cycle: 1 → 1"):
        from_arcs("utt", [0, 1, 1], [1, 1, 2], [1, 1, 1], [0] * 3, finals={2: 0})
    ring = np.arange(20)
    with pytest.raises(LatticeError, match="6 → 7 → … → 0;"):
        from_arcs("utt", ring, (ring + 1) % 20, ring, ring, finals={19: 0})


def test_an_unreachable_cycle_is_removed() -> None:
    lattice = from_arcs("utt", [0, 5, 6], [1, 6, 5], [1, 2, 3], [0, 0, 0], finals={1: 0})
    assert (lattice.num_states, lattice.num_arcs) == (2, 1)


def test_invalid_state_numbers_are_refused() -> None:
    with pytest.raises(LatticeError, match="a state has the number -3"):
        from_arcs("utt", [0], [-3], [1], [0], finals={1: 0})
    for number in (2**32, 2**31 - 2, 2**20 + 65):
        message = f"a state has the number {number}, which is too large for 1 arc; number the states without large gaps"
        with pytest.raises(LatticeError, match=message):
            from_arcs("utt", [0], [number], [1], [0], finals={number: 0})
    assert from_arcs("utt", [0], [2**16], [1], [0], finals={2**16: 0}).num_states == 2**16 + 1
    with pytest.raises(LatticeError, match="no state is final"):
        from_arcs("utt", [0], [1], [1], [0], finals={})


@pytest.mark.parametrize(
    ("arc_begin", "dst", "start", "message"),
    [
        ([], [], 0, "arc_begin must be an array of at least 2 offsets"),
        ([0], [], 0, "arc_begin must be an array of at least 2 offsets"),
        ([0, 1, 1], [1], 7, "state 7 does not exist: the number of states is 2"),
        ([0, 1, 1], [1], -1, "state -1 does not exist"),
        ([0, 1, 1], [2**40], 0, f"state {2**40} does not exist"),
        ([0, 2, 2], [1], 0, "arc_begin must start at 0, never decrease, and end at 1"),
        ([0, 2**62, 1], [1], 0, "arc_begin must start at 0, never decrease, and end at 1"),
    ],
)
def test_top_sort_refuses_invalid_offsets_and_states(
    arc_begin: list[int], dst: list[int], start: int, message: str
) -> None:
    with pytest.raises(LatticeError, match=message):
        top_sort(arc_begin, dst, start)


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(LatticeError, match="src has 1 entries, but dst has 2"):
        arc_order([0], [1, 2], 3)
    with pytest.raises(LatticeError, match="state 5 does not exist: the number of states is 2"):
        arc_order([5], [1], 2)
    for name in ("word", "graph", "acoustic", "labels"):
        arrays = {"word": [1], "graph": [0.0], name: [[1], [2]] if name == "labels" else [1, 2]}
        with pytest.raises(LatticeError, match=f"key 'utt': {name} has 2 entries, but src has 1"):
            from_arcs("utt", [0], [1], finals={1: 0}, **arrays)  # type: ignore[arg-type]
    with pytest.raises(LatticeError, match="time has 1 entries, but there are 2 states"):
        from_arcs("utt", [0], [1], [1], [0.0], finals={1: 0}, time=[0])


@given(lattices(connected=False), costs(), costs())
def test_scale_multiplies_every_cost(lattice: Lattice, graph_scale: float, acoustic_scale: float) -> None:
    scaled = scale(lattice, graph_scale, acoustic_scale)
    check(scaled)
    assert np.array_equal(scaled.graph, lattice.graph * graph_scale)
    assert np.array_equal(scaled.acoustic, lattice.acoustic * acoustic_scale)
    assert np.array_equal(scaled.is_final, lattice.is_final)
    final = lattice.is_final
    assert np.array_equal(scaled.final_graph[final], lattice.final_graph[final] * graph_scale)
    assert np.array_equal(scaled.final_acoustic[final], lattice.final_acoustic[final] * acoustic_scale)


@given(lattices(), costs())
def test_word_penalty_is_added_to_words_but_not_epsilons(lattice: Lattice, penalty: float) -> None:
    penalized = add_word_penalty(lattice, penalty)
    assert np.array_equal(penalized.graph - lattice.graph, np.where(lattice.word != 0, penalty, 0))
    assert np.array_equal(penalized.final_graph, lattice.final_graph)
    with pytest.raises(OptionError, match="word_penalty is nan, but must be finite"):
        add_word_penalty(lattice, float("nan"))


@given(timed_lattices())
def test_state_times_are_the_path_lengths_in_frames(lattice: Lattice) -> None:
    time = state_times(lattice)
    for path in paths(lattice):
        length = 0
        for arc in path:
            length += int(lattice.ali_begin[arc + 1] - lattice.ali_begin[arc])
            assert time[lattice.dst[arc]] == length
    assert num_frames(lattice) == max(len(labels_of(lattice, path)) for path in paths(lattice))


@given(timed_lattices())
def test_depth_counts_the_arcs_that_cross_each_frame(lattice: Lattice) -> None:
    time, src, frames = state_times(lattice), lattice.src, num_frames(lattice)
    reachable = [arc for arc in range(lattice.num_arcs) if time[src[arc]] >= 0]
    expected = [sum(time[src[arc]] <= t < time[lattice.dst[arc]] for arc in reachable) for t in range(frames)]
    assert depth_per_frame(lattice).tolist() == expected
    assert depth(lattice) == pytest.approx(np.mean(expected) if frames else 0.0)


def test_labels_on_final_states_lengthen_the_lattice() -> None:
    lattice = from_arcs("a", [0], [1], [1], [0], finals={1: 0}, labels=[[5, 5]], final_labels={1: [6, 6, 6]})
    assert num_frames(lattice) == 5
    assert depth_per_frame(lattice).tolist() == [1] * 5


def test_implausibly_large_times_allocate_no_memory(ninja: Callable[..., Any], tmp_path: Path) -> None:
    last = 2**31 - 2
    lattice = from_arcs("utt", [0, 0, 1], [1, 2, 2], [1, 2, 3], [0, 0, 0], finals={2: 0}, time=[0, 10, last])
    (tmp_path / "a.ctm").write_text(f"utt 1 0.00 {last / 100 - 1:.2f} word\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert depth(lattice) == 2
    with pytest.raises(
        LatticeError, match="key 'utt': the last frame is 2147483646, which is implausible for a lattice with 3 arcs"
    ):
        depth_per_frame(lattice)
    assert limit_depth(lattice, 1).num_arcs == 2
    assert limit_depth(lattice, 2) is lattice
    assert ninja("depth", tmp_path / "a.ctm")[:2] == (0, "utt 1\n")
    assert ninja("info", tmp_path / "a.ctm")[0] == 0
    assert ninja("limit-depth", tmp_path / "a.ctm", "-o", tmp_path / "b.slf")[0] == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_paths_of_different_length_to_a_state_are_refused() -> None:
    lattice = from_arcs("utt", [0, 0], [1, 1], [1, 2], [0, 0], finals={1: 0}, labels=[[1], [1, 2]])
    with pytest.raises(LatticeError, match="key 'utt': state 1 is at frame 1 on one path, but at frame 2 via arc 1"):
        state_times(lattice)


def test_times_of_the_format_are_used_if_they_increase() -> None:
    lattice = from_arcs("utt", [0, 1], [1, 2], [1, 2], [0, 0], finals={2: 0}, time=[0, 7, 9])
    assert state_times(lattice).tolist() == [0, 7, 9]
    assert num_frames(lattice) == 9
    decreasing = from_arcs("utt", [0, 1], [1, 2], [1, 2], [0, 0], finals={2: 0}, time=[0, 7, 3])
    with pytest.raises(LatticeError, match="arc 1 ends before it begins"):
        depth(decreasing)
