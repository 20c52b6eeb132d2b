"""Rows of numbers that depend on one word only, computed when the word first occurs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from ninja.lm.recurrent.pool import Floats, Slots

CACHED_BYTES = 96 << 20


class WordRows:
    """A cache of the rows of words; twins of a model share it."""

    def __init__(self, num_words: int, width: int, compute: Callable[[np.ndarray], Floats]) -> None:
        """Make an empty cache; `compute` returns the rows of distinct words, float32 [n, width]."""
        self._num_words, self._width = num_words, width
        self._compute = compute
        self._lock = threading.Lock()
        self._most = max(1, CACHED_BYTES // (4 * width))
        self._forget()

    def _forget(self) -> None:
        self._row = np.full(self._num_words, -1)  # [words], -1 = not computed
        # A new table, as other threads may read the former one.
        self._table: Floats = np.empty((0, self._width), np.float32)
        self._num_rows = 0

    def of(self, words: np.ndarray) -> tuple[Floats, Slots]:
        """Return a table, float32 [rows, width], and the row of each word, int64 [n]."""
        with self._lock:
            missing = np.unique(words[self._row[words] < 0])
            if self._num_rows and self._num_rows + len(missing) > self._most:
                self._forget()
                missing = np.unique(words)
            if len(missing):
                self._add(missing)
            return self._table, self._row[words]

    def _add(self, words: np.ndarray) -> None:
        first, last = self._num_rows, self._num_rows + len(words)
        if last > len(self._table):
            table = np.empty((max(last, min(2 * last, self._most)), self._width), np.float32)
            table[:first] = self._table[:first]
            self._table = table
        self._table[first:last] = self._compute(words)
        self._row[words] = np.arange(first, last)
        self._num_rows = last
