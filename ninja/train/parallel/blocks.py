"""Training of language models with model averaging and block momentum; see `block_momentum`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ninja.train.parallel.block_momentum import BlockMomentum, block_factors
from ninja.train.parallel.flat import flat, moments, parameters, prepare, unflatten
from ninja.train.parallel.sharing import Learner, SingleWorker, StepAssignment
from ninja.train.parallel.workers import Workers
from ninja.train.recipe import TrainOptions


class Blocks(SingleWorker):
    """Training with model averaging or BMUF."""

    def __init__(self, learner: Learner, workers: Workers, options: TrainOptions) -> None:
        super().__init__(learner, workers)
        self.options = options
        self.block_steps = options.block_steps
        self.warmup = options.block_warmup  # number of batches that worker 0 takes before the first block
        prepare(learner.optimizer)
        averages = options.parallel == "ma"
        factors = block_factors(options.block_momentum, options.block_rate, workers.size)
        momentum, rate = (0.0, 1.0) if averages else factors
        self.blocks = BlockMomentum(
            learner.module,
            learner.optimizer,
            momentum=momentum,
            rate=rate,
            classical=options.classical_momentum,
            block_steps=None,
            block_optimizer=options.block_optimizer,
        )

    def steps(self, batches: int) -> int:
        """Return how many of the first `batches` batches worker 0 takes; it takes all warm-up batches."""
        warmup = min(batches, self.warmup)
        return warmup + (batches - warmup) // self.workers.size

    def full_steps(self, batches: int) -> int:
        """Return the largest number of batches, at most `batches`, that can be divided equally among the workers.

        Warm-up batches, which worker 0 takes alone, are not divided.
        """
        return batches - max(0, batches - self.warmup) % self.workers.size

    def next_synchronization(self, batches: int) -> int:
        """Return the total number of batches at the end of a block that begins after `batches` batches."""
        if batches < self.warmup:
            return min(batches + self.block_steps, self.warmup)
        return batches + self.block_steps * self.workers.size

    def assignments(self, first: int, last: int) -> Iterator[StepAssignment]:
        """Yield this worker's steps in a block."""
        warmup = first < self.warmup
        if warmup and self.workers.rank:
            return
        offset, stride = (0, 1) if warmup else (self.workers.rank, self.workers.size)
        for at in range(first, last, stride):
            yield StepAssignment(at, at + offset, range(at + offset, at + offset + 1))

    def synchronize(self, last: int) -> int:
        """Average and filter the weights of all workers, or, in the warm-up, copy the weights of the first worker."""
        with self.workers.communicating():
            if last > self.warmup:
                self.blocks.synchronize()
            else:
                self.blocks.broadcast()
        if last == self.warmup and self.options.block_optimizer == "reset":
            prepare(self.learner.optimizer)
        return last

    @contextmanager
    def result(self) -> Iterator[None]:
        """Load W, the weights without the look-ahead, within a ``with`` block."""
        with self.blocks.result():
            yield

    def state(self) -> dict[str, Any]:
        """Return the block momentum and, if ``block_optimizer`` is "keep", the Adam moments of every worker."""
        state: dict[str, Any] = {"outer": self.blocks.update.outer.state_dict()}
        if self.options.block_optimizer == "keep":
            state["moments"] = self.workers.gather(flat(moments(self.learner.optimizer)))
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the block momentum, and the Adam moments of this worker."""
        self.blocks.update.weights.copy_(flat(parameters(self.learner.optimizer)))
        self.blocks.update.outer.load_state_dict(state["outer"])
        if "moments" in state:
            unflatten(state["moments"][self.workers.rank], moments(self.learner.optimizer))
