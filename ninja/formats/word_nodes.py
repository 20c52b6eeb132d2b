"""Convert lattices with words on arcs to words on nodes, for formats that need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.formats.textual import plain_end
from ninja.lattice import Lattice

GROWTH = 64  # maximum number of links for each arc


@dataclass(frozen=True, slots=True)
class WordNodes:
    """Nodes with a word each, and the links between them, which have the costs."""

    state: npt.NDArray[np.int64]  # [nodes], where the node's word begins (or ends); num_states: the end node
    word: npt.NDArray[np.int64]  # [nodes], an arc with the node's word; -1: no word
    src: npt.NDArray[np.int64]  # [links]
    dst: npt.NDArray[np.int64]  # [links]
    graph: npt.NDArray[np.float32]  # [links], costs
    acoustic: npt.NDArray[np.float32]
    start: int
    end: int


def word_nodes(lattice: Lattice, words: Literal["begin", "end"]) -> WordNodes:
    """Move the words of a lattice to nodes: where they begin (costs on links out of it) or end (on links into it).

    A state becomes a node for each word that begins (ends) there. Final costs become links to an end node, unless the
    lattice ends in one state at no cost.

    Raises:
        LatticeError: The result would be too large: at some state many words end and many begin.
    """
    final = np.flatnonzero(lattice.is_final)
    src, dst, word = lattice.src.astype(np.int64), lattice.dst.astype(np.int64), lattice.word.astype(np.int64)
    graph, acoustic = lattice.graph, lattice.acoustic
    end_state = plain_end(lattice)
    # SRILM takes the word of an end node for </s>, so it must have none; links to one without a word are final costs.
    if end_state is None or (words == "end" and end_state > 0):
        end_state = lattice.num_states
        src = np.concatenate((src, final))
        dst = np.concatenate((dst, np.full(len(final), end_state)))
        word = np.concatenate((word, np.zeros(len(final), np.int64)))
        graph = np.concatenate((graph, lattice.final_graph[final]))
        acoustic = np.concatenate((acoustic, lattice.final_acoustic[final]))
    here, there = (src, dst) if words == "begin" else (dst, src)
    # Nodes sorted by state and word; the first node (the last one if words begin at nodes) has no word.
    bare = end_state if words == "begin" else 0
    order = np.lexsort((word, here))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(here[order]) != 0) | (np.diff(word[order]) != 0)
    state = np.concatenate((here[order][fresh], [bare]))
    of_node = np.concatenate((np.where(word[order][fresh] == 0, -1, order[fresh]), [-1]))
    sort = np.argsort(state, kind="stable")
    rank = np.empty(len(sort), np.int64)
    rank[sort] = np.arange(len(sort))
    node_of = np.empty(len(order), np.int64)
    node_of[order] = rank[np.cumsum(fresh) - 1]
    state, of_node = state[sort], of_node[sort]
    count = np.bincount(state, minlength=end_state + 1)
    first = np.cumsum(count) - count
    # A link from (to) the node of each arc to (from) each node of the state on its other side.
    width = count[there]
    num_links = int(width.sum())
    if num_links > GROWTH * (len(src) + 1):
        message = (
            f"words on nodes would need {num_links} links, for many words end where many begin; use another format"
        )
        raise LatticeError(message, key=lattice.key)
    ramp = np.arange(num_links) - np.repeat(np.cumsum(width) - width, width)
    near, far = np.repeat(node_of, width), np.repeat(first[there], width) + ramp
    arc = np.repeat(np.arange(len(src)), width)
    froms, tos = (near, far) if words == "begin" else (far, near)
    graph, acoustic = graph[arc], acoustic[arc]
    start, end = int(first[0]), int(first[end_state])
    if words == "begin" and count[0] != 1:  # several words begin the sentence: add a node before them
        start = len(state)
        begins = first[0] + np.arange(count[0])
        froms = np.concatenate((froms, np.full(len(begins), start)))
        tos = np.concatenate((tos, begins))
        graph = np.concatenate((graph, np.zeros(len(begins), np.float32)))
        acoustic = np.concatenate((acoustic, np.zeros(len(begins), np.float32)))
        state, of_node = np.concatenate((state, [0])), np.concatenate((of_node, [-1]))
    return WordNodes(state, of_node, froms, tos, graph, acoustic, start, end)
