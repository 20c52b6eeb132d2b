"""Pruning by a beam, and by the number of arcs that cross a frame."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import OptionError, check_range
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Lattices
from ninja.lattice.lattice import check_finite
from ninja.lattice.times import state_times


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
    """Drop the arcs and final states whose best path costs more than the best path of all plus the beam.

    Scales are used in the comparison only; the costs of the result are unscaled. Scaled costs are rounded to single
    precision as in Kaldi, so that the same arcs are kept.

    Args:
        lattices: A lattice or a batch; lattices of a batch without a path become its faults.
        beam: 0 or more.
        scales: Scales of the comparison.
        return_arc_map: Return also the old arc of each arc.

    Returns:
        The remaining lattice as ``connect`` returns it; it always contains the best path.

    Raises:
        OptionError: The beam is negative.
        LatticeError: No path leads from the start to a final state.

    Source: Kaldi, lat/lattice-functions.cc, PruneLattice.
    """
    if not beam >= 0.0:
        raise OptionError(f"beam is {beam}, but must be 0 or more")
    return _graph.prune(lattices, beam, scales, return_arc_map)


@overload
def limit_depth(
    lattice: Lattice, max_arcs_per_frame: int, acoustic_scale: float = 1.0, *, return_arc_map: Literal[False] = False
) -> Lattice: ...
@overload
def limit_depth(
    lattice: Lattice, max_arcs_per_frame: int, acoustic_scale: float = 1.0, *, return_arc_map: Literal[True]
) -> tuple[Lattice, npt.NDArray[np.int64]]: ...
def limit_depth(
    lattice: Lattice, max_arcs_per_frame: int, acoustic_scale: float = 1.0, *, return_arc_map: bool = False
) -> Lattice | tuple[Lattice, npt.NDArray[np.int64]]:
    """Drop the arcs that are not among the best ``max_arcs_per_frame`` at every frame they cross.

    Arcs are ranked by the cost of the best path through them, with the acoustic costs scaled. Arcs that cross no frame
    are kept.

    Returns:
        The remaining lattice as ``connect`` returns it.

    Raises:
        OptionError: ``max_arcs_per_frame`` is below 1 or the scale is not finite.
        LatticeError: There is no path to a final state, or the times contradict each other.

    Source: Kaldi, lat/lattice-functions.cc, CompactLatticeLimitDepth.
    """
    check_range("max_arcs_per_frame", max_arcs_per_frame, least=1)
    check_finite("acoustic_scale", acoustic_scale)
    return _graph.limit_depth(lattice, state_times(lattice), max_arcs_per_frame, acoustic_scale, return_arc_map)
