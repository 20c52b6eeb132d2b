"""Removal of states and arcs that lie on no path from the start to a final state."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError
from ninja.lattice.batch import Lattices, as_batch


@overload
def connect(lattices: Lattices, *, return_arc_map: Literal[False] = False) -> Lattices: ...
@overload
def connect(lattices: Lattices, *, return_arc_map: Literal[True]) -> tuple[Lattices, npt.NDArray[np.int64]]: ...
def connect(lattices: Lattices, *, return_arc_map: bool = False) -> Lattices | tuple[Lattices, npt.NDArray[np.int64]]:
    """Drop the states and arcs that lie on no path from the start to a final state.

    Args:
        lattices: A lattice or a batch. In a batch, a lattice that has no such path is moved to `faults`.
        return_arc_map: Also return the old index of each new arc.

    Returns:
        The connected lattice, or the argument itself if it is already connected; states and arcs keep their order. If
        ``return_arc_map`` is set, also the old index of each new arc, int64 [num_arcs]; for a batch, the arcs of all
        lattices are concatenated.

    Raises:
        LatticeError: A single lattice has no such path.
    """
    return _graph.connect(lattices, None, return_arc_map)


@overload
def select_arcs(
    lattices: Lattices, keep: npt.NDArray[np.bool_], *, return_arc_map: Literal[False] = False
) -> Lattices: ...
@overload
def select_arcs(
    lattices: Lattices, keep: npt.NDArray[np.bool_], *, return_arc_map: Literal[True]
) -> tuple[Lattices, npt.NDArray[np.int64]]: ...
def select_arcs(
    lattices: Lattices, keep: npt.NDArray[np.bool_], *, return_arc_map: bool = False
) -> Lattices | tuple[Lattices, npt.NDArray[np.int64]]:
    """Keep the arcs selected by a mask and connect the result.

    Args:
        lattices: See ``connect``.
        keep: Whether to keep each arc, bool [num_arcs]; for a batch, the arcs of all lattices are concatenated.
        return_arc_map: See ``connect``.

    Returns:
        See ``connect``.

    Raises:
        LatticeError: `lattices` is a single lattice and no path remains, or ``keep`` does not have one value per arc.
    """
    mask = np.ascontiguousarray(keep, np.bool_)
    batch = as_batch(lattices)
    if mask.shape != (batch.num_arcs,):
        key = next(iter(batch.keys), None)
        raise LatticeError(f"keep has shape {mask.shape}, but must have shape ({batch.num_arcs},)", key=key)
    return _graph.connect(lattices, mask, return_arc_map)
