"""The class `Order`: the sequence of training batches, which is the same for every worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ninja.lm.text import Sentences, runs


class Epoch(NamedTuple):
    """The batches of one pass over the text."""

    sentence: np.ndarray  # indices of the sentences, sorted by length
    begin: np.ndarray  # offset of each batch in `sentence`, and the end of the last batch
    turn: np.ndarray  # indices of the batches in training order


class Order:
    """Numbered batches of sentences; the 0-based numbers continue across epochs.

    The seed and the epoch determine which sentences each batch contains. Workers take different batch numbers, so each
    sentence is seen by one worker per epoch. The batches are formed as in `ninja.lm.text.batches`. Memory use is
    6 bytes per sentence in the first epoch, and 10 bytes later, because the previous epoch is kept.
    """

    def __init__(self, sentences: Sentences, max_tokens: int, seed: int) -> None:
        self.sentences = sentences
        self.seed = seed
        self._length = np.empty(len(sentences), np.uint16)  # including </s>, which is also predicted
        for first in range(0, len(sentences), 1 << 20):
            begin = sentences.begin[first : first + (1 << 20) + 1]
            self._length[first : first + len(begin) - 1] = np.diff(begin) + 1
        # Batch sizes are the same in every epoch.
        self._begin = np.array([0, *(run.stop for run in runs(np.sort(self._length), max_tokens))])
        self.epoch_batches = len(self._begin) - 1
        self._epochs: dict[int, Epoch] = {}

    def batch(self, number: int) -> np.ndarray:
        """Return the indices of the sentences in a batch, int64 [n]."""
        epoch, index = divmod(number, self.epoch_batches)
        if epoch not in self._epochs:
            # Some workers may still be in the previous epoch.
            self._epochs = {number: groups for number, groups in self._epochs.items() if number >= epoch - 1}
            self._epochs[epoch] = self._epoch(epoch)
        sentence, begin, turn = self._epochs[epoch]
        return sentence[begin[turn[index]] : begin[turn[index] + 1]].astype(np.int64)

    def num_words(self, numbers: Iterable[int]) -> int:
        """Return the total number of words in batches, excluding ``</s>``."""
        return sum(
            int(self._length[members].sum(dtype=np.int64)) - len(members) for members in map(self.batch, numbers)
        )

    def num_tokens(self, numbers: Iterable[int]) -> int:
        """Return the total number of words in batches, including ``</s>``."""
        return sum(int(self._length[members].sum(dtype=np.int64)) for members in map(self.batch, numbers))

    def _epoch(self, epoch: int) -> Epoch:
        random = np.random.default_rng((self.seed, epoch))
        sentence = random.permutation(np.arange(len(self._length), dtype=np.uint32))
        sentence = sentence[np.argsort(self._length[sentence], kind="stable")]
        return Epoch(sentence, self._begin, random.permutation(self.epoch_batches))
