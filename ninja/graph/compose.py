"""Composition of a lattice with another lattice or an FST."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError, OptionError, check_count
from ninja.graph.connect import connect
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import gather_labels
from ninja.lattice.fst import Fst
from ninja.lattice.lattice import frozen
from ninja.lattice.word_ids import check_one_table

MAX_ARCS = 10_000_000


def compose(
    lattice: Lattice, other: Lattice | Fst, phi_label: int | None = None, *, max_arcs: int = MAX_ARCS
) -> Lattice:
    """Compose a lattice with another lattice or an FST.

    If `other` is a lattice, words are matched with words, graph and acoustic costs are added separately, and the
    alignments of the first lattice are kept. If `other` is an FST, words are matched with its input labels and replaced
    by its output labels, and its costs are added to the graph costs. Each pair of matching paths becomes a path in the
    result.

    Args:
        lattice: The first operand.
        other: A lattice, or an FST (cyclic FSTs are allowed).
        phi_label: Input label, > 0, of failure arcs in the FST, such as the back-off arcs of a grammar. If a state has
            no arc for a word, its failure arc is followed without consuming the word.  [default: no failure arcs]
        max_arcs: Maximum number of arcs in the composition.

    Returns:
        The connected composition, of the same kind as `lattice`.

    Raises:
        LatticeError: No path remains, the composition has more than ``max_arcs`` arcs, the FST has a cycle of
            epsilons, or costs exceed the range of float32.
        OptionError: ``phi_label`` is below 1, or it is set and `other` is a lattice.

    Source: Kaldi, latbin/lattice-compose.cc; Mohri, Pereira and Riley 2002, "Weighted finite-state transducers in
    speech recognition".
    """
    if isinstance(other, Lattice):
        if phi_label is not None:
            raise OptionError("phi_label is only valid for FSTs; a lattice has no failure arcs")
        return compose_scaled(lattice, other, 1.0, 1.0, max_arcs)
    if phi_label is not None:
        check_count("phi_label", phi_label, least=1, most=2**31 - 1)
    check_count("max_arcs", max_arcs, least=0)
    machine = other.sorted_by_input()
    composition = _graph.compose(lattice, machine, -1 if phi_label is None else phi_label, max_arcs)
    if isinstance(composition, int):
        name = f"the FST {other.path}" if other.path else "the FST"
        message = f"state {composition} of {name} lies on a cycle of input epsilons; remove the epsilons"
        raise LatticeError(message, key=lattice.key)
    arc_begin, dst, word, arc, _, cost, state, _, final_cost = composition
    is_final = np.isfinite(final_cost)
    costs = {
        "graph": _costs_of(lattice.graph, arc) + cost,
        "acoustic": _costs_of(lattice.acoustic, arc),
        "final_graph": np.where(is_final, lattice.final_graph[state] + final_cost, np.inf),
        "final_acoustic": np.where(is_final, lattice.final_acoustic[state], np.inf),
    }
    return _composition(lattice, arc_begin, dst, word, arc, state, costs)


def interp(first: Lattice, second: Lattice, alpha: float = 0.5, *, max_arcs: int = MAX_ARCS) -> Lattice:
    """Interpolate the costs of two lattices for the same utterance; only word sequences in both lattices are kept.

    Args:
        first: The first lattice; its costs are multiplied by ``alpha``, and its alignments are kept.
        second: The second lattice; its costs are multiplied by ``1 - alpha``.
        alpha: Weight of the first lattice, in [0, 1].
        max_arcs: Maximum number of arcs in the result.

    Raises:
        LatticeError: See ``compose``.
        OptionError: ``alpha`` is out of range.

    Source: Kaldi, latbin/lattice-interp.cc.
    """
    if not 0.0 <= alpha <= 1.0:
        raise OptionError(f"alpha is {alpha}, but must be from 0 to 1")
    return compose_scaled(first, second, alpha, 1.0 - alpha, max_arcs)


def compose_scaled(first: Lattice, second: Lattice, alpha: float, beta: float, max_arcs: int) -> Lattice:
    """Compose two lattices; `alpha` multiplies the costs of the first, and `beta` the costs of the second."""
    check_one_table((first, second))
    check_count("max_arcs", max_arcs, least=0)
    order = _graph.arcs_by_word(second)
    word = second.word[order]
    is_first_final, is_second_final = first.is_final, second.is_final
    final_cost = np.where(is_second_final, 0.0, np.inf)
    machine = Fst(second.arc_begin, second.dst[order], word, word, np.zeros(word.size), final_cost)
    composition = _graph.compose(first, machine, -1, max_arcs)
    assert not isinstance(composition, int)  # a lattice has no cycles
    arc_begin, dst, word, a, b, _, state_a, state_b, _ = composition
    b = np.append(order, -1)[b]
    is_final = is_first_final[state_a] & is_second_final[state_b]
    final_a, final_b = state_a[is_final], state_b[is_final]
    costs = {}
    for name in ("graph", "acoustic"):
        costs[name] = alpha * _costs_of(getattr(first, name), a) + beta * _costs_of(getattr(second, name), b)
        x, y = getattr(first, f"final_{name}")[final_a], getattr(second, f"final_{name}")[final_b]
        costs[f"final_{name}"] = np.full(is_final.size, np.inf)
        costs[f"final_{name}"][is_final] = alpha * x + beta * y
    return _composition(first, arc_begin, dst, word, a, state_a, costs)


def _composition(
    lattice: Lattice,
    arc_begin: npt.NDArray[np.int64],
    dst: npt.NDArray[np.int32],
    word: npt.NDArray[np.int32],
    arc: npt.NDArray[np.int64],  # for each composed arc, its arc in `lattice`, or -1 if there is none
    state: npt.NDArray[np.int32],  # for each composed state, its state in `lattice`
    costs: dict[str, Array],
) -> Lattice:
    """Create the connected lattice for a composition, with the alignments of ``lattice``."""
    is_final = np.isfinite(costs["final_graph"])
    ali_begin, ali = gather_labels(lattice.ali, lattice.ali_begin, arc, arc >= 0)
    final_ali_begin, final_ali = gather_labels(lattice.final_ali, lattice.final_ali_begin, state, is_final)
    with np.errstate(over="ignore"):
        rounded = {name: frozen(cost, np.float32) for name, cost in costs.items()}
    if not all(np.isfinite(cost[is_final] if "final" in name else cost).all() for name, cost in rounded.items()):
        raise LatticeError("composed costs exceed the range of float32; scale the costs down first", key=lattice.key)
    composition = lattice.replace(
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
        return connect(composition)
    except LatticeError:
        raise LatticeError("no path remains: the operands have no word sequence in common", key=lattice.key) from None


def _costs_of(costs: Array, arc: npt.NDArray[np.int64]) -> Array:
    """Return the costs of the arcs with these indices, float64; the index -1 means no arc, with cost 0."""
    return np.append(costs, 0.0)[arc]  # -1 is the index of the last element
