"""The best path through a lattice."""

from __future__ import annotations

from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.graph.path import Path, no_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch


@overload
def best_path(lattices: Lattice, scales: Scales = Scales()) -> Path: ...
@overload
def best_path(lattices: Batch, scales: Scales = Scales()) -> Batch: ...
def best_path(lattices: Lattice | Batch, scales: Scales = Scales()) -> Path | Batch:
    """Find the path of least total cost.

    Of equal paths the one with the smaller graph cost is taken, as in Kaldi, then the one that comes first.

    Args:
        lattices: A lattice or a batch; lattices of a batch without a path become its faults.
        scales: Scales of the comparison.

    Returns:
        The path; of a batch, the paths as lattices (`path_lattice`).

    Raises:
        LatticeError: No path leads from the start to a final state.
    """
    return _graph.best_path(lattices, scales)


class BestWords(NamedTuple):
    """The words of the best paths of a batch's lattices."""

    words: npt.NDArray[np.int32]  # ids, epsilons left out; those of lattice i are words[begin[i] : begin[i + 1]]
    begin: npt.NDArray[np.int64]  # [lattices + 1]
    graph_cost: npt.NDArray[np.float64]  # [lattices], unscaled
    acoustic_cost: npt.NDArray[np.float64]  # [lattices], unscaled
    num_labels: npt.NDArray[np.int64]  # [lattices], frames where labels count these


def best_words(batch: Batch, scales: Scales = Scales()) -> BestWords:
    """Find the words of the best path of each lattice of a batch.

    Raises:
        LatticeError: In one of them no path leads from the start to a final state.
    """
    failed, arrays = _graph.best_words(batch, scales)
    if failed >= 0:
        raise no_path(batch.keys[failed])
    return BestWords(*arrays)


def path_lattice(lattice: Lattice, path: Path) -> Lattice:
    """Return a path as a lattice: its states in a row, with the costs and labels they had.

    Raises:
        LatticeError: The path does not run through this lattice.
    """
    return _graph.path_lattice(lattice, path.arcs)
