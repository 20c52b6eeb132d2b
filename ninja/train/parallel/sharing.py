"""What a method of sharing says to the loop, and the two that are exact: a worker alone, and synchronous SGD."""

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


class Turn(NamedTuple):
    """A step that a worker makes."""

    at: int  # batches taken by all before it: its place in the schedule
    number: int  # of the worker's batch
    together: range  # numbers of the batches whose gradients are averaged for it


@dataclass(slots=True)
class Learner:
    """What a worker trains: the network and its optimiser."""

    module: Module
    optimizer: torch.optim.Adam


class Alone:
    """A worker that trains alone; the base of the methods.

    The loop goes from meeting to meeting. Between two, `turns` says which batches are this worker's, and `before_step`
    and `after_step` stand around each step. `meet` ends it: all workers have then taken the same batches.
    """

    in_step = True  # workers make the same steps, so clocks must not tell them apart
    staleness: float | None = None

    def __init__(self, learner: Learner, workers: Workers) -> None:
        self.learner = learner
        self.workers = workers
        self.forward: torch.nn.Module = learner.module  # computes the outputs

    def steps(self, batches: int) -> int:
        """Return the steps a worker makes until all have taken so many batches."""
        return batches // self.workers.size

    def whole(self, batches: int) -> int:
        """Return the most batches, of so many, that give every worker the same number of steps."""
        return batches - batches % self.workers.size

    def next_meeting(self, batches: int) -> int:
        """Return how many batches are taken at the next meeting."""
        return batches + self.workers.size

    def turns(self, first: int, last: int) -> Iterator[Turn]:
        """Yield this worker's steps between two meetings, at which `first` and `last` batches are taken."""
        for at in range(first, last, self.workers.size):
            yield Turn(at, at + self.workers.rank, range(at, at + self.workers.size))

    def before_step(self) -> None:
        """Prepare the weights."""

    def after_step(self) -> None:
        """Share what the step has changed."""

    def cut_short(self) -> None:
        """Make the next meeting come at once; called on worker 0 of methods whose workers are not in step."""

    def meet(self, last: int) -> int:
        """Wait for all workers; return how many batches are taken."""
        return last

    @contextmanager
    def result(self) -> Iterator[None]:
        """Let the network hold, in a ``with`` block, the weights that the training would end with now."""
        yield

    def state(self) -> dict[str, Any]:
        """Return what a continuation needs besides network and optimiser; called at meetings, on all workers."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state, after network and optimiser have taken up theirs."""

    def close(self) -> None:
        """End what runs in the background."""


class Synchronous(Alone):
    """Synchronous SGD: torch's DistributedDataParallel averages the gradients of each step."""

    def __init__(self, learner: Learner, workers: Workers) -> None:
        super().__init__(learner, workers)
        self.forward = averaging(learner.module, workers)


def averaging(module: Module, workers: Workers, group: dist.ProcessGroup | None = None) -> DistributedDataParallel:
    """Wrap a network so that a backward pass leaves the mean of the workers' gradients.

    Args:
        workers: Their `seconds` grow by the time that the averages take, in part hidden behind the backward pass.
        group: Workers that average; None: all.
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

    average.__annotations__.clear()  # torch checks them, and does not understand those that are strings
    return average
