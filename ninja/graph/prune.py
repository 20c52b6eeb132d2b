"""Pruning by a beam, and by the number of arcs that cross a frame."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import OptionError, check_count
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
    """Drop the arcs and final states that are not on any path within the beam around the best path.

    Scales are used only for the comparison; the costs of the result are unscaled. Scaled costs are rounded to single
    precision, to keep the same arcs as Kaldi.

    Args:
        lattices: A lattice or a batch. In a batch, a lattice without a path is moved to `faults`.
        beam: Largest difference in total cost from the best path, 0 or more.
        scales: Scales that define the total cost.
        return_arc_map: Also return the old index of each new arc.

    Returns:
        The pruned lattice, as returned by ``connect``; it always contains the best path.

    Raises:
        OptionError: The beam is negative.
        LatticeError: A single lattice has no path from the start to a final state.

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
    """Keep only the arcs that rank among the best ``max_arcs_per_frame`` in every frame that they cross.

    Arcs are ranked by the cost of the best path through them, with acoustic costs scaled. Arcs that cross no frame are
    kept.

    Returns:
        The remaining lattice, as returned by ``connect``.

    Raises:
        OptionError: ``max_arcs_per_frame`` is below 1, or ``acoustic_scale`` is not finite.
        LatticeError: No path leads from the start to a final state, or the times are inconsistent.

    Source: Kaldi, lat/lattice-functions.cc, CompactLatticeLimitDepth.
    """
    check_count("max_arcs_per_frame", max_arcs_per_frame, least=1)
    check_finite("acoustic_scale", acoustic_scale)
    return _graph.limit_depth(lattice, state_times(lattice), max_arcs_per_frame, acoustic_scale, return_arc_map)
