"""How sure a lattice is of its best word sequence as a whole."""

from __future__ import annotations

import math

from ninja.graph.nbest import nbest
from ninja.lattice import Lattice


def sentence_confidence(
    lattice: Lattice, acoustic_scale: float = 1.0, lm_scale: float = 1.0, word_penalty: float = 0.0
) -> float:
    """Return by how much the second-best word sequence costs more than the best.

    Args:
        lattice: The lattice; it need not be deterministic, for sequences of different words are compared.
        acoustic_scale: Factor of acoustic costs.
        lm_scale: Factor of graph costs.
        word_penalty: Cost added for each word.

    Returns:
        A difference of natural-log costs, ≥ 0; +inf if there is but one word sequence.

    Raises:
        OptionError: A scale or the penalty is not finite.
        LatticeError: No path leads from the start to a final state.

    Source: Kaldi, lat/confidence.cc, SentenceLevelConfidence.
    """
    paths = nbest(lattice, 2, acoustic_scale, lm_scale, word_penalty)
    if len(paths) == 1:
        return math.inf
    best, second = (path.cost(acoustic_scale, lm_scale, word_penalty) for path in paths)
    return max(0.0, second - best)
