"""Attention networks as language models: keys and values are cached per history, and a trie is scored in one pass.

A word trie in depth-first order is divided into blocks that the network reads independently.

    <s> ─ a ─ b ─ c            rank    0 1 2 3 4 5
        │   └ d                node    a b c d e f
        └ e ─ f                end     4 3 3 4 6 6     ranks from a node's rank to end − 1: the node and its descendants

In this order, every ancestor of a node in a run of ranks is either in the run or an ancestor of the run's first node.
Therefore a block consists of a run and the path to it, and a node is an ancestor of another if and only if
``rank ≤ other rank < end``.
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

GATHER_BYTES = 16 * 2**20  # maximum size of the keys and values in a batch; larger ones are slower: CPU caches overflow
BLOCK_NODES = 128  # trie nodes per block; the cost of attention is quadratic in it
BATCH_TOKENS = {"cpu": 1024, "cuda": 16_384}  # tokens per pass; fewer are slower, more are not faster

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Trie nodes that the network reads together.

    A block consists of a run of consecutive nodes in depth-first order, after the ancestors of the run's first node.
    """

    rank: Ids  # [tokens], ranks of the nodes in depth-first order, without <s>
    num_above: int  # number of ancestors that precede the run


@dataclass(frozen=True, slots=True)
class Root:
    """The history that precedes the words of a trie."""

    path: Ids  # slots of the history without its last word, [words]
    word: int  # id of the last word of the history
    row: torch.Tensor  # row of the history in the state pool, [1, row]


@dataclass(frozen=True, slots=True)
class Forest:
    """A word trie below ``<s>``; all arrays have shape [nodes] and are indexed by rank in depth-first order."""

    node: Ids  # index of the node in the original trie
    parent: Ids  # rank of the parent; −1 for <s>
    end: Ids  # first rank after the descendants
    depth: Ids  # number of words after <s>, including the node's word

    @classmethod
    def of(cls, parent: npt.NDArray[np.integer]) -> Forest:
        """Create a forest from a trie by sorting its nodes in depth-first order.

        Args:
            parent: Parent of each node, −1 for children of ``<s>``; parents precede their children; [nodes].
        """
        above = parent.tolist()
        size = [1] * len(above)
        for node in range(len(above) - 1, -1, -1):
            if above[node] >= 0:
                size[above[node]] += size[node]
        rank, depth, free = [0] * len(above), [1] * len(above), [0] * len(above)
        top = 0  # rank of the next child of <s>; `free` has the ranks of the next children of other nodes
        for node, upper in enumerate(above):
            if upper < 0:
                rank[node], top = top, top + size[node]
            else:
                rank[node], free[upper] = free[upper], free[upper] + size[node]
                depth[node] = depth[upper] + 1
            free[node] = rank[node] + 1
        ranks = np.array(rank, np.int64)
        order = np.empty_like(ranks)
        order[ranks] = np.arange(len(ranks))
        upper_rank = np.where(parent < 0, -1, ranks[parent])[order] if len(ranks) else ranks
        return cls(order, upper_rank, np.array(size, np.int64)[order] + np.arange(len(ranks)), np.array(depth)[order])

    def blocks(self, size: int) -> list[Block]:
        """Divide the trie into blocks with runs of `size` nodes in depth-first order; the last run can be shorter."""
        return [self._block(first, min(first + size, len(self.node))) for first in range(0, len(self.node), size)]

    def sentences(self) -> list[Block]:
        """Divide the trie into one block per leaf; each block contains one sentence."""
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
    """Group blocks of similar length into batches of at most `max_tokens` tokens, including padding and ``<s>``.

    A block that exceeds `max_tokens` forms its own batch.
    """
    ordered = sorted(blocks, key=lambda block: len(block.rank))
    return [ordered[run] for run in runs([len(block.rank) + 1 for block in ordered], max_tokens)]


def pad(blocks: list[Block], padding: int) -> Ids:
    """Return the depth-first ranks of each block's tokens, padded with `padding`, int64 [blocks, tokens].

    The first token of each block is ``<s>``, which has rank −1.
    """
    width = max(len(block.rank) for block in blocks) + 1
    rank = np.full((len(blocks), width), padding, np.int64)
    rank[:, 0] = -1
    for row, block in enumerate(blocks):
        rank[row, 1 : len(block.rank) + 1] = block.rank
    return rank


class AttentionLM(StatePoolLM):
    """An attention network as a `LanguageModel`.

    The state pool has one row per slot, with the keys and values of the history's last word, followed by the network's
    output. Each slot stores its parent. A released slot is freed once no descendant history needs it.

        <s> ◄── the ◄── cat ◄── sat          one slot per word; `advance` gathers the slots on the path to <s>
                  ▲──── dog

    `score_trie` uses no slots; it reads blocks of the trie, in which each word attends to its ancestors.
    """

    scores_tries = True
    _block_nodes: int | None = BLOCK_NODES  # nodes per block; None if the network reads only whole sentences

    def __init__(
        self,
        words: Words,
        embedding: torch.Tensor,
        bias: torch.Tensor | None,
        cache: int,
        gathered: int,
        options: LoadOptions,
    ) -> None:
        """Create a language model with an empty pool of states.

        Args:
            words: Vocabulary and special words.
            embedding: Output embedding, [words, width].
            bias: Output bias, [words].
            cache: Number of key and value elements that are cached per word, in all layers.
            gathered: Number of key and value elements per word that attention reads in one call, for example in
                one layer.
            options: Load options.
        """
        super().__init__(words, embedding, bias, cache + embedding.shape[1], cache, options)
        self._gathered_bytes = max(1, gathered) * self._states.element_size()
        self._parent = np.empty(0, np.int64)  # parent slot, −1 for <s>
        self._depth = np.empty(0, np.int64)  # number of words after <s>
        self._references = np.empty(0, np.int64)  # 1 for the caller, plus the number of child slots

    @abstractmethod
    def _read(self, path: Ids, words: npt.NDArray[np.integer]) -> torch.Tensor:
        """Read one word after each history and return the new rows of the state pool, float32 [n, row].

        Args:
            path: Slots of each history, left-padded with −1, [n, words].
            words: The words to read, [n].
        """

    @abstractmethod
    def _read_blocks(self, path: Ids, word: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Read blocks of a trie and return the outputs, [blocks, tokens, embedding].

        Args:
            path: Slots of the words before the first token of the blocks, [words]; empty if this token is ``<s>``.
            word: Word ids, [blocks, tokens].
            position: Number of words before each word, including ``<s>``; 0 for ``<s>`` itself; [blocks, tokens].
            mask: True at [b, i, j] if token i of block b attends to token j, [blocks, tokens, tokens].
        """

    def _step(self, row: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        return self._read(np.empty((len(row), 0), np.int64), words)

    def twin(self) -> None:
        """Return None, because a single matrix product already uses all cores; see `LanguageModel.twin`."""

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

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`.

        The nodes with children are divided into runs of consecutive nodes in depth-first order. Each run is read as a
        block, after the ancestors of its first node.
        """
        return self._score_below(self._root(), parent, word)

    def _root(self) -> Root:
        """Return the root that represents the history ``<s>``."""
        return Root(np.empty(0, np.int64), self.bos or 0, self._start_row)

    @torch.inference_mode()
    def _score_below(
        self, root: Root, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float32]:
        """Score the words of a trie after a history; see `score_trie`."""
        num_nodes = len(parent)
        has_children = np.zeros(num_nodes, np.bool_)
        has_children[parent[parent >= 0]] = True
        inner = np.flatnonzero(has_children)
        index = np.full(num_nodes + 1, -1)  # the last entry, index −1, is <s>
        index[inner] = np.arange(len(inner))
        forest = Forest.of(index[parent[inner]])
        score = np.empty(num_nodes, np.float32)
        read = np.full(num_nodes + 1, -1)  # row of each node's output in the current batch
        for nodes, output in self._forest_outputs(root, forest, word[inner]):
            nodes = np.append(inner, -1)[nodes]
            read[nodes] = np.arange(len(nodes))
            below = np.flatnonzero(read[parent] >= 0)
            row = read[parent[below]]
            read[nodes] = -1
            score[below] = self._products(output.index_select(0, self._tensor(row)), word[below])
            if self._normalize:
                score[below] -= self._log_normalisers(output)[row]
        return score

    def _forest_outputs(
        self, root: Root, forest: Forest, word: npt.NDArray[np.int32]
    ) -> Iterator[tuple[Ids, torch.Tensor]]:
        """Run the network on a forest and yield (nodes, their outputs) for the root and for each batch of blocks.

        Nodes are int64 [n], with −1 for the root; outputs are float32 [n, embedding].
        """
        yield np.array([-1]), root.row[:, self._output :]
        size = len(forest.node)
        # These tensors are indexed by rank, and have two more entries: padding at index `size`, the root at index −1.
        words = self._tensor(np.concatenate((word[forest.node], np.full(2, root.word))))
        depth = self._tensor(np.concatenate((forest.depth, [0, 0])) + len(root.path))
        end = self._tensor(np.concatenate((forest.end, [size + 1, size + 1])))
        max_tokens = self._max_batch or BATCH_TOKENS.get(self._device.type, 1024)
        blocks = forest.sentences() if self._block_nodes is None else forest.blocks(min(self._block_nodes, max_tokens))
        for group in batches(blocks, max_tokens):
            ranks = pad(group, size)
            rank = self._tensor(ranks)  # [blocks, tokens]
            mask = (rank[:, None, :] <= rank[:, :, None]) & (rank[:, :, None] < end[rank][:, None, :])
            output = self._read_blocks(root.path, words[rank], depth[rank], mask).flatten(0, 1)
            in_run = np.zeros(ranks.shape, np.bool_)
            for row, block in enumerate(group):
                in_run[row, 1 + block.num_above : 1 + len(block.rank)] = True
            yield forest.node[ranks[in_run]], output.index_select(0, self._tensor(np.flatnonzero(in_run))).float()

    def _pieces(self, slots: Ids) -> Iterator[Ids]:
        """Divide slots into batches and yield the indices of each batch; the deepest slots come first.

        Attention gathers at most `GATHER_BYTES` of keys and values for a batch, unless the batch has only one slot.
        """
        order = np.argsort(-self._depth[slots], kind="stable")
        first = 0
        while first < len(order):
            deepest = int(self._depth[slots[order[first]]])
            size = max(1, GATHER_BYTES // (self._gathered_bytes * (deepest + 2)))
            batch = order[first : first + min(size, self._max_batch or size)]
            yield batch
            first += len(batch)

    def _paths(self, slots: Ids) -> Ids:
        """Return the path from ``<s>`` to each slot, left-padded with −1, [n, words].

        Args:
            slots: Slots, [n]; no slot is deeper than the first.
        """
        path = np.empty((len(slots), int(self._depth[slots[0]]) + 1), np.int64)
        for column in range(path.shape[1] - 1, -1, -1):
            path[:, column] = slots
            slots = np.where(slots >= 0, self._parent[slots], -1)
        return path

    def _grow(self, capacity: int) -> None:
        more = (0, capacity - len(self._parent))
        super()._grow(capacity)
        arrays = self._parent, self._depth, self._references
        self._parent, self._depth, self._references = (np.pad(array, more) for array in arrays)
