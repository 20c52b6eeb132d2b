"""Lattices made of copies of another lattice's states and arcs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen, gather_labels


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
    """Make a lattice whose states and arcs are copies of others, with graph costs of their own.

    Words, acoustic costs, alignments and times come from what was copied. Nothing is checked.

    Args:
        source: The lattice copied from.
        state_map: State of it that each state is a copy of, int32 [num_states].
        arc_begin: Arcs of state s are ``arc_begin[s] : arc_begin[s + 1]``, int64 [num_states + 1].
        dst: State each arc enters, above the one it leaves, int32 [num_arcs].
        arc_map: Arc of the source that each arc is a copy of, int64 [num_arcs].
        graph: Graph cost of each arc, float32 [num_arcs].
        final_graph: Graph cost of each final state, float32 [num_states], +inf = not final, also where the source is.
        labels: Copy the alignments, too; without, they are left empty.
    """
    is_final = np.isfinite(final_graph)
    ali_begin, ali = gather_labels(source.ali, source.ali_begin, arc_map, labels)
    final_ali_begin, final_ali = gather_labels(source.final_ali, source.final_ali_begin, state_map, labels & is_final)
    return Lattice(
        source.key,
        frozen(arc_begin),
        frozen(dst),
        frozen(source.word[arc_map]),
        frozen(graph),
        frozen(source.acoustic[arc_map]),
        ali_begin,
        ali,
        frozen(final_graph),
        frozen(np.where(is_final, source.final_acoustic[state_map], np.float32(np.inf))),
        final_ali_begin,
        final_ali,
        source.kind,
        None if source.time is None else frozen(source.time[state_map]),
        source.frame_shift,
        source.words,
    )
