"""Rescoring as its definition says, path by path: the slow twin of the expansion engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ninja.lattice import Lattice
from ninja.rescore.options import RescoreOptions
from tests.fake_lm import FakeLM


class PathCost(NamedTuple):
    words: tuple[int, ...]
    acoustic: float
    graph: float
    labels: tuple[int, ...]


def paths(lattice: Lattice) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (final state, arcs) of every complete path."""

    def onward(state: int, arcs: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
        if lattice.is_final[state]:
            yield state, arcs
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            yield from onward(int(lattice.dst[arc]), (*arcs, arc))

    yield from onward(0, ())


def path_costs(lattice: Lattice) -> list[PathCost]:
    """Costs of every path as the lattice has them, sorted."""
    return sorted(
        _cost(lattice, end, arcs, [float(lattice.graph[a]) for a in arcs], float(lattice.final_graph[end]))
        for end, arcs in paths(lattice)
    )


def rescored_path_costs(lattice: Lattice, lm: FakeLM, options: RescoreOptions) -> list[PathCost]:
    """Costs of every path after rescoring, sorted."""
    weight = options.lm_weight
    costs = []
    for end, arcs in paths(lattice):
        history: tuple[int, ...] = ()
        graph = []
        for arc in arcs:
            word = int(lattice.word[arc])
            new = 0.0
            if word != 0:
                assert lattice.words is not None
                known = lm.vocabulary.id(lattice.words.word(word))
                spelled = lm.unk if known is None else known
                assert spelled is not None
                new = -lm.score(history, spelled) + (options.unk_penalty or 0.0 if known is None else 0.0)
                history += (spelled,)
            graph.append((1 - weight) * float(lattice.graph[arc]) + weight * new)
        final = (1 - weight) * float(lattice.final_graph[end]) - weight * lm.score(history, lm.eos)
        costs.append(_cost(lattice, end, arcs, graph, final))
    return sorted(costs)


def total(cost: PathCost, options: RescoreOptions) -> float:
    """What the search minimises."""
    return options.acoustic_scale * cost.acoustic + cost.graph + options.word_penalty * len(cost.words)


def _cost(lattice: Lattice, end: int, arcs: tuple[int, ...], graph: list[float], final_graph: float) -> PathCost:
    labels = [lattice.ali[lattice.ali_begin[a] : lattice.ali_begin[a + 1]] for a in arcs]
    labels.append(lattice.final_ali[lattice.final_ali_begin[end] : lattice.final_ali_begin[end + 1]])
    return PathCost(
        words=tuple(int(lattice.word[a]) for a in arcs if lattice.word[a] != 0),
        acoustic=float(sum(lattice.acoustic[a] for a in arcs) + lattice.final_acoustic[end]),
        graph=sum(graph) + final_graph,
        labels=tuple(int(x) for x in np.concatenate(labels)),
    )
