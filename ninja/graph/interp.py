"""Interpolation of two lattices of one utterance: the word sequences of both, at costs between theirs."""

from __future__ import annotations

from ninja.errors import OptionError
from ninja.graph.compose import MAX_ARCS, composed_pair
from ninja.lattice import Lattice


def interp(first: Lattice, second: Lattice, alpha: float = 0.5, *, max_arcs: int = MAX_ARCS) -> Lattice:
    """Keep the word sequences that two lattices have in common, at costs between theirs.

    Args:
        first: A lattice; alignments are taken from it.
        second: Another, of the same utterance.
        alpha: Factor of both costs of the first, in [0, 1]; the second's is one minus it.
        max_arcs: Refuse if more arcs arise.

    Returns:
        The connected composition; it is not determinized.

    Raises:
        LatticeError: The two have no word sequence in common, or the bound is passed.
        OptionError: ``alpha`` is out of its range.

    Source: Kaldi, latbin/lattice-interp.cc.
    """
    if not 0.0 <= alpha <= 1.0:
        raise OptionError(f"alpha is {alpha}, but must be from 0 to 1")
    return composed_pair(first, second, alpha, 1.0 - alpha, max_arcs)
