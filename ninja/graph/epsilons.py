"""Epsilon removal: arcs without a word are merged into the arcs behind them."""

from __future__ import annotations

from ninja import _graph
from ninja.errors import LatticeError, OptionError
from ninja.lattice import Lattice
from ninja.lattice.costs import check_finite


def remove_epsilons(lattice: Lattice, acoustic_scale: float = 1.0, max_arcs: int = 10_000_000) -> Lattice:
    """Remove the arcs without a word: for each word sequence the best path's costs and alignment stay the same.

    An arc behind epsilons is copied to where they begin, with their costs added to its own and their alignment before
    its own. Of several ways round between two states for one word the best stays (total cost, ties by the smaller
    graph minus acoustic cost, as in Kaldi).

    Args:
        acoustic_scale: Factor of acoustic costs where paths compete; costs are written unscaled.
        max_arcs: Refuse if more arcs arise; each state gets the arcs of all that its epsilons reach.

    Returns:
        A connected lattice without epsilons, of kind "compact" since an arc may carry many labels. States keep their
        order; sums are made in float64.

    Raises:
        LatticeError: No path leads from the start to a final state, or the bound is passed.
        OptionError: ``acoustic_scale`` is not finite, or ``max_arcs`` below 1.

    Source: Mohri 2002, "Generic ε-removal and input ε-normalization algorithms for weighted transducers".
    """
    check_finite("acoustic_scale", acoustic_scale)
    if max_arcs < 1:
        raise OptionError(f"max_arcs is {max_arcs}, but must be 1 or more")
    found = _graph.remove_epsilons(lattice, acoustic_scale, max_arcs)
    if found is None:
        raise LatticeError(f"more than {max_arcs} arcs without the epsilons; prune the lattice first", key=lattice.key)
    return found
