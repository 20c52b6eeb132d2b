"""Slow implementations of pruned determinization, and an exact comparison of two deterministic lattices."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from reference_graph import SHARED
from reference_openfst import Way, best_ways

from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.graph import from_arcs
from ninja.lattice import Lattice, check
from ninja.lattice.transition_model import TransitionModel

TRANSITIONS = SHARED / "data" / "korean" / "trans.mdl"


def within_beam(lattice: Lattice, beam: float, acoustic_scale: float = 1.0) -> dict[tuple[int, ...], Way]:
    """Return the best path of each word sequence whose best path is within the beam, by enumeration."""
    best = best_ways(lattice, acoustic_scale)
    limit = min(way.total(acoustic_scale) for way in best.values()) + beam
    return {words: way for words, way in best.items() if way.total(acoustic_scale) <= limit}


def exponential_lattice(steps: int, seed: int = 0) -> Lattice:
    """Return a lattice of the words 1 and 2 with different costs at each step: no two histories are equivalent."""
    random = np.random.default_rng(seed)
    arcs = [(0, 1, 0), (0, 2, 0)]
    for step in range(steps):
        for way in (1, 2):
            arcs += [(2 * step + way, 2 * step + way + 2, word) for word in (1, 2)]
    src, dst, word = zip(*arcs, strict=True)
    graph, acoustic = random.integers(1, 4096, (2, len(arcs))) / 1024
    labels = [[number + 1] for number in range(len(arcs))]
    end = 2 * steps
    return from_arcs(
        f"exploding-{steps}", src, dst, word, graph, acoustic, finals={end + 1: 0.0, end + 2: 0.0}, labels=labels
    )


class Difference(NamedTuple):
    """Differences between two deterministic lattices over all their word sequences."""

    missing: (
        float  # excess cost of the best sequence that only one lattice has; infinite if both have the same sequences
    )
    graph: float  # largest difference in graph cost of a common sequence
    acoustic: float
    alignments: int  # number of state pairs whose alignments differ


def difference(a: Lattice, b: Lattice, acoustic_scale: float = 1.0) -> Difference:
    """Traverse two deterministic lattices in parallel."""
    graph_a, graph_b = _DeterministicGraph(a, acoustic_scale), _DeterministicGraph(b, acoustic_scale)
    missing = min(_missing_cost(graph_a, graph_b), _missing_cost(graph_b, graph_a))
    # Visited pairs of states, in topological order: minimum and maximum difference of graph and acoustic cost.
    ranges: dict[tuple[int, int], list[float]] = {(0, 0): [0.0, 0.0, 0.0, 0.0]}
    ahead: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {(0, 0): ((), ())}
    graph = acoustic = 0.0
    num_parted = 0
    alive = _coaccessible_pairs(graph_a, graph_b)
    for state in range(a.num_states):
        for pair in [pair for pair in ranges if pair[0] == state]:
            low_graph, high_graph, low_acoustic, high_acoustic = ranges[pair]
            before = ahead[pair]
            if a.is_final[pair[0]] and b.is_final[pair[1]]:
                final_a, final_b = graph_a.final(pair[0]), graph_b.final(pair[1])
                graph = max(graph, high_graph + final_a[0] - final_b[0], -low_graph - final_a[0] + final_b[0])
                acoustic = max(
                    acoustic, high_acoustic + final_a[1] - final_b[1], -low_acoustic - final_a[1] + final_b[1]
                )
                num_parted += before[0] + final_a[2] != before[1] + final_b[2]
            for word, (dst, *costs_a) in graph_a.arcs(pair[0]).items():
                if word not in graph_b.arcs(pair[1]):
                    continue
                dst_b, *costs_b = graph_b.arcs(pair[1])[word]
                after = (dst, dst_b)
                if after not in alive:
                    continue
                deltas = [costs_a[0] - costs_b[0]] * 2 + [costs_a[1] - costs_b[1]] * 2
                new = [x + y for x, y in zip(ranges[pair], deltas, strict=True)]
                old = ranges.get(after, new)
                ranges[after] = [pick(x, y) for pick, x, y in zip((min, max, min, max), old, new, strict=True)]
                delay = _delay(before[0] + costs_a[2], before[1] + costs_b[2])
                if delay is None or ahead.setdefault(after, delay) != delay:
                    num_parted += 1
                    ahead.setdefault(after, ((), ()))
    return Difference(missing, graph, acoustic, num_parted)


def _delay(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    shared = min(len(a), len(b))
    return (a[shared:], b[shared:]) if a[:shared] == b[:shared] else None


class _DeterministicGraph:
    """A deterministic lattice as Python numbers."""

    def __init__(self, lattice: Lattice, acoustic_scale: float) -> None:
        self.lattice, self.scale = lattice, acoustic_scale
        pool, begin = lattice.ali.tolist(), lattice.ali_begin.tolist()
        self._arcs: list[dict[int, tuple[int, float, float, tuple[int, ...]]]] = []
        for state in range(lattice.num_states):
            leaving = range(lattice.arc_begin[state], lattice.arc_begin[state + 1])
            self._arcs.append(
                {
                    int(lattice.word[arc]): (
                        int(lattice.dst[arc]),
                        float(lattice.graph[arc]),
                        float(lattice.acoustic[arc]),
                        tuple(pool[begin[arc] : begin[arc + 1]]),
                    )
                    for arc in leaving
                }
            )
            assert len(self._arcs[-1]) == len(leaving), "not deterministic"
        self.backward = [math.inf] * lattice.num_states
        for state in reversed(range(lattice.num_states)):
            ends = [self._total(self.final(state))] if lattice.is_final[state] else []
            ends += [self._total((g, c)) + self.backward[dst] for dst, g, c, _ in self._arcs[state].values()]
            self.backward[state] = min(ends, default=math.inf)

    def _total(self, costs: tuple[float, ...]) -> float:
        return costs[0] + self.scale * costs[1]

    def arcs(self, state: int) -> dict[int, tuple[int, float, float, tuple[int, ...]]]:
        return self._arcs[state]

    def final(self, state: int) -> tuple[float, float, tuple[int, ...]]:
        lattice = self.lattice
        ali = lattice.final_ali[lattice.final_ali_begin[state] : lattice.final_ali_begin[state + 1]]
        return float(lattice.final_graph[state]), float(lattice.final_acoustic[state]), tuple(ali.tolist())


def _coaccessible_pairs(graph_a: _DeterministicGraph, graph_b: _DeterministicGraph) -> set[tuple[int, int]]:
    """Return pairs of states from which both lattices reach a final state with the same words."""
    reaches_end: dict[tuple[int, int], bool] = {}
    stack = [(0, 0)]
    while stack:
        pair = stack[-1]
        shared = graph_a.arcs(pair[0]).keys() & graph_b.arcs(pair[1]).keys()
        after = [(graph_a.arcs(pair[0])[word][0], graph_b.arcs(pair[1])[word][0]) for word in shared]
        open_pairs = [successor for successor in after if successor not in reaches_end]
        if open_pairs:
            stack += open_pairs
            continue
        ends = bool(graph_a.lattice.is_final[pair[0]] and graph_b.lattice.is_final[pair[1]])
        reaches_end[pair] = ends or any(reaches_end[successor] for successor in after)
        stack.pop()
    return {pair for pair, leads in reaches_end.items() if leads}


def _missing_cost(graph_a: _DeterministicGraph, graph_b: _DeterministicGraph) -> float:
    """Return the excess cost of the best sequence of the first lattice that the second lacks."""
    forward = {(0, 0): 0.0}
    best = math.inf
    for state in range(graph_a.lattice.num_states):
        for pair in [pair for pair in forward if pair[0] == state]:
            cost = forward[pair]
            if graph_a.lattice.is_final[state] and not graph_b.lattice.is_final[pair[1]]:
                best = min(best, cost + graph_a._total(graph_a.final(state)))
            for word, (dst, graph, acoustic, _) in graph_a.arcs(state).items():
                through = cost + graph_a._total((graph, acoustic))
                if word in graph_b.arcs(pair[1]):
                    after = (dst, graph_b.arcs(pair[1])[word][0])
                    forward[after] = min(forward.get(after, math.inf), through)
                else:
                    best = min(best, through + graph_a.backward[dst])
    return best - graph_a.backward[0]


@lru_cache(maxsize=1)
def transitions() -> TransitionModel:
    if not TRANSITIONS.exists():
        # The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
        pytest.skip(f"{TRANSITIONS} does not exist: acoustic models are not part of the project (CI requires it)")
    return read_transition_model(TRANSITIONS)


def assert_contains(paths: dict[tuple[int, ...], Way], expected: dict[tuple[int, ...], Way]) -> None:
    """Check that all expected paths are present, with their costs and alignments."""
    assert expected.keys() <= paths.keys()
    for words, way in expected.items():
        assert paths[words].graph == pytest.approx(way.graph, abs=1e-3)
        assert paths[words].acoustic == pytest.approx(way.acoustic, abs=1e-3)
        assert paths[words].alignment == way.alignment


def assert_matches_kaldi(ours: Lattice, theirs: Lattice, beam: float, acoustic_scale: float) -> None:
    """Check all word sequences: a sequence that one lattice lacks has a cost at the edge of the beam or beyond."""
    check(ours)
    gap = difference(ours, theirs, acoustic_scale)
    assert gap.missing > beam - 1e-3, ours.key
    assert max(gap.graph, gap.acoustic) < 1e-3, ours.key
    assert gap.alignments == 0, ours.key
