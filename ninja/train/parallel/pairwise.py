"""Asynchronous decentralised SGD (ADPSGD): workers average their weights in pairs, without waiting for all workers.

Source: Lian, Zhang, Zhang, Liu, "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ninja.train.parallel.exchange import Exchanges, GlooTransport, SharedWeights, message_group
from ninja.train.parallel.flat import check_weights, copy_first, flat, float_buffers, parameters, unflatten

NEVER = -1  # value of `exchanges` with which `add_step` adds the update instead of replacing the weights


class PairwiseAveraging(torch.nn.Module):
    """Wrapper of a module for training by ADPSGD: after each step, a worker averages its weights with one other worker.

    It is used like torch's DistributedDataParallel. Weights are averaged in a background thread while the worker
    computes its next gradient, so a slow worker does not delay the other workers; workers may take different numbers of
    steps. `synchronize` waits for all workers and computes the mean of their weights, which `result` loads. Call
    `close` on all workers at the end.

    Args:
        module: Network; its weights and buffers are copied from the first worker. Floating-point buffers are averaged
            with the weights. Weights in half precision are averaged in float32.
        optimizer: Any torch optimiser for the weights; its state is not averaged. Weights that it does not
            update are not averaged.
        process_group: Group of the workers, with any backend; weights are sent with gloo.  [default: all processes]
        seed: Random seed for the choice of partners.

    Raises:
        OptionError: Raised by a step: weights were added to the wrapped optimiser.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        process_group: dist.ProcessGroup | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.group = process_group or dist.group.WORLD
        self._weights = parameters(optimizer)
        ranks = dist.get_process_group_ranks(self.group)
        copy_first([*module.parameters(), *module.buffers()], self.group)
        self.shared = SharedWeights(flat(self._tensors).cpu())
        self.mean = self.shared.vector.clone()  # mean weights of all workers at the last synchronization
        self._exchanges: Exchanges | None = None
        if len(ranks) > 1:
            active = dist.get_rank(self.group) % 2 == 0
            random = np.random.default_rng((seed, dist.get_rank()))
            messages = message_group(self.group, self._weights[0].device)
            self._exchanges = Exchanges(
                self.shared,
                GlooTransport(messages, self.shared.vector),
                range(len(ranks))[1 if active else 0 :: 2],
                (lambda partners: partners[int(random.integers(len(partners)))]) if active else None,
            )
        self.load()
        self._hook = optimizer.register_step_post_hook(self._after_step)
        self.register_load_state_dict_post_hook(lambda *_: self.load())  # type: ignore[no-untyped-call]

    @property
    def _tensors(self) -> list[torch.Tensor]:
        """The tensors that are averaged: the weights, and the current buffers of the module."""
        return [*self._weights, *float_buffers(self.module)]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs of the module."""
        return self.module(*args, **kwargs)

    def load(self) -> None:
        """Load this worker's current weights, which include all averaging with partners so far, into the module."""
        self.loaded, self._version = self.shared.read()
        unflatten(self.loaded, self._tensors)
        if any(tensor.dtype != self.loaded.dtype for tensor in self._tensors):  # half-precision tensors are rounded
            self.loaded, self._version = flat(self._tensors).cpu(), NEVER

    def synchronize(self) -> None:
        """Wait for all workers, and compute the mean of their weights."""
        if self._exchanges is not None:
            self._exchanges.settle()
        dist.barrier(group=self.group)  # no request is pending on any worker from here on
        mean = self.shared.read()[0].to(self._tensors[0].device).div_(dist.get_world_size(self.group))
        dist.all_reduce(mean, group=self.group)
        self.mean = mean.cpu()

    @contextmanager
    def result(self) -> Iterator[None]:
        """Load the mean of all workers' weights at the last synchronization, within a ``with`` block."""
        unflatten(self.mean, self._tensors)
        try:
            yield
        finally:
            self.load()

    def close(self) -> None:
        """Stop averaging; wait until the workers that send requests to this worker have also stopped."""
        self._hook.remove()
        if self._exchanges is not None:
            self._exchanges.end()
            self._exchanges = None  # its process group has threads, which must end with the training

    def get_extra_state(self) -> dict[str, Any]:
        """Return this worker's weights and buffers as a vector, for `state_dict`."""
        return {"shared": self.shared.read()[0]}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the vector that `get_extra_state` has returned."""
        self.shared.vector.copy_(state["shared"])

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """Add the update to the weights, request averaging with a partner, and load the weights."""
        check_weights(optimizer, self._weights)
        self.shared.add_step(self.loaded, flat(self._tensors).cpu(), self._version)
        if self._exchanges is not None:
            self._exchanges.want()
        self.load()
