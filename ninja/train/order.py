"""The order in which a text is trained on: numbered batches, the same for every worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ninja.lm.text import Sentences


class Epoch(NamedTuple):
    """The batches of a pass over the text."""

    sentence: np.ndarray  # in the order of their lengths
    begin: np.ndarray  # of each batch in `sentence`, and the end of the last
    turn: np.ndarray  # the order of these batches


class Order:
    """Batches of all epochs, numbered from 0; seed and epoch determine the sentences of each number.

    The workers divide the numbers, so each sentence belongs to one worker in an epoch. The batches are those of
    `ninja.lm.text.batches`, in 8 bytes a sentence.
    """

    def __init__(self, sentences: Sentences, max_tokens: int, seed: int) -> None:
        self.sentences = sentences
        self.seed = seed
        self._length = np.empty(len(sentences), np.uint16)  # a sentence of n words predicts n + 1: its end too
        for first in range(0, len(sentences), 1 << 20):
            begin = sentences.begin[first : first + (1 << 20) + 1]
            self._length[first : first + len(begin) - 1] = np.diff(begin) + 1
        self._begin = _cut(np.sort(self._length), max_tokens)  # the same in every epoch
        self.epoch_batches = len(self._begin) - 1
        self._epochs: dict[int, Epoch] = {}

    def batch(self, number: int) -> np.ndarray:
        """Return the sentences of a batch."""
        epoch, place = divmod(number, self.epoch_batches)
        if epoch not in self._epochs:
            # Some workers may still be in the epoch before.
            self._epochs = {number: groups for number, groups in self._epochs.items() if number >= epoch - 1}
            self._epochs[epoch] = self._epoch(epoch)
        sentence, begin, turn = self._epochs[epoch]
        return sentence[begin[turn[place]] : begin[turn[place] + 1]].astype(np.int64)

    def num_words(self, numbers: Iterable[int]) -> int:
        """Count the words of some batches."""
        return sum(
            int(self._length[members].sum(dtype=np.int64)) - len(members) for members in map(self.batch, numbers)
        )

    def num_tokens(self, numbers: Iterable[int]) -> int:
        """Count the words and ends of sentences of some batches."""
        return sum(int(self._length[members].sum(dtype=np.int64)) for members in map(self.batch, numbers))

    def _epoch(self, epoch: int) -> Epoch:
        random = np.random.default_rng((self.seed, epoch))
        sentence = random.permutation(np.arange(len(self._length), dtype=np.uint32))
        sentence = sentence[np.argsort(self._length[sentence], kind="stable")]
        return Epoch(sentence, self._begin, random.permutation(self.epoch_batches))


def _cut(length: np.ndarray, max_tokens: int) -> np.ndarray:
    """Cut rising lengths into runs as long as `max_tokens` allow when padded to the last; or of one."""
    begin = [0]
    while begin[-1] < len(length):
        first = begin[-1]
        some = length[first : first + max_tokens].astype(np.int64)  # a token each is the least
        fits = np.searchsorted(some * np.arange(1, len(some) + 1), max_tokens, side="right")
        begin.append(first + max(1, int(fits)))
    return np.array(begin)
