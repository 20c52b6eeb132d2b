"""Connection: removal of states and arcs on no path from the start to a final state."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError
from ninja.lattice import Lattice


@overload
def connect(lattice: Lattice, *, return_arc_map: Literal[False] = False) -> Lattice: ...
@overload
def connect(lattice: Lattice, *, return_arc_map: Literal[True]) -> tuple[Lattice, npt.NDArray[np.int64]]: ...
def connect(lattice: Lattice, *, return_arc_map: bool = False) -> Lattice | tuple[Lattice, npt.NDArray[np.int64]]:
    """Drop the states and arcs on no path from the start to a final state.

    Returns:
        The connected lattice, the given one itself when nothing has to go; states and arcs keep their order. With
        ``return_arc_map`` also the old arc of each new arc, int64 [num_arcs].

    Raises:
        LatticeError: There is no such path.
    """
    return _graph.connect(lattice, None, return_arc_map)


@overload
def select_arcs(
    lattice: Lattice, keep: npt.NDArray[np.bool_], *, return_arc_map: Literal[False] = False
) -> Lattice: ...
@overload
def select_arcs(
    lattice: Lattice, keep: npt.NDArray[np.bool_], *, return_arc_map: Literal[True]
) -> tuple[Lattice, npt.NDArray[np.int64]]: ...
def select_arcs(
    lattice: Lattice, keep: npt.NDArray[np.bool_], *, return_arc_map: bool = False
) -> Lattice | tuple[Lattice, npt.NDArray[np.int64]]:
    """Keep some arcs, bool [num_arcs], as far as they lie on a path of such arcs from the start to a final state.

    Returns:
        What ``connect`` returns.

    Raises:
        LatticeError: No path is left, or ``keep`` has another length.
    """
    wanted = np.ascontiguousarray(keep, np.bool_)
    if wanted.shape != (lattice.num_arcs,):
        raise LatticeError(f"keep has shape {wanted.shape}, but [{lattice.num_arcs}] is needed", key=lattice.key)
    return _graph.connect(lattice, wanted, return_arc_map)
