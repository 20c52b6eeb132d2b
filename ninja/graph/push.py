"""Pushing: alignments and costs go as near to the start as they can."""

from __future__ import annotations

from ninja import _graph
from ninja.lattice.batch import Lattices
from ninja.lattice.costs import check_finite


def push(lattices: Lattices, *, strings: bool = True, weights: bool = True, acoustic_scale: float = 1.0) -> Lattices:
    """Push alignments and costs towards the start; each path keeps its words, its alignment and both its costs.

    Labels that all completions of a state begin with move to the arcs that enter it. Costs move so that the best
    completion of each state, but the start, costs nothing; ``acoustic_scale`` says which is the best.

    Returns:
        The connected lattice with the same states and arcs, of kind "compact" where alignments may have moved; times
        that a format carried are gone then. Costs are differences of sums made in float64.

    Raises:
        LatticeError: No path leads from the start to a final state, or pushing would make a multitude of labels.
        OptionError: ``acoustic_scale`` is not finite.

    Source: Kaldi, latbin/lattice-push.cc, lat/push-lattice.cc.
    """
    check_finite("acoustic_scale", acoustic_scale)
    return _graph.push(lattices, strings, weights, acoustic_scale)
