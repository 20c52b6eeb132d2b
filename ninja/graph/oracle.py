"""Oracle: the path of a lattice nearest to the reference."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError
from ninja.graph.connect import connect
from ninja.graph.copies import copied_lattice
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """The path nearest to the reference, and its edits."""

    words: npt.NDArray[np.int32]  # word ids of the path, epsilons and wildcards left out
    arcs: npt.NDArray[np.int64]  # arc ids of the path
    substitutions: int
    insertions: int
    deletions: int
    num_words: int  # of the reference, wildcards left out
    touches_band: bool = False  # too long and too flat to compare widely enough: a nearer path may exist

    @property
    def edits(self) -> int:
        """Edit distance between path and reference."""
        return self.substitutions + self.insertions + self.deletions


def oracle(
    lattice: Lattice, reference: Sequence[int] | npt.NDArray[np.int32], wildcards: Collection[int] = ()
) -> Oracle:
    """Find the path with the fewest word errors, whatever it costs.

    Exact where states × words of the reference are at most 16 million. A longer recording takes time and memory in
    proportion to its length: a state is compared with the 256 or more words of the reference to both sides of its
    place, and with more where the path found comes near the last of them or more than a third of them are edits
    (ext/graph/oracle.hpp says why). Where 67 million pairs, or twice those that come first, are too few for that,
    ``touches_band`` of the result is true.

    Args:
        reference: Word ids said; an id that no arc carries, such as -1, never matches. Epsilon (0) is no word.
        wildcards: Word ids that count as epsilons, in the lattice and in the reference, such as those of noises.

    Returns:
        The path; of several equally near, the edits are split and the path is chosen by the order of arcs.

    Raises:
        LatticeError: No path leads from the start to a final state, or the reference holds an epsilon.

    Source: Kaldi, latbin/lattice-oracle.cc, for the definition.
    """
    wanted = np.ascontiguousarray(reference, np.int32)
    if (wanted == 0).any():
        raise LatticeError("the reference holds word id 0, epsilon, which is no word", key=lattice.key)
    wanted = without(wanted, wildcards)
    counted = _mute(lattice, wildcards)
    substitutions, insertions, deletions, arcs, touches_band = _graph.oracle(counted, wanted)
    words = counted.word[arcs]
    return Oracle(words[words != 0], arcs, substitutions, insertions, deletions, len(wanted), touches_band)


def paths_of(
    lattice: Lattice, words: Sequence[int] | npt.NDArray[np.int32], wildcards: Collection[int] = ()
) -> Lattice:
    """Keep the paths with given words, such as those of an ``Oracle``, and any wildcards besides.

    Returns:
        A lattice in which a state stands once for each possible number of words before it.

    Raises:
        LatticeError: No path says these words.

    Source: Kaldi, latbin/lattice-oracle.cc, ``--write-lattices``, where wildcards are refused.
    """
    wanted = np.array(words, np.int32)
    found = _graph.follow_transcript(_mute(lattice, wildcards), wanted, np.iinfo(np.int64).max)
    assert found is not None
    state, arc_begin, dst, arc, said = found
    final_graph = np.where(said == wanted.size, lattice.final_graph[state], np.float32(np.inf))
    try:
        return connect(copied_lattice(lattice, state, arc_begin, dst, arc, lattice.graph[arc], final_graph))
    except LatticeError:
        raise LatticeError("no path carries these words", key=lattice.key) from None


def without(words: npt.NDArray[np.int32], wildcards: Collection[int]) -> npt.NDArray[np.int32]:
    """Leave wildcards out of word ids."""
    return words[~np.isin(words, list(wildcards))] if wildcards else words


def _mute(lattice: Lattice, wildcards: Collection[int]) -> Lattice:
    """Turn wildcards into epsilons."""
    if not wildcards:
        return lattice
    return lattice.replace(word=frozen(np.where(np.isin(lattice.word, list(wildcards)), np.int32(0), lattice.word)))
