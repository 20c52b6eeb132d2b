"""Confidence in the best word sequence of a lattice."""

from __future__ import annotations

import math

from ninja.graph.lexical import lexical_lattice
from ninja.graph.nbest import nbest
from ninja.lattice import Lattice, Scales
from ninja.lattice.text import LexicalTable


def sentence_confidence(lattice: Lattice, scales: Scales = Scales(), *, forms: LexicalTable | None = None) -> float:
    """Return the cost difference between the second-best and the best word sequence.

    Args:
        lattice: Any lattice.
        scales: Scales that define the total cost.
        forms: Lexical forms for comparing words.  [default: words are compared unchanged]

    Returns:
        A difference of natural-log costs, ≥ 0; +inf if there is only one word sequence.

    Raises:
        LatticeError: No path leads from the start to a final state.

    Source: Kaldi, lat/confidence.cc, SentenceLevelConfidence.
    """
    if forms is not None:
        lattice = lexical_lattice(lattice, forms).lattice
    paths = nbest(lattice, 2, scales)
    if len(paths) == 1:
        return math.inf
    best, second = (path.cost(scales) for path in paths)
    return max(0.0, second - best)
