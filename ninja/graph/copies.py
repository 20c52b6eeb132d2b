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
    """Make a lattice whose states and arcs are copies of others, with graph costs of their own; nothing is checked.

    Args:
        source: The lattice copied from; words, acoustic costs, alignments and times come from there.
        arc_begin: As in a lattice.
        dst: As in a lattice.
        final_graph: New graph cost of each state, +inf = not final, also where the old one is.
        labels: Copy the alignments, too; without, they are left empty.
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
