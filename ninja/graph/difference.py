"""Difference: a lattice without one word sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError
from ninja.graph.compose import MAX_ARCS
from ninja.graph.connect import connect
from ninja.graph.copies import copied_lattice
from ninja.lattice import Lattice


def difference(
    lattice: Lattice, transcript: Sequence[int] | npt.NDArray[np.int32], *, max_arcs: int = MAX_ARCS
) -> Lattice:
    """Remove the paths whose words are exactly a transcript; all others keep their costs and alignments.

    What is left when the truth is taken out serves discriminative training, as the competitors of the reference. A
    transcript with an id that no arc carries, such as -1, is one that no path says.

    Returns:
        A connected lattice; states through which the transcript leads have a copy for it.

    Raises:
        LatticeError: Nothing is left, or more than ``max_arcs`` arcs arise.

    Source: Kaldi, latbin/lattice-difference.cc.
    """
    words = np.array(transcript, np.int32)
    found = _graph.follow_transcript(lattice, words, max_arcs)
    if found is None:
        raise LatticeError(f"more than {max_arcs} arcs in the difference; prune the lattice first", key=lattice.key)
    state, arc_begin, dst, arc, said = found
    final_graph = np.where(said == words.size, np.float32(np.inf), lattice.final_graph[state])
    try:
        return connect(copied_lattice(lattice, state, arc_begin, dst, arc, lattice.graph[arc], final_graph))
    except LatticeError:
        raise LatticeError("nothing is left: the lattice holds the transcript only", key=lattice.key) from None
