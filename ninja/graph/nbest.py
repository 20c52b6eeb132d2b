"""The n best word sequences of a lattice, as paths and as an n-best list."""

from __future__ import annotations

from dataclasses import replace
from typing import overload

from ninja import _graph
from ninja.errors import NinjaError, check_range
from ninja.formats.nbest.lattices import nbest_lattice, nbest_lattices
from ninja.graph.best_path import path_lattice
from ninja.graph.lexical import lexical_lattice
from ninja.graph.path import Path
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import frozen
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import ListLattice
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
    """Find the n best different word sequences, exactly, with the best path of each.

    The search determinizes the lattice as far as it looks, so epsilons and several paths with the same words are
    allowed. The order of sequences of equal cost is not defined.

    Args:
        lattices: A lattice or a batch; lattices of a batch without a path become its faults.
        n: At least 1.
        scales: Scales of the comparison.
        forms: Lexical forms of the words: of the paths with the same lexical words, only the best is kept. A word
            penalty then counts lexical words.  [default: words are compared as they are]

    Returns:
        Paths with unscaled costs, in order of increasing total cost; fewer than n if the lattice has fewer sequences.
        For a batch, the paths of all lattices as lattices with the keys ``KEY-1``, ``KEY-2``, ….

    Raises:
        OptionError: ``n`` is below 1.
        LatticeError: No path leads from the start to a final state.

    Source: Lawler 1972, "A procedure for computing the K best solutions", for the partition of the search space;
    ext/graph/nbest.hpp describes the rest.
    """
    check_range("n", n, least=1)
    if forms is None or not (changed := set(forms.changed(lattices))):
        return _graph.nbest(lattices, n, scales)
    if isinstance(lattices, Lattice):
        return _lexical_nbest(lattices, n, scales, forms)
    paths: list[tuple[str, Lattice | NinjaError]] = []
    place = 0
    for key, lattice in lattices.entries():
        try:
            if isinstance(lattice, NinjaError):
                raise lattice
            is_changed, place = place in changed, place + 1
            several = _lexical_nbest(lattice, n, scales, forms) if is_changed else nbest(lattice, n, scales)
            paths += [(f"{key}-{rank}", path_lattice(lattice, path)) for rank, path in enumerate(several, start=1)]
        except NinjaError as error:
            paths.append((key, error))
    return Batch.of_entries(paths, size=lattices.size, position=lattices.position)


def _lexical_nbest(lattice: Lattice, n: int, scales: Scales, forms: LexicalTable) -> list[Path]:
    """Return the paths of a lattice that are best for their lexical words."""
    lexical = lexical_lattice(lattice, forms)
    paths = []
    for path in nbest(lexical.lattice, n, scales):
        arcs = lexical.written_arcs(path.arcs)
        word = lattice.word[arcs]
        paths.append(replace(path, arcs=frozen(arcs), words=frozen(word[word != EPSILON])))
    return paths


def lattice_nbest(
    lattice: Lattice,
    n: int,
    scales: Scales = Scales(),
    *,
    words: SymbolTable | None = None,
    forms: LexicalTable | None = None,
) -> NBest:
    """Return the n best word sequences of a lattice as a list, with the cost and the time of each word.

    Costs and labels of arcs without a word are added to the next word, or to the end.

    Args:
        words: Symbol table; by default that of the lattice. Without any, words are ids.
        forms: Lexical forms, as for ``nbest``.

    Returns:
        Hypotheses with unscaled costs, and with times and labels where the lattice has them. A lattice that was made
        of an n-best list keeps the other fields of its file.

    Raises:
        OptionError: ``n`` is below 1.
        LatticeError: No path leads from the start to a final state, or an arc ends before it begins.
        SymbolError: A word is not in the table.
    """
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
