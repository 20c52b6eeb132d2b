"""Minimization of lattices, and pushing of alignments and costs."""

from __future__ import annotations

from ninja import _graph
from ninja.errors import check_range
from ninja.lattice.batch import Lattices
from ninja.lattice.lattice import check_finite


def push(lattices: Lattices, *, strings: bool = True, weights: bool = True, acoustic_scale: float = 1.0) -> Lattices:
    """Push alignments and costs towards the start; each path keeps its words, its alignment and both costs.

    If the labels of all completions of a state have a common prefix, the prefix moves to the arcs that enter the state.
    Costs are moved until the best completion of each state except the start has cost 0, with acoustic costs scaled by
    ``acoustic_scale``.

    Time is linear unless alignments are pushed and the completions of many states have long common prefixes on
    different arcs; it is then at most proportional to the number of arcs times the length of the lattice in labels.

    Args:
        lattices: A lattice or a batch.
        strings: Push alignments.
        weights: Push costs.
        acoustic_scale: Factor applied to acoustic costs when completions are compared.

    Returns:
        The connected lattice with the same states and arcs. If alignments were pushed, its kind is "compact", and the
        field ``time`` is dropped. Costs are differences of float64 sums.

    Raises:
        LatticeError: No path leads from the start to a final state, pushing would create too many labels, or a cost
            exceeds the range of float32.
        OptionError: ``acoustic_scale`` is not finite.

    Source: Kaldi, latbin/lattice-push.cc, lat/push-lattice.cc.
    """
    check_finite("acoustic_scale", acoustic_scale)
    return _graph.push(lattices, strings, weights, acoustic_scale)


def minimize(
    lattices: Lattices,
    acoustic_scale: float = 1.0,
    delta: float = 2.0**-14,
    *,
    strings: bool = True,
    weights: bool = True,
) -> Lattices:
    """Merge states whose completions have the same words and alignments, and the same costs up to a constant.

    Alignments in the result are pushed towards the start. Graph and acoustic costs are pushed only to compare states.
    In the result, the costs of arcs change only where an arc leads to a merged state: the difference between the costs
    of the merged states is added to the arc. This preserves float32 precision. Each path keeps its words, costs and
    alignment.

    If a lattice is deterministic over words, the result is usually minimal. (A state is compared with at most 64 states
    whose arcs have the same words and destinations.) See ``push`` for the time.

    Args:
        lattices: A lattice or a batch.
        acoustic_scale: Factor applied to acoustic costs when completions are compared.
        delta: Largest difference at which arc costs count as equal, > 0; the cost of a path may change by up to `delta`
            per arc. (On real lattices, Kaldi's value of 2^-10 removes 4% more states, and changes path costs by up to
            0.003.)
        strings: Push alignments; otherwise only arcs with equal labels can be merged.
        weights: Push costs for the comparison; otherwise only arcs with equal costs can be merged.

    Returns:
        A connected lattice, of kind "compact" if an arc has several labels.

    Raises:
        LatticeError: No path leads from the start to a final state, pushing would create too many labels, or a cost
            exceeds the range of float32.
        OptionError: ``acoustic_scale`` is not finite, or ``delta`` is not above 0.

    Source: Kaldi, latbin/lattice-minimize.cc, lat/minimize-lattice.cc; Mohri 2000, "Minimization algorithms for
    sequential transducers".
    """
    check_finite("acoustic_scale", acoustic_scale)
    check_range("delta", delta, above=0, finite=True)
    return _graph.minimize(lattices, strings, weights, acoustic_scale, delta)
