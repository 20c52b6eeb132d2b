"""Beam pruning: keep the arcs on paths nearly as good as the best one."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from ninja import _batches, _graph
from ninja.errors import OptionError
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch


@overload
def prune(
    lattice: Lattice, beam: float = 10.0, scales: Scales = Scales(), *, return_arc_map: Literal[False] = False
) -> Lattice: ...
@overload
def prune(
    lattice: Lattice, beam: float = 10.0, scales: Scales = Scales(), *, return_arc_map: Literal[True]
) -> tuple[Lattice, npt.NDArray[np.int64]]: ...
@overload
def prune(lattice: Batch, beam: float = 10.0, scales: Scales = Scales()) -> Batch: ...
def prune(
    lattice: Lattice | Batch, beam: float = 10.0, scales: Scales = Scales(), *, return_arc_map: bool = False
) -> Lattice | Batch | tuple[Lattice, npt.NDArray[np.int64]]:
    """Drop the arcs and final states whose best path is worse than the best of all by more than the beam, 0 or more.

    The scales serve the comparison only; the costs that stay are unscaled. Scaled costs are rounded to single precision
    as in Kaldi, so that the same arcs stay.

    Args:
        lattice: Or a batch, which gives a batch: lattices without a path are among its faults.
        beam: 0 or more.
        scales: Scales of the comparison.
        return_arc_map: Return also the old arc of each arc; of one lattice only.

    Returns:
        What ``connect`` returns of the rest, which always holds the best path.

    Raises:
        OptionError: The beam is negative.
        LatticeError: No path leads from the start to a final state.

    Source: Kaldi, lat/lattice-functions.cc, PruneLattice.
    """
    if not beam >= 0.0:
        raise OptionError(f"beam is {beam}, but must be 0 or more")
    if isinstance(lattice, Batch):
        return lattice.made(_batches.prune_each(lattice.items, beam, scales.acoustic, scales.lm, scales.word_penalty))
    return _graph.prune(lattice, beam, scales.acoustic, scales.lm, scales.word_penalty, return_arc_map)
