"""Oracle: the path of a lattice nearest to the reference."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError
from ninja.graph.connect import connect
from ninja.graph.copies import copied_lattice
from ninja.graph.path import no_path
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen, offsets, runs
from ninja.lattice.batch import Batch, Lattices, as_batch


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


Words = Sequence[int] | npt.NDArray[np.int32]


@overload
def oracle(lattices: Lattice, reference: Words, wildcards: Collection[int] = ()) -> Oracle: ...
@overload
def oracle(lattices: Batch, reference: Sequence[Words], wildcards: Collection[int] = ()) -> list[Oracle]: ...
def oracle(
    lattices: Lattice | Batch, reference: Words | Sequence[Words], wildcards: Collection[int] = ()
) -> Oracle | list[Oracle]:
    """Find the path with the fewest word errors, whatever it costs.

    Exact where states × words of the reference are at most 16 million. A longer recording takes time and memory in
    proportion to its length: a state is compared with the 256 or more words of the reference to both sides of its
    place, and with more where the path found comes near the last of them or more than a third of them are edits
    (ext/graph/oracle.hpp says why). Where 67 million pairs, or twice those that come first, are too few for that,
    ``touches_band`` of the result is true.

    Args:
        lattices: A lattice or a batch.
        reference: Word ids said; an id that no arc carries, such as -1, never matches. Epsilon (0) is no word. Of a
            batch, those of each lattice.
        wildcards: Word ids that count as epsilons, in the lattice and in the reference, such as those of noises.

    Returns:
        The path, of a batch that of each lattice; of several equally near, the edits are split and the path is chosen
        by the order of arcs.

    Raises:
        LatticeError: No path leads from the start to a final state, or the reference holds an epsilon.

    Source: Kaldi, latbin/lattice-oracle.cc, for the definition.
    """
    if isinstance(lattices, Batch):
        return _oracles(lattices, reference, wildcards)  # type: ignore[arg-type]
    return _oracles(lattices, [reference], wildcards)[0]  # type: ignore[list-item]


def _oracles(lattices: Lattices, references: Sequence[Words], wildcards: Collection[int]) -> list[Oracle]:
    begin = offsets([len(reference) for reference in references])
    said = np.concatenate([np.zeros(0, np.int32), *(np.asarray(reference, np.int32) for reference in references)])
    if (zero := np.flatnonzero(said == 0)).size:
        key = as_batch(lattices).keys[int(np.searchsorted(begin, zero[0], side="right")) - 1]
        raise LatticeError("the reference holds word id 0, epsilon, which is no word", key=key)
    if wildcards:
        kept = ~np.isin(said, list(wildcards))
        said, begin = said[kept], offsets(kept)[begin]
    failed, counts, (arcs, arc_begin, words, word_begin) = _graph.oracle(_mute(lattices, wildcards), said, begin)
    if failed >= 0:
        raise no_path(as_batch(lattices).keys[failed])
    numbers = zip(*(count.tolist() for count in counts), np.diff(begin).tolist(), strict=True)
    return [
        Oracle(word, arc, substitutions, insertions, deletions, num_words, bool(touches_band))
        for word, arc, (substitutions, insertions, deletions, touches_band, num_words) in zip(
            runs(words, word_begin), runs(arcs, arc_begin), numbers, strict=True
        )
    ]


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


def _mute(lattices: Lattices, wildcards: Collection[int]) -> Lattices:
    """Turn wildcards into epsilons."""

    def muted(lattice: Lattice) -> Lattice:
        is_wildcard = np.isin(lattice.word, list(wildcards))
        return lattice.replace(word=frozen(np.where(is_wildcard, np.int32(0), lattice.word)))

    if not wildcards:
        return lattices
    return lattices.map(muted) if isinstance(lattices, Batch) else muted(lattices)
