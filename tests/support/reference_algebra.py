"""Slow implementations of the algebra of lattices by enumerated paths, and random transducers for composition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import strategies as st
from reference_openfst import Way, best_ways, ways
from strategies import costs

from ninja import _core
from ninja.formats.fst_image import parse_transducer
from ninja.lattice import Lattice
from ninja.lattice.fst import Fst

PHI = 9


def round_costs(way: Way) -> Way:
    return Way(way.words, round(way.graph, 3), round(way.acoustic, 3), way.alignment)


def all_ways(lattice: Lattice) -> Counter[Way]:
    """Return every path of a lattice, including duplicates."""
    return Counter(round_costs(way) for way in ways(lattice))


def union_paths(lattices: Sequence[Lattice], acoustic_scale: float = 1.0) -> dict[tuple[int, ...], Way]:
    """Return the best path of each word sequence over all lattices."""
    best: dict[tuple[int, ...], Way] = {}
    for lattice in lattices:
        for words, way in best_ways(lattice, acoustic_scale).items():
            if words not in best or way.total(acoustic_scale) < best[words].total(acoustic_scale):
                best[words] = way
    return best


def composed_paths(a: Lattice, b: Lattice, of_a: float, of_b: float) -> Counter[Way]:
    """Return every pair of paths with the same words, with the costs of both."""
    return Counter(
        round_costs(Way(x.words, of_a * x.graph + of_b * y.graph, of_a * x.acoustic + of_b * y.acoustic, x.alignment))
        for x in ways(a)
        for y in ways(b)
        if x.words == y.words
    )


def completions(lattice: Lattice, state: int) -> list[Way]:
    """Return every path from a state to the end."""
    first = int(lattice.arc_begin[state])
    suffix = Lattice.from_arrays(
        "rest",
        lattice.arc_begin[state:] - first,
        lattice.dst[first:] - state,
        lattice.word[first:],
        lattice.graph[first:],
        lattice.acoustic[first:],
        lattice.final_graph[state:],
        lattice.final_acoustic[state:],
        ali_begin=lattice.ali_begin[first:] - lattice.ali_begin[first],
        ali=lattice.ali[lattice.ali_begin[first] :],
        final_ali_begin=lattice.final_ali_begin[state:] - lattice.final_ali_begin[state],
        final_ali=lattice.final_ali[lattice.final_ali_begin[state] :],
    )
    return list(ways(suffix))


def common_labels(paths: Sequence[Way]) -> int:
    """Return the length of the common label prefix of all paths."""
    count = 0
    for labels in zip(*(way.alignment for way in paths), strict=False):
        if len(set(labels)) > 1:
            break
        count += 1
    return count


def best_completion(paths: Sequence[Way]) -> Way:
    return min(paths, key=lambda way: (way.total(), way.graph - way.acoustic))


def num_completion_classes(lattice: Lattice) -> int:
    """Return the number of distinct sets of completions: the minimal number of states."""
    completion_sets = set()
    for state in range(1, lattice.num_states):
        paths = completions(lattice, state)
        best, common = best_completion(paths), common_labels(paths)
        residuals = [
            round_costs(Way(w.words, w.graph - best.graph, w.acoustic - best.acoustic, w.alignment[common:]))
            for w in paths
        ]
        completion_sets.add(frozenset(residuals))
    return 1 + len(completion_sets)


def transductions(machine: Fst, words: Sequence[int], phi: int = -1) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the output and cost of every path of a transducer that accepts exactly these words."""

    def arcs(state: int, label: int) -> list[int]:
        begin, end = int(machine.arc_begin[state]), int(machine.arc_begin[state + 1])
        return [arc for arc in range(begin, end) if machine.ilabel[arc] == label]

    def final(state: int) -> float:
        if np.isfinite(machine.final_cost[state]):
            return float(machine.final_cost[state])
        for arc in arcs(state, phi)[:1]:
            return float(machine.cost[arc]) + final(int(machine.dst[arc]))
        return np.inf

    def take(state: int, word: int, cost: float) -> Iterator[tuple[int, float]]:
        matching = arcs(state, word)
        for arc in matching:
            yield arc, cost
        if not matching:
            for arc in arcs(state, phi)[:1]:
                yield from take(int(machine.dst[arc]), word, cost + float(machine.cost[arc]))

    def walk(
        state: int, remaining: Sequence[int], outputs: tuple[int, ...], cost: float
    ) -> Iterator[tuple[tuple[int, ...], float]]:
        if not remaining and np.isfinite(final(state)):
            yield outputs, cost + final(state)
        steps = [(arc, cost, remaining) for arc in arcs(state, 0)]
        if remaining:
            steps += [(arc, paid, remaining[1:]) for arc, paid in take(state, remaining[0], cost)]
        for arc, paid, suffix in steps:
            output = int(machine.olabel[arc])
            yield from walk(
                int(machine.dst[arc]), suffix, outputs + ((output,) if output else ()), paid + float(machine.cost[arc])
            )

    yield from walk(machine.start, words, (), 0.0)


@st.composite
def machines(draw: st.DrawFn, max_states: int = 4, max_word: int = 3) -> Fst:
    """Draw a transducer with cycles, forward epsilons only, and at most one failure arc per state."""
    num_states = draw(st.integers(1, max_states))
    rows = []
    for state in range(num_states):
        for _ in range(draw(st.integers(0, 4))):
            rows.append((state, draw(st.integers(1, max_word)), draw(st.integers(0, num_states - 1))))
        if state + 1 < num_states:
            for label in draw(st.lists(st.sampled_from([0, PHI]), unique=True, max_size=2)):
                rows.append((state, label, draw(st.integers(state + 1, num_states - 1))))
    count = len(rows)
    cost = draw(st.lists(costs(), min_size=count, max_size=count))
    olabel = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    final = [draw(st.one_of(st.just(np.inf), costs())) for _ in range(num_states)]
    src = [row[0] for row in rows]
    image = _core.write_image(
        "standard",
        np.searchsorted(src, np.arange(num_states + 1)).astype(np.int64)
        if rows
        else np.zeros(num_states + 1, np.int64),
        np.array([row[2] for row in rows], np.int32),
        np.array([row[1] for row in rows], np.int32),
        np.array(olabel, np.int32),
        np.array(cost, np.float64),
        np.array(final, np.float64),
    )
    return parse_transducer(image)
