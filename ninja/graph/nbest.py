"""The n best word sequences of a lattice."""

from __future__ import annotations

from typing import overload

from ninja import _graph
from ninja.errors import OptionError
from ninja.graph.path import Path
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch


@overload
def nbest(lattices: Lattice, n: int, scales: Scales = Scales()) -> list[Path]: ...
@overload
def nbest(lattices: Batch, n: int, scales: Scales = Scales()) -> Batch: ...
def nbest(lattices: Lattice | Batch, n: int, scales: Scales = Scales()) -> list[Path] | Batch:
    """Find the n best word sequences, exactly, with the best path of each.

    Sequences differ in their words: the lattice is determinized on the way, as far as the search looks, so any lattice
    will do, with epsilons and several paths for the same words. Of sequences that cost the same any may come first.

    Args:
        lattices: A lattice or a batch; lattices of a batch without a path become its faults.
        n: At least 1.
        scales: Scales of the comparison.

    Returns:
        Paths with unscaled costs, from the least total cost to the greatest; fewer than n if the lattice has no more.
        Of a batch, the paths of all its lattices as lattices, with the keys ``KEY-1``, ``KEY-2``, ….

    Raises:
        OptionError: ``n`` is below 1.
        LatticeError: No path leads from the start to a final state.

    Source: Lawler 1972, "A procedure for computing the K best solutions", for the partition of what is left;
    the rest is described in ext/graph/nbest.hpp.
    """
    if n < 1:
        raise OptionError(f"n is {n}, but must be 1 or more")
    return _graph.nbest(lattices, n, scales)
