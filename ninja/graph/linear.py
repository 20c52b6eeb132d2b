"""Linear lattices: one path, of words and labels that stand in tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Integers = Sequence[int] | npt.NDArray[np.int32]


def linear(
    key: str,
    words: Integers,
    alignment: Integers = (),
    graph_cost: float = 0.0,
    acoustic_cost: float = 0.0,
    symbols: SymbolTable | None = None,
) -> Lattice:
    """Make a lattice of one path, whose final state carries its costs.

    Which word the labels belong to is not known: each word gets one, the last word the rest.

    Args:
        words: Word ids, > 0.
        alignment: Labels of all frames: transition ids in Kaldi, > 0.

    Raises:
        LatticeError: A word id or label is not above 0, or a cost not finite.

    Source: Kaldi, latbin/linear-to-nbest.cc.
    """
    said, labels = np.asarray(words, np.int64), np.asarray(alignment, np.int64)
    for what, ids in (("word id", said), ("label", labels)):
        if (bad := ids[ids < 1]).size:
            raise LatticeError(f"the {what} {bad[0]} is not above 0", key=key)
    num_arcs = max(said.size, int(labels.size > 0))
    begin = np.minimum(np.arange(num_arcs + 1), labels.size)
    begin[-1] = labels.size
    final = np.full((2, num_arcs + 1), np.inf)
    final[:, -1] = graph_cost, acoustic_cost
    return Lattice.from_arrays(
        key,
        np.minimum(np.arange(num_arcs + 2), num_arcs),
        np.arange(1, num_arcs + 1),
        said if said.size else np.zeros(num_arcs),
        np.zeros(num_arcs),
        np.zeros(num_arcs),
        *final,
        ali_begin=begin,
        ali=labels,
        words=symbols,
    )
