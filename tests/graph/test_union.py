"""Union and combination compared with enumerated paths."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_algebra import all_ways, union_paths
from reference_openfst import best_ways, with_random_costs
from strategies import lattices

from ninja.errors import LatticeError, OptionError
from ninja.graph import (
    best_path,
    combine,
    forward_backward,
    from_arcs,
    is_deterministic,
    nbest,
    posteriors,
    scale,
    union,
)
from ninja.graph.determinize import determinize
from ninja.lattice import Lattice, Scales, check

SEEDS = st.integers(0, 2**32 - 1)
SCALES = st.sampled_from([1.0, 0.1, 0.0, 2.5])
SMALL = lattices(max_states=6, max_word=3)


def assert_best_paths(lattice: Lattice, expected: dict, acoustic_scale: float = 1.0) -> None:
    paths = best_ways(lattice, acoustic_scale)
    assert paths.keys() == expected.keys()
    for words, way in paths.items():
        assert way.graph == pytest.approx(expected[words].graph, abs=1e-3)
        assert way.acoustic == pytest.approx(expected[words].acoustic, abs=1e-3)
        assert way.alignment == expected[words].alignment


@given(st.lists(st.tuples(SMALL, SEEDS), min_size=1, max_size=3), SCALES)
def test_union_keeps_the_best_path_of_each_word_sequence(cases: list, acoustic_scale: float) -> None:
    operands = [with_random_costs(lattice, seed) for lattice, seed in cases]
    result = union(operands, acoustic_scale)
    check(result)
    assert is_deterministic(result)
    assert_best_paths(result, union_paths(operands, acoustic_scale), acoustic_scale)


@given(SMALL, SEEDS, SEEDS)
def test_union_of_lattices_that_differ_in_costs_keeps_the_better_paths(
    lattice: Lattice, first_seed: int, second_seed: int
) -> None:
    operands = [
        with_random_costs(lattice, first_seed),
        with_random_costs(lattice, second_seed),
    ]  # alignments agree, costs do not
    assert_best_paths(union(operands), union_paths(operands))


@given(SMALL, SEEDS)
def test_union_of_a_lattice_with_itself_is_its_determinization(lattice: Lattice, seed: int) -> None:
    lattice = with_random_costs(lattice, seed)
    assert_best_paths(union([lattice, lattice]), best_ways(lattice))
    assert union([lattice, lattice]).num_states == union([lattice]).num_states
    assert union([lattice]).num_states <= determinize(lattice).num_states


@given(SMALL, SMALL)
def test_best_path_of_a_union_is_the_best_of_both_lattices(a: Lattice, b: Lattice) -> None:
    better = min(best_path(a).cost(), best_path(b).cost())
    for determinized in (True, False):
        assert best_path(union([a, b], determinize=determinized)).cost() == pytest.approx(better, abs=1e-3)


@given(st.lists(lattices(max_states=5, connected=False), min_size=1, max_size=3))
def test_union_without_determinization_keeps_every_path(operands: list[Lattice]) -> None:
    if not all(all_ways(lattice) for lattice in operands):
        with pytest.raises(LatticeError, match="no path leads from the start"):
            union(operands, determinize=False)
        return
    result = union(operands, determinize=False)
    check(result)
    assert all_ways(result) == sum((all_ways(lattice) for lattice in operands), Counter())


def test_union_delays_the_choice_between_alignments_until_costs_decide() -> None:
    # Word 1 has two alignments; the better one depends on whether word 2 or 3 follows.
    first = from_arcs(
        "k", [0, 1, 1], [1, 2, 2], [1, 2, 3], [0.0, 1.0, 5.0], finals={2: 0.0}, labels=[[11, 12], [21], [31]]
    )
    second = from_arcs(
        "k", [0, 1, 1], [1, 2, 2], [1, 2, 3], [0.0, 5.0, 1.0], finals={2: 0.0}, labels=[[11, 13], [21], [31]]
    )
    result = union([first, second])
    assert {tuple(path.words): path.alignment.tolist() for path in nbest(result, 5)} == {
        (1, 2): [11, 12, 21],
        (1, 3): [11, 13, 31],
    }
    assert [path.cost() for path in nbest(result, 5)] == [1.0, 1.0]
    assert result.num_arcs == 3  # the arc of word 1 is shared, with the common first label
    assert result.ali[: result.ali_begin[1]].tolist() == [11]


def test_states_with_different_pending_labels_are_not_merged() -> None:
    # After words 1 and 2, both lattices are in the same states at the same costs, but with different labels.
    def lattice(third_cost: float, fourth_cost: float, *last_labels: int) -> Lattice:
        labels = [[11, last_labels[0]], [11, last_labels[1]], [31], [41]]
        return from_arcs(
            "k",
            [0, 0, 1, 1],
            [1, 1, 2, 2],
            [1, 2, 3, 4],
            [0.0, 0.0, third_cost, fourth_cost],
            finals={2: 0.0},
            labels=labels,
        )

    first, second = lattice(0.0, 1.0, 12, 13), lattice(1.0, 0.0, 14, 15)
    assert_best_paths(union([first, second]), union_paths([first, second]))


def test_union_arc_has_the_costs_of_its_best_path() -> None:
    first = from_arcs("k", [0, 1], [1, 2], [1, 2], [5.0, 0.5], [3.0, 0.0], finals={2: 0.0})
    second = from_arcs("k", [0, 1], [1, 2], [1, 3], [1.0, 0.5], [4.0, 0.0], finals={2: 0.0})
    result = union([first, second])
    assert result.word.tolist() == [1, 2, 3]
    assert result.graph.tolist() == [1.0, 4.5, 0.5]
    assert result.acoustic.tolist() == [4.0, -1.0, 0.0]


def test_union_beyond_max_arcs_is_refused() -> None:
    random = np.random.default_rng(0)
    length = 40
    src, dst = np.repeat(np.arange(length), 2), np.repeat(np.arange(1, length + 1), 2)
    word = np.tile([1, 2], length)

    def random_costs() -> Lattice:  # all word sequences over {1, 2}, with random costs
        return from_arcs("wide", src, dst, word, random.normal(0, 10, 2 * length), finals={length: 0.0})

    with pytest.raises(
        LatticeError, match="key 'wide': determinization of the union needs more than 500 arcs, or as much work"
    ):
        union([random_costs(), random_costs()], max_arcs=500)
    assert union([random_costs(), random_costs()], determinize=False).num_arcs == 4 * length


def test_union_limits_the_pending_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    from ninja.graph import union as function

    lattice = from_arcs("k", [0], [1], [1], [0.0], finals={1: 0.0}, labels=[[7] * 50])
    monkeypatch.setitem(function.__globals__, "MAX_LABELS", 49)
    with pytest.raises(LatticeError, match="or as much work"):
        union([lattice])


def test_union_merges_costs_that_differ_only_by_rounding() -> None:
    # After each of two words, the second lattice costs 0.1 more, except for float32 rounding.
    lattice = from_arcs(
        "k", [0, 0, 1, 2, 3], [1, 2, 3, 3, 4], [1, 2, 3, 3, 4], [30.1, 500.2, 0.3, 0.4, 0.5], finals={4: 0}
    )
    graph = lattice.graph.copy()
    graph[:2] += np.float32(0.1)
    costlier = replace(lattice, graph=graph)
    assert union([lattice, costlier]).num_states == lattice.num_states
    assert union([lattice, costlier], delta=1e-7).num_states > lattice.num_states


def test_union_takes_key_and_frame_shift_from_the_first_lattice() -> None:
    a = from_arcs("a", [0], [1], [1], [0.0], finals={1: 0.0}, frame_shift=0.03)
    assert (union([a, a.with_key("b")]).key, union([a]).frame_shift) == ("a", 0.03)


def test_options_of_union_out_of_range_are_refused() -> None:
    lattice = from_arcs("a", [0], [1], [1], [0.0], finals={1: 0.0})
    with pytest.raises(OptionError, match="there are no lattices; specify at least one"):
        union([])
    with pytest.raises(OptionError, match="acoustic_scale is nan"):
        union([lattice], math.nan)
    with pytest.raises(OptionError, match=r"delta is 0.0, but must be above 0"):
        union([lattice], delta=0.0)
    with pytest.raises(OptionError, match="max_arcs is 0, but must be 1 or more"):
        union([lattice], max_arcs=0)


@given(st.lists(SMALL, min_size=1, max_size=3), st.lists(st.floats(0.1, 2.0), min_size=3, max_size=3), st.booleans())
def test_combination_gives_the_paths_of_each_system_its_weight(
    operands: list[Lattice], weights: list[float], with_weights: bool
) -> None:
    weights = weights[: len(operands)] if with_weights else [1.0] * len(operands)
    combined = combine(operands, weights if with_weights else None, Scales(0.5, 2.0))
    check(combined)
    share = [weight / sum(weights) for weight in weights]
    assert forward_backward(combined).total == pytest.approx(0.0, abs=1e-3)
    expected: Counter[tuple[int, ...]] = Counter()
    for lattice, weight in zip(operands, share, strict=True):
        scaled = scale(lattice, 2.0, 0.5)
        total = forward_backward(scaled).total
        for way, count in all_ways(scaled).items():
            expected[way.words] += weight * math.exp(total - way.total()) * count
    assert sum(expected.values()) == pytest.approx(1.0, rel=1e-2)
    probabilities: Counter[tuple[int, ...]] = Counter()
    for way, count in all_ways(combined).items():
        probabilities[way.words] += math.exp(-way.total()) * count
    assert probabilities == pytest.approx(expected, rel=1e-2, abs=1e-6)


@given(SMALL)
def test_combination_of_a_lattice_with_itself_keeps_its_posteriors(lattice: Lattice) -> None:
    combined = combine([lattice, lattice])
    word_posteriors, expected = np.zeros(10), np.zeros(10)
    np.add.at(word_posteriors, combined.word, posteriors(combined))
    np.add.at(expected, lattice.word, posteriors(lattice))
    assert word_posteriors[1:] == pytest.approx(expected[1:], abs=1e-4)


def test_exponents_flatten_the_posteriors_of_a_system() -> None:
    lattice = from_arcs("k", [0, 0], [1, 1], [1, 2], [0.0, 4.0], finals={1: 3.0})
    flattened = combine([lattice], [1.0], exponents=True)
    assert forward_backward(flattened).total == pytest.approx(0.0, abs=1e-6)
    pair = combine([lattice, lattice], [0.5, 0.5], exponents=True)
    assert posteriors(pair)[:2] == pytest.approx(np.exp([0.0, -2.0]) / np.exp([0.0, -2.0]).sum() / 2, abs=1e-6)


def test_combination_reserves_the_weight_of_a_missing_lattice() -> None:
    lattice = from_arcs("k", [0], [1], [1], [2.0], finals={1: 3.0})
    assert forward_backward(combine([lattice, None], [0.25, 0.75])).total == pytest.approx(-math.log(0.25), abs=1e-6)


def test_weights_out_of_range_are_refused() -> None:
    lattice = from_arcs("a", [0], [1], [1], [0.0], finals={1: 0.0})
    with pytest.raises(OptionError, match="there are no lattices to combine"):
        combine([])
    with pytest.raises(OptionError, match="there are 3 weights, but 2 systems; specify one weight per system"):
        combine([lattice, lattice], [1, 2, 3])
    with pytest.raises(OptionError, match="a weight is 0, but must be above 0"):
        combine([lattice, lattice], [1, 0])
    with pytest.raises(OptionError, match="lm_scale is inf"):
        combine([lattice], scales=Scales(lm=math.inf))


def test_residual_costs_beyond_64_bit_integers_keep_paths_apart() -> None:
    cost = {(1, 5): 0.0, (2, 5): 0.0, (1, 6): 2.0**56, (2, 6): 2.0**58}
    operands = [
        from_arcs("a", [0, 0, 1], [1, 1, 2], [1, 2, last], [cost[1, last], cost[2, last], 0.0], finals={2: 0.0})
        for last in (5, 6)
    ]
    paths = {tuple(path.words.tolist()): path.graph_cost for path in nbest(union(operands), 9)}
    assert paths == cost


def test_union_of_lattices_with_nan_costs_is_refused_before_determinization() -> None:
    lattice = from_arcs("a", [0, 0], [1, 1], [1, 2], [0.0, 0.0], finals={1: 0.0})
    broken = lattice.with_costs(np.array([0.0, np.nan], np.float32)).with_key("b")
    with pytest.raises(LatticeError, match=r"key 'b': arc 1 has the costs nan and 0\.0, which are not numbers"):
        union([lattice, broken])


def test_infinite_costs_lose_to_better_paths_in_a_union() -> None:
    lattice = from_arcs("a", [0, 0], [1, 1], [1, 2], [0.0, 0.0], finals={1: 0.0})
    infinite = lattice.with_costs(np.array([0.0, np.inf], np.float32))
    paths = nbest(union([lattice, infinite]), 9)
    assert {(*path.words.tolist(), path.graph_cost) for path in paths} == {(1, 0.0), (2, 0.0)}


def test_union_and_combination_accept_any_iterable_of_lattices() -> None:
    operands = [from_arcs("a", [0], [1], [word], [0.0], finals={1: 0.0}) for word in (1, 2)]
    assert union(lattice for lattice in operands).identical(union(operands))
    assert combine(lattice for lattice in operands).identical(combine(operands))
    for join in (union, combine):
        with pytest.raises(OptionError, match=r"expected a lattice, but got a \(key, lattice\) pair"):
            join([("a", operands[0])])  # type: ignore[list-item]
