"""Threads that compute on separate rows of a batch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from ninja.files.threads import num_cores

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

ROWS_AT_ONCE = 256  # rows per thread and step, which fit its cache
FEWEST_ROWS = 16  # rows for which another thread is worthwhile


class RowThreads:
    """A pool of `count` threads, by default one for each core, that compute on separate rows of a batch."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or num_cores()
        self._pool: ThreadPoolExecutor | None = None

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self.count, "rows")
        return self._pool

    def run(self, compute: Callable[[slice], None], num_rows: int) -> None:
        """Compute on all rows in pieces, in several threads at once."""
        if num_rows < 2 * FEWEST_ROWS:
            if num_rows:
                compute(slice(0, num_rows))
            return
        num_pieces = -(-num_rows // ROWS_AT_ONCE)
        num_pieces = min(-(-num_pieces // self.count) * self.count, num_rows // FEWEST_ROWS)
        edges = [num_rows * place // num_pieces for place in range(num_pieces + 1)]
        pieces = [slice(first, last) for first, last in pairwise(edges)]
        if self.count == 1:
            for piece in pieces:
                compute(piece)
            return
        from concurrent.futures import wait

        futures = [self._started().submit(compute, piece) for piece in pieces]
        wait(futures)  # also after a failure, so that no piece writes rows that the caller then reuses
        for future in futures:
            future.result()
