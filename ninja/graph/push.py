"""Pushing: alignments and costs go as near to the start as they can."""

from __future__ import annotations

from typing import overload

from ninja import _batches, _graph
from ninja.graph.connect import connect
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.costs import check_finite


@overload
def push(lattice: Lattice, *, strings: bool = True, weights: bool = True, acoustic_scale: float = 1.0) -> Lattice: ...
@overload
def push(lattice: Batch, *, strings: bool = True, weights: bool = True, acoustic_scale: float = 1.0) -> Batch: ...
def push(
    lattice: Lattice | Batch, *, strings: bool = True, weights: bool = True, acoustic_scale: float = 1.0
) -> Lattice | Batch:
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
    if isinstance(lattice, Batch):
        return lattice.made(_batches.push_each(lattice.items, strings, weights, acoustic_scale))
    lattice = connect(lattice)
    strings = strings and lattice.has_labels
    return _graph.push(lattice, strings, weights, acoustic_scale) if strings or weights else lattice
