"""Interface of the methods that combine workers' updates, and implementations for one worker and synchronous SGD."""

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
    """One step of a worker."""

    at: int  # number of batches taken by all workers before this step, for the learning rate
    number: int  # number of the batch
    together: range  # numbers of the batches whose gradients are averaged in this step


@dataclass(slots=True)
class Learner:
    """The network that a worker trains, and its optimiser."""

    module: Module
    optimizer: torch.optim.Adam


class SingleWorker:
    """A worker that trains alone; also the base class for methods that combine the updates of workers.

    Between two synchronizations, `assignments` yields the steps of this worker; `before_step` and `after_step` are
    called before and after each step. After `synchronize`, all workers agree on the batches that were taken.
    """

    in_step = True  # whether all workers take the same steps; if so, decisions must not depend on their clocks
    staleness: float | None = None  # see `Gossip.staleness`; None for other methods

    def __init__(self, learner: Learner, workers: Workers) -> None:
        self.learner = learner
        self.workers = workers
        self.forward: torch.nn.Module = learner.module  # computes the outputs

    def steps(self, batches: int) -> int:
        """Return the number of steps that each worker takes if all workers together process `batches` batches."""
        return batches // self.workers.size

    def full_steps(self, batches: int) -> int:
        """Return the largest number of batches, at most `batches`, that gives every worker the same number of steps."""
        return batches - batches % self.workers.size

    def next_synchronization(self, batches: int) -> int:
        """Return the batch count at the next synchronization, given a current count of `batches`."""
        return batches + self.workers.size

    def assignments(self, first: int, last: int) -> Iterator[StepAssignment]:
        """Yield this worker's steps between the synchronizations at `first` and at `last` batches."""
        for at in range(first, last, self.workers.size):
            yield StepAssignment(at, at + self.workers.rank, range(at, at + self.workers.size))

    def before_step(self) -> None:
        """Load the current weights before a step."""

    def after_step(self) -> None:
        """Share the weight update with other workers after a step."""

    def stop_early(self) -> None:
        """Make all workers synchronize after their current steps.

        This method is called only on worker 0, and does nothing if `in_step` is true.
        """

    def synchronize(self, last: int) -> int:
        """Wait for all workers; return the total number of batches that they have taken."""
        return last

    @contextmanager
    def result(self) -> Iterator[None]:
        """Load the weights of the final model into the network, within a ``with`` block."""
        yield

    def state(self) -> dict[str, Any]:
        """Return the state apart from the network and the optimiser; called on all workers after they synchronize."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state that `state` has returned; called after the network and the optimiser have been restored."""

    def close(self) -> None:
        """Stop background threads."""


class Synchronous(SingleWorker):
    """Synchronous SGD, in which torch's DistributedDataParallel averages the gradients of each step."""

    def __init__(self, learner: Learner, workers: Workers) -> None:
        super().__init__(learner, workers)
        self.forward = averaging(learner.module, workers)


def averaging(module: Module, workers: Workers, group: dist.ProcessGroup | None = None) -> DistributedDataParallel:
    """Wrap a network so that a backward pass computes the mean of the workers' gradients.

    Args:
        module: The network.
        workers: The workers; the time spent on averaging, which overlaps with the backward pass, is added to
            `seconds`.
        group: The workers that average their gradients.  [default: all workers]
    """
    wrapped = DistributedDataParallel(module, process_group=group)
    wrapped.register_comm_hook(None, _timed_average(workers, group))
    return wrapped


def _timed_average(
    workers: Workers, group: dist.ProcessGroup | None
) -> Callable[[object, dist.GradBucket], Future[torch.Tensor]]:
    size = dist.get_world_size(group)

    def average(_: object, bucket: dist.GradBucket) -> Future[torch.Tensor]:
        start = time.perf_counter()
        work = dist.all_reduce(bucket.buffer().div_(size), group=group, async_op=True)

        def done(future: Future[list[torch.Tensor]]) -> torch.Tensor:
            workers.seconds += time.perf_counter() - start
            return future.value()[0]

        averaged: Future[torch.Tensor] = work.get_future().then(done)
        return averaged

    average.__annotations__.clear()  # torch checks the annotations, but cannot read annotations that are strings
    return average
