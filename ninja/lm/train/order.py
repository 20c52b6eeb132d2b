"""The order in which a text is trained on: numbered batches, the same for every worker."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ninja.lm.text import Sentences, batches


class Order:
    """Batches of all epochs, numbered from 0; which sentences a number stands for follows from seed and epoch alone.

    Workers agree on who takes which number, so each sentence is one worker's in an epoch, and another's in the next.
    """

    def __init__(self, sentences: Sentences, max_tokens: int, seed: int) -> None:
        self.sentences = sentences
        self.max_tokens = max_tokens
        self.seed = seed
        self._epochs = {0: self._batches(0)}
        self.epoch_batches = len(self._epochs[0])  # of every epoch: lengths of sentences do not change

    def batch(self, number: int) -> np.ndarray:
        """Return the sentences of a batch."""
        epoch, place = divmod(number, self.epoch_batches)
        if epoch not in self._epochs:
            # Workers may stand on both sides of the end of an epoch.
            self._epochs = {each: groups for each, groups in self._epochs.items() if each >= epoch - 1}
            self._epochs[epoch] = self._batches(epoch)
        return self._epochs[epoch][place]

    def num_words(self, numbers: Iterable[int]) -> int:
        """Count the words of some batches."""
        begin = self.sentences.begin
        return sum(int((begin[members + 1] - begin[members]).sum()) for members in map(self.batch, numbers))

    def num_tokens(self, numbers: Iterable[int]) -> int:
        """Count the words and ends of sentences of some batches."""
        numbers = list(numbers)
        return self.num_words(numbers) + sum(len(self.batch(number)) for number in numbers)

    def _batches(self, epoch: int) -> list[np.ndarray]:
        return batches(self.sentences, self.max_tokens, (self.seed, epoch))
