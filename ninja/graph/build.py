"""Construction of linear lattices, and of lattices from arcs in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError, counted
from ninja.lattice import Kind, Lattice
from ninja.lattice.symbols import SymbolTable

MAX_STATE = 1 << 20  # largest allowed state number in a lattice without arcs, to limit memory
STATES_PER_ARC = 1 << 6  # increase of this limit for each arc
Finals = Mapping[int, float] | Mapping[int, tuple[float, float]]
Labels = Sequence[Sequence[int]]
Integers = Sequence[int] | npt.NDArray[np.int32]


def top_sort(arc_begin: npt.ArrayLike, dst: npt.ArrayLike, start: int = 0, key: str = "") -> npt.NDArray[np.int32]:
    """Number the reachable states in topological order, as OpenFst's TopSort does.

    Args:
        arc_begin: Offsets of the arcs of each state, as in a lattice, [num_states + 1].
        dst: Destination of each arc, [num_arcs].
        start: The start state, which becomes state 0.
        key: Utterance id for the message.

    Returns:
        New number of each state, int32 [num_states]; -1 for unreachable states.

    Raises:
        LatticeError: There is a cycle (the message lists its states), the arrays are inconsistent, or a state does
            not exist.
    """
    begin, enters = np.ascontiguousarray(arc_begin, np.int64), np.ascontiguousarray(dst, np.int64)
    if begin.ndim != 1 or enters.ndim != 1 or begin.size < 2:
        raise LatticeError(
            "arc_begin must be an array of at least 2 offsets, and dst an array with one state per arc", key=key
        )
    if begin[0] != 0 or begin[-1] != enters.size or np.any(np.diff(begin) < 0):
        raise LatticeError(f"arc_begin must start at 0, never decrease, and end at {enters.size}", key=key)
    _check_states(np.append(enters, start), begin.size - 1, key)
    number, cycle = _graph.top_sort(begin, enters.astype(np.int32), start)
    if cycle:
        path = [str(state) for state in cycle[:8]] + (["…"] if len(cycle) > 8 else []) + [str(cycle[0])]
        raise LatticeError(f"the arcs form a cycle: {' → '.join(path)}; a lattice must be acyclic", key=key)
    return number


def _check_states(states: npt.NDArray[np.int64], num_states: int, key: str) -> None:
    """Raise LatticeError for a state number that is negative, or not below the number of states."""
    if (bad := (states < 0) | (states >= num_states)).any():
        raise LatticeError(f"state {states[bad][0]} does not exist: the number of states is {num_states}", key=key)


def arc_order(
    src: npt.ArrayLike, dst: npt.ArrayLike, num_states: int, start: int = 0, key: str = ""
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Number states in topological order and sort arcs by the new number of their source state.

    States keep their numbers if ``start`` is 0 and every arc leads to a state with a larger number; otherwise, see
    ``top_sort``. The arcs of a state keep their order. For the arguments, see ``from_arcs``.

    Returns:
        The new number of each state, int32 [num_states] (-1 for unreachable states), and the old index of each
        reachable arc, in the new order, int64.

    Raises:
        LatticeError: There is a cycle, the numbers of sources and destinations differ, or a state does not exist.
    """
    leaves, enters = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    if leaves.shape != enters.shape:
        raise LatticeError(f"src has {leaves.size} entries, but dst has {enters.size}", key=key)
    _check_states(np.concatenate((leaves, enters, [start])), num_states, key)
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
    """Create a lattice from arcs and states in any order.

    States and arcs are sorted by ``arc_order``; unreachable states are removed.

    Args:
        src: Source state of each arc, [num_arcs].
        dst: Destination state of each arc, [num_arcs].
        word: Word id of each arc, [num_arcs], 0 = epsilon.
        graph: Graph cost of each arc, [num_arcs].
        acoustic: Acoustic cost of each arc, [num_arcs].  [default: 0]
        finals: Mapping from final states to graph costs, or to ``(graph cost, acoustic cost)``.
        labels: Alignment labels of each arc.  [default: none]
        final_labels: Mapping from final states to alignment labels; states without labels may be omitted.
        time: Frame of each state, for lattices without labels.
        kind: "compact" or "raw".
        frame_shift: Seconds per frame.

    Raises:
        LatticeError: The arcs form a cycle, a state number is negative or exceeds 2^20 plus 64 times the number of
            arcs, arrays have different numbers of arcs, or another invariant is violated.
    """
    leaves, enters = np.asarray(src, np.int64).reshape(-1), np.asarray(dst, np.int64).reshape(-1)
    states = np.concatenate([leaves, enters, np.fromiter(finals, np.int64, len(finals)), [start]])
    if states.min() < 0:
        raise LatticeError(f"a state has the number {states.min()}, but the number must be 0 or more", key=key)
    largest = int(states.max())
    if largest > min(MAX_STATE + STATES_PER_ARC * leaves.size, 2**31 - 2):
        message = f"a state has the number {largest}, which is too large for {counted(leaves.size, 'arc')}"
        raise LatticeError(f"{message}; number the states without large gaps", key=key)
    num_states = largest + 1

    number, arc_map = arc_order(leaves, enters, num_states, start, key)
    sizes = {"word": np.size(word), "graph": np.size(graph)}
    sizes |= {} if acoustic is None else {"acoustic": np.size(acoustic)}
    sizes |= {} if labels is None else {"labels": len(labels)}
    for name, size in sizes.items():
        if size != len(leaves):
            raise LatticeError(f"{name} has {size} entries, but src has {len(leaves)}", key=key)
    if time is not None and np.size(time) < num_states:
        raise LatticeError(f"time has {np.size(time)} entries, but there are {num_states} states", key=key)
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
    """Create a lattice with a single path and all costs on the final state.

    Each word gets one label, and the last word gets all remaining labels, because it is unknown which labels belong to
    which word.

    Args:
        words: Word ids, > 0.
        alignment: One label per frame: transition ids in Kaldi, > 0.
        graph_cost: Graph cost of the path.
        acoustic_cost: Acoustic cost of the path.
        symbols: Symbol table for the lattice.

    Raises:
        LatticeError: A word id or label is not above 0, or a cost is not finite.

    Source: Kaldi, latbin/linear-to-nbest.cc.
    """
    word, labels = np.asarray(words, np.int64), np.asarray(alignment, np.int64)
    for name, ids in (("word id", word), ("label", labels)):
        if (bad := ids[ids < 1]).size:
            raise LatticeError(f"the {name} is {bad[0]}, but must be above 0", key=key)
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
