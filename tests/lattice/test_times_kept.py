"""State times read from a file: each operation keeps them correct or removes them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from ninja import graph
from ninja.errors import LatticeError, SymbolError
from ninja.graph.union import union
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable

ALL_WORDS = SymbolTable([("<eps>", 0), *((f"w{number}", number) for number in range(1, 60))])


@st.composite
def timed_lattices(draw, *, different_words=False):
    """Draw a lattice with times and no labels, whose arcs have distinct acoustic costs: 1, 2, 4, …"""
    times = [0, *sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=6)))]
    last = len(times) - 1
    spans = [(src, dst) for src in range(last) for dst in range(src + 1, last + 1)]
    arcs = sorted([(0, last), *draw(st.lists(st.sampled_from(spans), max_size=12))])
    words = range(1, len(arcs) + 1) if different_words else draw(
        st.lists(st.integers(0, 3), min_size=len(arcs), max_size=len(arcs))
    )  # fmt: skip
    src, dst = zip(*arcs, strict=True)
    final = [0.0 if draw(st.booleans()) or state == last else math.inf for state in range(last + 1)]
    return Lattice.from_arrays(
        "u",
        np.searchsorted(src, np.arange(last + 2)),
        dst,
        list(words),
        draw(st.lists(st.integers(0, 5), min_size=len(arcs), max_size=len(arcs))),
        2.0 ** np.arange(len(arcs)),  # so that a sum identifies its arcs
        final,
        time=times,
        frame_shift=0.02,
        words=ALL_WORDS,
    )


def spans_by_cost(lattice):
    """Return the start and end time of each arc by its distinct acoustic cost."""
    return {
        cost: (int(lattice.time[src]), int(lattice.time[dst]))
        for cost, src, dst in zip(lattice.acoustic.tolist(), lattice.src, lattice.dst, strict=True)
    }


def assert_keeps_times(result, lattice):
    """Check that the arcs of a result begin and end at the same times as before."""
    assert result.time is not None
    assert result.time.dtype == np.int32
    assert not result.time.flags.writeable
    assert (result.frame_shift, result.words) == (lattice.frame_shift, lattice.words)
    assert (result.time[result.dst] >= result.time[result.src]).all()
    spans_before = spans_by_cost(lattice)
    for cost, src, dst in zip(result.acoustic.tolist(), result.src, result.dst, strict=True):
        if cost:  # one or more merged arcs
            merged_costs = [cost_before for cost_before in spans_before if int(cost_before) & int(cost)]
            assert (result.time[src], result.time[dst]) == (
                spans_before[merged_costs[0]][0],
                spans_before[merged_costs[-1]][1],
            )
        else:  # a new arc, without a word
            assert result.time[src] == result.time[dst]


KEEPING = {
    "connect": graph.connect,
    "prune": lambda lattice: graph.prune(lattice, 3.0, Scales(acoustic=0.001)),
    "limit depth": lambda lattice: graph.limit_depth(lattice, 2, 0.001),
    "select arcs": lambda lattice: graph.select_arcs(lattice, graph.posteriors(lattice, Scales(0.001)) > 0.05),
    "best path": lambda lattice: graph.path_lattice(lattice, graph.best_path(lattice)),
    "random path": lambda lattice: graph.random_paths(lattice, 1, 7)[0],
    "oracle": lambda lattice: graph.paths_of(lattice, graph.oracle(lattice, [1, 2]).words),
    "expand": lambda lattice: graph.expand_ngram(lattice, 3),
    "difference": lambda lattice: graph.difference(lattice, np.array([3, 3, 3], np.int32)),
    "interpolation": lambda lattice: graph.interp(lattice, replace(lattice, time=None), 1.0),
    "composition": lambda lattice: graph.compose(lattice, lattice.with_costs(lattice.graph, 0 * lattice.acoustic)),
    "raw": graph.to_raw,
    "raw and back": lambda lattice: graph.to_compact(graph.to_raw(lattice)),
    "no alignments": graph.remove_alignments,
    "scale": lambda lattice: graph.scale(lattice, 2.0, 1.0),
    "penalty": lambda lattice: graph.add_word_penalty(lattice, 1.0),
    "projection": graph.project,
    "union with itself": lambda lattice: graph.union([lattice, lattice], determinize=False),
    "combination": lambda lattice: graph.combine([lattice, lattice]),
}


@given(timed_lattices())
def test_operations_keep_the_times_of_remaining_states(lattice):
    for name, operation in KEEPING.items():
        note(name)
        try:
            result = operation(lattice)
        except LatticeError as error:  # no path remains, or the operation is impossible
            assert "path" in str(error) or "nothing" in str(error)  # noqa: PT017
            continue
        assert_keeps_times(result, lattice)


@given(timed_lattices(), timed_lattices())
def test_each_lattice_of_a_union_keeps_its_times(first, second):
    rescaled = second.with_costs(second.graph, second.acoustic * 8192)
    result = graph.union([first, rescaled], determinize=False)
    expected = spans_by_cost(graph.connect(first)) | spans_by_cost(graph.connect(rescaled))
    assert (result.time[result.dst] >= result.time[result.src]).all()
    assert {cost: span for cost, span in spans_by_cost(result).items() if cost} == expected


@given(timed_lattices())
def test_reverse_mirrors_the_times(lattice):
    result = graph.reverse(lattice)
    assert (result.time[result.dst] >= result.time[result.src]).all()
    length = int(graph.connect(lattice).time.max())
    expected = {cost: (length - end, length - begin) for cost, (begin, end) in spans_by_cost(lattice).items()}
    shifts = {
        expected[cost][0] - begin for cost, (begin, _) in spans_by_cost(result).items() if cost in expected
    } | {expected[cost][1] - end for cost, (_, end) in spans_by_cost(result).items() if cost in expected}  # fmt: skip
    assert len(shifts) <= 1


def test_a_merged_chain_of_arcs_ends_at_the_time_of_its_last_arc():
    arcs = [0, 1, 2], [1, 2, 3], [1, 0, 2], [0.0, 0.0, 0.0]
    chain = graph.from_arcs("u", *arcs, finals={3: 0.0}, time=[0, 2, 5, 9], kind="raw")
    assert graph.to_compact(chain).time.tolist() == [0, 5, 9]


@given(timed_lattices())
def test_push_keeps_states_and_their_times(lattice):
    connected = graph.connect(lattice)
    pushed = graph.push(connected)
    assert pushed.time.tolist() == connected.time.tolist()
    assert pushed.dst.tolist() == connected.dst.tolist()


@given(timed_lattices(different_words=True), st.data())
def test_remove_epsilons_keeps_the_end_times_of_words(lattice, data):
    is_epsilon = data.draw(st.lists(st.booleans(), min_size=lattice.num_arcs, max_size=lattice.num_arcs))
    words = np.where(is_epsilon, 0, lattice.word).astype(np.int32)
    words.flags.writeable = False
    ends = dict(zip(lattice.word.tolist(), lattice.time[lattice.dst].tolist(), strict=True))
    result = graph.remove_epsilons(replace(lattice, word=words))
    assert (result.time[result.dst] >= result.time[result.src]).all()
    for word, dst in zip(result.word.tolist(), result.dst.tolist(), strict=True):
        assert result.time[dst] == ends[word]


MERGING = {
    "determinize": graph.determinize,
    "minimize": graph.minimize,
    "determinize pruned": lambda lattice: graph.determinize_pruned(lattice, 5.0)[0],
    "union": lambda lattice: union([lattice, lattice]),
}


@given(timed_lattices())
def test_merging_states_keeps_no_invented_times(lattice):
    for name, operation in MERGING.items():
        note(name)
        result = operation(lattice)
        if result.time is not None:  # only epsilons were removed
            assert graph.is_deterministic(graph.remove_epsilons(lattice))
            assert result.time.tolist() == graph.remove_epsilons(lattice).time.tolist()
        assert (result.frame_shift, result.words) == (0.02, ALL_WORDS)


@given(timed_lattices())
def test_nbest_paths_keep_their_times(lattice):
    for path in graph.nbest(lattice, 5):
        assert_keeps_times(graph.path_lattice(lattice, path), lattice)


def labelled_lattice(count):
    return graph.from_arcs("u", [0], [1], [1], [1.0], finals={1: 0.0}, labels=[[7] * count])


def test_combination_merges_labels_and_times_of_equal_frame_shifts():
    timed = graph.from_arcs("u", [0], [1], [2], [1.0], finals={1: 0.0}, time=[0, 5], frame_shift=0.03)
    aligned = replace(labelled_lattice(4), frame_shift=0.03)
    combined = graph.combine([timed, aligned])
    assert sorted(combined.time.tolist()) == [0, 4, 5]
    assert combined.frame_shift == 0.03
    assert combined.ali.tolist() == [7, 7, 7, 7]


@pytest.mark.parametrize("shift", [None, 0.01])
def test_times_of_different_frame_shifts_are_not_mixed(shift):
    timed = graph.from_arcs("u", [0], [1], [2], [1.0], finals={1: 0.0}, time=[0, 5], frame_shift=0.03)
    combined = graph.combine([timed, replace(labelled_lattice(4), frame_shift=shift)])
    assert (combined.time, combined.ali.size, combined.frame_shift) == (None, 0, None)
    united = graph.union([timed, replace(labelled_lattice(4), frame_shift=shift)], determinize=False)
    assert (united.time, united.ali.tolist()) == (None, [7, 7, 7, 7])


def test_combination_drops_labels_if_a_system_has_neither_labels_nor_times():
    plain = graph.from_arcs("u", [0], [1], [2], [1.0], finals={1: 0.0})
    assert graph.combine([plain, labelled_lattice(4)]).ali.size == 0
    assert graph.combine([labelled_lattice(4), labelled_lattice(5)]).ali.size == 9


@pytest.mark.parametrize("operation", [
    lambda first, second: graph.union([first, second]),
    lambda first, second: graph.union([first, second], determinize=False),
    lambda first, second: graph.combine([first, second]),
    graph.interp,
    graph.compose,
    graph.equivalent,
], ids=["union", "side by side", "combine", "interp", "compose", "equivalent"])  # fmt: skip
def test_operands_with_different_symbol_tables_are_refused(operation):
    first = replace(labelled_lattice(1), words=SymbolTable([("<eps>", 0), ("yes", 1)]))
    second = replace(labelled_lattice(1), words=SymbolTable([("<eps>", 0), ("no", 1)]))
    with pytest.raises(SymbolError, match="the lattices have different symbol tables"):
        operation(first, second)
    operation(first, replace(labelled_lattice(1), words=SymbolTable([("<eps>", 0), ("yes", 1), ("more", 2)])))
    operation(first, labelled_lattice(1))
