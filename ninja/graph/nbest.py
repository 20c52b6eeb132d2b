"""The n best word sequences in a lattice, as paths or as an n-best list."""

from __future__ import annotations

from typing import overload

from ninja import _graph
from ninja.errors import check_count
from ninja.formats.nbest.lattices import nbest_lattice, nbest_lattices
from ninja.graph.path import Path
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import ListLattice, check_lattice, check_words
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import LexicalTable
from ninja.lattice.times import state_times

__all__ = ["lattice_nbest", "nbest", "nbest_lattice", "nbest_lattices"]


@overload
def nbest(lattices: Lattice, n: int, scales: Scales = Scales(), *, forms: LexicalTable | None = None) -> list[Path]: ...
@overload
def nbest(lattices: Batch, n: int, scales: Scales = Scales(), *, forms: LexicalTable | None = None) -> Batch: ...
def nbest(
    lattices: Lattice | Batch, n: int, scales: Scales = Scales(), *, forms: LexicalTable | None = None
) -> list[Path] | Batch:
    """Find the n best distinct word sequences, with the best path for each of them.

    The search is exact. It determinizes the lattice on the fly, so the lattice may contain epsilons and several paths
    with the same words. Sequences with equal costs are ordered by the states in which they end; if the lattice was
    created from an n-best list, this is the order of the hypotheses.

    Args:
        lattices: A lattice or a batch. In a batch, a lattice without a path is moved to `faults`.
        n: Maximum number of word sequences, at least 1.
        scales: Scales that define the total cost.
        forms: Lexical forms of the words. Among paths with the same lexical words, only the best one is kept, and a
            word penalty applies to each lexical word.  [default: words are compared unchanged]

    Returns:
        Paths with unscaled costs, in order of increasing total cost; fewer than n if the lattice has fewer sequences.
        For a batch, a batch of linear lattices with the paths of all lattices and the keys ``KEY-1``, ``KEY-2``, ….

    Raises:
        OptionError: ``n`` is below 1.
        LatticeError: A single lattice has no path from the start to a final state.

    Source: Lawler 1972, "A procedure for computing the K best solutions", for the partition of the search space;
    ext/graph/nbest.hpp describes the rest.
    """
    check_count("n", n, least=1)
    compared = None if forms is None else forms.numbers.lattices(lattices, labels=False).items
    return _graph.nbest(lattices, n, scales, compared)


def lattice_nbest(
    lattice: Lattice,
    n: int,
    scales: Scales = Scales(),
    *,
    words: SymbolTable | None = None,
    forms: LexicalTable | None = None,
) -> NBest:
    """Return the n best word sequences in a lattice as an n-best list, with the cost and time of each word.

    Costs and labels of arcs without a word are added to the next word, or to the sentence end.

    Args:
        lattice: Any lattice.
        n: Maximum number of word sequences, at least 1.
        scales: Scales that define the total cost.
        words: Symbol table.  [default: the table of the lattice; words are ids if it has none]
        forms: Lexical forms; see ``nbest``.

    Returns:
        Hypotheses with unscaled costs, and with times and labels if the lattice has them. If the lattice was read from
        an n-best list, the additional fields of that file are kept.

    Raises:
        OptionError: ``n`` is below 1.
        LatticeError: No path leads from the start to a final state, or an arc ends before it begins.
        SymbolError: A word is not in the table.
    """
    check_lattice(lattice)
    check_words(words)
    table = lattice.words if words is None else words
    times = None if lattice.time is None else state_times(lattice).tolist()
    hypotheses = tuple(_hypothesis(lattice, path, table, times) for path in nbest(lattice, n, scales, forms=forms))
    record = lattice.record if isinstance(lattice, ListLattice) else None
    return NBest(lattice.key, hypotheses, lattice.frame_shift, record)


def _hypothesis(lattice: Lattice, path: Path, words: SymbolTable | None, times: list[int] | None) -> Hypothesis:
    graph, acoustic, begin, end = [0.0], [0.0], [], []
    labels: list[list[int]] = [[]]
    state = 0
    for arc in path.arcs.tolist():
        graph[-1] += float(lattice.graph[arc])
        acoustic[-1] += float(lattice.acoustic[arc])
        labels[-1] += lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist()
        dst = int(lattice.dst[arc])
        if lattice.word[arc] != EPSILON:
            if times is not None:
                begin.append(times[state])
                end.append(times[dst])
            graph.append(0.0)
            acoustic.append(0.0)
            labels.append([])
        state = dst
    graph[-1] += float(lattice.final_graph[state])
    acoustic[-1] += float(lattice.final_acoustic[state])
    labels[-1] += lattice.final_ali[lattice.final_ali_begin[state] : lattice.final_ali_begin[state + 1]].tolist()
    return Hypothesis(
        tuple(words.spell(path.words)) if words is not None else tuple(path.words.tolist()),
        tuple(graph),
        tuple(acoustic),
        tuple(begin) if times is not None else None,
        tuple(end) if times is not None else None,
        tuple(map(tuple, labels)) if lattice.has_labels else None,
    )
