"""Numbers of slots: which are in use, which are free."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FIRST_CAPACITY = 256  # slots at first; doubled when they run out


class SlotPool:
    """A stack of free slots, the last one given back first reused."""

    def __init__(self, grow: Callable[[int], None]) -> None:
        """Begin without slots; `grow` allocates this many in all."""
        self._grow = grow
        self._free: npt.NDArray[np.int64] = np.empty(0, np.int64)  # [capacity], a stack
        self._num_free = 0

    @property
    def num_used(self) -> int:
        """Number of slots in use."""
        return len(self._free) - self._num_free

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """Reserve slots, int64 [count]."""
        if count > self._num_free:
            old = len(self._free)
            capacity = max(FIRST_CAPACITY, 2 * old)
            while capacity - self.num_used < count:
                capacity *= 2
            self._grow(capacity)  # first: memory may run out here
            free = np.empty(capacity, np.int64)
            free[: self._num_free] = self._free[: self._num_free]
            self._free = free
            self.give_back(np.arange(capacity - 1, old - 1, -1))
        self._num_free -= count
        return self._free[self._num_free : self._num_free + count].copy()

    def give_back(self, slots: npt.NDArray[np.int64]) -> None:
        """Make slots free again, each once."""
        assert self._num_free + len(slots) <= len(self._free), "a slot was released twice"
        self._free[self._num_free : self._num_free + len(slots)] = slots
        self._num_free += len(slots)
