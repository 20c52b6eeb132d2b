"""Combination of several systems' lattices of one utterance, each with its share of the probability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ninja.errors import LatticeError, OptionError
from ninja.graph.posteriors import forward_backward
from ninja.graph.project import remove_alignments
from ninja.graph.scale import add_word_penalty, check_costs, scale
from ninja.graph.union import union
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import frozen


def combine(
    lattices: Sequence[Lattice | None],
    weights: Sequence[float] | None = None,
    scales: Scales = Scales(),
    *,
    exponents: bool = False,
) -> Lattice:
    """Unite the lattices of several systems so that all paths of the k-th together have the probability ``weights[k]``.

    Costs are scaled, and the cost of all paths of a lattice together is taken out of its final graph costs: only the
    sum of both costs means something in the result, which needs no more scales. Consensus decoding of it is system
    combination.

    Args:
        lattices: One of each system; None where a system has none, whose share is then missing from the total.
        weights: Weight of each system, > 0, divided by their sum; None: all the same.
        scales: Factors of the costs; they stay in the result.
        exponents: Raise the k-th lattice's path probabilities to the power ``weights[k]`` before they are made to sum
            to 1, rather than multiply them by it.

    Returns:
        All paths, those with equal words too. Where the systems' times cannot be compared, as one has none, or frames
        of another length, the result has neither times nor alignments.

    Raises:
        LatticeError: A lattice has no path from the start to a final state, or a cost grows beyond what a float holds.
        SymbolError: The lattices' words have ids of different tables.
        OptionError: There is no lattice, or weights are not as many, or not above 0.

    Source: Kaldi, latbin/lattice-combine.cc; Xu, Povey, Mangu and Zhu 2011, "Minimum Bayes risk decoding and system
    combination based on a recursion for edit distance".
    """
    share = check_weights(weights, len(lattices))
    given = [(lattice, weight) for lattice, weight in zip(lattices, share, strict=True) if lattice is not None]
    shares = [normalised(lattice, weight, scales, exponents=exponents) for lattice, weight in given]
    united = union(shares, determinize=False)
    return united if united.time is not None or _labels_tell(lattices) else remove_alignments(united)


def _labels_tell(lattices: Sequence[Lattice | None]) -> bool:
    """Tell whether the labels of all lattices, or of none, hold times of words, in frames of compatible length."""
    given = [lattice for lattice in lattices if lattice is not None and lattice.num_arcs]
    labelled = [lattice.has_labels for lattice in given]
    shifts = {lattice.frame_shift for lattice in given if lattice.frame_shift is not None}
    return not any(labelled) or (all(labelled) and len(shifts) < 2)


def check_weights(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """Return as many weights as there are systems, above 0 and summing to 1."""
    if count < 1:
        raise OptionError("there is no lattice to combine")
    if weights is None:
        return (1.0 / count,) * count
    if len(weights) != count:
        raise OptionError(f"there are {len(weights)} weights, but {count} systems; give each system one")
    for weight in weights:
        if not 0.0 < weight < np.inf:
            raise OptionError(f"a weight is {weight}, but must be above 0")
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def normalised(lattice: Lattice, weight: float, scales: Scales = Scales(), *, exponents: bool = False) -> Lattice:
    """Scale costs so that all paths together have the probability ``weight``, or 1 with `exponents`."""
    power = weight if exponents else 1.0
    scaled = scale(lattice, scales.lm * power, scales.acoustic * power)
    if scales.word_penalty:
        scaled = add_word_penalty(scaled, scales.word_penalty * power)
    total = forward_backward(scaled).total
    if not np.isfinite(total):
        raise LatticeError(f"the cost of all paths together is {total}", key=lattice.key)
    surplus = -total - (0.0 if exponents else float(np.log(weight)))
    with np.errstate(over="ignore"):  # told by its result
        final_graph = frozen(scaled.final_graph.astype(np.float64) + surplus, np.float32)
    return check_costs(scaled.replace(final_graph=final_graph), lattice)
