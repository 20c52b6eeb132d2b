"""Scaling of costs, and addition of word penalties."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import check_finite, check_lattice, frozen
from ninja.lattice.symbols import EPSILON

Costs = npt.NDArray[np.float32]


def scale(
    lattice: Lattice,
    graph_scale: float = 1.0,
    acoustic_scale: float = 1.0,
    acoustic2lm_scale: float = 0.0,
    lm2acoustic_scale: float = 0.0,
) -> Lattice:
    """Scale the graph and acoustic costs of arcs and final states, and optionally mix them.

    The new graph cost is ``graph_scale * graph + acoustic2lm_scale * acoustic``, and the new acoustic cost is
    ``lm2acoustic_scale * graph + acoustic_scale * acoustic``. Scaling by the inverse of the 2×2 matrix of factors
    restores the costs.

    Raises:
        OptionError: A scale is not finite.
        LatticeError: A cost exceeds the range of float32.

    Source: Kaldi, lattice-scale (``--lm-scale``, ``--acoustic-scale``, ``--acoustic2lm-scale``,
    ``--lm2acoustic-scale``).
    """
    check_lattice(lattice)
    Scales(acoustic_scale, graph_scale)  # raises an error if a scale is out of range
    check_finite("acoustic2lm_scale", acoustic2lm_scale)
    check_finite("lm2acoustic_scale", lm2acoustic_scale)
    is_final = lattice.is_final
    final = np.where(is_final, lattice.final_graph, 0), np.where(is_final, lattice.final_acoustic, 0)
    scaled: dict[str, Costs] = {}
    for name, *factors in ("graph", graph_scale, acoustic2lm_scale), ("acoustic", lm2acoustic_scale, acoustic_scale):
        scaled[name] = _mixed(lattice.graph, lattice.acoustic, *factors)
        scaled[f"final_{name}"] = np.where(is_final, _mixed(*final, *factors), np.float32(np.inf))
        for cost in (scaled[name], scaled[f"final_{name}"][is_final]):
            if not np.isfinite(cost).all():
                raise LatticeError(
                    f"the scaled {name} costs exceed the range of float32; use smaller scales", key=lattice.key
                )
    return lattice.replace(**{name: frozen(cost) for name, cost in scaled.items()})


def add_word_penalty(lattice: Lattice, penalty: float) -> Lattice:
    """Add a natural-log cost to the graph cost of every arc that has a word.

    A positive penalty favours hypotheses with fewer words.

    Raises:
        OptionError: The penalty is not finite.
        LatticeError: A cost exceeds the range of float32.

    Source: Kaldi, lattice-add-penalty (``--word-ins-penalty``).
    """
    check_lattice(lattice)
    check_finite("word_penalty", penalty)
    with np.errstate(over="ignore"):  # check_costs raises
        cost = np.where(lattice.word != EPSILON, np.float32(penalty), np.float32(0))
        changed = lattice.with_costs(lattice.graph + cost)
    return check_costs(changed, lattice)


def check_costs(lattice: Lattice, old: Lattice) -> Lattice:
    """Return a lattice with new costs; raise LatticeError if a cost that is finite in `old` became infinite or NaN."""
    if not np.isfinite(lattice.graph).all() or not np.array_equal(lattice.is_final, old.is_final):
        raise LatticeError("the new graph costs exceed the range of float32; scale the costs down first", key=old.key)
    return lattice


def _mixed(graph: Costs, acoustic: Costs, of_graph: float, of_acoustic: float) -> Costs:
    """Return the weighted sum of graph and acoustic costs, in float64; 0 times an infinite cost is 0."""
    mixed = np.zeros(graph.shape, np.float64)
    for cost, factor in ((graph, of_graph), (acoustic, of_acoustic)):
        if factor != 0.0:
            mixed += cost * np.float64(factor)
    with np.errstate(over="ignore"):  # the caller raises an error for infinite costs
        return mixed.astype(np.float32)
