"""Epsilon removal and determinization; determinization keeps the best path for each word sequence."""

from __future__ import annotations

import numpy as np

from ninja import _graph
from ninja.errors import check_count
from ninja.graph.connect import connect
from ninja.lattice import Lattice
from ninja.lattice.lattice import check_costs, check_finite, check_lattice

MAX_LABELS = 1 << 28  # maximum number of alignment labels of the arcs without epsilons; 1 GB


def remove_epsilons(lattice: Lattice, acoustic_scale: float = 1.0, max_arcs: int = 10_000_000) -> Lattice:
    """Remove the arcs without a word; the best path for each word sequence keeps its costs and alignment.

    An arc that follows epsilons is copied to the state where the epsilons begin; their costs are added to the arc, and
    their alignment is prepended. If several paths lead from one state to another with the same word, the path with the
    lowest total cost is kept; as in Kaldi, ties are broken by the smaller difference, graph cost minus acoustic cost.

    Time is proportional to the number of pairs of a state in the result and a state that it reaches through epsilons.
    For a chain of epsilons whose states can also be entered by other arcs, this is the square of the chain's length.

    Args:
        lattice: Any lattice.
        acoustic_scale: Factor applied to acoustic costs when paths are compared; the costs of the result are unscaled.
        max_arcs: Maximum number of arcs in the result, in which each state gets a copy of every arc that it reaches
            through epsilons.

    Returns:
        A connected lattice without epsilons, of kind "compact" because an arc may have several labels. States keep
        their order; costs are summed in float64.

    Raises:
        LatticeError: No path leads from the start to a final state, the result has more than ``max_arcs`` arcs or 2^28
            alignment labels, or a cost exceeds the range of float32.
        OptionError: ``acoustic_scale`` is not finite, or ``max_arcs`` is below 1.

    Source: Mohri 2002, "Generic ε-removal and input ε-normalization algorithms for weighted transducers".
    """
    check_finite("acoustic_scale", acoustic_scale)
    check_count("max_arcs", max_arcs, least=1)
    result, exceeds_range = _graph.remove_epsilons(lattice, acoustic_scale, max_arcs, MAX_LABELS)
    if exceeds_range:
        check_costs(result)
    return result


def determinize(lattice: Lattice, acoustic_scale: float = 1.0, max_arcs: int = 1_000_000) -> Lattice:
    """Keep the best path for each word sequence, with its graph cost, acoustic cost and alignment.

    Where paths with the same words diverge, costs and alignments move towards the end, as in Kaldi: they are correct
    for each path as a whole, not for each arc. Nothing is pruned, so time and size can be exponential in the size of
    the lattice: prune state-level lattices first. (OpenFst's determinization emits at most one output label per
    transition; for state-level lattices, its result has up to a hundred times as many states.)

    Args:
        lattice: Any lattice; epsilons are removed.
        acoustic_scale: Factor applied to acoustic costs when paths are compared; the costs of the result are unscaled.
            As in Kaldi, ties are broken by the smaller difference, graph cost minus acoustic cost, then by the order of
            paths.
        max_arcs: Maximum number of arcs in the result and in the intermediate lattice without epsilons. The subsets of
            states may contain up to twenty times this number of elements.

    Returns:
        A connected lattice without epsilons, in which no two arcs of a state have the same word. Costs are summed in
        float64. A lattice that is already deterministic is only connected.

    Raises:
        LatticeError: ``max_arcs`` is exceeded, no path leads from the start to a final state, or a cost exceeds the
            range of float32.
        OptionError: ``acoustic_scale`` is not finite, or ``max_arcs`` is below 1.

    Source: Mohri 1997, "Finite-state transducers in language and speech processing"; Povey et al. 2012, "Generating
    exact lattices in the WFST framework", section 5.
    """
    check_finite("acoustic_scale", acoustic_scale)
    check_count("max_arcs", max_arcs, least=1)
    if is_deterministic(lattice):
        return connect(lattice)
    plain = remove_epsilons(lattice, acoustic_scale, max_arcs)
    if is_deterministic(plain):
        return plain
    result = _graph.determinize(plain, acoustic_scale, max_arcs)
    check_costs(result)
    return result


def is_deterministic(lattice: Lattice) -> bool:
    """Return whether a lattice has no epsilons, and no two arcs of a state have the same word."""
    check_lattice(lattice)
    if (lattice.word == 0).any():
        return False
    state_and_word = (lattice.src.astype(np.int64) << 32) | lattice.word
    return np.unique(state_and_word).size == state_and_word.size
