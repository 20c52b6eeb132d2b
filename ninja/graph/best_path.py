"""The best path and random paths through a lattice."""

from __future__ import annotations

from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import check_range
from ninja.graph.connect import connect
from ninja.graph.path import Path, no_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch


@overload
def best_path(lattices: Lattice, scales: Scales = Scales()) -> Path: ...
@overload
def best_path(lattices: Batch, scales: Scales = Scales()) -> Batch: ...
def best_path(lattices: Lattice | Batch, scales: Scales = Scales()) -> Path | Batch:
    """Find the path with the least total cost.

    Ties are broken as in Kaldi: the smaller graph cost wins, then the path that comes first.

    Args:
        lattices: A lattice or a batch. In a batch, a lattice without a path is moved to `faults`.
        scales: Scales that define the total cost.

    Returns:
        The path, or for a batch, a batch of linear lattices as returned by `path_lattice`.

    Raises:
        LatticeError: A single lattice has no path from the start to a final state.
    """
    return _graph.best_path(lattices, scales)


class BestWords(NamedTuple):
    """The words on the best path of each lattice in a batch."""

    words: npt.NDArray[np.int32]  # ids without epsilons; lattice i has words[begin[i] : begin[i + 1]]
    begin: npt.NDArray[np.int64]  # [num_lattices + 1]
    graph_cost: npt.NDArray[np.float64]  # [num_lattices], unscaled
    acoustic_cost: npt.NDArray[np.float64]  # [num_lattices], unscaled
    num_labels: npt.NDArray[np.int64]  # [num_lattices]; the number of frames if there is one label per frame


def best_words(batch: Batch, scales: Scales = Scales()) -> BestWords:
    """Find the words on the best path of each lattice in a batch.

    Raises:
        LatticeError: A lattice has no path from the start to a final state.
    """
    failed, arrays = _graph.best_words(batch, scales)
    if failed >= 0:
        raise no_path(batch.keys[failed])
    return BestWords(*arrays)


def path_lattice(lattice: Lattice, path: Path) -> Lattice:
    """Convert a path to a linear lattice with the costs and labels of its arcs.

    Raises:
        LatticeError: The arcs do not form a path through this lattice.
    """
    return _graph.path_lattice(lattice, path.arcs)


def random_paths(lattice: Lattice, n: int, seed: int = 0) -> list[Lattice]:
    """Draw n paths with replacement and return them as linear lattices.

    At each state, all arcs are equally probable. If the state is final, ending the path is as probable as each arc.
    Costs are ignored. The paths depend only on the lattice, its key and the seed.

    Raises:
        OptionError: ``n`` is below 1.
        LatticeError: No path leads from the start to a final state.

    Source: OpenFst, randgen.h, UniformArcSelector, which Kaldi's lattice-to-nbest ``--random`` uses.
    """
    check_range("n", n, least=1)
    lattice = connect(lattice)
    is_final = lattice.is_final
    random = np.random.default_rng([seed % 2**32, *lattice.key.encode("utf-8", "surrogateescape")])
    paths = []
    for _ in range(n):
        state, arcs = 0, []
        while True:
            begin, end = int(lattice.arc_begin[state]), int(lattice.arc_begin[state + 1])
            arc = begin + int(random.integers(end - begin + bool(is_final[state])))
            if arc == end:
                break
            arcs.append(arc)
            state = int(lattice.dst[arc])
        paths.append(_graph.path_lattice(lattice, np.asarray(arcs, np.int64)))
    return paths
