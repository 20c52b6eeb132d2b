"""The class `Workers`: a process in a group that trains together, and its communication with the group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist

from ninja.errors import WorkerError

Result = TypeVar("Result")
TIMEOUT = timedelta(days=1)  # long, for slow workers; the death of a worker is detected immediately in any case


@dataclass(slots=True)
class Workers:
    """A worker in a group; by default, a single worker without a process group."""

    rank: int = 0
    size: int = 1
    machine_rank: int = 0  # rank among the workers on this machine
    machine_size: int = 1
    store: dist.Store | None = None  # key-value store shared by all workers
    seconds: float = 0.0  # time spent waiting for other workers and for the network

    @contextmanager
    def communicating(self) -> Iterator[None]:
        """Count the time spent in a ``with`` block as communication."""
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start

    def first_of_machine(self, work: Callable[[bool], Result]) -> Result:
        """Call `work` with True on one worker per machine, then with False on all other workers."""
        first = self.machine_rank == 0
        result = work(True) if first else None
        if self.size > 1:
            with self.communicating():
                dist.barrier()
        return work(False) if result is None else result

    def agree(self, value: float) -> float:
        """Return worker 0's value on all workers, so that they agree on decisions that depend on clocks or files."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        with self.communicating():
            dist.broadcast(shared, 0)
        return float(shared)

    def total(self, *values: float) -> list[float]:
        """Return the sum of each value over all workers, computed in double precision."""
        if self.size == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64)
        with self.communicating():
            dist.all_reduce(sums)
        return sums.tolist()

    def broadcast(self, vector: torch.Tensor) -> torch.Tensor:
        """Overwrite a vector with the vector of worker 0, and return it."""
        if self.size > 1:
            with self.communicating():
                dist.broadcast(vector, 0)
        return vector

    def gather(self, vector: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor | None:
        """Return the vectors of all workers in a group as the rows of a matrix on worker 0, and None elsewhere."""
        if self.size == 1:
            return vector[None].clone()
        rows = [torch.empty_like(vector) for _ in range(dist.get_world_size(group))] if self.rank == 0 else None
        with self.communicating():
            dist.gather(vector, rows, group=group)
        return None if rows is None else torch.stack(rows)

    def share_file(self, path: str) -> bytes:
        """Return the bytes of a file that needs to exist only on the machine of worker 0."""
        content = np.fromfile(path, np.uint8) if self.rank == 0 else np.empty(0, np.uint8)
        content = np.resize(content, int(self.agree(float(len(content)))))
        return self.broadcast(torch.from_numpy(content)).numpy().tobytes()


class LostContact(WorkerError):
    """Raised if another worker has ended; the error of that worker is reported instead of this error."""
