"""An LRU cache of vectors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
CAPACITY = 200_000
NO_ROW = -1


class VectorCache:
    """A thread-safe cache of vectors of equal size, from which the least recently used vectors are evicted."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._row: dict[Hashable, int] = {}
        self._vector: Vectors = np.zeros((0, 0), np.float32)  # [allocated, size]
        self._last_call = np.zeros(0, np.int64)  # number of the call that last used each row, [allocated]
        self._calls = 0

    def __len__(self) -> int:
        return len(self._row)

    def get(self, keys: Sequence[Hashable], make: Callable[[list[int]], Vectors]) -> Vectors:
        """Return the vectors of keys, float32 [keys, size].

        Args:
            keys: The keys; there must be at least one.
            make: Function that takes indices in `keys` and returns the vectors of these keys, float32 [n, size]. It is
                called for the keys that are not cached, or for all keys if their number exceeds the capacity.
        """
        with self._lock:
            self._calls += 1
            row = self._rows(keys)
            new = {keys[index]: index for index in np.flatnonzero(row == NO_ROW).tolist()}
            self._last_call[row[row != NO_ROW]] = self._calls
            if new:
                if np.count_nonzero(self._last_call == self._calls) + len(new) > self._capacity:
                    return make(list(range(len(keys))))
                self._add(list(new), make(list(new.values())))
                row = self._rows(keys)
            return self._vector[row]

    def _rows(self, keys: Sequence[Hashable]) -> npt.NDArray[np.int64]:
        find = self._row.get
        return np.array([find(key, NO_ROW) for key in keys], np.int64)

    def _add(self, keys: list[Hashable], vectors: Vectors) -> None:
        if len(self._row) + len(keys) > self._capacity:
            in_use = int(np.count_nonzero(self._last_call == self._calls))
            self._evict(max(in_use, (self._capacity - len(keys)) // 2))
        begin, end = len(self._row), len(self._row) + len(keys)
        if end > len(self._vector):
            spare = min(2 * end, self._capacity) - begin
            self._vector = np.pad(self._vector[:begin].reshape(begin, vectors.shape[1]), ((0, spare), (0, 0)))
            self._last_call = np.pad(self._last_call[:begin], (0, spare))
        self._vector[begin:end] = vectors
        self._last_call[begin:end] = self._calls
        self._row |= zip(keys, range(begin, end), strict=True)

    def _evict(self, num_left: int) -> None:
        """Keep only the `num_left` most recently used vectors."""
        last_call = self._last_call[: len(self._row)]
        rows = np.sort(np.argsort(last_call, kind="stable")[len(last_call) - num_left :])
        keys = list(self._row)
        self._row = {keys[old]: row for row, old in enumerate(rows.tolist())}
        self._vector[:num_left], self._last_call[:num_left] = self._vector[rows], self._last_call[rows]
        self._last_call[num_left:] = 0
