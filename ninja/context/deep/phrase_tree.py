"""`PhraseTree`, a prefix tree of phrases."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]
UNKNOWN = -1  # id of words that are not in the symbol table
END = -2  # padding after the last word of a phrase
NOWHERE = -1  # marks a missing node
_WORDS = 2**32


class PhraseTree:
    """A tree whose nodes are the proper prefixes of phrases.

    Phrases with an unknown word are not in the tree.
    """

    def __init__(self, phrases: Ids) -> None:
        """Build the tree from distinct phrases: word ids, padded with `END`, int64 [phrases, longest]."""
        readable = np.flatnonzero((phrases != UNKNOWN).all(1))
        order = np.lexsort(phrases[readable].T[::-1])
        self.phrase = readable[order]  # indices of the phrases without unknown words, sorted by their words
        words = phrases[self.phrase]
        length = (words != END).sum(1)
        self.is_word = length == 1
        self.first, begin = np.unique(words[:, 0], return_index=True)  # first words
        self.begin = np.append(begin, len(words))  # phrases of first word i: phrase[begin[i] : begin[i + 1]]
        self.depth = int(length.max(initial=1)) - 1  # length of the longest proper prefix
        node = np.full((len(words), self.depth + 2), NOWHERE)  # node of each phrase after 0, 1, … of its words
        passing: list[int] = []  # number of phrases that continue after each node
        differs = np.zeros(len(words), np.bool_)  # whether each phrase differs from the previous one in its first words
        for depth in range(1, self.depth + 1):
            differs[1:] |= words[1:, depth - 1] != words[:-1, depth - 1]
            longer = length > depth
            _, number, count = np.unique(np.cumsum(differs)[longer], return_inverse=True, return_counts=True)
            node[longer, depth] = len(passing) + number
            passing += count.tolist()
        self.node = np.full(len(self.first), NOWHERE)  # node of each first word, `NOWHERE` if no phrase continues
        np.maximum.at(self.node, np.searchsorted(self.first, words[:, 0]), node[:, 1])
        row, depth_of = np.nonzero(node != NOWHERE)
        above, child = node[row, depth_of], node[row, depth_of + 1]
        self._step, number = np.unique(above * _WORDS + words[row, depth_of], return_inverse=True)
        share = 1.0 / np.array(passing, np.float64)[above]
        ends = child == NOWHERE
        self._end = np.bincount(number, share * ends, len(self._step))
        self._longer = np.bincount(number, share * ~ends, len(self._step))
        self._child = np.full(len(self._step), NOWHERE)
        np.maximum.at(self._child, number, child)

    def entries(self, words: npt.NDArray[np.integer]) -> tuple[Ids, Ids]:
        """Return the range (first, last + 1) in `phrase` of the phrases that begin with each word, int64 [n] each."""
        if not len(self.first):
            return np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)
        index = np.minimum(np.searchsorted(self.first, words), len(self.first) - 1)
        is_first = self.first[index] == words
        return np.where(is_first, self.begin[index], 0), np.where(is_first, self.begin[index + 1], 0)

    def entered(self, words: npt.NDArray[np.integer]) -> Ids:
        """Return the node that each word leads to as the first word of a phrase, int64 [n].

        The node is `NOWHERE` if no phrase with more than one word begins with the word.
        """
        if not len(self.first):
            return np.full(len(words), NOWHERE)
        index = np.minimum(np.searchsorted(self.first, words), len(self.first) - 1)
        return np.where(self.first[index] == words, self.node[index], NOWHERE)

    def steps(self, nodes: Ids, words: npt.NDArray[np.integer]) -> tuple[Shares, Shares, Ids]:
        """Advance nodes by one word each.

        Args:
            nodes: Nodes, int64 of any shape; `NOWHERE` yields 0 for both fractions.
            words: The next words, in a shape that can be broadcast to the shape of `nodes`.

        Returns:
            Three arrays in the shape of `nodes`: the fraction of each node's phrases that end with the word, the
            fraction that continue after it, and the node to which the word leads.
        """
        if not len(self._step):
            return np.zeros(nodes.shape), np.zeros(nodes.shape), np.full(nodes.shape, NOWHERE)
        step = nodes * _WORDS + words
        index = np.minimum(np.searchsorted(self._step, step), len(self._step) - 1)
        is_step = (self._step[index] == step) & (nodes != NOWHERE)
        return (
            np.where(is_step, self._end[index], 0.0),
            np.where(is_step, self._longer[index], 0.0),
            np.where(is_step, self._child[index], NOWHERE),
        )
