"""Phrases as a tree of words, in which they are copied word by word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]
UNKNOWN = -1  # a word that no lattice can hold
NOWHERE = -1  # in place of a node
_WORDS = 2**32


class PhraseTree:
    """The phrases of a list; nodes are their beginnings that another word may follow.

    A phrase with an unknown word cannot be read: it stays in the list and is never begun.
    """

    def __init__(self, phrases: Sequence[Sequence[int]]) -> None:
        """Make a tree of word ids of phrases, no two alike."""
        readable = [number for number, words in enumerate(phrases) if words and UNKNOWN not in words]
        readable.sort(key=lambda number: tuple(phrases[number]))
        self.phrase = np.array(readable, np.int64)  # numbers of the phrases that can be read, by their first words
        self.is_word = np.array([len(phrases[each]) == 1 for each in readable], np.bool_)  # of these, of one word
        first = np.array([phrases[each][0] for each in readable], np.int64)
        self.first, begin = np.unique(first, return_index=True)  # first words
        self.begin = np.append(begin, len(readable)).astype(np.int64)  # first word i: phrase[begin[i] : begin[i + 1]]
        node: dict[tuple[int, int], int] = {}  # by the node above, NOWHERE: none, and the word
        passing: list[int] = []  # phrases longer than each node
        ends: dict[tuple[int, int], int] = {}  # phrases that end with a word after a node
        self.depth = 0  # most words of a phrase that another follows
        for each in readable:
            at = NOWHERE
            *words, last = phrases[each]
            for word in words:
                at = node.setdefault((at, word), len(node))
                passing += [0] * (len(node) - len(passing))
                passing[at] += 1
            if words:
                ends[at, last] = ends.get((at, last), 0) + 1
            self.depth = max(self.depth, len(words))
        entered = [node.get((NOWHERE, word), NOWHERE) for word in self.first.tolist()]
        self.node = np.array(entered, np.int64)  # of first words
        steps = sorted({*ends, *(step for step in node if step[0] != NOWHERE)})
        self._step = np.array([above * _WORDS + word for above, word in steps], np.int64)
        self._child = np.array([node.get(step, NOWHERE) for step in steps], np.int64)
        count = [passing[above] for above, _ in steps]
        self._end = np.array([ends.get(step, 0) for step in steps], np.float64) / np.array(count, np.float64)
        longer = [passing[node[step]] if step in node else 0 for step in steps]
        self._longer = np.array(longer, np.float64) / np.array(count, np.float64)

    def entries(self, words: npt.NDArray[np.integer]) -> tuple[Ids, Ids]:
        """Return the rows of `phrase` that begin with each word: their beginnings and ends, int64 [n]."""
        if not len(self.first):
            return np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)
        place = np.minimum(np.searchsorted(self.first, words), len(self.first) - 1)
        found = self.first[place] == words
        return np.where(found, self.begin[place], 0), np.where(found, self.begin[place + 1], 0)

    def entered(self, words: npt.NDArray[np.integer]) -> Ids:
        """Return the nodes that first words lead to, `NOWHERE` where no phrase goes on after them; int64 [n]."""
        if not len(self.first):
            return np.full(len(words), NOWHERE)
        place = np.minimum(np.searchsorted(self.first, words), len(self.first) - 1)
        return np.where(self.first[place] == words, self.node[place], NOWHERE)

    def steps(self, nodes: Ids, words: npt.NDArray[np.integer]) -> tuple[Shares, Shares, Ids]:
        """Return the shares of phrases after nodes that end with a word and that go on after it, and their nodes.

        Args:
            nodes: Nodes, int64 [n]; after `NOWHERE` all shares are 0.
            words: The word that follows each, [n].
        """
        nothing = np.zeros(len(nodes)), np.zeros(len(nodes)), np.full(len(nodes), NOWHERE)
        if not len(self._step):
            return nothing
        step = nodes * _WORDS + words
        place = np.minimum(np.searchsorted(self._step, step), len(self._step) - 1)
        found = (self._step[place] == step) & (nodes != NOWHERE)
        return (
            np.where(found, self._end[place], 0.0),
            np.where(found, self._longer[place], 0.0),
            np.where(found, self._child[place], NOWHERE),
        )
