"""Composition: the paths that two machines have in common, at both costs together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError, OptionError
from ninja.graph.connect import connect
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import frozen, gather_labels
from ninja.lattice.fst import Fst
from ninja.lattice.word_ids import check_one_table

MAX_ARCS = 10_000_000


def compose(
    lattice: Lattice, other: Lattice | Fst, phi_label: int | None = None, *, max_arcs: int = MAX_ARCS
) -> Lattice:
    """Keep the paths whose words the other machine accepts, and add its costs to them.

    With another lattice, words match words, both costs are added up, and alignments are the first lattice's. With an
    FST, words match its input labels, its output labels are the words of the result, and its costs are added to the
    graph costs. Each pair of matching paths gives one path.

    Args:
        other: Another lattice, or an FST, with cycles or without.
        phi_label: Input label, > 0, of the FST's failure arcs, which are taken where a state has no arc for a word and
            use none up: back-off arcs of a grammar. Without, they would be words like others.
        max_arcs: Refuse if more arcs arise.

    Returns:
        The connected composition, of the lattice's kind; a state stands for a state of each.

    Raises:
        LatticeError: No path is left, the bound is passed, the lattice passes a cycle of the FST's epsilons, or costs
            grow beyond what a float holds.
        OptionError: ``phi_label`` is below 1, or given with a lattice.

    Source: Kaldi, latbin/lattice-compose.cc; Mohri, Pereira and Riley 2002, "Weighted finite-state transducers in
    speech recognition".
    """
    if isinstance(other, Lattice):
        if phi_label is not None:
            raise OptionError("a lattice has no failure arcs; phi_label is for FSTs")
        return composed_pair(lattice, other, 1.0, 1.0, max_arcs)
    if phi_label is not None and phi_label < 1:
        raise OptionError(f"phi_label is {phi_label}, but must be above 0")
    found = _graph.compose_fst(lattice, other, -1 if phi_label is None else phi_label, max_arcs)
    if found is None:
        raise _too_large(lattice, max_arcs)
    if isinstance(found, int):
        raise LatticeError(
            f"state {found} of the FST {other.path or ''} lies on a cycle of arcs that take no word; remove epsilons",
            key=lattice.key,
        )
    arc_begin, dst, word, arc, cost, state, final_cost = found
    ends = np.isfinite(final_cost)
    moves = arc >= 0
    costs = {
        "graph": np.where(moves, _of(lattice.graph, arc), 0.0) + cost,
        "acoustic": np.where(moves, _of(lattice.acoustic, arc), 0.0),
        "final_graph": np.where(ends, lattice.final_graph[state] + final_cost, np.inf),
        "final_acoustic": np.where(ends, lattice.final_acoustic[state], np.inf),
    }
    return _composition(lattice, arc_begin, dst, word, arc, state, costs)


def interp(first: Lattice, second: Lattice, alpha: float = 0.5, *, max_arcs: int = MAX_ARCS) -> Lattice:
    """Keep the word sequences that two lattices of one utterance have in common, at costs between theirs.

    The factor of the first one's costs is ``alpha``, in [0, 1], the second's is one minus it; alignments are the
    first's.

    Raises:
        LatticeError: As for ``compose``.
        OptionError: ``alpha`` is out of its range.

    Source: Kaldi, latbin/lattice-interp.cc.
    """
    if not 0.0 <= alpha <= 1.0:
        raise OptionError(f"alpha is {alpha}, but must be from 0 to 1")
    return composed_pair(first, second, alpha, 1.0 - alpha, max_arcs)


def composed_pair(first: Lattice, second: Lattice, of_first: float, of_second: float, max_arcs: int) -> Lattice:
    """Compose two lattices over their words, both costs of each times a factor; see ``compose``."""
    check_one_table((first, second))
    found = _graph.compose_pair(first, second, max_arcs)
    if found is None:
        raise _too_large(first, max_arcs)
    arc_begin, dst, a, b, state_a, state_b = found
    ends = first.is_final[state_a] & second.is_final[state_b]

    def on_arcs(name: str) -> Array:
        x, y = _of(getattr(first, name), a), _of(getattr(second, name), b)
        return np.where(a >= 0, of_first * x, 0.0) + np.where(b >= 0, of_second * y, 0.0)

    def on_states(name: str) -> Array:
        x, y = getattr(first, name)[state_a], getattr(second, name)[state_b]
        total = of_first * np.where(ends, x, 0.0) + of_second * np.where(ends, y, 0.0)
        return np.where(ends, total, np.inf)

    word = np.zeros(a.size, np.int32)
    word[a >= 0] = first.word[a[a >= 0]]
    costs = {name: on_arcs(name) for name in ("graph", "acoustic")}
    costs |= {name: on_states(name) for name in ("final_graph", "final_acoustic")}
    return _composition(first, arc_begin, dst, word, a, state_a, costs)


def _composition(
    lattice: Lattice,
    arc_begin: npt.NDArray[np.int64],
    dst: npt.NDArray[np.int32],
    word: npt.NDArray[np.int32],
    arc: npt.NDArray[np.int64],  # of the lattice under each arc, -1: it stays in its state
    state: npt.NDArray[np.int32],  # of the lattice under each state
    costs: dict[str, Array],
) -> Lattice:
    """Make the connected lattice of a composition, whose alignments are those of the old arcs and states."""
    ends = np.isfinite(costs["final_graph"])
    ali_begin, ali = gather_labels(lattice.ali, lattice.ali_begin, arc, arc >= 0)
    final_ali_begin, final_ali = gather_labels(lattice.final_ali, lattice.final_ali_begin, state, ends)
    with np.errstate(over="ignore"):
        rounded = {name: frozen(cost, np.float32) for name, cost in costs.items()}
    if not all(np.isfinite(cost[ends] if "final" in name else cost).all() for name, cost in rounded.items()):
        raise LatticeError("composed costs grow beyond what a float holds", key=lattice.key)
    whole = lattice.replace(
        arc_begin=arc_begin,
        dst=dst,
        word=frozen(word),
        ali_begin=ali_begin,
        ali=ali,
        final_ali_begin=final_ali_begin,
        final_ali=final_ali,
        time=None if lattice.time is None else frozen(lattice.time[state]),
        **rounded,
    )
    try:
        return connect(whole)
    except LatticeError:
        raise LatticeError("no path is left: the two have no word sequence in common", key=lattice.key) from None


def _of(values: Array, arc: npt.NDArray[np.int64]) -> Array:
    """Return the costs of some arcs in float64, any cost where there is no arc (-1)."""
    return values[arc].astype(np.float64) if values.size else np.zeros(arc.size)


def _too_large(lattice: Lattice, max_arcs: int) -> LatticeError:
    return LatticeError(f"more than {max_arcs} arcs in the composition; prune the lattice first", key=lattice.key)
