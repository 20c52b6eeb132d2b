"""Slow implementation of word meshes from lattices whose paths all pass through the same states."""

from __future__ import annotations

import math
from collections import defaultdict

from reference_graph import cost_of, paths

from ninja.lattice import Lattice


def slow_columns(lattice: Lattice, **scales: float) -> list[dict[int, float]]:
    """Return the probability of each word at each position of a path, computed from the costs of all paths."""
    all_paths = paths(lattice)
    costs = [cost_of(lattice, path, **scales) for path in all_paths]
    weights = [math.exp(min(costs) - cost) for cost in costs]
    columns: list[dict[int, float]] = [defaultdict(float) for _ in all_paths[0]]
    for path, weight in zip(all_paths, weights, strict=True):
        for place, arc in enumerate(path):
            columns[place][int(lattice.word[arc])] += weight / sum(weights)
    return columns
