"""The n best word sequences of a lattice."""

from __future__ import annotations

from typing import overload

from ninja import _batches, _graph
from ninja.errors import OptionError
from ninja.graph.path import Path
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch


@overload
def nbest(lattice: Lattice, n: int, scales: Scales = Scales()) -> list[Path]: ...
@overload
def nbest(lattice: Batch, n: int, scales: Scales = Scales()) -> Batch: ...
def nbest(lattice: Lattice | Batch, n: int, scales: Scales = Scales()) -> list[Path] | Batch:
    """Find the n best word sequences, exactly, with the best path of each.

    Sequences differ in their words: the lattice is determinized on the way, as far as the search looks, so any lattice
    will do, with epsilons and several paths for the same words. Of sequences that cost the same any may come first.

    Args:
        lattice: Or a batch, of which lattices without a path are among the faults.
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
    if isinstance(lattice, Batch):
        made = _batches.nbest_each(lattice.items, n, scales.acoustic, scales.lm, scales.word_penalty)
        return lattice.made(made, several=True)
    return _graph.nbest(lattice, n, scales.acoustic, scales.lm, scales.word_penalty)
