"""Slow implementation of the expansion engine: rescoring by its definition, path by path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import reference_graph
from fake_lm import FakeLM
from reference_graph import costs_of, end_of, labels_of, words_of

from ninja.lattice import Lattice
from ninja.rescoring.algorithms import RescoreOptions


class PathCost(NamedTuple):
    words: tuple[int, ...]
    acoustic: float
    graph: float
    labels: tuple[int, ...]


def paths(lattice: Lattice) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (final state, arcs) of every complete path."""
    return ((end_of(lattice, path), path) for path in reference_graph.paths(lattice))


def path_costs(lattice: Lattice) -> list[PathCost]:
    """Return the costs of every path of the lattice, sorted."""
    return sorted(
        path_cost(lattice, end, arcs, [float(lattice.graph[a]) for a in arcs], float(lattice.final_graph[end]))
        for end, arcs in paths(lattice)
    )


LogProb = Callable[[tuple[str, ...], str], float]  # of a word after a history, both as strings


def word_logprob(lm: FakeLM, unk_penalty: float = 0.0) -> LogProb:
    """Return the natural-log probability of a word, or of <unk> minus the penalty if the model lacks it."""

    def logprob(history: tuple[str, ...], word: str) -> float:
        unknown = lm.vocabulary.id(word) is None
        *before, last = (number_of(name) for name in (*history, word))
        return lm.score(tuple(before), last) - (unk_penalty if unknown else 0.0)

    def number_of(word: str) -> int:
        word_id = lm.vocabulary.id(word)
        number = lm.unk if word_id is None else word_id
        assert number is not None
        return number

    return logprob


def rescored_path_costs(lattice: Lattice, lm: FakeLM, options: RescoreOptions) -> list[PathCost]:
    """Return the costs of every path after rescoring, sorted."""
    return path_costs_under(lattice, word_logprob(lm, options.unk_penalty or 0.0), options, 1 - options.lm_weight)


def path_costs_under(
    lattice: Lattice, logprob: LogProb, options: RescoreOptions, graph_share: float, context: tuple[str, ...] = ()
) -> list[PathCost]:
    """Return the costs of every path, sorted: `graph_share` of the old ones plus the weighted new ones."""
    weight = options.lm_weight
    costs = []
    for end, arcs in paths(lattice):
        history = context
        graph = []
        for arc in arcs:
            new = 0.0
            if lattice.word[arc] != 0:
                assert lattice.words is not None
                word = lattice.words.word(int(lattice.word[arc]))
                new = -logprob(history, word)
                history += (word,)
            graph.append(graph_share * float(lattice.graph[arc]) + weight * new)
        final = graph_share * float(lattice.final_graph[end]) - weight * logprob(history, "</s>")
        costs.append(path_cost(lattice, end, arcs, graph, final))
    return sorted(costs)


def close(a: list[PathCost], b: list[PathCost]) -> bool:
    """Return whether two sorted lists of paths agree, with costs within 1e-4."""
    return len(a) == len(b) and all(
        x.words == y.words and x.labels == y.labels and np.allclose(x[1:3], y[1:3], atol=1e-4)
        for x, y in zip(a, b, strict=True)
    )


def total(cost: PathCost, options: RescoreOptions) -> float:
    """Return the cost that the search minimises."""
    return options.acoustic_scale * cost.acoustic + cost.graph + options.word_penalty * len(cost.words)


def path_cost(lattice: Lattice, end: int, arcs: tuple[int, ...], graph: list[float], final_graph: float) -> PathCost:
    acoustic = costs_of(lattice, arcs)[1]
    return PathCost(words_of(lattice, arcs), acoustic, sum(graph) + final_graph, tuple(labels_of(lattice, arcs)))
