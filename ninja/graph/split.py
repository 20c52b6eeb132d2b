"""Operations that split states: n-gram expansion, and selection of paths by their word sequence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError, check_count
from ninja.graph.compose import MAX_ARCS
from ninja.graph.connect import connect
from ninja.graph.path import no_path
from ninja.lattice import Lattice
from ninja.lattice.arrays import gather_labels
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import frozen
from ninja.lattice.word_ids import ids_of

Words = Sequence[int] | npt.NDArray[np.int32]
OneOrMany = TypeVar("OneOrMany", Lattice, Batch, Lattice | Batch)


def expand_ngram(lattice: Lattice, n: int = 3, *, max_arcs: int = MAX_ARCS) -> Lattice:
    """Split states so that all paths to a state have the same last n - 1 words; the set of paths does not change.

    Epsilons do not count as words. Unreachable states are removed.

    Args:
        lattice: Any lattice.
        n: N-gram order, at least 1.
        max_arcs: Maximum number of arcs in the result.

    Raises:
        LatticeError: The result has more than ``max_arcs`` arcs, or no path leads from the start to a final state.
        OptionError: ``n`` is below 1.

    Source: Kaldi, latbin/lattice-expand-ngram.cc.
    """
    check_count("n", n, least=1, most=2**31 - 1)
    check_count("max_arcs", max_arcs, least=0)
    state, arc_begin, dst, arc, _ = _graph.expand_ngram(lattice, n - 1, max_arcs)
    if not lattice.is_final[state].any():
        raise no_path(lattice.key)
    return copied_lattice(lattice, state, arc_begin, dst, arc, lattice.graph[arc], lattice.final_graph[state])


def difference(lattice: Lattice, transcript: Words, *, max_arcs: int = MAX_ARCS) -> Lattice:
    """Remove the paths whose words equal the transcript; all other paths keep their costs and alignments.

    In discriminative training, the remaining paths are the competitors of the reference.

    Args:
        lattice: Any lattice.
        transcript: Word ids. A transcript with an id that no arc has, such as -1, matches no path.
        max_arcs: Maximum number of arcs in the result.

    Returns:
        A connected lattice, in which states that the transcript passes through are duplicated.

    Raises:
        LatticeError: No path remains, or the result has more than ``max_arcs`` arcs.
        OptionError: The transcript is not a sequence of integers.

    Source: Kaldi, latbin/lattice-difference.cc.
    """
    return _matching(lattice, lattice, transcript, max_arcs, keep=False)


def paths_of(lattice: Lattice, words: Words, wildcards: Collection[int] = ()) -> Lattice:
    """Keep only the paths with the given word sequence, such as ``Oracle.words``.

    Args:
        lattice: Any lattice.
        words: Word ids of the sequence.
        wildcards: Word ids that may occur anywhere on the paths.

    Returns:
        A lattice in which each state has one copy for each possible number of preceding words.

    Raises:
        LatticeError: No path has these words.
        OptionError: ``words`` is not a sequence of integers.

    Source: Kaldi, latbin/lattice-oracle.cc, ``--write-lattices``, which does not support wildcards.
    """
    return _matching(lattice, without_words(lattice, wildcards), words, np.iinfo(np.int64).max, keep=True)


def _matching(lattice: Lattice, compared: Lattice, transcript: Words, max_arcs: int, *, keep: bool) -> Lattice:
    """Select the paths whose words equal the transcript or, if ``keep`` is False, all other paths.

    Args:
        lattice: The lattice from which paths are selected.
        compared: The same lattice, with the words that are compared with the transcript.
        transcript: Word ids.
        max_arcs: Maximum number of arcs in the result.
        keep: Whether to keep the paths that match the transcript, or the paths that do not.

    Raises:
        LatticeError: No path remains, or the result has more than ``max_arcs`` arcs.
    """
    words = ids_of(transcript, "transcript")
    check_count("max_arcs", max_arcs, least=0)
    state, arc_begin, dst, arc, num_matched = _graph.follow_transcript(compared, words, max_arcs)
    is_kept = (num_matched == words.size) == keep
    final_graph = np.where(is_kept, lattice.final_graph[state], np.float32(np.inf))
    try:
        return connect(copied_lattice(lattice, state, arc_begin, dst, arc, lattice.graph[arc], final_graph))
    except LatticeError:
        message = "no path has these words" if keep else "no path remains: all paths have the words of the transcript"
        raise LatticeError(message, key=lattice.key) from None


def without_words(lattices: OneOrMany, words: Collection[int]) -> OneOrMany:
    """Replace the given words with epsilons."""
    ids = list(words)

    def remove(lattice: Lattice) -> Lattice:
        is_removed = np.isin(lattice.word, ids)
        return lattice.replace(word=frozen(np.where(is_removed, np.int32(0), lattice.word)))

    if not ids:
        return lattices
    return lattices.map(remove) if isinstance(lattices, Batch) else remove(lattices)


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
    """Create a lattice from copies of states and arcs in another lattice, with new graph costs; nothing is checked.

    Args:
        source: Lattice from which words, acoustic costs, alignments and times are copied.
        state_map: Original state for each new state, int32 [num_states].
        arc_begin: Offsets of the arcs of each new state, int64 [num_states + 1].
        dst: Destination of each new arc, int32 [num_arcs].
        arc_map: Original arc for each new arc, int64 [num_arcs].
        graph: Graph cost of each new arc, float32 [num_arcs].
        final_graph: Final graph cost of each new state, float32 [num_states]; +inf makes a state non-final.
        labels: Copy the alignments; otherwise the result has none.
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
