"""Model averaging and blockwise model-update filtering (BMUF): workers train independently for a block, then average.

Let W̄(t) be the mean of the workers' weights at the end of block t, and W_g(t − 1) their common weights at its start:

    G(t) = W̄(t) − W_g(t − 1)        change of the block
    Δ(t) = η Δ(t − 1) + ζ G(t)       filtered by the block momentum η, with the block learning rate ζ
    W(t) = W(t − 1) + Δ(t)           the model
    W_g(t) = W(t)                    classical block momentum (CBM)
    W_g(t) = W(t) + η Δ(t)           Nesterov block momentum (NBM): blocks begin ahead of the model

This is torch's SGD with momentum, applied to W_g with the gradient −G; for NBM, W = W_g + η ζ · momentum buffer. With
η = 0 and ζ = 1 it is model averaging. In the long run a block has the weight ζ / (1 − η), so with ζ = C N (1 − η) the
updates of N workers count as C times their sum, for any η. The recursion that other toolkits call NBM moves W_g further
ahead: with η = 0.75 by 7 times G, instead of 4 times here.

Source: Chen, Huo, "Scalable training of deep learning machines by incremental block training with intra-block parallel
optimization and blockwise model-update filtering", ICASSP 2016.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ninja.train.parallel.flat import flat, moments, parameters, prepare, steps, unflatten
from ninja.train.parallel.sharing import Learner, SingleWorker, StepAssignment
from ninja.train.parallel.workers import Workers
from ninja.train.recipe import TrainOptions


class BlockUpdate:
    """The recursion above, applied to a vector.

    Args:
        start: Weights before the first block.
        momentum: Block momentum η.
        rate: Block learning rate ζ.
        nesterov: Whether to use NBM instead of CBM.
    """

    def __init__(self, start: torch.Tensor, momentum: float, rate: float, *, nesterov: bool = True) -> None:
        self.weights = start.clone()  # W_g
        self.ahead = momentum * rate if nesterov else 0.0
        # Plain averaging needs no optimiser, and W_g − (W_g − W̄) would round.
        self.averages = momentum == 0 and rate == 1
        self.outer = torch.optim.SGD(
            [self.weights], lr=rate, momentum=momentum, nesterov=nesterov and momentum > 0, foreach=False
        )

    def apply(self, mean: torch.Tensor) -> torch.Tensor:
        """Apply the mean of the workers' weights after a block; return the initial weights of the next block."""
        if self.averages:
            self.weights.copy_(mean)
        else:
            self.weights.grad = self.weights - mean
            self.outer.step()
            self.weights.grad = None
        return self.weights

    def result(self) -> torch.Tensor:
        """Return W, the model without the look-ahead."""
        momentum = self.outer.state[self.weights].get("momentum_buffer") if self.ahead else None
        return self.weights.clone() if momentum is None else self.weights + self.ahead * momentum


class Blocks(SingleWorker):
    """Model averaging and BMUF."""

    def __init__(self, learner: Learner, workers: Workers, options: TrainOptions) -> None:
        super().__init__(learner, workers)
        self.options = options
        self.block_steps = options.block_steps
        self.warmup = options.block_warmup  # number of batches that worker 0 takes before the first block
        prepare(learner.optimizer)
        momentum, rate = block_factors(options, workers.size)
        start = flat(parameters(learner.optimizer))
        self.update = BlockUpdate(start, momentum, rate, nesterov=not options.classical_momentum)

    def steps(self, batches: int) -> int:
        """Return the number of steps of worker 0, which trains alone during the warm-up."""
        warmup = min(batches, self.warmup)
        return warmup + (batches - warmup) // self.workers.size

    def full_steps(self, batches: int) -> int:
        """Return the largest number of batches, at most this, that ends with a full step of all workers."""
        return batches - max(0, batches - self.warmup) % self.workers.size

    def next_synchronization(self, batches: int) -> int:
        """Return the number of batches taken at the end of the block."""
        if batches < self.warmup:
            return min(batches + self.block_steps, self.warmup)
        return batches + self.block_steps * self.workers.size

    def assignments(self, first: int, last: int) -> Iterator[StepAssignment]:
        """Yield this worker's steps of a block."""
        warmup = first < self.warmup
        if warmup and self.workers.rank:
            return
        offset, stride = (0, 1) if warmup else (self.workers.rank, self.workers.size)
        for at in range(first, last, stride):
            yield StepAssignment(at, at + offset, range(at + offset, at + offset + 1))

    def synchronize(self, last: int) -> int:
        """Average and filter the weights of all workers."""
        weights, optimizer = parameters(self.learner.optimizer), self.learner.optimizer
        if last <= self.warmup:
            shared = [*weights, *moments(optimizer), *steps(optimizer)]
            unflatten(self.workers.broadcast(flat(shared)), shared)
            self.update.weights.copy_(flat(weights))
            if last == self.warmup and self.options.block_optimizer == "reset":
                prepare(optimizer)
            return last
        averaged = [*weights, *moments(optimizer)] if self.options.block_optimizer == "average" else weights
        mean = self.workers.average(flat(averaged))
        unflatten(mean, averaged)
        unflatten(self.update.apply(mean[: self.update.weights.numel()]), weights)
        if self.options.block_optimizer == "reset":
            prepare(optimizer)
        return last

    @contextmanager
    def result(self) -> Iterator[None]:
        """Load W instead of W_g within a ``with`` block."""
        weights = parameters(self.learner.optimizer)
        unflatten(self.update.result(), weights)
        try:
            yield
        finally:
            unflatten(self.update.weights, weights)

    def state(self) -> dict[str, Any]:
        """Return the block momentum and, if ``block_optimizer`` is keep, the Adam moments of every worker."""
        state: dict[str, Any] = {"outer": self.update.outer.state_dict()}
        if self.options.block_optimizer == "keep":
            state["moments"] = self.workers.gather(flat(moments(self.learner.optimizer)))
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the block momentum, and the Adam moments of this worker."""
        self.update.weights.copy_(flat(parameters(self.learner.optimizer)))
        self.update.outer.load_state_dict(state["outer"])
        if "moments" in state:
            unflatten(state["moments"][self.workers.rank], moments(self.learner.optimizer))


def block_factors(options: TrainOptions, workers: int) -> tuple[float, float]:
    """Return η and ζ."""
    if options.parallel == "ma":
        return 0.0, 1.0
    momentum = 1 - 1 / workers if options.block_momentum is None else options.block_momentum
    # With the default momentum, N (1 − η) is 1 up to rounding.
    rate = 1.0 if options.block_momentum is None else workers * (1 - momentum)
    return momentum, options.block_rate * rate
