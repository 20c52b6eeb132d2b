"""Determinization: one path for each word sequence, the best, with both its costs and its alignment."""

from __future__ import annotations

import numpy as np

from ninja import _graph
from ninja.errors import LatticeError, OptionError
from ninja.graph.connect import connect
from ninja.graph.epsilons import remove_epsilons
from ninja.lattice import Lattice
from ninja.lattice.arrays import offsets, owners, ranges, sums
from ninja.lattice.costs import check_finite


def determinize(lattice: Lattice, acoustic_scale: float = 1.0, max_arcs: int = 1_000_000) -> Lattice:
    """Keep one path for each word sequence, the best: its total, graph and acoustic cost and its alignment.

    As in Kaldi, costs and alignments move towards the end where paths of one word sequence part: they are right for
    each path as a whole, not for each arc. Nothing is pruned; time and size can be exponential in the lattice's, hence
    the bound: prune state-level lattices first. (OpenFst's determinization lets one output label go per transition, so
    that on such lattices its result has up to a hundred times the states.)

    Args:
        lattice: Any lattice; epsilons are removed.
        acoustic_scale: Factor of acoustic costs where paths compete; costs are written unscaled. Ties go to the smaller
            graph minus acoustic cost, as in Kaldi, then to the first.
        max_arcs: Refuse if more arcs arise, here or while removing epsilons, or sets of states twenty times as large.

    Returns:
        A connected lattice, no two arcs of a state with the same word, no epsilons; sums are made in float64. A lattice
        that is so already is returned connected, otherwise as it is.

    Raises:
        LatticeError: The bound is passed, or no path leads from the start to a final state.
        OptionError: ``acoustic_scale`` is not finite, or ``max_arcs`` below 1.

    Source: Mohri 1997, "Finite-state transducers in language and speech processing"; Povey et al. 2012, "Generating
    exact lattices in the WFST framework", section 5.
    """
    check_finite("acoustic_scale", acoustic_scale)
    if max_arcs < 1:
        raise OptionError(f"max_arcs is {max_arcs}, but must be 1 or more")
    if is_deterministic(lattice):
        return connect(lattice)
    plain = remove_epsilons(lattice, acoustic_scale, max_arcs)
    if is_deterministic(plain):
        return plain
    found = _graph.determinize(plain, acoustic_scale, max_arcs)
    if found is None:
        raise LatticeError(
            f"more than {max_arcs} arcs, or as much work, to determinize; prune the lattice first", key=lattice.key
        )
    arc_begin, dst, word, taken_begin, taken, final_state, final_taken_begin, final_taken = found

    final = np.flatnonzero(final_state >= 0)
    end = final_state[final]
    arc_costs, end_costs = [], []  # graph, then acoustic costs
    for name in ("graph", "acoustic"):
        of_arc, of_final = getattr(plain, name), getattr(plain, f"final_{name}")
        arc_costs.append(sums(of_arc[taken], taken_begin).astype(np.float32))
        final_cost = np.full(final_state.size, np.inf)
        final_cost[final] = sums(of_arc[final_taken], final_taken_begin)[final] + of_final[end]
        end_costs.append(final_cost.astype(np.float32))
    length, final_length = np.diff(plain.ali_begin), np.zeros(final_state.size, np.int64)
    final_length[final] = np.diff(plain.final_ali_begin)[end]
    ali_begin = offsets(sums(length[taken], taken_begin).astype(np.int64))
    ali = plain.ali[ranges(plain.ali_begin[taken], length[taken])]
    # Behind the labels of the arcs still to be taken stand those of the old final state.
    before = sums(length[final_taken], final_taken_begin).astype(np.int64)
    final_ali_begin = offsets(before + final_length)
    final_ali = np.empty(final_ali_begin[-1], np.int32)
    of_arcs = owners(final_ali_begin)
    is_before = np.arange(final_ali.size) - final_ali_begin[of_arcs] < before[of_arcs]
    final_ali[is_before] = plain.ali[ranges(plain.ali_begin[final_taken], length[final_taken])]
    final_ali[~is_before] = plain.final_ali[ranges(plain.final_ali_begin[end], final_length[final])]
    return Lattice.from_arrays(
        lattice.key,
        arc_begin,
        dst,
        word,
        *arc_costs,
        *end_costs,
        ali_begin=ali_begin,
        ali=ali,
        final_ali_begin=final_ali_begin,
        final_ali=final_ali,
        frame_shift=lattice.frame_shift,
        words=lattice.words,
    )


def is_deterministic(lattice: Lattice) -> bool:
    """Tell whether there are no epsilons and no two arcs of a state carry the same word."""
    if (lattice.word == 0).any():
        return False
    way = (lattice.src.astype(np.int64) << 32) | lattice.word
    return np.unique(way).size == way.size
