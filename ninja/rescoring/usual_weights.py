"""Usual weights of a rescoring by kind of input, from development sets."""

from __future__ import annotations

from dataclasses import dataclass

from ninja.lattice import Lattice
from ninja.lattice.lattice import ListLattice, has_graph_costs


@dataclass(frozen=True, slots=True)
class UsualWeights:
    """Weights to start from, for acoustic scale 0.1 of lattices and 1 of lists."""

    kind: str
    lm_weight: float
    word_penalty: float

    def __str__(self) -> str:
        return f"LM weight {self.lm_weight:g}, word penalty {self.word_penalty:g}"


# Of lattices of hybrid recognisers: PocketSphinx on real and synthetic speech; `python -m benchmarks.results splits`.
LATTICES = UsualWeights("lattices with graph costs", 0.8, 0.5)
# Of models with attention: lists of Whisper on real speech; the same benchmark.
LISTS = UsualWeights("n-best lists without graph costs", 0.15, -1.0)


def usual_weights(lattice: Lattice) -> UsualWeights | None:
    """Return the usual weights for a lattice, or None for a kind without development sets, such as CTC lattices."""
    is_list = isinstance(lattice, ListLattice)
    if has_graph_costs(lattice):
        return None if is_list else LATTICES
    return LISTS if is_list else None
