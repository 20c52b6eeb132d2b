"""Beam pruning: keep the arcs on paths nearly as good as the best one."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import OptionError
from ninja.lattice import Scales
from ninja.lattice.batch import Lattices


@overload
def prune(
    lattices: Lattices, beam: float = 10.0, scales: Scales = Scales(), *, return_arc_map: Literal[False] = False
) -> Lattices: ...
@overload
def prune(
    lattices: Lattices, beam: float = 10.0, scales: Scales = Scales(), *, return_arc_map: Literal[True]
) -> tuple[Lattices, npt.NDArray[np.int64]]: ...
def prune(
    lattices: Lattices, beam: float = 10.0, scales: Scales = Scales(), *, return_arc_map: bool = False
) -> Lattices | tuple[Lattices, npt.NDArray[np.int64]]:
    """Drop the arcs and final states whose best path is worse than the best of all by more than the beam, 0 or more.

    The scales serve the comparison only; the costs that stay are unscaled. Scaled costs are rounded to single precision
    as in Kaldi, so that the same arcs stay.

    Args:
        lattices: A lattice or a batch; lattices of a batch without a path become its faults.
        beam: 0 or more.
        scales: Scales of the comparison.
        return_arc_map: Return also the old arc of each arc.

    Returns:
        What ``connect`` returns of the rest, which always holds the best path.

    Raises:
        OptionError: The beam is negative.
        LatticeError: No path leads from the start to a final state.

    Source: Kaldi, lat/lattice-functions.cc, PruneLattice.
    """
    if not beam >= 0.0:
        raise OptionError(f"beam is {beam}, but must be 0 or more")
    return _graph.prune(lattices, beam, scales, return_arc_map)
