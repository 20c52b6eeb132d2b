"""Vectors kept by what they are of, up to a bound; those that were longest not asked for go first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
MOST_KEPT = 200_000
NO_ROW = -1


class KeptVectors:
    """A table of vectors of one size; to be used from any thread."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._lock = Lock()
        self._row: dict[Hashable, int] = {}
        self._vector: Vectors = np.zeros((0, 0), np.float32)  # [capacity, size]
        self._asked = np.zeros(0, np.int64)  # number of the call that last asked for each row, [capacity]
        self._calls = 0

    def __len__(self) -> int:
        return len(self._row)

    def of(self, keys: Sequence[Hashable], make: Callable[[list[int]], Vectors]) -> Vectors:
        """Return the vectors of some keys, float32 [keys, size].

        Args:
            keys: At least one.
            make: Gives the vectors of the keys at these places; asked for those only that are not kept.
        """
        with self._lock:
            self._calls += 1
            row = self._rows(keys)
            new = {keys[place]: place for place in np.flatnonzero(row == NO_ROW).tolist()}
            self._asked[row[row != NO_ROW]] = self._calls
            if new:
                if np.count_nonzero(self._asked == self._calls) + len(new) > self._most:
                    return make(list(range(len(keys))))
                self._keep(list(new), make(list(new.values())))
                row = self._rows(keys)
            return self._vector[row]

    def _rows(self, keys: Sequence[Hashable]) -> npt.NDArray[np.int64]:
        find = self._row.get
        return np.array([find(key, NO_ROW) for key in keys], np.int64)

    def _keep(self, keys: list[Hashable], vectors: Vectors) -> None:
        if len(self._row) + len(keys) > self._most:
            self._forget(max(int(np.count_nonzero(self._asked == self._calls)), (self._most - len(keys)) // 2))
        begin, end = len(self._row), len(self._row) + len(keys)
        if end > len(self._vector):
            spare = min(2 * end, self._most) - begin
            old = self._vector[:begin].reshape(begin, vectors.shape[1])
            self._vector = np.pad(old, ((0, spare), (0, 0)))
            self._asked = np.pad(self._asked[:begin], (0, spare))
        self._vector[begin:end] = vectors
        self._asked[begin:end] = self._calls
        self._row |= zip(keys, range(begin, end), strict=True)

    def _forget(self, left: int) -> None:
        """Forget all but those that were asked for last, of which so many are left."""
        asked = self._asked[: len(self._row)]
        kept = np.sort(np.argsort(asked, kind="stable")[len(asked) - left :])
        known = list(self._row)
        self._row = {known[old]: row for row, old in enumerate(kept.tolist())}
        self._vector[:left], self._asked[:left] = self._vector[kept], self._asked[kept]
        self._asked[left:] = 0
