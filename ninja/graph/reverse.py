"""Reversal of lattices, for backward language models."""

from __future__ import annotations

import numpy as np

from ninja.errors import LatticeError
from ninja.graph.connect import connect
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import offsets
from ninja.lattice.lattice import frozen


def reverse(lattice: Lattice) -> Lattice:
    """Reverse the words and alignments of every path; the costs of paths do not change.

    A single final state becomes the start, and its costs move to the new final state. If there are several final
    states, or the only final state has an alignment, a new start is added. Epsilon arcs lead from it to the old final
    states, with the costs and alignments of these states. If the result is reversed again, these arcs are converted
    back to final costs and alignments. Reversing a lattice without epsilons twice therefore restores the lattice,
    except for the order of arcs.

    Returns:
        The connected reversed lattice, of the same kind; times are counted from the end.

    Raises:
        LatticeError: No path leads from the start to a final state, or a sum of costs exceeds the range of float32.
    """
    lattice = connect(lattice)
    ends = np.flatnonzero(lattice.is_final)
    # In each of these arrays, the values of all arcs are followed by the values of all final states.
    pool = np.concatenate((lattice.ali, lattice.final_ali))
    label_begin = np.concatenate((lattice.ali_begin[:-1], lattice.ali_begin[-1] + lattice.final_ali_begin[:-1]))
    label_end = np.concatenate((lattice.ali_begin[1:], lattice.ali_begin[-1] + lattice.final_ali_begin[1:]))
    graph = np.concatenate((lattice.graph, lattice.final_graph))
    acoustic = np.concatenate((lattice.acoustic, lattice.final_acoustic))
    of_final = lattice.num_arcs + ends

    src, dst = lattice.src, lattice.dst
    initial = _num_initial(lattice, label_end - label_begin)
    first = 1 if initial else 0  # the old start is removed if its arcs become final states
    direct = ends.size == 1 and label_begin[of_final[0]] == label_end[of_final[0]]
    last = lattice.num_states - 1 if direct else lattice.num_states  # this old state becomes state 0
    inner = np.arange(lattice.num_arcs - 1, initial - 1, -1)  # the arcs of state 0 come first
    inner = inner[np.argsort(last - dst[inner], kind="stable")]
    entry = np.empty(0, np.int64) if direct else of_final[::-1]
    arc = np.concatenate((entry, inner))
    new_src = np.concatenate((np.zeros(entry.size, np.int64), last - dst[inner]))
    new_dst = np.concatenate((last - (entry - lattice.num_arcs), last - src[inner]))
    num_states = last - first + 1

    final_graph = np.full(num_states, np.inf, np.float32)
    final_acoustic = np.full(num_states, np.inf, np.float32)
    final_label = np.zeros((2, num_states), np.int64)  # start and end of the labels in the pool
    stop = last - dst[:initial] if initial else np.array([last])
    final_graph[stop] = graph[:initial] if initial else 0.0
    final_acoustic[stop] = acoustic[:initial] if initial else 0.0
    if initial:
        final_label[:, stop] = label_begin[:initial], label_end[:initial]
    if direct:
        final_graph += graph[of_final[0]]
        final_acoustic += acoustic[of_final[0]]
        if not np.isfinite([final_graph[stop], final_acoustic[stop]]).all():
            message = "a sum of costs exceeds the range of float32; scale the costs down first"
            raise LatticeError(message, key=lattice.key)

    ali_begin, ali = _reversed_labels(pool, label_begin[arc], label_end[arc])
    final_ali_begin, final_ali = _reversed_labels(pool, *final_label)
    time = None
    if lattice.time is not None:
        old = np.append(lattice.time, lattice.time.max())[last - np.arange(num_states)]
        time = frozen(lattice.time.max() - old)
    return lattice.replace(
        arc_begin=frozen(np.searchsorted(new_src, np.arange(num_states + 1))),
        dst=frozen(new_dst.astype(np.int32)),
        word=frozen(np.concatenate((np.zeros(entry.size, np.int32), lattice.word[inner]))),
        graph=frozen(graph[arc]),
        acoustic=frozen(acoustic[arc]),
        ali_begin=ali_begin,
        ali=ali,
        final_graph=frozen(final_graph),
        final_acoustic=frozen(final_acoustic),
        final_ali_begin=final_ali_begin,
        final_ali=final_ali,
        time=time,
    )


def _num_initial(lattice: Lattice, num_labels: Array) -> int:
    """Return the number of arcs that leave the start, or 0 if they cannot all be converted to final costs.

    The arcs can be converted if the start is not final, no arc has a word, all arcs lead to different states and, in a
    lattice of kind "raw", no arc has a label.
    """
    count = int(lattice.arc_begin[1])
    if lattice.is_final[0] or lattice.word[:count].any() or np.unique(lattice.dst[:count]).size < count:
        return 0
    if lattice.kind == "raw" and num_labels[:count].any():  # final states of a raw lattice cannot have labels
        return 0
    return count


def _reversed_labels(pool: Array, begin: Array, end: Array) -> tuple[Array, Array]:
    """Copy ranges of a label array, reversing the order of the labels within each range.

    Args:
        pool: The label array.
        begin: Index of the first label of each range.
        end: Index of the last label of each range, plus 1.

    Returns:
        ``(offsets of the ranges in the new labels, new labels)``.
    """
    length = end - begin
    new_begin = offsets(length)
    within = np.arange(new_begin[-1]) - np.repeat(new_begin[:-1], length)
    return new_begin, frozen(pool[np.repeat(end, length) - 1 - within])
