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
    """The difference between two deterministic lattices, over all their word sequences."""

    missing: float  # cost above the best of the best sequence that only one has; infinity: they have the same
    graph: float  # largest difference in graph cost of a sequence that both have
    acoustic: float
    alignments: int  # pairs of states where the alignments before them part


def difference(a: Lattice, b: Lattice, acoustic_scale: float = 1.0) -> Difference:
    """Traverse two deterministic lattices in parallel."""
    one, other = _Sides(a, acoustic_scale), _Sides(b, acoustic_scale)
    missing = min(_missing(one, other), _missing(other, one))
    # The pairs of states met, in topological order, with the extremes of what may differ so far.
    met: dict[tuple[int, int], list[float]] = {(0, 0): [0.0, 0.0, 0.0, 0.0]}
    ahead: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {(0, 0): ((), ())}
    graph = acoustic = 0.0
    parted = 0
    alive = _alive(one, other)
    for state in range(a.num_states):
        for pair in [pair for pair in met if pair[0] == state]:
            low_graph, high_graph, low_acoustic, high_acoustic = met[pair]
            before = ahead[pair]
            if a.is_final[pair[0]] and b.is_final[pair[1]]:
                ours, theirs = one.final(pair[0]), other.final(pair[1])
                graph = max(graph, high_graph + ours[0] - theirs[0], -low_graph - ours[0] + theirs[0])
                acoustic = max(acoustic, high_acoustic + ours[1] - theirs[1], -low_acoustic - ours[1] + theirs[1])
                parted += before[0] + ours[2] != before[1] + theirs[2]
            for word, (dst, *mine) in one.arcs(pair[0]).items():
                if word not in other.arcs(pair[1]):
                    continue
                there, *its = other.arcs(pair[1])[word]
                after = (dst, there)
                if after not in alive:
                    continue
                by = [mine[0] - its[0]] * 2 + [mine[1] - its[1]] * 2
                new = [x + y for x, y in zip(met[pair], by, strict=True)]
                old = met.get(after, new)
                met[after] = [pick(x, y) for pick, x, y in zip((min, max, min, max), old, new, strict=True)]
                delay = _delay(before[0] + mine[2], before[1] + its[2])
                if delay is None or ahead.setdefault(after, delay) != delay:
                    parted += 1
                    ahead.setdefault(after, ((), ()))
    return Difference(missing, graph, acoustic, parted)


def _delay(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    shared = min(len(a), len(b))
    return (a[shared:], b[shared:]) if a[:shared] == b[:shared] else None


class _Sides:
    """A deterministic lattice as plain numbers."""

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
        self.rest = [math.inf] * lattice.num_states
        for state in reversed(range(lattice.num_states)):
            ends = [self._total(self.final(state))] if lattice.is_final[state] else []
            ends += [self._total((g, c)) + self.rest[dst] for dst, g, c, _ in self._arcs[state].values()]
            self.rest[state] = min(ends, default=math.inf)

    def _total(self, costs: tuple[float, ...]) -> float:
        return costs[0] + self.scale * costs[1]

    def arcs(self, state: int) -> dict[int, tuple[int, float, float, tuple[int, ...]]]:
        return self._arcs[state]

    def final(self, state: int) -> tuple[float, float, tuple[int, ...]]:
        lattice = self.lattice
        ali = lattice.final_ali[lattice.final_ali_begin[state] : lattice.final_ali_begin[state + 1]]
        return float(lattice.final_graph[state]), float(lattice.final_acoustic[state]), tuple(ali.tolist())


def _alive(one: _Sides, other: _Sides) -> set[tuple[int, int]]:
    """Return pairs of states from which both reach an end with the same words."""
    known: dict[tuple[int, int], bool] = {}
    stack = [(0, 0)]
    while stack:
        pair = stack[-1]
        shared = one.arcs(pair[0]).keys() & other.arcs(pair[1]).keys()
        after = [(one.arcs(pair[0])[word][0], other.arcs(pair[1])[word][0]) for word in shared]
        open_pairs = [each for each in after if each not in known]
        if open_pairs:
            stack += open_pairs
            continue
        ends = bool(one.lattice.is_final[pair[0]] and other.lattice.is_final[pair[1]])
        known[pair] = ends or any(known[each] for each in after)
        stack.pop()
    return {pair for pair, leads in known.items() if leads}


def _missing(one: _Sides, other: _Sides) -> float:
    """Return the cost, above the best, of the best sequence of the one that is missing from the other."""
    forward = {(0, 0): 0.0}
    best = math.inf
    for state in range(one.lattice.num_states):
        for pair in [pair for pair in forward if pair[0] == state]:
            here = forward[pair]
            if one.lattice.is_final[state] and not other.lattice.is_final[pair[1]]:
                best = min(best, here + one._total(one.final(state)))
            for word, (dst, graph, acoustic, _) in one.arcs(state).items():
                through = here + one._total((graph, acoustic))
                if word in other.arcs(pair[1]):
                    after = (dst, other.arcs(pair[1])[word][0])
                    forward[after] = min(forward.get(after, math.inf), through)
                else:
                    best = min(best, through + one.rest[dst])
    return best - one.rest[0]


@lru_cache(maxsize=1)
def transitions() -> TransitionModel:
    if not TRANSITIONS.exists():
        pytest.skip(f"{TRANSITIONS} is not here: no acoustic model comes with the project (in CI it must be there)")
    return read_transition_model(TRANSITIONS)


def assert_contains(kept: dict[tuple[int, ...], Way], wanted: dict[tuple[int, ...], Way]) -> None:
    """Check that everything expected is present, with its costs and alignment."""
    assert wanted.keys() <= kept.keys()
    for words, way in wanted.items():
        assert kept[words].graph == pytest.approx(way.graph, abs=1e-3)
        assert kept[words].acoustic == pytest.approx(way.acoustic, abs=1e-3)
        assert kept[words].alignment == way.alignment


def assert_matches_kaldi(ours: Lattice, theirs: Lattice, beam: float, acoustic_scale: float) -> None:
    """Check all word sequences: each one missing from one side lies at the edge of the beam or beyond."""
    check(ours)
    found = difference(ours, theirs, acoustic_scale)
    assert found.missing > beam - 1e-3, ours.key
    assert max(found.graph, found.acoustic) < 1e-3, ours.key
    assert found.alignments == 0, ours.key
