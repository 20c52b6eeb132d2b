"""Word vectors of Kaldi RNNLMs, computed as sums of feature vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.lm.recurrent.array_lstm import Floats, Slots, WordRows


class FeatureEmbedding:
    """Word vectors that are computed on demand, as weighted sums of the words' feature vectors.

    Args:
        weight: Vector of each feature, float32 [features, width].
        begin: The features of word w are the entries begin[w] to begin[w + 1] − 1; int64 [words + 1].
        index: Feature of each entry, int64 [entries].
        value: Weight of each entry, float32 [entries].
    """

    def __init__(self, weight: Floats, begin: Slots, index: Slots, value: Floats) -> None:
        self._weight, self._begin, self._index, self._value = weight, begin, index, value
        self.shape = len(begin) - 1, weight.shape[1]
        self._rows = WordRows(*self.shape, self._sums)

    def rows(self, words: np.ndarray, width: int | None = None) -> Floats:
        """See `WordVectors.rows`."""
        return self._sums(words)[:, :width]

    def table(self, words: np.ndarray) -> tuple[Floats, None, npt.NDArray[np.int32]]:
        """See `WordVectors.table`."""
        table, row = self._rows.of(words)
        return table, None, row.astype(np.int32)

    def _sums(self, words: np.ndarray) -> Floats:
        result = np.zeros((len(words), self.shape[1]), np.float32)
        count = self._begin[words + 1] - self._begin[words]
        # Each pass adds one feature of each word; there are few passes, because words have few features.
        for number in range(int(count.max(initial=0))):
            rows = np.flatnonzero(count > number)
            entry = self._begin[words[rows]] + number
            result[rows] += self._weight[self._index[entry]] * self._value[entry, None]
        return result
