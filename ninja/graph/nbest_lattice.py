"""Conversion between n-best lists and lattices."""

from __future__ import annotations

from ninja.formats.nbest.lattices import nbest_lattice, nbest_lattices
from ninja.graph.nbest import nbest
from ninja.graph.path import Path
from ninja.lattice import Lattice, Scales
from ninja.lattice.list_lattice import ListLattice
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.times import state_times

__all__ = ["lattice_nbest", "nbest_lattice", "nbest_lattices"]


def lattice_nbest(lattice: Lattice, n: int, scales: Scales = Scales(), *, words: SymbolTable | None = None) -> NBest:
    """Return the n best word sequences of a lattice as a list, with the cost and the time of each word.

    What an arc without a word has goes to the word after it, or to the end. Words are those of the table given, else
    of the lattice's own; without any, they are ids.

    Returns:
        Hypotheses with unscaled costs; times where the lattice has them, labels where it has those. A lattice that was
        made of a list has the other fields of its file.

    Raises:
        OptionError: ``n`` is below 1.
        LatticeError: No path leads from the start to a final state, or an arc ends before it begins.
        SymbolError: A word is not in the table.
    """
    table = lattice.words if words is None else words
    times = None if lattice.time is None else state_times(lattice).tolist()
    hypotheses = tuple(_hypothesis(lattice, path, table, times) for path in nbest(lattice, n, scales))
    record = lattice.record if isinstance(lattice, ListLattice) else None
    return NBest(lattice.key, hypotheses, lattice.frame_shift, record)


def _hypothesis(lattice: Lattice, path: Path, words: SymbolTable | None, times: list[int] | None) -> Hypothesis:
    """Return the words of a path with their costs, times and labels."""
    graph, acoustic, begin, end = [0.0], [0.0], [], []
    labels: list[list[int]] = [[]]
    state = 0
    for arc in path.arcs.tolist():
        graph[-1] += float(lattice.graph[arc])
        acoustic[-1] += float(lattice.acoustic[arc])
        labels[-1] += lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist()
        there = int(lattice.dst[arc])
        if lattice.word[arc] != EPSILON:
            if times is not None:
                begin.append(times[state])
                end.append(times[there])
            graph.append(0.0)
            acoustic.append(0.0)
            labels.append([])
        state = there
    graph[-1] += float(lattice.final_graph[state])
    acoustic[-1] += float(lattice.final_acoustic[state])
    labels[-1] += lattice.final_ali[lattice.final_ali_begin[state] : lattice.final_ali_begin[state + 1]].tolist()
    aligned = lattice.has_labels
    return Hypothesis(
        tuple(words.spell(path.words)) if words is not None else tuple(path.words.tolist()),
        tuple(graph),
        tuple(acoustic),
        tuple(begin) if times is not None else None,
        tuple(end) if times is not None else None,
        tuple(map(tuple, labels)) if aligned else None,
    )
