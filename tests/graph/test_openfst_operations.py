"""Operations on lattices compared with OpenFst's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note
from reference_openfst import ways
from strategies import lattices

from ninja.errors import LatticeError
from ninja.graph import (
    best_path,
    connect,
    determinize,
    difference,
    equivalent,
    linear,
    minimize,
    nbest,
    prune,
    push,
    remove_epsilons,
    union,
)
from ninja.lattice import Lattice
from ninja.openfst import from_fst, to_fst

fst = pytest.importorskip("pywrapfst")

CLOSE = 2**-8  # costs are multiples of 1/64
SMALL = lattices(max_states=7)


def deterministic(machine: Any) -> Any:
    """Return a machine of OpenFst without epsilons and deterministic, as OpenFst makes it."""
    return fst.determinize(machine.rmepsilon())


def are_equivalent(ours: Lattice | Any, theirs: Lattice | Any) -> bool:
    """Return whether a lattice or machine is equivalent to another, by OpenFst; empty machines have no start state."""
    machines = [to_fst(machine) if isinstance(machine, Lattice) else machine for machine in (ours, theirs)]
    first, second = map(deterministic, machines)
    if first.start() < 0 or second.start() < 0:
        return first.start() == second.start()
    return fst.equivalent(first, second, delta=CLOSE)


@given(SMALL)
def test_best_paths_have_the_costs_of_openfsts_shortest_paths(lattice: Lattice) -> None:
    assert best_path(lattice).cost() == float(fst.shortestdistance(to_fst(lattice), reverse=True)[0])
    shortest = from_fst(fst.shortestpath(deterministic(to_fst(lattice)), nshortest=4))
    expected = sorted(way.total() for way in ways(shortest))  # OpenFst's determinization rounds costs
    assert [path.cost() for path in nbest(lattice, 4)] == pytest.approx(expected, abs=CLOSE)


@given(SMALL)
def test_pruning_keeps_the_states_and_arcs_that_openfst_keeps(lattice: Lattice) -> None:
    expected = to_fst(lattice)
    expected.prune(weight="3.5")
    pruned = prune(lattice, 3.5)
    assert pruned.num_states == expected.num_states()
    assert pruned.num_arcs == sum(map(expected.num_arcs, expected.states()))
    assert are_equivalent(pruned, expected)


@given(SMALL)
def test_operations_return_equivalent_lattices(lattice: Lattice) -> None:
    for operation in (determinize, remove_epsilons, push, minimize, connect):
        note(operation.__name__)
        assert are_equivalent(operation(lattice), lattice)


@given(SMALL, SMALL)
def test_unions_and_equivalence_agree_with_openfst(first: Lattice, second: Lattice) -> None:
    assert are_equivalent(union([first, second]), to_fst(first).union(to_fst(second)))
    assert equivalent(first, second) == are_equivalent(first, second)
    assert equivalent(first, push(first))


@given(SMALL)
def test_difference_from_the_best_words_agrees_with_openfst(lattice: Lattice) -> None:
    words = best_path(lattice).words
    best = deterministic(to_fst(linear("best", words.tolist())))
    expected = fst.difference(deterministic(to_fst(lattice)), best).connect()
    if expected.start() < 0:
        with pytest.raises(LatticeError):
            difference(lattice, words)
    else:
        assert are_equivalent(difference(lattice, words), expected)
