"""Detection of lattices whose histories multiply in a rescoring, as they are not determinized."""

from __future__ import annotations

import numpy as np

from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON

LEAST_ARCS = 500  # with fewer, nothing takes long
MOST = 0.5  # of the arcs; determinized lattices have none
ADVICE = (
    "some lattices are not determinized: half of their arcs have no word, or repeat a word of their state, so that a "
    "rescoring takes many times as long; first ninja prune, then ninja determinize-pruned"
)


def is_ambiguous(lattice: Lattice) -> bool:
    """Tell whether most arcs have no word, or most repeat a word of another arc that leaves their state."""
    if lattice.num_arcs < LEAST_ARCS:
        return False
    num_epsilons = int(np.count_nonzero(lattice.word == EPSILON))
    if num_epsilons > MOST * lattice.num_arcs:
        return True
    state = np.repeat(np.arange(lattice.num_states), np.diff(lattice.arc_begin))
    pair = (state << 32) | lattice.word
    num_pairs = np.unique(pair[lattice.word != EPSILON]).size
    return lattice.num_arcs - num_epsilons - num_pairs > MOST * lattice.num_arcs
