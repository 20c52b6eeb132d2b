"""The best path through a lattice."""

from __future__ import annotations

from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from ninja import _batches, _graph
from ninja.graph.path import Path, no_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch


@overload
def best_path(lattice: Lattice, scales: Scales = Scales()) -> Path: ...
@overload
def best_path(lattice: Batch, scales: Scales = Scales()) -> Batch: ...
def best_path(lattice: Lattice | Batch, scales: Scales = Scales()) -> Path | Batch:
    """Find the path of least total cost.

    Of equal paths the one with the smaller graph cost is taken, as in Kaldi, then the one that comes first.

    Args:
        lattice: Or a batch, which gives a batch of the paths as lattices (`path_lattice`).
        scales: Scales of the comparison.

    Raises:
        LatticeError: No path leads from the start to a final state; such a lattice of a batch is among its faults.
    """
    if isinstance(lattice, Batch):
        return lattice.made(_batches.best_path_each(lattice.items, scales.acoustic, scales.lm, scales.word_penalty))
    return _graph.best_path(lattice, scales.acoustic, scales.lm, scales.word_penalty)


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
    failed, found = _batches.best_words_all(batch.items, scales.acoustic, scales.lm, scales.word_penalty)
    if failed >= 0:
        raise no_path(batch.keys[failed])
    return BestWords(*found)


def path_lattice(lattice: Lattice, path: Path) -> Lattice:
    """Return a path as a lattice: its states in a row, with the costs and labels they had.

    Raises:
        LatticeError: The path does not run through this lattice.
    """
    return _graph.path_lattice(lattice, path.arcs)
