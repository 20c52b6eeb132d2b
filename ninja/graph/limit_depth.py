"""Depth limit: keep the best arcs that cross each frame."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import OptionError
from ninja.lattice import Lattice
from ninja.lattice.costs import check_finite
from ninja.lattice.times import state_times


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
    """Drop the arcs that are, at some frame they cross, not among the best ``max_arcs_per_frame`` there, 1 or more.

    An arc is as good as the best path through it; ``acoustic_scale`` serves this comparison only. Arcs that cross no
    frame stay.

    Returns:
        What ``connect`` returns of the rest.

    Raises:
        OptionError: ``max_arcs_per_frame`` is below 1 or the scale is not finite.
        LatticeError: There is no path to a final state, or the times contradict each other.

    Source: Kaldi, lat/lattice-functions.cc, CompactLatticeLimitDepth.
    """
    if max_arcs_per_frame < 1:
        raise OptionError(f"max_arcs_per_frame is {max_arcs_per_frame}, but must be 1 or more")
    check_finite("acoustic_scale", acoustic_scale)
    time = state_times(lattice)
    return _graph.limit_depth(lattice, time, max_arcs_per_frame, acoustic_scale, return_arc_map)
