"""Conversion of lattices to graphs with words on nodes, for formats that do not store words on arcs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.formats.textual import plain_end
from ninja.lattice import Lattice

GROWTH = 64  # maximum number of links in the result per arc of the lattice


@dataclass(frozen=True, slots=True)
class WordNodes:
    """A graph with words on nodes and costs on links."""

    state: npt.NDArray[np.int64]  # [num_nodes], state at which the node's word begins (or ends); num_states: end node
    word: npt.NDArray[np.int64]  # [num_nodes], index of an arc with the word of the node; -1 for no word
    src: npt.NDArray[np.int64]  # [num_links]
    dst: npt.NDArray[np.int64]  # [num_links]
    graph: npt.NDArray[np.float32]  # [num_links], graph costs
    acoustic: npt.NDArray[np.float32]  # [num_links], acoustic costs
    start: int
    end: int


def word_nodes(lattice: Lattice, words: Literal["begin", "end"]) -> WordNodes:
    """Move the words of a lattice to nodes.

    A state becomes one node for each word that begins (or ends) there. The costs of a word are on the links that leave
    (or enter) its node. Final costs become links to an end node, unless there is a single final state without a cost.

    Args:
        lattice: Any lattice with a final state.
        words: Whether words "begin" or "end" at their nodes.

    Raises:
        LatticeError: The result would be too large, because many words both end and begin at the same states.
    """
    final = np.flatnonzero(lattice.is_final)
    src, dst, word = lattice.src.astype(np.int64), lattice.dst.astype(np.int64), lattice.word.astype(np.int64)
    graph, acoustic = lattice.graph, lattice.acoustic
    end_state = plain_end(lattice)
    # SRILM reads the word of the end node as </s>, so the end node must have no word. Links to it have the final costs.
    if end_state is None or (words == "end" and end_state > 0):
        end_state = lattice.num_states
        src = np.concatenate((src, final))
        dst = np.concatenate((dst, np.full(len(final), end_state)))
        word = np.concatenate((word, np.zeros(len(final), np.int64)))
        graph = np.concatenate((graph, lattice.final_graph[final]))
        acoustic = np.concatenate((acoustic, lattice.final_acoustic[final]))
    here, there = (src, dst) if words == "begin" else (dst, src)
    # Sort nodes by state and word. If words begin at nodes, the last node has no word; otherwise, the first node.
    bare = end_state if words == "begin" else 0
    order = np.lexsort((word, here))
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (np.diff(here[order]) != 0) | (np.diff(word[order]) != 0)
    state = np.concatenate((here[order][is_new], [bare]))
    of_node = np.concatenate((np.where(word[order][is_new] == 0, -1, order[is_new]), [-1]))
    sort = np.argsort(state, kind="stable")
    rank = np.empty(len(sort), np.int64)
    rank[sort] = np.arange(len(sort))
    node_of = np.empty(len(order), np.int64)
    node_of[order] = rank[np.cumsum(is_new) - 1]
    state, of_node = state[sort], of_node[sort]
    count = np.bincount(state, minlength=end_state + 1)
    first = np.cumsum(count) - count
    # Link the node of each arc with each node of the state at the other end of the arc.
    width = count[there]
    num_links = int(width.sum())
    if num_links > GROWTH * (len(src) + 1):
        message = (
            f"words on nodes would need {num_links} links, because many words end where many begin; use another format"
        )
        raise LatticeError(message, key=lattice.key)
    ramp = np.arange(num_links) - np.repeat(np.cumsum(width) - width, width)
    near, far = np.repeat(node_of, width), np.repeat(first[there], width) + ramp
    arc = np.repeat(np.arange(len(src)), width)
    froms, tos = (near, far) if words == "begin" else (far, near)
    graph, acoustic = graph[arc], acoustic[arc]
    start, end = int(first[0]), int(first[end_state])
    if words == "begin" and count[0] != 1:  # several words can begin the sentence, so add a start node before them
        start = len(state)
        begins = first[0] + np.arange(count[0])
        froms = np.concatenate((froms, np.full(len(begins), start)))
        tos = np.concatenate((tos, begins))
        graph = np.concatenate((graph, np.zeros(len(begins), np.float32)))
        acoustic = np.concatenate((acoustic, np.zeros(len(begins), np.float32)))
        state, of_node = np.concatenate((state, [0])), np.concatenate((of_node, [-1]))
    return WordNodes(state, of_node, froms, tos, graph, acoustic, start, end)
