"""Expansion to n-grams: each arc stands for one n-gram only."""

from __future__ import annotations

from ninja import _graph
from ninja.errors import LatticeError, OptionError
from ninja.graph.compose import MAX_ARCS
from ninja.graph.copies import copied_lattice
from ninja.lattice import Lattice


def expand_ngram(lattice: Lattice, n: int = 3, *, max_arcs: int = MAX_ARCS) -> Lattice:
    """Split states until all paths to each have the last n - 1 words in common; no path is lost or made.

    Epsilons do not count as words. States that cannot be reached are left out.

    Raises:
        LatticeError: More than ``max_arcs`` arcs arise.
        OptionError: ``n`` is below 1.

    Source: Kaldi, latbin/lattice-expand-ngram.cc.
    """
    if n < 1:
        raise OptionError(f"n is {n}, but must be 1 or more")
    found = _graph.expand_ngram(lattice, n - 1, max_arcs)
    if found is None:
        raise LatticeError(
            f"more than {max_arcs} arcs when expanded to {n}-grams; prune the lattice first", key=lattice.key
        )
    state, arc_begin, dst, arc, _ = found
    return copied_lattice(lattice, state, arc_begin, dst, arc, lattice.graph[arc], lattice.final_graph[state])
