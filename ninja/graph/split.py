"""Lattices with several copies of a state: expansion to n-grams, and the paths with or without a word sequence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError, check_range
from ninja.graph.compose import MAX_ARCS
from ninja.graph.connect import connect
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen, gather_labels
from ninja.lattice.batch import Batch

Words = Sequence[int] | npt.NDArray[np.int32]
OneOrMany = TypeVar("OneOrMany", Lattice, Batch, Lattice | Batch)


def expand_ngram(lattice: Lattice, n: int = 3, *, max_arcs: int = MAX_ARCS) -> Lattice:
    """Split states until all paths to a state have the same last n - 1 words; the set of paths does not change.

    Epsilons do not count as words. Unreachable states are removed.

    Raises:
        LatticeError: The result has more than ``max_arcs`` arcs.
        OptionError: ``n`` is below 1.

    Source: Kaldi, latbin/lattice-expand-ngram.cc.
    """
    check_range("n", n, least=1)
    state, arc_begin, dst, arc, _ = _graph.expand_ngram(lattice, n - 1, max_arcs)
    return copied_lattice(lattice, state, arc_begin, dst, arc, lattice.graph[arc], lattice.final_graph[state])


def difference(lattice: Lattice, transcript: Words, *, max_arcs: int = MAX_ARCS) -> Lattice:
    """Remove the paths whose words are exactly a transcript; all others keep their costs and alignments.

    In discriminative training, the paths without the reference are its competitors. No path matches a transcript with
    an id that no arc carries, such as -1.

    Returns:
        A connected lattice; states on paths of the transcript have a copy for it.

    Raises:
        LatticeError: No path is left, or the result has more than ``max_arcs`` arcs.

    Source: Kaldi, latbin/lattice-difference.cc.
    """
    return _matching(lattice, lattice, transcript, max_arcs, keep=False)


def paths_of(lattice: Lattice, words: Words, wildcards: Collection[int] = ()) -> Lattice:
    """Keep the paths with the given words, such as those of an ``Oracle``; wildcards may occur anywhere.

    Returns:
        A lattice with a copy of a state for each possible number of words before it.

    Raises:
        LatticeError: No path has these words.

    Source: Kaldi, latbin/lattice-oracle.cc, ``--write-lattices``, which refuses wildcards.
    """
    return _matching(lattice, without_words(lattice, wildcards), words, np.iinfo(np.int64).max, keep=True)


def _matching(lattice: Lattice, compared: Lattice, transcript: Words, max_arcs: int, *, keep: bool) -> Lattice:
    """Return the paths whose words in ``compared`` are a transcript, or all others."""
    words = np.array(transcript, np.int32)
    state, arc_begin, dst, arc, num_matched = _graph.follow_transcript(compared, words, max_arcs)
    is_kept = (num_matched == words.size) == keep
    final_graph = np.where(is_kept, lattice.final_graph[state], np.float32(np.inf))
    try:
        return connect(copied_lattice(lattice, state, arc_begin, dst, arc, lattice.graph[arc], final_graph))
    except LatticeError:
        message = "no path has these words" if keep else "no path is left: all have the words of the transcript"
        raise LatticeError(message, key=lattice.key) from None


def without_words(lattices: OneOrMany, words: Collection[int]) -> OneOrMany:
    """Replace some words by epsilons."""

    def replaced(lattice: Lattice) -> Lattice:
        is_removed = np.isin(lattice.word, list(words))
        return lattice.replace(word=frozen(np.where(is_removed, np.int32(0), lattice.word)))

    if not words:
        return lattices
    return lattices.map(replaced) if isinstance(lattices, Batch) else replaced(lattices)


def copied_lattice(
    source: Lattice,
    state_map: npt.NDArray[np.int32],
    arc_begin: npt.NDArray[np.int64],
    dst: npt.NDArray[np.int32],
    arc_map: npt.NDArray[np.int64],
    graph: npt.NDArray[np.float32],
    final_graph: npt.NDArray[np.float32],
    *,
    labels: bool = True,
) -> Lattice:
    """Make a lattice of copies of the states and arcs of another, with new graph costs; nothing is checked.

    Args:
        source: Words, acoustic costs, alignments and times are copied from this lattice.
        state_map: Old state of each state, int32 [num_states].
        arc_map: Old arc of each arc, int64 [num_arcs].
        final_graph: New graph cost of each state, +inf = not final, also where the old one is.
        labels: Copy the alignments, too; otherwise the result has none.
    """
    is_final = np.isfinite(final_graph)
    ali_begin, ali = gather_labels(source.ali, source.ali_begin, arc_map, labels)
    final_ali_begin, final_ali = gather_labels(source.final_ali, source.final_ali_begin, state_map, labels & is_final)
    return source.replace(
        arc_begin=frozen(arc_begin),
        dst=frozen(dst),
        word=frozen(source.word[arc_map]),
        graph=frozen(graph),
        acoustic=frozen(source.acoustic[arc_map]),
        ali_begin=ali_begin,
        ali=ali,
        final_graph=frozen(final_graph),
        final_acoustic=frozen(np.where(is_final, source.final_acoustic[state_map], np.float32(np.inf))),
        final_ali_begin=final_ali_begin,
        final_ali=final_ali,
        time=None if source.time is None else frozen(source.time[state_map]),
    )
