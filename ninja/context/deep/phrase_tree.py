"""Phrases as a tree of words, along which they are copied word by word."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]
UNKNOWN = -1  # a word that is not in the symbol table
END = -2  # padding after the last word of a phrase
NOWHERE = -1  # no node
_WORDS = 2**32


class PhraseTree:
    """The phrases of a list; nodes are beginnings of phrases that another word may follow.

    A phrase with an unknown word stays in the list and is never begun.
    """

    def __init__(self, phrases: Ids) -> None:
        """Make a tree of distinct phrases; word ids with `END` after the last, int64 [phrases, longest]."""
        readable = np.flatnonzero((phrases != UNKNOWN).all(1))
        order = np.lexsort(phrases[readable].T[::-1])
        self.phrase = readable[order]  # numbers of the phrases without unknown words, sorted by their words
        words = phrases[self.phrase]
        length = (words != END).sum(1)
        self.is_word = length == 1
        self.first, begin = np.unique(words[:, 0], return_index=True)  # first words
        self.begin = np.append(begin, len(words))  # first word i: phrase[begin[i] : begin[i + 1]]
        self.depth = int(length.max(initial=1)) - 1  # words of the longest phrase without its last
        node = np.full((len(words), self.depth + 2), NOWHERE)  # of each phrase after 0, 1, … of its words
        passing: list[int] = []  # phrases longer than each node
        differs = np.zeros(len(words), np.bool_)  # from the previous phrase, in its first words
        for depth in range(1, self.depth + 1):
            differs[1:] |= words[1:, depth - 1] != words[:-1, depth - 1]
            longer = length > depth
            _, number, count = np.unique(np.cumsum(differs)[longer], return_inverse=True, return_counts=True)
            node[longer, depth] = len(passing) + number
            passing += count.tolist()
        self.node = np.full(len(self.first), NOWHERE)  # after each first word, `NOWHERE` if no phrase continues
        np.maximum.at(self.node, np.searchsorted(self.first, words[:, 0]), node[:, 1])
        row, place = np.nonzero(node != NOWHERE)
        above, child = node[row, place], node[row, place + 1]
        self._step, number = np.unique(above * _WORDS + words[row, place], return_inverse=True)
        share = 1.0 / np.array(passing, np.float64)[above]
        ends = child == NOWHERE
        self._end = np.bincount(number, share * ends, len(self._step))
        self._longer = np.bincount(number, share * ~ends, len(self._step))
        self._child = np.full(len(self._step), NOWHERE)
        np.maximum.at(self._child, number, child)

    def entries(self, words: npt.NDArray[np.integer]) -> tuple[Ids, Ids]:
        """Return the begin and end of the rows of `phrase` that begin with each word, int64 [n] each."""
        if not len(self.first):
            return np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)
        place = np.minimum(np.searchsorted(self.first, words), len(self.first) - 1)
        is_first = self.first[place] == words
        return np.where(is_first, self.begin[place], 0), np.where(is_first, self.begin[place + 1], 0)

    def entered(self, words: npt.NDArray[np.integer]) -> Ids:
        """Return the nodes after first words, `NOWHERE` if no phrase continues after them; int64 [n]."""
        if not len(self.first):
            return np.full(len(words), NOWHERE)
        place = np.minimum(np.searchsorted(self.first, words), len(self.first) - 1)
        return np.where(self.first[place] == words, self.node[place], NOWHERE)

    def steps(self, nodes: Ids, words: npt.NDArray[np.integer]) -> tuple[Shares, Shares, Ids]:
        """Return, by node, the shares of phrases that end with a word and that continue after it, and the next nodes.

        Args:
            nodes: Nodes, int64 of any shape; after `NOWHERE` all shares are 0.
            words: The word that follows each, of a shape that broadcasts.
        """
        if not len(self._step):
            return np.zeros(nodes.shape), np.zeros(nodes.shape), np.full(nodes.shape, NOWHERE)
        step = nodes * _WORDS + words
        place = np.minimum(np.searchsorted(self._step, step), len(self._step) - 1)
        is_step = (self._step[place] == step) & (nodes != NOWHERE)
        return (
            np.where(is_step, self._end[place], 0.0),
            np.where(is_step, self._longer[place], 0.0),
            np.where(is_step, self._child[place], NOWHERE),
        )
