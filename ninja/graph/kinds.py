"""Conversion between raw lattices (at most one label per arc) and compact lattices, and projection."""

from __future__ import annotations

import numpy as np

from ninja.errors import LatticeError
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import gather, offsets, owners
from ninja.lattice.batch import Batch, Lattices
from ninja.lattice.lattice import check_lattice, frozen


def to_raw(lattice: Lattice) -> Lattice:
    """Replace each labelled arc or final state with a chain of arcs, each of which has one label.

    The first arc of a chain has the word and the costs. New states are numbered directly after the state in which
    their chain begins. Labels of non-final states are dropped. A lattice that is already raw is returned unchanged.

    Source: Kaldi, fstext/lattice-utils-inl.h, ConvertLattice.
    """
    check_lattice(lattice)
    length, final_length = np.diff(lattice.ali_begin), np.diff(lattice.final_ali_begin) * lattice.is_final
    if lattice.kind == "raw" and length.max(initial=0) < 2 and not final_length.any():
        return lattice
    src, num_states, num_arcs = lattice.src, lattice.num_states, lattice.num_arcs
    between = np.maximum(length - 1, 0)  # number of new states in the chain of each arc
    before = offsets(between)
    of_state = before[lattice.arc_begin[1:]] - before[lattice.arc_begin[:-1]]
    place = np.arange(num_states) + offsets(of_state + final_length)[:-1]
    chain = place[src] + 1 + before[:-1] - before[lattice.arc_begin[src]]
    ending = place + 1 + of_state  # first new state in the chain of each final state

    # The following arrays list all arcs, then all final states with labels; each of these becomes one or more pieces.
    ends = np.flatnonzero(final_length)
    pieces = np.concatenate((np.maximum(length, 1), final_length[ends]))
    begin = offsets(pieces)
    owner = owners(begin)
    nth = np.arange(owner.size) - begin[owner]
    is_first, is_last = nth == 0, nth == pieces[owner] - 1
    source, inner = np.concatenate((place[src], place[ends])), np.concatenate((chain, ending[ends]))
    target = np.concatenate((place[lattice.dst], ending[ends] + final_length[ends] - 1))
    leaves = np.where(is_first, source[owner], inner[owner] + nth - 1)
    enters = np.where(is_last, target[owner], inner[owner] + nth)

    pool = np.concatenate((lattice.ali, lattice.final_ali))
    label_at = np.concatenate((lattice.ali_begin[:-1], lattice.ali_begin[-1] + lattice.final_ali_begin[ends]))
    has_label = np.concatenate((length, final_length[ends]))[owner] > 0
    order = np.argsort(leaves, kind="stable")
    total = int(num_states + of_state.sum() + final_length.sum())

    def spread(of_arc: Array, of_end: Array) -> Array:
        return np.where(is_first, np.concatenate((of_arc, of_end))[owner], 0)[order].astype(of_arc.dtype)

    final_graph, final_acoustic = np.full((2, total), np.inf, np.float32)
    plain = np.flatnonzero(lattice.is_final & (final_length == 0))
    final_graph[place[plain]], final_acoustic[place[plain]] = lattice.final_graph[plain], lattice.final_acoustic[plain]
    final_graph[target[num_arcs:]] = final_acoustic[target[num_arcs:]] = 0.0
    return lattice.replace(
        kind="raw",
        arc_begin=frozen(np.searchsorted(leaves[order], np.arange(total + 1))),
        dst=frozen(enters[order].astype(np.int32)),
        word=frozen(spread(lattice.word, np.zeros(ends.size, np.int32))),
        graph=frozen(spread(lattice.graph, lattice.final_graph[ends])),
        acoustic=frozen(spread(lattice.acoustic, lattice.final_acoustic[ends])),
        ali_begin=offsets(has_label[order]),
        ali=frozen(pool[(label_at[owner] + nth)[order][has_label[order]]]),
        final_graph=frozen(final_graph),
        final_acoustic=frozen(final_acoustic),
        final_ali_begin=frozen(np.zeros(total + 1, np.int64)),
        final_ali=frozen(np.zeros(0, np.int32)),
        time=lattice.time if total == num_states else None,
    )


def to_compact(lattices: Lattices) -> Lattices:
    """Merge each chain of arcs into one arc with all its labels; only the first arc of a chain can have a word.

    Costs are summed in float64; nothing is determinized. A lattice that is already compact is returned unchanged.

    Source: Kaldi, fstext/factor-inl.h, Factor; fstext/lattice-utils-inl.h, ConvertLattice.
    """
    if isinstance(lattices, Batch):
        return lattices if lattices.is_compact else lattices.map(_compact)
    check_lattice(lattices)
    return _compact(lattices)


def _compact(lattice: Lattice) -> Lattice:
    if lattice.kind == "compact" or not lattice.num_arcs:
        return lattice.replace(kind="compact") if lattice.kind == "raw" else lattice
    src, num_states = lattice.src, lattice.num_states
    num_in, num_out = np.bincount(lattice.dst, minlength=num_states), np.diff(lattice.arc_begin)
    inside = (num_in == 1) & (num_out == 1) & ~lattice.is_final
    inside[src[lattice.word != 0]] = False
    entry = np.zeros(num_states, np.int64)
    entry[lattice.dst] = np.arange(lattice.num_arcs)  # for inner states, the only arc that enters
    first = np.where(inside[src], entry[src], np.arange(lattice.num_arcs))
    while not np.array_equal(first, first[first]):  # pointer jumping: each iteration doubles the distance
        first = first[first]
    # The arcs of a chain are in the order of their states, which a stable sort preserves.
    order = np.argsort(first, kind="stable")
    begin = np.flatnonzero(np.diff(first[order], prepend=-1))
    head, tail = order[begin], order[np.append(begin[1:], order.size) - 1]
    state = np.flatnonzero(~inside)
    place = np.cumsum(~inside) - 1
    length = np.diff(lattice.ali_begin)[order]

    def joined(cost: Array) -> Array:
        return np.add.reduceat(cost[order].astype(np.float64), begin).astype(np.float32)

    return lattice.replace(
        kind="compact",
        arc_begin=frozen(np.searchsorted(place[src[head]], np.arange(state.size + 1))),
        dst=frozen(place[lattice.dst[tail]].astype(np.int32)),
        word=frozen(lattice.word[head]),
        graph=frozen(joined(lattice.graph)),
        acoustic=frozen(joined(lattice.acoustic)),
        ali_begin=frozen(offsets(length)[np.append(begin, length.size)]),
        ali=gather(lattice.ali, lattice.ali_begin[order], length)[1],
        final_graph=frozen(lattice.final_graph[state]),
        final_acoustic=frozen(lattice.final_acoustic[state]),
        final_ali_begin=offsets(np.diff(lattice.final_ali_begin)[state]),
        time=None if lattice.time is None else frozen(lattice.time[state]),
    )


def remove_alignments(lattice: Lattice) -> Lattice:
    """Remove the alignments (transition ids) from arcs and final states.

    Words, costs and the attribute ``time`` are unchanged. Times can no longer be derived from the alignments.

    Source: Kaldi, fstext/lattice-utils-inl.h, RemoveAlignmentsFromCompactLattice.
    """
    check_lattice(lattice)
    return lattice.replace(
        ali_begin=frozen(np.zeros(lattice.num_arcs + 1, np.int64)),
        ali=frozen(np.zeros(0, np.int32)),
        final_ali_begin=frozen(np.zeros(lattice.num_states + 1, np.int64)),
        final_ali=frozen(np.zeros(0, np.int32)),
    )


def project(lattice: Lattice, *, project_output: bool = True) -> Lattice:
    """Replace the labels of all arcs with their words, or the words with the labels.

    Args:
        lattice: Any lattice.
        project_output: Replace the labels with the words; otherwise replace the words with the labels.

    Returns:
        A lattice of kind "raw", in which the word and the label of each arc are equal, or both are missing.

    Raises:
        LatticeError: A label is negative and cannot become a word.

    Source: Kaldi, latbin/lattice-project.cc.
    """
    if project_output:
        bare = remove_alignments(to_compact(lattice))
        is_word = bare.word != 0
        return bare.replace(kind="raw", ali_begin=offsets(is_word), ali=frozen(bare.word[is_word]))
    raw = to_raw(lattice)
    if raw.ali.min(initial=0) < 0:
        raise LatticeError(f"the label {raw.ali.min()} is negative and cannot become a word id", key=lattice.key)
    word = np.zeros(raw.num_arcs, np.int32)
    word[np.diff(raw.ali_begin) > 0] = raw.ali
    return raw.replace(word=frozen(word), words=None)
