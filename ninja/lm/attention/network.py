"""Networks with attention behind the protocol: keys and values along the trie, whole tries in one pass.

A trie of words in depth-first order is cut into blocks that the network reads each on its own.

    <s> ─ a ─ b ─ c            rank    0 1 2 3 4 5
        │   └ d                node    a b c d e f
        └ e ─ f                end     4 3 3 4 6 6     the ranks node … end − 1 are a node and what stands below it

In this order everything above a run of ranks stands either in the run or above its first node. So a block is a run
and the path to it, and the first node of a pair stands above the second exactly if ``rank ≤ other rank < end``.
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

GATHER_BYTES = 16 * 2**20  # keys and values gathered for one attention; more would only wait for memory
BLOCK_NODES = 128  # of a trie that are read together; attention costs a block its square
BATCH_TOKENS = {"cpu": 1024, "cuda": 16_384}  # read in one pass of the network; fewer lose speed, more only take memory

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Ids that are read together: the path to a run, and the run."""

    rank: Ids  # [tokens], without <s>
    num_above: int  # of these, how many belong to the path


@dataclass(frozen=True, slots=True)
class Forest:
    """A trie below ``<s>`` in depth-first order; arrays by rank, [nodes] each."""

    node: Ids
    parent: Ids  # rank of it; −1 = <s>
    end: Ids  # first rank after all that stands below
    depth: Ids  # words after <s>, the node's own included

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


def pad(blocks: list[Block], padding: int) -> Ids:
    """Lay blocks side by side behind ``<s>``: ranks, [blocks, tokens]; ``<s>`` is −1."""
    width = max(len(block.rank) for block in blocks) + 1
    rank = np.full((len(blocks), width), padding, np.int64)
    rank[:, 0] = -1
    for row, block in enumerate(blocks):
        rank[row, 1 : len(block.rank) + 1] = block.rank
    return rank


class AttentionLM(StatePoolLM):
    """A network with attention behind the protocol of `LanguageModel`; see there for its methods.

    A row of the pool holds what the history's last word tells longer histories, its keys and values, and then the
    network's output. A history knows the slot it was made from; slots given back stay as long as longer ones need them.

        <s> ◄── the ◄── cat ◄── sat          a slot each; `advance` gathers those on the way to <s>
                  ▲──── dog

    `score_trie` keeps nothing: it reads blocks of the trie at once, each word with the words above it in sight.
    """

    scores_tries = True
    _block_nodes: int | None = BLOCK_NODES  # None: the network cannot read tries, and reads their sentences

    def __init__(
        self,
        words: Words,
        embedding: torch.Tensor,
        bias: torch.Tensor | None,
        cache: int,
        gathered: int,
        options: LoadOptions,
    ) -> None:
        """Make an empty pool, see `StatePoolLM`: `cache` numbers are kept of each word, `gathered` are read at once."""
        super().__init__(words, embedding, bias, cache + embedding.shape[1], cache, options)
        self._gathered_bytes = max(1, gathered) * self._states.element_size()
        self._parent = np.empty(0, np.int64)  # slot each slot was made from, −1 = <s> alone
        self._depth = np.empty(0, np.int64)  # words after <s>
        self._references = np.empty(0, np.int64)  # 1 for the caller, and 1 for each slot made from it

    @abstractmethod
    def _read(self, path: Ids, words: npt.NDArray[np.integer]) -> torch.Tensor:
        """Read a word after each history, whose slots are in `path`, −1 before shorter ones; rows, float32 [n, row]."""

    @abstractmethod
    def _read_blocks(self, word: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Read blocks of a trie, of which `mask` shows each word some: outputs, [blocks, tokens, embedding]."""

    def _step(self, row: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        return self._read(np.empty((len(row), 0), np.int64), words)

    def twin(self) -> None:
        """See `LanguageModel.twin`; each of its products is large enough for all cores."""

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
            for some in self._pieces(slots):
                rows = self._read(self._paths(slots[some]), words[some])
                self._states.index_copy_(0, self._tensor(new[some]), rows)
        except BaseException:  # memory may run out here, and a smaller batch be tried
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

        Every node that has children is read, in some block, once; a block also reads the way to its first node again.
        """
        num_nodes = len(parent)
        has_children = np.zeros(num_nodes, np.bool_)
        has_children[parent[parent >= 0]] = True
        inner = np.flatnonzero(has_children)
        place = np.full(num_nodes + 1, -1)  # the last entry is that of <s>, whom numpy too finds at −1
        place[inner] = np.arange(len(inner))
        forest = Forest.of(place[parent[inner]])
        score = np.empty(num_nodes, np.float32)
        read = np.full(num_nodes + 1, -1)  # row in which a node's output has just been computed
        for nodes, output in self._outputs_below(forest, word[inner]):
            known = np.append(inner, -1)[nodes]
            read[known] = np.arange(len(known))
            below = np.flatnonzero(read[parent] >= 0)
            row = read[parent[below]]
            read[known] = -1
            score[below] = self._products(output.index_select(0, self._tensor(row)), word[below])
            if self._normalize:
                score[below] -= self._log_normalisers(output)[row]
        return score

    def _outputs_below(self, forest: Forest, word: npt.NDArray[np.int32]) -> Iterator[tuple[Ids, torch.Tensor]]:
        """Read a forest; yields nodes, −1 for ``<s>``, and their outputs, float32 [nodes, embedding]."""
        yield np.array([-1]), self._start_row[:, self._output :]
        size = len(forest.node)
        # By rank, with two more entries: padding, which is at `size`, and <s>, whom numpy finds at −1.
        words = self._tensor(np.concatenate((word[forest.node], np.full(2, self.bos))))
        depth = self._tensor(np.concatenate((forest.depth, [0, 0])))
        end = self._tensor(np.concatenate((forest.end, [size + 1, size + 1])))
        most = self._max_batch or BATCH_TOKENS.get(self._device.type, 1024)
        blocks = forest.sentences() if self._block_nodes is None else forest.blocks(min(self._block_nodes, most))
        for group in batches(blocks, most):
            ranks = pad(group, size)
            rank = self._tensor(ranks)  # [blocks, tokens]
            mask = (rank[:, None, :] <= rank[:, :, None]) & (rank[:, :, None] < end[rank][:, None, :])
            output = self._read_blocks(words[rank], depth[rank], mask).flatten(0, 1)
            own = np.zeros(ranks.shape, np.bool_)
            for row, block in enumerate(group):
                own[row, 1 + block.num_above : 1 + len(block.rank)] = True
            yield forest.node[ranks[own]], output.index_select(0, self._tensor(np.flatnonzero(own))).float()

    def _pieces(self, slots: Ids) -> Iterator[Ids]:
        """Cut a batch into places of like depth whose keys and values may exist at once, the deepest first."""
        order = np.argsort(-self._depth[slots], kind="stable")
        first = 0
        while first < len(order):
            deepest = int(self._depth[slots[order[first]]])
            size = max(1, GATHER_BYTES // (self._gathered_bytes * (deepest + 2)))
            some = order[first : first + min(size, self._max_batch or size)]
            yield some
            first += len(some)

    def _paths(self, slots: Ids) -> Ids:
        """Return the slots on the way from ``<s>`` to each of some slots, the deepest first, [n, words]."""
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
