"""Lattices of lexical words (see `ninja.lattice.text`), and the mapping from their arcs to written words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice
from ninja.lattice.arrays import gather, offsets
from ninja.lattice.lattice import as_list_of, check_lattice, frozen
from ninja.lattice.text import LexicalTable


@dataclass(frozen=True, slots=True, eq=False)
class LexicalLattice:
    """A lattice of lexical words, and its correspondence to the written lattice from which it was created.

    Each arc of the lexical lattice maps to an arc of the written lattice, and each state of the written lattice maps to
    a state of the lexical lattice.
    """

    lattice: Lattice
    source_arc: npt.NDArray[np.int64]  # [num_arcs], written arc from which each arc was created
    is_first: npt.NDArray[np.bool_]  # [num_arcs], False for the second and later words of a form
    state: npt.NDArray[np.int64]  # state of this lattice for each state of the written lattice

    def written_arcs(self, arcs: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Map the arcs of a path to the arcs of the written lattice; a chain of arcs for one word yields one arc."""
        written: npt.NDArray[np.int64] = self.source_arc[arcs[self.is_first[arcs]]]
        return written


def lexical_lattice(lattice: Lattice, table: LexicalTable) -> LexicalLattice:
    """Replace the words in a lattice with their lexical forms.

    A word without lexical words becomes an epsilon, and a word with several lexical words becomes a chain of arcs. The
    first arc of a chain has the costs; the labels and the duration of the word are divided evenly among all its arcs.

    Raises:
        SymbolError: A word id is not in the symbol table.
    """
    check_lattice(lattice)
    length, first = table.columns(lattice)
    arc = np.arange(lattice.num_arcs)
    if lattice.num_arcs == 0 or int(length.max()) <= 1:
        word = frozen(first)
        lexical = lattice.replace(word=word, words=table.lexical)
        return LexicalLattice(lexical, arc, np.ones(len(arc), np.bool_), np.arange(lattice.num_states))
    count = np.maximum(length, 1).astype(np.int64)  # number of arcs for each written arc
    source_arc = np.repeat(arc, count)
    begin = offsets(count)
    piece = np.arange(len(source_arc)) - begin[source_arc]
    word = first[source_arc]
    for several in np.flatnonzero(length > 1).tolist():
        word[begin[several] : begin[several + 1]] = table.form(int(lattice.word[several]))
    src = lattice.src
    # The states of a chain follow the state where it begins, in the order of the arcs.
    extra = np.bincount(src, weights=count - 1, minlength=lattice.num_states).astype(np.int64)
    state = np.arange(lattice.num_states) + offsets(extra)[:-1]  # new number of each state
    num_states = lattice.num_states + int(extra.sum())
    chain = state[src] + 1 + (offsets(count - 1)[:-1] - offsets(extra)[:-1][src])  # first chain state of each arc
    is_first = piece == 0
    is_last = piece == count[source_arc] - 1
    new_src = np.where(is_first, state[src][source_arc], chain[source_arc] + piece - 1)
    new_dst = np.where(is_last, state[lattice.dst][source_arc], chain[source_arc] + piece)
    order = np.argsort(new_src, kind="stable")
    num_labels = np.diff(lattice.ali_begin)
    label_begin = lattice.ali_begin[source_arc] + num_labels[source_arc] * piece // count[source_arc]
    label_end = lattice.ali_begin[source_arc] + num_labels[source_arc] * (piece + 1) // count[source_arc]
    ali_begin, ali = gather(lattice.ali, label_begin[order], (label_end - label_begin)[order])
    graph, acoustic = (
        np.where(is_first, cost[source_arc], np.float32(0))[order] for cost in (lattice.graph, lattice.acoustic)
    )
    final_graph, final_acoustic = (np.full(num_states, np.inf, np.float32) for _ in range(2))
    final_graph[state], final_acoustic[state] = lattice.final_graph, lattice.final_acoustic
    num_final_labels = np.zeros(num_states, np.int64)
    num_final_labels[state] = np.diff(lattice.final_ali_begin)
    time = lattice.time
    if time is not None:
        inner = ~is_last
        step = (time[lattice.dst] - time[src])[source_arc].astype(np.int64) * (piece + 1) // count[source_arc]
        times = np.zeros(num_states, np.int32)
        times[state] = time
        times[new_dst[inner]] = (time[src][source_arc] + step)[inner]
        time = frozen(times)
    lexical = lattice.replace(
        arc_begin=frozen(offsets(np.bincount(new_src, minlength=num_states))),
        dst=frozen(new_dst[order].astype(np.int32)),
        word=frozen(word[order]),
        graph=frozen(graph),
        acoustic=frozen(acoustic),
        ali_begin=ali_begin,
        ali=ali,
        final_graph=frozen(final_graph),
        final_acoustic=frozen(final_acoustic),
        final_ali_begin=frozen(offsets(num_final_labels)),
        time=time,
        words=table.lexical,
    )
    return LexicalLattice(as_list_of(lattice, lexical), source_arc[order], is_first[order], state)
