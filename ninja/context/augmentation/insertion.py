"""Insert word sequences between states of a lattice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice
from ninja.lattice.arrays import gather, offsets
from ninja.lattice.symbols import EPSILON, SymbolTable

_Link = tuple[int, float, float, npt.NDArray[np.int32]]  # word, graph cost, acoustic cost, labels


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A word sequence to insert as one arc per word, with new states between the arcs."""

    start: int  # first state
    end: int  # last state, > start
    words: tuple[int, ...]
    graph: npt.NDArray[np.float64]  # graph cost of each word, [words]
    acoustic: npt.NDArray[np.float64]  # acoustic cost of each word, [words]
    labels: tuple[npt.NDArray[np.int32], ...]  # alignment of each word


def insert(lattice: Lattice, chains: Sequence[Chain], words: SymbolTable | None) -> Lattice:
    """Return the lattice with the chains added as paths.

    Existing states and arcs keep their order, costs and labels. Each new state is numbered directly before the last
    state of its chain, and new arcs follow the existing arcs of their state. In a raw lattice, whose arcs have at most
    one label, the remaining labels of a word are placed on epsilon arcs after the word's arc.

    Args:
        lattice: Any lattice.
        chains: Word sequences to insert.
        words: Symbol table of the result.
    """
    if not chains:
        return lattice.with_words(words)
    num_old = lattice.num_states
    src: list[int] = []
    dst: list[int] = []
    links: list[_Link] = []
    ends: list[int] = []  # for each new state, the last state of its chain
    time: list[int] = [] if lattice.time is None else lattice.time.tolist()
    for chain in chains:
        arcs = _links(chain, raw=lattice.kind == "raw")
        states = range(num_old + len(ends), num_old + len(ends) + len(arcs) - 1)
        src += [chain.start, *states]
        dst += [*states, chain.end]
        links += arcs
        ends += [chain.end] * len(states)
        if lattice.time is not None:
            spread = np.linspace(lattice.time[chain.start], lattice.time[chain.end], len(states) + 2)
            time += spread[1:-1].astype(np.int32).tolist()
    word, graph, acoustic, labels = zip(*links, strict=True)
    number = _numbers(num_old, np.array(ends, np.int64))
    num_states = len(number)
    new_src, new_dst = number[np.concatenate([lattice.src, src])], number[np.concatenate([lattice.dst, dst])]
    by_state = np.argsort(new_src, kind="stable")
    length = np.concatenate([np.diff(lattice.ali_begin), list(map(len, labels))])
    ali_begin, ali = gather(np.concatenate([lattice.ali, *labels]), offsets(length)[:-1][by_state], length[by_state])

    def of_arcs(before: npt.NDArray[Any], new: Sequence[float]) -> npt.NDArray[Any]:
        return np.concatenate([before, np.array(new, before.dtype)])[by_state]

    def of_states(before: npt.NDArray[Any], fill: float) -> npt.NDArray[Any]:
        values = np.full(num_states, fill, before.dtype)
        values[number[:num_old]] = before
        return values

    return Lattice.from_arrays(
        lattice.key,
        np.searchsorted(new_src[by_state], np.arange(num_states + 1)),
        new_dst[by_state],
        of_arcs(lattice.word, word),
        of_arcs(lattice.graph, graph),
        of_arcs(lattice.acoustic, acoustic),
        of_states(lattice.final_graph, np.inf),
        of_states(lattice.final_acoustic, np.inf),
        ali_begin=ali_begin,
        ali=ali,
        final_ali_begin=offsets(of_states(np.diff(lattice.final_ali_begin), 0)),
        final_ali=lattice.final_ali,
        kind=lattice.kind,
        time=None if lattice.time is None else np.array(time, np.int32)[np.argsort(number)],
        frame_shift=lattice.frame_shift,
        words=words,
    )


def _numbers(num_old: int, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number old and new states so that each new state directly precedes the last state of its chain."""
    order = np.argsort(ends, kind="stable")
    number = np.empty(num_old + len(ends), np.int64)
    number[:num_old] = np.arange(num_old) + np.searchsorted(ends[order], np.arange(num_old), side="right")
    number[num_old + order] = ends[order] + np.arange(len(ends))
    return number


def _links(chain: Chain, *, raw: bool) -> list[_Link]:
    links: list[_Link] = []
    for word, graph, acoustic, labels in zip(chain.words, chain.graph, chain.acoustic, chain.labels, strict=True):
        links.append((word, float(graph), float(acoustic), labels[:1] if raw else labels))
        links += [(EPSILON, 0.0, 0.0, labels[at : at + 1]) for at in range(1, len(labels) if raw else 0)]
    return links
