"""Lattices built from arcs in any order, and linear lattices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError
from ninja.lattice import Kind, Lattice
from ninja.lattice.symbols import SymbolTable

Finals = Mapping[int, float] | Mapping[int, tuple[float, float]]
Labels = Sequence[Sequence[int]]
Integers = Sequence[int] | npt.NDArray[np.int32]


def top_sort(arc_begin: npt.ArrayLike, dst: npt.ArrayLike, start: int = 0, key: str = "") -> npt.NDArray[np.int32]:
    """Number states in topological order from the start, 0, in the order of OpenFst's TopSort.

    Arcs of state s are ``arc_begin[s] : arc_begin[s + 1]``, as in a lattice.

    Returns:
        New number of each state, int32 [num_states]; -1 if it is unreachable.

    Raises:
        LatticeError: There is a cycle; the message names its states.
    """
    number, cycle = _graph.top_sort(
        np.ascontiguousarray(arc_begin, np.int64), np.ascontiguousarray(dst, np.int32), start
    )
    if cycle:
        path = [str(state) for state in cycle[:8]] + (["…"] if len(cycle) > 8 else []) + [str(cycle[0])]
        raise LatticeError(f"the arcs form a cycle: {' → '.join(path)}; a lattice must be acyclic", key=key)
    return number


def arc_order(
    src: npt.ArrayLike, dst: npt.ArrayLike, num_states: int, start: int = 0, key: str = ""
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Number states in topological order, and order arcs by the number of the state they leave.

    States keep their numbers if these are a topological order from the start, 0; otherwise they are sorted as by
    OpenFst. Arcs of a state keep their order. Arguments are those of ``from_arcs``.

    Returns:
        The new number of each state, int32 [num_states], -1 if it is unreachable; and the reachable arcs in their new
        order, int64.

    Raises:
        LatticeError: There is a cycle.
    """
    leaves, enters = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    number = np.arange(num_states, dtype=np.int32)
    if start != 0 or np.any(enters <= leaves):
        by_state = np.argsort(leaves, kind="stable")
        begin = np.searchsorted(leaves[by_state], np.arange(num_states + 1))
        number = top_sort(begin, enters[by_state], start, key)
    arcs = np.flatnonzero(number[leaves] >= 0)
    return number, arcs[np.argsort(number[leaves[arcs]], kind="stable")]


def from_arcs(
    key: str,
    src: npt.ArrayLike,
    dst: npt.ArrayLike,
    word: npt.ArrayLike,
    graph: npt.ArrayLike,
    acoustic: npt.ArrayLike | None = None,
    *,
    finals: Finals,
    start: int = 0,
    labels: Labels | None = None,
    final_labels: Mapping[int, Sequence[int]] | None = None,
    time: npt.ArrayLike | None = None,
    kind: Kind = "compact",
    frame_shift: float | None = None,
    words: SymbolTable | None = None,
) -> Lattice:
    """Make a lattice from arcs and states in any order.

    States and arcs are numbered by ``arc_order``; unreachable states are removed.

    Args:
        src: State each arc leaves, [num_arcs].
        dst: State each arc enters, [num_arcs].
        word: Word of each arc, [num_arcs], 0 = epsilon.
        graph: Graph cost of each arc, [num_arcs].
        acoustic: Acoustic cost of each arc, [num_arcs]; 0 by default.
        finals: Cost of each final state: graph, or (graph, acoustic).
        labels: Alignment of each arc; empty by default.
        final_labels: Alignments of final states that have one.
        time: Frame of each state, if there are no labels.
        kind: "compact" or "raw".
        frame_shift: Seconds per frame.

    Raises:
        LatticeError: A cycle, a state below 0, or another broken invariant.
    """
    leaves, enters = np.asarray(src, np.int64).reshape(-1), np.asarray(dst, np.int64).reshape(-1)
    if leaves.shape != enters.shape:
        raise LatticeError(f"{len(leaves)} arcs leave a state, but {len(enters)} enter one", key=key)
    states = np.concatenate([leaves, enters, np.fromiter(finals, np.int64, len(finals)), [start]])
    if states.min() < 0:
        raise LatticeError(f"a state has the number {states.min()}, but numbers start at 0", key=key)
    if states.max() >= 2**31 - 1:
        raise LatticeError(f"a state has the number {states.max()}, but numbers end at {2**31 - 2}", key=key)
    num_states = int(states.max()) + 1

    number, arc_map = arc_order(leaves, enters, num_states, start, key)
    reached = np.flatnonzero(number >= 0)
    old_state = reached[np.argsort(number[reached])]

    cost = np.full((num_states, 2), np.inf)
    for state, value in finals.items():
        cost[state] = value if isinstance(value, tuple) else (value, 0.0)
    pool = [labels[int(arc)] for arc in arc_map] if labels is not None else []
    final_pool = [(final_labels or {}).get(int(state), ()) for state in old_state]
    return Lattice.from_arrays(
        key,
        np.searchsorted(number[leaves[arc_map]], np.arange(len(old_state) + 1)),
        number[enters[arc_map]],
        np.asarray(word)[arc_map],
        np.asarray(graph)[arc_map],
        np.zeros(len(arc_map)) if acoustic is None else np.asarray(acoustic)[arc_map],
        cost[old_state, 0],
        cost[old_state, 1],
        ali_begin=None if labels is None else np.cumsum([0, *map(len, pool)]),
        ali=list(chain.from_iterable(pool)),
        final_ali_begin=np.cumsum([0, *map(len, final_pool)]),
        final_ali=list(chain.from_iterable(final_pool)),
        kind=kind,
        time=None if time is None else np.asarray(time)[old_state],
        frame_shift=frame_shift,
        words=words,
    )


def linear(
    key: str,
    words: Integers,
    alignment: Integers = (),
    graph_cost: float = 0.0,
    acoustic_cost: float = 0.0,
    symbols: SymbolTable | None = None,
) -> Lattice:
    """Make a lattice of one path, whose final state carries its costs.

    Since it is not known which word a label belongs to, each word gets one label, and the last word the rest.

    Args:
        words: Word ids, > 0.
        alignment: Labels of all frames: transition ids in Kaldi, > 0.

    Raises:
        LatticeError: A word id or label is not above 0, or a cost not finite.

    Source: Kaldi, latbin/linear-to-nbest.cc.
    """
    word, labels = np.asarray(words, np.int64), np.asarray(alignment, np.int64)
    for name, ids in (("word id", word), ("label", labels)):
        if (bad := ids[ids < 1]).size:
            raise LatticeError(f"the {name} {bad[0]} is not above 0", key=key)
    num_arcs = max(word.size, int(labels.size > 0))
    begin = np.minimum(np.arange(num_arcs + 1), labels.size)
    begin[-1] = labels.size
    final = np.full((2, num_arcs + 1), np.inf)
    final[:, -1] = graph_cost, acoustic_cost
    return Lattice.from_arrays(
        key,
        np.minimum(np.arange(num_arcs + 2), num_arcs),
        np.arange(1, num_arcs + 1),
        word if word.size else np.zeros(num_arcs),
        np.zeros(num_arcs),
        np.zeros(num_arcs),
        *final,
        ali_begin=begin,
        ali=labels,
        words=symbols,
    )
