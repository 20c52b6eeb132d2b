"""Slow implementations of the graph kernels, and Kaldi's archives."""

from __future__ import annotations

import math
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import ninja
from ninja.lattice import Lattice

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def paths(lattice: Lattice) -> list[tuple[int, ...]]:
    """Return every path from the start to a final state, as arc ids."""
    complete = []

    def walk(state: int, path: tuple[int, ...]) -> None:
        if lattice.is_final[state]:
            complete.append(path)
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            walk(int(lattice.dst[arc]), (*path, arc))

    walk(0, ())
    return complete


def end_of(lattice: Lattice, path: tuple[int, ...]) -> int:
    return int(lattice.dst[path[-1]]) if path else 0


def words_of(lattice: Lattice, path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(lattice.word[arc]) for arc in path if lattice.word[arc] != 0)


def costs_of(lattice: Lattice, path: tuple[int, ...]) -> tuple[float, float]:
    """Return graph and acoustic cost of a path, including its final state."""
    end, arcs = end_of(lattice, path), list(path)
    graph = lattice.graph[arcs].astype(float).sum() + float(lattice.final_graph[end])
    return graph, lattice.acoustic[arcs].astype(float).sum() + float(lattice.final_acoustic[end])


def cost_of(
    lattice: Lattice, path: tuple[int, ...], acoustic_scale: float = 1, lm_scale: float = 1, word_penalty: float = 0
) -> float:
    graph, acoustic = costs_of(lattice, path)
    return lm_scale * graph + acoustic_scale * acoustic + word_penalty * len(words_of(lattice, path))


def labels_of(lattice: Lattice, path: tuple[int, ...]) -> list[int]:
    end = end_of(lattice, path)
    pieces = [lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]] for arc in path]
    pieces.append(lattice.final_ali[lattice.final_ali_begin[end] : lattice.final_ali_begin[end + 1]])
    return np.concatenate(pieces).tolist()


def through_costs(lattice: Lattice, **scales: float) -> dict[int, float]:
    """Return the cost of the best path through each arc that is on any path."""
    best: dict[int, float] = {}
    for path in paths(lattice):
        cost = cost_of(lattice, path, **scales)
        for arc in path:
            best[arc] = min(best.get(arc, math.inf), cost)
    return best


def best_sequences(lattice: Lattice, **scales: float) -> dict[tuple[int, ...], float]:
    """Return the cost of the best path of each word sequence."""
    best: dict[tuple[int, ...], float] = {}
    for path in paths(lattice):
        words, cost = words_of(lattice, path), cost_of(lattice, path, **scales)
        best[words] = min(best.get(words, math.inf), cost)
    return best


def log_space_posteriors(lattice: Lattice, **scales: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return posteriors, alpha and beta (costs) by textbook log additions."""

    def arc_cost(arc: int) -> float:
        penalty = scales.get("word_penalty", 0.0) if lattice.word[arc] != 0 else 0.0
        acoustic = scales.get("acoustic_scale", 1.0) * float(lattice.acoustic[arc])
        return scales.get("lm_scale", 1.0) * float(lattice.graph[arc]) + acoustic + penalty

    alpha, beta = np.full(lattice.num_states, np.inf), np.full(lattice.num_states, np.inf)
    alpha[0] = 0.0
    src = lattice.src
    for arc in range(lattice.num_arcs):  # in the order of their sources, so each alpha is complete when it is used
        dst = lattice.dst[arc]
        alpha[dst] = -np.logaddexp(-alpha[dst], -(alpha[src[arc]] + arc_cost(arc)))
    for state in reversed(range(lattice.num_states)):
        if lattice.is_final[state]:
            beta[state] = scales.get("lm_scale", 1.0) * float(lattice.final_graph[state])
            beta[state] += scales.get("acoustic_scale", 1.0) * float(lattice.final_acoustic[state])
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            beta[state] = -np.logaddexp(-beta[state], -(arc_cost(arc) + beta[lattice.dst[arc]]))
    posterior = [
        math.exp(beta[0] - alpha[src[arc]] - arc_cost(arc) - beta[lattice.dst[arc]]) for arc in range(lattice.num_arcs)
    ]
    return np.array(posterior), alpha, beta


@lru_cache(maxsize=8)
def archive(path: Path) -> dict[str, Lattice]:
    """Read a Kaldi archive; skip the test if it is missing, which conftest does not allow in CI.

    The tests of formats compare the reader with a slow one.
    """
    if not path.exists():
        # A user's checkout has no ../shared; in CI, tests/conftest.py turns this skip into a failure.
        pytest.skip(f"{path} does not exist: Kaldi's results are not part of the project (CI requires them)")
    return dict(ninja.read(path))
