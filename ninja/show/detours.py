"""Detours: the arcs of a lattice as the best path and cheapest ways around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.lattice import Lattice, Scales


@dataclass(frozen=True, slots=True, eq=False)
class Detours:
    """Every arc that lies on a complete path, in one detour each.

    A detour is a row of arcs between two states of earlier detours, through states of none (the first begins at the
    start, and one may end in a final state instead). So the first n detours are a lattice without dead ends, whatever n
    is, and leaving the last ones out is pruning.
    """

    arcs: tuple[tuple[int, ...], ...]  # arc ids of each detour, in path order
    excess: npt.NDArray[np.float64]  # [num_arcs]; cost of the best path through the arc above the best of all; +inf: no
    # complete path takes it


def detours(lattice: Lattice, scales: Scales = Scales(), paths: Sequence[npt.NDArray[np.int64]] = ()) -> Detours:
    """Divide a lattice into detours, in the order in which a growing beam would include them.

    Args:
        paths: Complete paths that come before all others whatever they cost, as arc ids; without them the best one.

    Raises:
        LatticeError: No path leads from the start to a final state.
    """
    cost = scales.of_arcs(lattice)
    with np.errstate(invalid="ignore"):  # a scale of 0 makes nan of +inf
        final = scales.acoustic * lattice.final_acoustic.astype(np.float64)
        final += scales.lm * lattice.final_graph.astype(np.float64)
    final[~lattice.is_final] = inf
    src, dst = lattice.src.tolist(), lattice.dst.tolist()
    alpha, entry = _best_to(src, dst, cost.tolist(), lattice.num_states)
    beta, exit_ = _best_from(src, dst, cost.tolist(), final.tolist())
    if beta[0] == inf:
        raise LatticeError("no path leads from the start to a final state", key=lattice.key)
    through = np.array(alpha)[lattice.src] + cost + np.array(beta)[lattice.dst]
    excess = np.maximum(through - beta[0], 0.0)  # rounding may put the best path's arcs below it

    taken, placed = bytearray(lattice.num_arcs), bytearray(lattice.num_states)
    placed[0] = 1
    found: list[tuple[int, ...]] = []

    def take(row: Sequence[int]) -> None:
        for arc in row:
            taken[arc] = placed[src[arc]] = placed[dst[arc]] = 1
        if row:
            found.append(tuple(row))

    for path in paths:
        row: list[int] = []
        for arc in path.tolist():
            if not taken[arc]:
                row.append(arc)
            if placed[dst[arc]]:
                take(row)
                row = []
        take(row)
    for arc in np.argsort(excess, kind="stable").tolist():
        if taken[arc]:
            continue
        if excess[arc] == inf:
            break
        row = [arc]
        while not placed[state := src[row[0]]]:
            row.insert(0, entry[state])
        while not placed[state := dst[row[-1]]] and exit_[state] >= 0:
            row.append(exit_[state])
        take(row)
    return Detours(tuple(found), excess)


def _best_to(src: list[int], dst: list[int], cost: list[float], num_states: int) -> tuple[list[float], list[int]]:
    """Return the cost of the best path to each state, and its last arc."""
    best, arc_of = [inf] * num_states, [-1] * num_states
    best[0] = 0.0
    for arc, each in enumerate(cost):
        if (reached := best[src[arc]] + each) < best[dst[arc]]:
            best[dst[arc]], arc_of[dst[arc]] = reached, arc
    return best, arc_of


def _best_from(src: list[int], dst: list[int], cost: list[float], final: list[float]) -> tuple[list[float], list[int]]:
    """Return the cost of the best path from each state to an end, and its first arc, -1 where it ends there."""
    best, arc_of = list(final), [-1] * len(final)
    for arc in range(len(cost) - 1, -1, -1):
        if (reached := cost[arc] + best[dst[arc]]) < best[src[arc]]:
            best[src[arc]], arc_of[src[arc]] = reached, arc
    return best, arc_of
