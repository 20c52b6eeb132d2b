"""Threads that compute on separate rows of a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from ninja.lattice.batch import num_cores

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

ROWS_AT_ONCE = 256  # rows per thread and step, which fit its cache
FEWEST_ROWS = 16  # minimum number of rows per piece


class RowThreads:
    """Up to `count` threads, by default one for each core, that compute on separate rows of a batch.

    The calling thread is one of them.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or num_cores()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def _num_helpers(self) -> int:
        return self.count - 1

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._num_helpers, "rows")
        return self._pool

    def run(self, compute: Callable[[slice], None], num_rows: int, fewest: int = FEWEST_ROWS) -> None:
        """Compute all rows of a batch on several threads, in pieces of at least `fewest` rows."""
        if num_rows < 2 * fewest:
            if num_rows:
                compute(slice(0, num_rows))
            return
        num_pieces = -(-num_rows // ROWS_AT_ONCE)
        num_pieces = min(-(-num_pieces // self.count) * self.count, num_rows // fewest)
        edges = [num_rows * place // num_pieces for place in range(num_pieces + 1)]
        pieces = deque(slice(first, last) for first, last in pairwise(edges))

        def work() -> None:
            while pieces:
                try:
                    piece = pieces.popleft()
                except IndexError:  # another thread has taken the last one
                    return
                compute(piece)

        self._run_on(min(self.count, num_pieces), work)

    def _run_on(self, count: int, work: Callable[[], None]) -> None:
        """Call a function in `count` threads at once, and raise its first error."""
        helpers = [self._started().submit(work) for _ in range(count - 1)]
        try:
            work()
        finally:  # also after an error, so that no thread writes rows that the caller reuses
            for helper in helpers:
                if not helper.cancel():  # it has started
                    helper.exception()
        for helper in helpers:
            if not helper.cancelled():
                helper.result()
