"""The best path through a lattice."""

from __future__ import annotations

from ninja import _graph
from ninja.graph.path import Path
from ninja.graph.scale import check_scales
from ninja.lattice import Lattice


def best_path(lattice: Lattice, acoustic_scale: float = 1.0, lm_scale: float = 1.0, word_penalty: float = 0.0) -> Path:
    """Find the path of least total cost ``acoustic_scale * acoustic + lm_scale * graph + word_penalty * words``.

    Of equal paths the one with the smaller graph cost is taken, as in Kaldi, then the one that comes first.

    Args:
        lattice: The lattice.
        acoustic_scale: Factor of acoustic costs.
        lm_scale: Factor of graph costs.
        word_penalty: Cost added for each word.

    Returns:
        The path, with unscaled costs.

    Raises:
        OptionError: A scale or the penalty is not finite.
        LatticeError: No path leads from the start to a final state.
    """
    check_scales(acoustic_scale, lm_scale, word_penalty)
    return _graph.best_path(lattice, acoustic_scale, lm_scale, word_penalty)


def path_lattice(lattice: Lattice, path: Path) -> Lattice:
    """Return a path as a lattice: its states in a row, with the costs and labels they had.

    Args:
        lattice: The lattice in which the path was found.
        path: The path.

    Raises:
        LatticeError: The path does not run through this lattice.
    """
    return _graph.path_lattice(lattice, path.arcs)
