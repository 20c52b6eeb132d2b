"""Asynchronous decentralised SGD (ADPSGD), and its hierarchical variant with nodes of synchronous workers (H-ADPSGD).

A learner is either a single worker or a node of several workers. The workers in a node average their gradients as in
synchronous SGD, and the first worker stores the weights. Each learner takes the next batch when it is ready, so slow
learners take fewer batches. After each step, a learner averages its weights with the weights of one partner, while the
next gradient is computed.

Source: Lian and others, ICML 2018 (see `exchange`); Zhang and others, "A highly efficient distributed deep learning
system for automatic speech recognition", Interspeech 2019 (nodes).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import torch
import torch.distributed as dist

from ninja.errors import OptionError
from ninja.train.parallel.flat import flat, float_buffers, moments, parameters, prepare, steps, unflatten
from ninja.train.parallel.pairwise import PairwiseAveraging
from ninja.train.parallel.sharing import Learner, SingleWorker, StepAssignment, averaging
from ninja.train.parallel.workers import Workers
from ninja.train.recipe import TrainOptions

NO_MORE = 2**40  # number of batches that `stop_early` claims; more than remain before the synchronization
_trainings = count()  # numbers of the training runs of this process; each run uses its own keys in the store


class Gossip(SingleWorker):
    """Training with ADPSGD or H-ADPSGD."""

    in_step = False

    def __init__(self, learner: Learner, workers: Workers, options: TrainOptions) -> None:
        super().__init__(learner, workers)
        assert workers.store is not None
        self.node_size = 1 if options.parallel == "adpsgd" else options.node_size or workers.machine_size
        if workers.size % self.node_size:
            message = f"node_size is {self.node_size}, which does not divide the number of workers, {workers.size}"
            raise OptionError(f"{message}; all nodes must have the same size")
        self.node, self.place = divmod(workers.rank, self.node_size)
        leaders = range(0, workers.size, self.node_size)
        self.check_steps = options.check_steps
        self._store = dist.PrefixStore(f"batches{next(_trainings)}", workers.store)
        prepare(learner.optimizer)
        self._round, self._round_start, self._num_batches = "", 0, 0  # key, first batch, batches of this worker
        self._assignment = StepAssignment(0, 0, range(0))
        self._passed = 0.0  # steps of other learners during steps of this learner
        self._steps = 0  # steps of this learner
        self._node_group = self._leader_group = None
        if self.node_size > 1:
            # torch requires that all workers create all groups in the same order.
            nodes = [dist.new_group(range(first, first + self.node_size)) for first in leaders]
            self._node_group, self._leader_group = nodes[self.node], dist.new_group(leaders)
            self.forward = averaging(learner.module, workers, self._node_group)
        self._tensors = [*parameters(learner.optimizer), *float_buffers(learner.module)]
        self._mean = flat(self._tensors).cpu()
        self._pairwise = None  # None except on the first worker of a node
        self._has_mean = False  # whether the mean of all learners' weights is loaded
        if self.place == 0:
            self._pairwise = PairwiseAveraging(
                learner.module, learner.optimizer, process_group=self._leader_group, seed=options.seed
            )

    @property
    def staleness(self) -> float | None:  # type: ignore[override]
        """Mean number of steps that other learners begin during a step of this learner."""
        return self._passed / self._steps if self._steps else None

    def next_synchronization(self, batches: int) -> int:
        """Return the batch count at the next synchronization, given a current count of `batches`."""
        between = self.check_steps * self.workers.size
        return (batches // between + 1) * between

    def assignments(self, first: int, last: int) -> Iterator[StepAssignment]:
        """Yield this worker's steps until no batch remains before the synchronization."""
        self._round, self._round_start, self._num_batches = f"from {first}", first, 0
        while True:
            at = torch.zeros((), dtype=torch.int64)
            if self.place == 0:
                at += first + self._store.add(self._round, self.node_size) - self.node_size
            self._broadcast_in_node(at)
            number = int(at)
            if number >= last:
                return
            self._num_batches += 1
            self._assignment = StepAssignment(number, number + self.place, range(number, number + self.node_size))
            yield self._assignment

    def stop_early(self) -> None:
        """Claim all batches that remain until the next synchronization, so that all workers stop."""
        self._store.add(self._round, NO_MORE)

    def before_step(self) -> None:
        """Copy the learner's weights to all workers in the node; reload them first if `result` has loaded the mean."""
        if self._pairwise is not None and self._has_mean:
            self._pairwise.load()
        self._has_mean = False
        if self._node_group is not None:
            weights = self._mean.clone() if self._pairwise is None else self._pairwise.loaded
            self._broadcast_in_node(weights)
            if self._pairwise is None:
                unflatten(weights, self._tensors)

    def after_step(self) -> None:
        """Count the steps that other learners began during this step."""
        if self.place:
            return
        num_batches = self._round_start + self._store.add(self._round, 0)
        if num_batches < NO_MORE:
            self._passed += (num_batches - self._assignment.at) / self.node_size - 1
            self._steps += 1

    def synchronize(self, last: int) -> int:
        """Wait for all workers, and compute the mean of their weights."""
        with self.workers.communicating():
            if self._pairwise is not None:
                self._pairwise.synchronize()
                self._mean = self._pairwise.mean
        self._broadcast_in_node(self._mean)
        return self._round_start + round(self.workers.total(float(self._num_batches))[0])

    @contextmanager
    def result(self) -> Iterator[None]:
        """Load the mean of all learners' weights; the next `before_step` loads the weights of this learner again."""
        unflatten(self._mean, self._tensors)
        self._has_mean = True
        yield

    def state(self) -> dict[str, Any]:
        """Return the weights, moments and step counts of each learner."""
        if self._pairwise is None:
            return {}
        adam = self.learner.optimizer
        vector = torch.cat((self._pairwise.shared.read()[0], flat([*moments(adam), *steps(adam)]).cpu()))
        return {"learners": self.workers.gather(vector, self._leader_group)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the weights, moments and step counts of this learner."""
        adam = self.learner.optimizer
        length = len(self._mean)
        weights, optimizer = state["learners"][self.node].split([length, state["learners"].shape[1] - length])
        if self._pairwise is not None:
            self._pairwise.shared.vector.copy_(weights)
            self._pairwise.load()
        unflatten(optimizer, [*moments(adam), *steps(adam)])

    def close(self) -> None:
        """Stop the exchanges with other learners."""
        if self._pairwise is not None:
            self._pairwise.close()

    def _broadcast_in_node(self, tensor: torch.Tensor) -> None:
        """Copy a tensor from the first worker in the node to the other workers."""
        if self._node_group is not None:
            with self.workers.communicating():
                dist.broadcast(tensor, self.workers.rank - self.place, group=self._node_group)
