"""Networks with attention as language models: cached keys and values, and whole tries in one pass.

A trie of words in depth-first order is cut into blocks that the network reads independently.

    <s> ─ a ─ b ─ c            rank    0 1 2 3 4 5
        │   └ d                node    a b c d e f
        └ e ─ f                end     4 3 3 4 6 6     the ranks rank … end − 1 are a node and its descendants

In this order every ancestor of a node in a run of ranks is either in the run or an ancestor of its first node. So a
block is a run and the path to it, and a node is an ancestor of another exactly if ``rank ≤ other rank < end``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ninja.lm.protocol import LoadOptions
from ninja.lm.recurrent.state_pool import StatePoolLM
from ninja.lm.text import runs
from ninja.lm.word_map import Words

GATHER_BYTES = 16 * 2**20  # keys and values gathered at once; more is slower, as it exceeds caches
BLOCK_NODES = 128  # nodes of a trie per block; attention is quadratic in it
BATCH_TOKENS = {"cpu": 1024, "cuda": 16_384}  # per pass; fewer are slower, more only take memory

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Nodes that are read together: the path to a run, and the run."""

    rank: Ids  # [tokens], without <s>
    num_above: int  # nodes of the path


@dataclass(frozen=True, slots=True)
class Forest:
    """A trie below ``<s>`` in depth-first order; arrays by rank, [nodes] each."""

    node: Ids
    parent: Ids  # rank of the parent; −1 = <s>
    end: Ids  # first rank after the descendants
    depth: Ids  # words after <s>, including the node's

    @classmethod
    def of(cls, parent: npt.NDArray[np.integer]) -> Forest:
        """Order a trie by the parent of each node, [nodes], which precedes it; −1 = child of ``<s>``."""
        above = parent.tolist()
        size = [1] * len(above)
        for node in range(len(above) - 1, -1, -1):
            if above[node] >= 0:
                size[above[node]] += size[node]
        rank, depth, free = [0] * len(above), [1] * len(above), [0] * len(above)
        top = 0  # rank of the next child of <s>; `free` is that of other nodes
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
        """Cut into runs of `size` nodes; the last may be shorter."""
        return [self._block(first, min(first + size, len(self.node))) for first in range(0, len(self.node), size)]

    def sentences(self) -> list[Block]:
        """Cut after each leaf, so that every block is one sentence."""
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
    """Group blocks of similar length: at most `max_tokens` with padding and ``<s>``, or a single block."""
    ordered = sorted(blocks, key=lambda block: len(block.rank))
    return [ordered[run] for run in runs([len(block.rank) + 1 for block in ordered], max_tokens)]


def pad(blocks: list[Block], padding: int) -> Ids:
    """Pad blocks after ``<s>``, which is −1: ranks, [blocks, tokens]."""
    width = max(len(block.rank) for block in blocks) + 1
    rank = np.full((len(blocks), width), padding, np.int64)
    rank[:, 0] = -1
    for row, block in enumerate(blocks):
        rank[row, 1 : len(block.rank) + 1] = block.rank
    return rank


class AttentionLM(StatePoolLM):
    """A network with attention as a `LanguageModel`.

    A row of the pool contains the keys and values of the history's last word, and then the network's output. A slot
    stores its parent; released slots are freed when no longer history needs them.

        <s> ◄── the ◄── cat ◄── sat          one slot each; `advance` gathers the slots of a path to <s>
                  ▲──── dog

    `score_trie` uses no slots: it reads blocks of the trie, in which each word attends to its ancestors.
    """

    scores_tries = True
    _block_nodes: int | None = BLOCK_NODES  # None if the network can only read sentences

    def __init__(
        self,
        words: Words,
        embedding: torch.Tensor,
        bias: torch.Tensor | None,
        cache: int,
        gathered: int,
        options: LoadOptions,
    ) -> None:
        """Make an empty pool; each word caches `cache` numbers, of which attention gathers `gathered` at once."""
        super().__init__(words, embedding, bias, cache + embedding.shape[1], cache, options)
        self._gathered_bytes = max(1, gathered) * self._states.element_size()
        self._parent = np.empty(0, np.int64)  # slot that each slot extends, −1 = <s>
        self._depth = np.empty(0, np.int64)  # words after <s>
        self._references = np.empty(0, np.int64)  # 1 for the caller, and 1 for each slot that extends it

    @abstractmethod
    def _read(self, path: Ids, words: npt.NDArray[np.integer]) -> torch.Tensor:
        """Read a word after each history, given by `path`, slots left-padded with −1; return rows, float32 [n, row]."""

    @abstractmethod
    def _read_blocks(self, word: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Read blocks of a trie, where `mask` permits attention; return outputs, [blocks, tokens, embedding]."""

    def _step(self, row: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        return self._read(np.empty((len(row), 0), np.int64), words)

    def twin(self) -> None:
        """See `LanguageModel.twin`; None, as single products are large enough for all cores."""

    @torch.inference_mode()
    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        slots = super().start(count)
        self._parent[slots], self._depth[slots], self._references[slots] = -1, 0, 1
        return slots

    @torch.inference_mode()
    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        new = self._slots.take(len(slots))
        try:
            for batch in self._pieces(slots):
                rows = self._read(self._paths(slots[batch]), words[batch])
                self._states.index_copy_(0, self._tensor(new[batch]), rows)
        except BaseException:  # callers retry with a smaller batch if memory runs out
            super().release(new)
            raise
        self._parent[new], self._depth[new], self._references[new] = slots, self._depth[slots] + 1, 1
        np.add.at(self._references, slots, 1)
        self._normaliser[new] = np.nan
        return new

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        np.subtract.at(self._references, slots, 1)
        while len(slots):
            assert self._references[slots].min() >= 0, "a slot was released twice"
            free = np.unique(slots[self._references[slots] == 0])
            super().release(free)
            slots = self._parent[free]
            slots = slots[slots >= 0]
            np.subtract.at(self._references, slots, 1)

    @torch.inference_mode()
    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`.

        Every node with children is read in one block; a block also reads the path to its first node.
        """
        num_nodes = len(parent)
        has_children = np.zeros(num_nodes, np.bool_)
        has_children[parent[parent >= 0]] = True
        inner = np.flatnonzero(has_children)
        place = np.full(num_nodes + 1, -1)  # the last entry, index −1, is <s>
        place[inner] = np.arange(len(inner))
        forest = Forest.of(place[parent[inner]])
        score = np.empty(num_nodes, np.float32)
        read = np.full(num_nodes + 1, -1)  # row of a node's output in the current batch
        for nodes, output in self._forest_outputs(forest, word[inner]):
            nodes = np.append(inner, -1)[nodes]
            read[nodes] = np.arange(len(nodes))
            below = np.flatnonzero(read[parent] >= 0)
            row = read[parent[below]]
            read[nodes] = -1
            score[below] = self._products(output.index_select(0, self._tensor(row)), word[below])
            if self._normalize:
                score[below] -= self._log_normalisers(output)[row]
        return score

    def _forest_outputs(self, forest: Forest, word: npt.NDArray[np.int32]) -> Iterator[tuple[Ids, torch.Tensor]]:
        """Read a forest; yield nodes, −1 for ``<s>``, and their outputs, float32 [nodes, embedding]."""
        yield np.array([-1]), self._start_row[:, self._output :]
        size = len(forest.node)
        # By rank, with two more entries: padding at index `size`, and <s> at index −1.
        words = self._tensor(np.concatenate((word[forest.node], np.full(2, self.bos))))
        depth = self._tensor(np.concatenate((forest.depth, [0, 0])))
        end = self._tensor(np.concatenate((forest.end, [size + 1, size + 1])))
        max_tokens = self._max_batch or BATCH_TOKENS.get(self._device.type, 1024)
        blocks = forest.sentences() if self._block_nodes is None else forest.blocks(min(self._block_nodes, max_tokens))
        for group in batches(blocks, max_tokens):
            ranks = pad(group, size)
            rank = self._tensor(ranks)  # [blocks, tokens]
            mask = (rank[:, None, :] <= rank[:, :, None]) & (rank[:, :, None] < end[rank][:, None, :])
            output = self._read_blocks(words[rank], depth[rank], mask).flatten(0, 1)
            in_run = np.zeros(ranks.shape, np.bool_)
            for row, block in enumerate(group):
                in_run[row, 1 + block.num_above : 1 + len(block.rank)] = True
            yield forest.node[ranks[in_run]], output.index_select(0, self._tensor(np.flatnonzero(in_run))).float()

    def _pieces(self, slots: Ids) -> Iterator[Ids]:
        """Cut a batch into index arrays of similar depth, the deepest first, within the limit of `GATHER_BYTES`."""
        order = np.argsort(-self._depth[slots], kind="stable")
        first = 0
        while first < len(order):
            deepest = int(self._depth[slots[order[first]]])
            size = max(1, GATHER_BYTES // (self._gathered_bytes * (deepest + 2)))
            batch = order[first : first + min(size, self._max_batch or size)]
            yield batch
            first += len(batch)

    def _paths(self, slots: Ids) -> Ids:
        """Return the paths from ``<s>`` to slots, the deepest first, left-padded with −1, [n, words]."""
        path = np.empty((len(slots), int(self._depth[slots[0]]) + 1), np.int64)
        for place in range(path.shape[1] - 1, -1, -1):
            path[:, place] = slots
            slots = np.where(slots >= 0, self._parent[slots], -1)
        return path

    def _grow(self, capacity: int) -> None:
        more = np.zeros(capacity - len(self._parent), np.int64)
        super()._grow(capacity)
        self._parent = np.concatenate((self._parent, more))
        self._depth = np.concatenate((self._depth, more))
        self._references = np.concatenate((self._references, more))
