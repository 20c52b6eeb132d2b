"""Divide the arcs of a lattice into the best path and detours from this path."""

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
    """A partition of all arcs that are on complete paths into detours.

    The first detour is a complete path. Any other detour is a chain of arcs that begins in a state of an earlier
    detour, and ends in a state of an earlier detour or in a final state. The states in between are in no earlier
    detour. Therefore, for any n, the first n detours form a lattice without dead ends, and removing the last detours
    prunes the lattice.
    """

    arcs: tuple[tuple[int, ...], ...]  # arc ids of each detour, in path order
    excess: npt.NDArray[np.float64]  # [num_arcs], cost of the best path through the arc minus the best path's cost;
    # +inf for arcs on no complete path


def detours(lattice: Lattice, scales: Scales = Scales(), paths: Sequence[npt.NDArray[np.int64]] = ()) -> Detours:
    """Divide the arcs of a lattice into detours (see `Detours`), in the order in which a growing beam includes them.

    Args:
        lattice: Any lattice.
        scales: Weights of the total cost.
        paths: Complete paths, as arc ids, that come first regardless of their costs.  [default: the best path]

    Raises:
        LatticeError: No path leads from the start to a final state, or a path has an arc that does not exist.
    """
    cost = scales.of_arcs(lattice)
    with np.errstate(invalid="ignore"):  # 0 times +inf
        final = scales.acoustic * lattice.final_acoustic.astype(np.float64)
        final += scales.lm * lattice.final_graph.astype(np.float64)
    final[~lattice.is_final] = inf
    src, dst = lattice.src.tolist(), lattice.dst.tolist()
    alpha, entry = _best_to(src, dst, cost.tolist(), lattice.num_states)
    beta, exit_ = _best_from(src, dst, cost.tolist(), final.tolist())
    if beta[0] == inf:
        raise LatticeError("no path leads from the start to a final state", key=lattice.key)
    through = np.array(alpha)[lattice.src] + cost + np.array(beta)[lattice.dst]
    excess = np.maximum(through - beta[0], 0.0)  # rounding may make differences negative

    is_used, is_placed = bytearray(lattice.num_arcs), bytearray(lattice.num_states)
    is_placed[0] = 1
    rows: list[tuple[int, ...]] = []

    def add(row: Sequence[int]) -> None:
        for arc in row:
            is_used[arc] = is_placed[src[arc]] = is_placed[dst[arc]] = 1
        if row:
            rows.append(tuple(row))

    for path in paths:
        if other := [arc for arc in path.tolist() if not 0 <= arc < lattice.num_arcs]:
            raise LatticeError(f"arc {other[0]} does not exist: the path belongs to another lattice", key=lattice.key)
        row: list[int] = []
        for arc in path.tolist():
            if not is_used[arc]:
                row.append(arc)
            if is_placed[dst[arc]]:
                add(row)
                row = []
        add(row)
    for arc in np.argsort(excess, kind="stable").tolist():
        if is_used[arc]:
            continue
        if excess[arc] == inf:
            break
        row = [arc]
        while not is_placed[state := src[row[0]]]:
            row.insert(0, entry[state])
        while not is_placed[state := dst[row[-1]]] and exit_[state] >= 0:
            row.append(exit_[state])
        add(row)
    return Detours(tuple(rows), excess)


def _best_to(src: list[int], dst: list[int], cost: list[float], num_states: int) -> tuple[list[float], list[int]]:
    """Return ``(costs, last arcs)`` of the best path to each state; the arc is -1 for an empty path."""
    best, arc_of = [inf] * num_states, [-1] * num_states
    best[0] = 0.0
    for arc, arc_cost in enumerate(cost):
        if (total := best[src[arc]] + arc_cost) < best[dst[arc]]:
            best[dst[arc]], arc_of[dst[arc]] = total, arc
    return best, arc_of


def _best_from(src: list[int], dst: list[int], cost: list[float], final: list[float]) -> tuple[list[float], list[int]]:
    """Return ``(costs, first arcs)`` of the best path from each state to the end; the arc is -1 for an empty path."""
    best, arc_of = list(final), [-1] * len(final)
    for arc in range(len(cost) - 1, -1, -1):
        if (total := cost[arc] + best[dst[arc]]) < best[src[arc]]:
            best[src[arc]], arc_of[src[arc]] = total, arc
    return best, arc_of
