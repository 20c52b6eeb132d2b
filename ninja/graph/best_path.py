"""The best path through a lattice."""

from __future__ import annotations

from ninja import _graph
from ninja.graph.path import Path
from ninja.lattice import Lattice, Scales


def best_path(lattice: Lattice, scales: Scales = Scales()) -> Path:
    """Find the path of least total cost.

    Of equal paths the one with the smaller graph cost is taken, as in Kaldi, then the one that comes first.

    Raises:
        LatticeError: No path leads from the start to a final state.
    """
    return _graph.best_path(lattice, scales.acoustic, scales.lm, scales.word_penalty)


def path_lattice(lattice: Lattice, path: Path) -> Lattice:
    """Return a path as a lattice: its states in a row, with the costs and labels they had.

    Raises:
        LatticeError: The path does not run through this lattice.
    """
    return _graph.path_lattice(lattice, path.arcs)
