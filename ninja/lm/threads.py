"""Share the rows of a batch among threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

ROWS_AT_ONCE = 256  # what a thread computes on at a time; more would not stay in its cache
FEWEST_ROWS = 16  # for which a thread of its own is worth while


class Threads:
    """As many threads as torch has, each of which computes alone.

    torch would share every single operation among its threads, wait for the slowest, and leave what is no operation
    of its to one of them. Rows of a batch need nothing of one another: shared out once, they keep all threads busy
    to the end: a fifth of the time saved on two cores.
    """

    def __init__(self) -> None:
        self.count = torch.get_num_threads()
        self._pool: ThreadPoolExecutor | None = None

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count, "rows")
            meeting = threading.Barrier(self.count)  # so that each thread is asked once

            def join(_: int) -> None:
                torch.set_num_threads(1)  # of this thread, and, a flaw of torch, of those that start from now on
                meeting.wait()

            list(self._pool.map(join, range(self.count)))
            torch.set_num_threads(self.count)
        return self._pool

    def run(self, compute: Callable[[slice], None], num_rows: int) -> None:
        """Compute on all rows, piece by piece.

        Args:
            compute: Called with pieces of the rows, in several threads at once.
            num_rows: How many there are.
        """
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
        for _ in self._started().map(torch.inference_mode()(compute), pieces):
            pass
