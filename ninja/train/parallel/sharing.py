"""The interface of methods that combine the updates of workers; a single worker, and synchronous SGD."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from ninja.lm.checkpoint import Module
from ninja.train.parallel.workers import Workers


class StepAssignment(NamedTuple):
    """A step of a worker."""

    at: int  # batches taken by all workers before it, for the learning rate
    number: int  # of the worker's batch
    together: range  # numbers of the batches whose gradients are averaged for it


@dataclass(slots=True)
class Learner:
    """The network that a worker trains, and its optimiser."""

    module: Module
    optimizer: torch.optim.Adam


class SingleWorker:
    """A worker that trains alone; the base of the methods.

    Between two meetings of the workers, `assignments` yields the batches of this worker; `before_step` and `after_step`
    are called around each step. At a meeting (`meet`) all workers know of the same batches.
    """

    in_step = True  # workers make the same steps, so that no decision may depend on their own clocks
    staleness: float | None = None

    def __init__(self, learner: Learner, workers: Workers) -> None:
        self.learner = learner
        self.workers = workers
        self.forward: torch.nn.Module = learner.module  # computes the outputs

    def steps(self, batches: int) -> int:
        """Return the steps a worker makes until all have taken so many batches."""
        return batches // self.workers.size

    def whole(self, batches: int) -> int:
        """Return the largest number of batches, at most this, that gives every worker the same number of steps."""
        return batches - batches % self.workers.size

    def next_meeting(self, batches: int) -> int:
        """Return the number of batches taken by the next meeting."""
        return batches + self.workers.size

    def assignments(self, first: int, last: int) -> Iterator[StepAssignment]:
        """Yield this worker's steps between the meetings at `first` and at `last` batches."""
        for at in range(first, last, self.workers.size):
            yield StepAssignment(at, at + self.workers.rank, range(at, at + self.workers.size))

    def before_step(self) -> None:
        """Prepare the weights."""

    def after_step(self) -> None:
        """Share the change of the step."""

    def stop_early(self) -> None:
        """Meet at once; called on worker 0 of methods whose workers are not in step."""

    def meet(self, last: int) -> int:
        """Wait for all workers; return the number of batches taken."""
        return last

    @contextmanager
    def result(self) -> Iterator[None]:
        """Put the weights that the training would end with into the network, within a ``with`` block."""
        yield

    def state(self) -> dict[str, Any]:
        """Return the state beyond network and optimiser; called at meetings, on all workers."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state, after those of network and optimiser."""

    def close(self) -> None:
        """Stop background threads."""


class Synchronous(SingleWorker):
    """Synchronous SGD: torch's DistributedDataParallel averages the gradients of each step."""

    def __init__(self, learner: Learner, workers: Workers) -> None:
        super().__init__(learner, workers)
        self.forward = averaging(learner.module, workers)


def averaging(module: Module, workers: Workers, group: dist.ProcessGroup | None = None) -> DistributedDataParallel:
    """Wrap a network so that a backward pass leaves the mean of the workers' gradients.

    Args:
        workers: The time of the averages, in part hidden by the backward pass, is added to their `seconds`.
        group: Workers that average. Default: all.
    """
    wrapped = DistributedDataParallel(module, process_group=group)
    wrapped.register_comm_hook(None, _timed_average(workers, group))
    return wrapped


def _timed_average(
    workers: Workers, group: dist.ProcessGroup | None
) -> Callable[[object, dist.GradBucket], Future[torch.Tensor]]:
    size = dist.get_world_size(group)

    def average(_: object, bucket: dist.GradBucket) -> Future[torch.Tensor]:
        begun = time.perf_counter()
        work = dist.all_reduce(bucket.buffer().div_(size), group=group, async_op=True)

        def done(future: Future[list[torch.Tensor]]) -> torch.Tensor:
            workers.seconds += time.perf_counter() - begun
            return future.value()[0]

        averaged: Future[torch.Tensor] = work.get_future().then(done)
        return averaged

    average.__annotations__.clear()  # torch checks them, but cannot read annotations that are strings
    return average
