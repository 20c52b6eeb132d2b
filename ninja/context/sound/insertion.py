"""Inserting word sequences into a lattice, from one of its states to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice
from ninja.lattice.arrays import ranges
from ninja.lattice.symbols import EPSILON, SymbolTable


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A word sequence to insert: an arc for each word, with states of its own between them."""

    start: int
    end: int  # > start
    words: tuple[int, ...]
    graph: npt.NDArray[np.float64]  # [words]
    acoustic: npt.NDArray[np.float64]  # [words]
    labels: tuple[npt.NDArray[np.int32], ...]  # [words]: the alignment of each


def insert(lattice: Lattice, chains: Sequence[Chain], words: SymbolTable | None) -> Lattice:
    """Return a lattice with the chains as further paths.

    The states and arcs there were keep their order, and their costs and labels; each new state stands right before the
    state in which its chain ends, and new arcs leave a state after those there were. In a raw lattice, whose arcs have
    a label at most, a word is followed by epsilons with the rest of its labels.

    Args:
        lattice: Any lattice.
        chains: What to insert.
        words: The symbol table of the new lattice.
    """
    if not chains:
        return lattice.with_words(words)
    links = [link for chain in chains for link in _links(chain, raw=lattice.kind == "raw")]
    old = lattice.num_states
    entered = np.array([chain.end for chain in chains for _ in range(_num_states(chain, lattice))], np.int64)
    order = np.argsort(entered, kind="stable")
    number = np.empty(old + len(entered), np.int64)  # new number of each old and new state
    number[:old] = np.arange(old) + np.searchsorted(entered[order], np.arange(old), side="right")
    number[old + order] = entered[order] + np.arange(len(entered))
    num_states = len(number)

    src, dst = _ends(chains, lattice)
    src = np.concatenate([number[lattice.src], number[src]])
    by_state = np.argsort(src, kind="stable")
    length = np.concatenate([np.diff(lattice.ali_begin), [len(labels) for *_, labels in links]])
    begin = np.concatenate(
        [lattice.ali_begin[:-1], lattice.ali_begin[-1] + np.cumsum([0, *length[lattice.num_arcs :]])]
    )
    pool = np.concatenate([lattice.ali, *(labels for *_, labels in links)])
    ali_begin = np.concatenate([[0], np.cumsum(length[by_state])])

    def spread(values: npt.NDArray[np.float32], fill: float) -> npt.NDArray[np.float32]:
        wide = np.full(num_states, fill, values.dtype)
        wide[number[:old]] = values
        return wide

    final_length = np.zeros(num_states, np.int64)
    final_length[number[:old]] = np.diff(lattice.final_ali_begin)
    return Lattice.from_arrays(
        lattice.key,
        np.searchsorted(src[by_state], np.arange(num_states + 1)),
        np.concatenate([number[lattice.dst], number[dst]])[by_state],
        np.concatenate([lattice.word, [word for word, *_ in links]])[by_state],
        np.concatenate([lattice.graph, np.array([graph for _, graph, _, _ in links], np.float32)])[by_state],
        np.concatenate([lattice.acoustic, np.array([acoustic for _, _, acoustic, _ in links], np.float32)])[by_state],
        spread(lattice.final_graph, np.inf),
        spread(lattice.final_acoustic, np.inf),
        ali_begin=ali_begin,
        ali=pool[ranges(begin[by_state], length[by_state])],
        final_ali_begin=np.concatenate([[0], np.cumsum(final_length)]),
        final_ali=lattice.final_ali,
        kind=lattice.kind,
        time=None if lattice.time is None else _times(lattice.time, chains, lattice, number),
        frame_shift=lattice.frame_shift,
        words=words,
    )


def _links(chain: Chain, *, raw: bool) -> list[tuple[int, float, float, npt.NDArray[np.int32]]]:
    """Return (word, graph cost, acoustic cost, labels) of each arc of a chain."""
    links = []
    for word, graph, acoustic, labels in zip(chain.words, chain.graph, chain.acoustic, chain.labels, strict=True):
        if not raw or len(labels) < 2:
            links.append((word, float(graph), float(acoustic), labels))
            continue
        links.append((word, float(graph), float(acoustic), labels[:1]))
        links += [(EPSILON, 0.0, 0.0, labels[at : at + 1]) for at in range(1, len(labels))]
    return links


def _num_states(chain: Chain, lattice: Lattice) -> int:
    return len(_links(chain, raw=lattice.kind == "raw")) - 1


def _ends(chains: Sequence[Chain], lattice: Lattice) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return source and destination of each new arc; the new states are numbered after the old ones."""
    src, dst, state = [], [], lattice.num_states
    for chain in chains:
        own = range(state, state + _num_states(chain, lattice))
        src += [chain.start, *own]
        dst += [*own, chain.end]
        state += len(own)
    return np.array(src, np.int64), np.array(dst, np.int64)


def _times(
    time: npt.NDArray[np.int32], chains: Sequence[Chain], lattice: Lattice, number: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Return the time of each state; those of a chain are spread evenly between its ends."""
    between = []
    for chain in chains:
        count = _num_states(chain, lattice)
        between += np.linspace(time[chain.start], time[chain.end], count + 2)[1:-1].astype(np.int32).tolist()
    wide = np.empty(len(number), np.int32)
    wide[number] = np.concatenate([time, np.array(between, np.int32)])
    return wide
