"""Model averaging and blockwise model-update filtering (BMUF): workers train independently for a block, then average.

Let W̄(t) be the mean of the workers' weights at the end of block t, and W_g(t − 1) their common weights at its start:

    G(t) = W̄(t) − W_g(t − 1)        change over the block
    Δ(t) = η Δ(t − 1) + ζ G(t)       filtered by the block momentum η, with the block learning rate ζ
    W(t) = W(t − 1) + Δ(t)           the model
    W_g(t) = W(t)                    classical block momentum (CBM)
    W_g(t) = W(t) + η Δ(t)           Nesterov block momentum (NBM): blocks begin ahead of the model

This is torch's SGD with momentum, applied to W_g with the gradient −G; for NBM, W = W_g + η ζ · momentum buffer. With
η = 0 and ζ = 1 it is model averaging. In the long run, each block has a total weight of ζ / (1 − η), so
with ζ = C N (1 − η) the updates of N workers count as C times their sum, for any η. The recursion that other toolkits
call NBM moves W_g further: for constant G, η = 0.75 and ζ = 1, it moves W_g by 7 G per block, while the recursion
above moves it by 4 G.

Source: Chen, Huo, "Scalable training of deep learning machines by incremental block training with intra-block parallel
optimization and blockwise model-update filtering", ICASSP 2016.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from ninja.errors import OptionError, WorkerError, check_range
from ninja.train.parallel.flat import (
    check_weights,
    copy_first,
    flat,
    float_buffers,
    moments,
    parameters,
    steps,
    unflatten,
)
from ninja.train.recipe import AtBlockEnd


class BlockUpdate:
    """The recursion of block momentum (see the module docstring), applied to a vector of weights.

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

    def apply(self, mean: torch.Tensor, begin: torch.Tensor | None = None) -> torch.Tensor:
        """Update the model with the mean of the workers' weights after a block.

        Args:
            mean: The mean of the weights.
            begin: The workers' weights at the start of the block.  [default: W_g]

        Returns:
            W_g, the weights at the start of the next block; the next call changes this tensor in place.
        """
        if self.averages:
            self.weights.copy_(mean)
        else:
            self.weights.grad = (self.weights if begin is None else begin) - mean
            self.outer.step()
            self.weights.grad = None
        return self.weights

    def result(self) -> torch.Tensor:
        """Return W, the model weights without the look-ahead."""
        momentum = self.outer.state[self.weights].get("momentum_buffer") if self.ahead else None
        return self.weights.clone() if momentum is None else self.weights + self.ahead * momentum


class BlockMomentum(torch.nn.Module):
    """Wrapper of a module for training by BMUF or model averaging: workers average their weights after blocks of steps.

    It is used like torch's DistributedDataParallel. Each worker calls ``optimizer.step()`` on its own batches; after
    each block, the weights of all workers are averaged and filtered by the block momentum. All workers must take the
    same number of steps. At the end, call `synchronize`, and save the weights inside a ``with`` block of `result`. To
    resume training with bit-identical results, restore the `state_dict` of this wrapper and of the optimiser on each
    worker.

    Args:
        module: Network; its weights and buffers are copied from the first worker. Floating-point buffers are averaged
            with the weights. Weights in half precision are averaged and filtered in float32.
        optimizer: Any torch optimiser for the weights. Weights that it does not update are not averaged.
        momentum: Block momentum η, in [0, 1).  [default: 1 - 1/workers]
        rate: Block learning rate ζ, above 0; with a momentum of 0 and a rate of 1, weights are averaged.
            [default: workers · (1 - momentum), at which each block eventually contributes the sum of all updates]
        classical: Use classical instead of Nesterov block momentum.
        block_steps: Number of steps per worker and block, at least 1; None if only calls to `synchronize` end blocks.
        warmup: Number of steps before the first block, after which all workers continue with the weights, buffers and
            optimiser state of the first worker.
        block_optimizer: Treatment of the optimiser's floating-point tensors at the end of a block: average them, keep
            the tensors of each worker, or reset the optimiser.
        process_group: Group of the workers.  [default: all processes]

    Raises:
        OptionError: An option is out of range; or, raised by a step, weights were added to the wrapped optimiser.
        WorkerError: Raised at the end of a block: the optimisers of the workers have states of different sizes.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        momentum: float | None = None,
        rate: float | None = None,
        classical: bool = False,
        block_steps: int | None = 50,
        warmup: int = 0,
        block_optimizer: AtBlockEnd = "average",
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        if momentum is not None and not 0 <= momentum < 1:
            raise OptionError(f"momentum is {momentum}, but must be in [0, 1)")
        if rate is not None:
            check_range("rate", rate, above=0)
        if block_steps is not None:
            check_range("block_steps", block_steps, least=1)
        check_range("warmup", warmup, least=0)
        self.module = module
        self.optimizer = optimizer
        self.group = process_group or dist.group.WORLD
        self.size = dist.get_world_size(self.group)
        self.block_steps = block_steps
        self.warmup = warmup
        self.block_optimizer = block_optimizer
        self.num_steps = 0  # number of calls to optimizer.step()
        self._synchronized = 0  # value of `num_steps` at the end of the last block
        self._weights = parameters(optimizer)
        copy_first([*module.parameters(), *module.buffers()], self.group)
        default_momentum, default_rate = block_factors(momentum, 1.0, self.size)
        momentum, rate = default_momentum if momentum is None else momentum, default_rate if rate is None else rate
        self.update = BlockUpdate(flat(self._weights), momentum, rate, nesterov=not classical)
        # Values of the buffers at the start of the block.
        self._first_buffers = [buffer.clone() for buffer in float_buffers(module)]
        optimizer.register_step_post_hook(self._after_step)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs of the module."""
        return self.module(*args, **kwargs)

    def synchronize(self) -> None:
        """End the block on all workers; do nothing if there was no step since the last block."""
        if self.num_steps == self._synchronized:
            return
        if self.num_steps <= self.warmup:
            self.broadcast()
        else:
            self._average()
        if self.block_optimizer == "reset" and self.num_steps >= self.warmup:
            self.optimizer.state.clear()

    def broadcast(self) -> None:
        """Copy the weights, buffers and optimiser state of the first worker to all workers."""
        state = [*moments(self.optimizer), *steps(self.optimizer)]
        self._check_sizes(sum(tensor.numel() for tensor in state))
        copy_first([*self._weights, *self.module.buffers(), *state], self.group)
        self.update.weights.copy_(flat(self._weights))
        self._begin_block()

    @contextmanager
    def result(self) -> Iterator[None]:
        """Load W, the weights after the last block without the look-ahead, within a ``with`` block."""
        current = [weight.detach().clone() for weight in self._weights]
        unflatten(self.update.result(), self._weights)
        try:
            yield
        finally:
            for weight, before in zip(self._weights, current, strict=True):
                weight.data.copy_(before)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the state that `state_dict` stores in addition to weights and buffers."""
        return {
            "weights": self.update.weights,
            "outer": self.update.outer.state_dict(),
            "buffers": self._first_buffers,
            "num_steps": self.num_steps,
            "synchronized": self._synchronized,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `get_extra_state` has returned."""
        self.update.weights.copy_(state["weights"])
        self.update.outer.load_state_dict(state["outer"])
        for buffer, value in zip(self._first_buffers, state["buffers"], strict=True):
            buffer.copy_(value)
        self.num_steps, self._synchronized = state["num_steps"], state["synchronized"]

    def _after_step(self, *_: object) -> None:
        check_weights(self.optimizer, self._weights)
        self.num_steps += 1
        block = self.num_steps - self.warmup
        if block == 0 or (self.block_steps is not None and block > 0 and block % self.block_steps == 0):
            self.synchronize()

    def _begin_block(self) -> None:
        for first, buffer in zip(self._first_buffers, float_buffers(self.module), strict=True):
            first.copy_(buffer)
        self._synchronized = self.num_steps

    def _average(self) -> None:
        averaged = moments(self.optimizer) if self.block_optimizer == "average" else []
        buffers = float_buffers(self.module)
        changes = [_change(*pair) for pair in zip(buffers, self._first_buffers, strict=True)]
        tensors = [*self._weights, *changes, *averaged]
        mean = flat(tensors).div_(self.size)  # dividing before the sum is more precise
        self._check_sizes(len(mean))
        dist.all_reduce(mean, group=self.group)
        unflatten(mean, tensors)
        begin = self._rounded(self.update.weights)
        unflatten(self.update.apply(mean[: len(begin)], begin), self._weights)
        for buffer, first, change in zip(buffers, self._first_buffers, changes, strict=True):
            buffer.copy_(first + change)
        self._begin_block()

    def _check_sizes(self, size: int) -> None:
        """Raise a `WorkerError` on all workers unless their vectors have the same size."""
        sizes = torch.tensor([size, -size], device=self._weights[0].device)
        dist.all_reduce(sizes, dist.ReduceOp.MAX, group=self.group)
        most, least = int(sizes[0]), -int(sizes[1])
        if most != least:
            message = f"the workers share between {least} and {most} values, but must share the same number"
            advice = "compute a gradient for every weight on every worker, or use block_optimizer='keep'"
            raise WorkerError(f"{message}; {advice}")

    def _rounded(self, vector: torch.Tensor) -> torch.Tensor:
        """Round a vector to the precision of the weights, which may be half precision."""
        if all(weight.dtype == vector.dtype for weight in self._weights):
            return vector
        rounded = [torch.empty_like(weight) for weight in self._weights]
        unflatten(vector, rounded)
        return flat(rounded)


def block_factors(momentum: float | None, weight: float, workers: int) -> tuple[float, float]:
    """Return ``(block momentum η, block learning rate ζ)``.

    Args:
        momentum: η.  [default: 1 - 1/workers]
        weight: Long-term weight C of a block, relative to the sum of its workers' updates.
        workers: Number of workers.
    """
    if momentum is None:
        return 1 - 1 / workers, weight  # N (1 − η) is 1, up to rounding
    return momentum, weight * workers * (1 - momentum)


def _change(buffer: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """Return the change in a buffer over a block; it is 0 for unchanged elements, even if they are infinite."""
    return torch.where(buffer == first, torch.zeros_like(buffer), buffer - first)
