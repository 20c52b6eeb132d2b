"""A trie of words in depth-first order, cut into blocks that a network with attention reads each on its own.

    <s> ─ a ─ b ─ c            rank    0 1 2 3 4 5
        │   └ d                node    a b c d e f
        └ e ─ f                end     4 3 3 4 6 6     the ranks node … end − 1 are a node and what stands below it

In this order everything above a run of ranks stands either in the run or above its first node. So a block is a run
and the path to it, and the first node of a pair stands above the second exactly if ``rank ≤ other rank < end``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.lm.text import runs

Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Ranks that are read together: the path to a run, and the run."""

    rank: Ranks  # [tokens], without <s>
    num_above: int  # of these, how many belong to the path


@dataclass(frozen=True, slots=True)
class Forest:
    """A trie below ``<s>`` in depth-first order; arrays by rank, [nodes] each."""

    node: Ranks
    parent: Ranks  # rank of it; −1 = <s>
    end: Ranks  # first rank after all that stands below
    depth: Ranks  # words after <s>, the node's own included

    @classmethod
    def of(cls, parent: npt.NDArray[np.integer]) -> Forest:
        """Order a trie, given the parent of each node, [nodes]: −1 = directly below ``<s>``, otherwise smaller."""
        above = parent.tolist()
        size = [1] * len(above)
        for node in range(len(above) - 1, -1, -1):
            if above[node] >= 0:
                size[above[node]] += size[node]
        rank, depth, free = [0] * len(above), [1] * len(above), [0] * len(above)
        top = 0  # `free` is the rank that the next child of a node gets, and `top` is that of <s>
        for node, upper in enumerate(above):
            if upper < 0:
                rank[node], top = top, top + size[node]
            else:
                rank[node], free[upper] = free[upper], free[upper] + size[node]
                depth[node] = depth[upper] + 1
            free[node] = rank[node] + 1
        place = np.array(rank, np.int64)
        order = np.empty_like(place)
        order[place] = np.arange(len(place))
        upper_rank = np.where(parent < 0, -1, place[parent])[order] if len(place) else place
        return cls(order, upper_rank, np.array(size, np.int64)[order] + np.arange(len(place)), np.array(depth)[order])

    def blocks(self, size: int) -> list[Block]:
        """Cut into runs of `size` nodes, the last one shorter."""
        return [self._block(first, min(first + size, len(self.node))) for first in range(0, len(self.node), size)]

    def sentences(self) -> list[Block]:
        """Cut after each leaf: every block is then one sentence, from the first word to the leaf."""
        leaf = np.flatnonzero(self.end == np.arange(1, len(self.node) + 1))
        begin = [0, *(leaf + 1).tolist()][: len(leaf)]
        return [self._block(first, last) for first, last in zip(begin, (leaf + 1).tolist(), strict=True)]

    def _block(self, first: int, last: int) -> Block:
        above = []
        upper = int(self.parent[first])
        while upper >= 0:
            above.append(upper)
            upper = int(self.parent[upper])
        return Block(np.array([*reversed(above), *range(first, last)], np.int64), len(above))


def batches(blocks: list[Block], max_tokens: int) -> list[list[Block]]:
    """Group blocks of like length: at most `max_tokens`, padding and ``<s>`` included, or one block."""
    ordered = sorted(blocks, key=lambda block: len(block.rank))
    return [ordered[run] for run in runs([len(block.rank) + 1 for block in ordered], max_tokens)]


def pad(blocks: list[Block], padding: int) -> Ranks:
    """Lay blocks side by side behind ``<s>``: ranks, [blocks, tokens]; ``<s>`` is −1."""
    width = max(len(block.rank) for block in blocks) + 1
    rank = np.full((len(blocks), width), padding, np.int64)
    rank[:, 0] = -1
    for row, block in enumerate(blocks):
        rank[row, 1 : len(block.rank) + 1] = block.rank
    return rank
