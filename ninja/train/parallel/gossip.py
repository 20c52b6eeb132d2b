"""Asynchronous decentralised SGD (ADPSGD), and its hierarchical variant with nodes of synchronous workers (H-ADPSGD).

A learner is a worker, or a node of several workers that average their gradients as in synchronous SGD and whose first
worker stores the weights. Each learner takes the next batch when it is ready, so slow learners take fewer batches.
After each step it averages its weights with those of one partner, while the next gradient is computed.

Source: Lian and others, ICML 2018 (see `exchange`); Zhang and others, "A highly efficient distributed deep learning
system for automatic speech recognition", Interspeech 2019 (nodes).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ninja.errors import OptionError
from ninja.train.parallel.exchange import Exchanges, GlooTransport, SharedWeights
from ninja.train.parallel.flat import flat, moments, parameters, prepare, steps, unflatten
from ninja.train.parallel.sharing import Learner, SingleWorker, StepAssignment, averaging
from ninja.train.parallel.workers import Workers
from ninja.train.recipe import TrainOptions

NO_MORE = 2**40  # number of batches that `stop_early` takes, so that none remains before the synchronization
_trainings = count()  # numbers the training runs of this process, which use separate keys in the store


class Gossip(SingleWorker):
    """ADPSGD and H-ADPSGD."""

    in_step = False

    def __init__(self, learner: Learner, workers: Workers, options: TrainOptions) -> None:
        super().__init__(learner, workers)
        assert workers.store is not None
        self.node_size = 1 if options.parallel == "adpsgd" else options.node_size or workers.machine_size
        if workers.size % self.node_size:
            message = f"node_size is {self.node_size}, which does not divide the {workers.size} workers"
            raise OptionError(f"{message}; all nodes must have the same size")
        self.node, self.place = divmod(workers.rank, self.node_size)
        leaders = range(0, workers.size, self.node_size)
        self.check_steps = options.check_steps
        self._store = dist.PrefixStore(f"batches{next(_trainings)}", workers.store)
        self._weights = parameters(learner.optimizer)
        prepare(learner.optimizer)
        self._shared = SharedWeights(flat(self._weights).cpu())
        self._mean = self._shared.vector.clone()
        self._read = (self._mean, 0)  # weights before a step, and the number of exchanges before it
        self._round, self._round_start, self._taken = "", 0, 0  # key, first batch, number of batches of this worker
        self._assignment = StepAssignment(0, 0, range(0))
        self._passed, self._steps = 0.0, 0  # number of other learners' steps during this learner's steps, and of these
        # All workers must create all groups in the same order.
        nodes = [dist.new_group(range(first, first + self.node_size)) for first in leaders if self.node_size > 1]
        self._node_group = nodes[self.node] if nodes else None
        self._leader_group = dist.new_group(leaders, backend="gloo")
        if nodes:
            self.forward = averaging(learner.module, workers, self._node_group)
        self._exchanges = None
        if self.place == 0 and len(leaders) > 1:
            active = self.node % 2 == 0
            random = np.random.default_rng((options.seed, workers.rank))
            self._exchanges = Exchanges(
                self._shared,
                GlooTransport(self._leader_group, len(self._mean)),
                leaders[1::2] if active else leaders[::2],
                (lambda partners: partners[int(random.integers(len(partners)))]) if active else None,
            )

    @property
    def staleness(self) -> float | None:  # type: ignore[override]
        """Mean number of steps that other learners begin between reading weights and applying the gradient."""
        return self._passed / self._steps if self._steps else None

    def next_synchronization(self, batches: int) -> int:
        """Return the number of batches taken at the next synchronization."""
        between = self.check_steps * self.workers.size
        return (batches // between + 1) * between

    def assignments(self, first: int, last: int) -> Iterator[StepAssignment]:
        """Take batches until none remains before the synchronization."""
        self._round, self._round_start, self._taken = f"from {first}", first, 0
        while True:
            at = torch.zeros((), dtype=torch.int64)
            if self.place == 0:
                at += first + self._store.add(self._round, self.node_size) - self.node_size
            if self._node_group is not None:
                with self.workers.communicating():
                    dist.broadcast(at, self.workers.rank - self.place, group=self._node_group)
            number = int(at)
            if number >= last:
                return
            self._taken += 1
            self._assignment = StepAssignment(number, number + self.place, range(number, number + self.node_size))
            yield self._assignment

    def stop_early(self) -> None:
        """Take all remaining batches before the synchronization, so that no worker gets another one."""
        self._store.add(self._round, NO_MORE)

    def before_step(self) -> None:
        """Copy the current weights to all workers of the node."""
        self._read = self._shared.read()
        if self._node_group is not None:
            with self.workers.communicating():
                dist.broadcast(self._read[0], self.workers.rank - self.place, group=self._node_group)
        unflatten(self._read[0], self._weights)

    def after_step(self) -> None:
        """Add the update to the weights, and request averaging with a partner."""
        if self.place:
            return
        self._shared.add_step(self._read[0], flat(self._weights).cpu(), self._read[1])
        taken = self._round_start + self._store.add(self._round, 0)
        if taken < NO_MORE:
            self._passed += (taken - self._assignment.at) / self.node_size - 1
            self._steps += 1
        if self._exchanges is not None:
            self._exchanges.want()

    def synchronize(self, last: int) -> int:
        """Wait for all workers, and compute the mean of their weights."""
        with self.workers.communicating():
            if self._exchanges is not None:
                self._exchanges.settle()
            dist.barrier()  # active learners have no pending requests, so passive learners do not reply either
        vector, _ = self._shared.read()
        self._mean = self.workers.average(vector if self.place == 0 else torch.zeros_like(vector)).mul_(self.node_size)
        return self._round_start + round(self.workers.total(float(self._taken))[0])

    @contextmanager
    def result(self) -> Iterator[None]:
        """Load the mean of all learners' weights; `before_step` loads this learner's weights again."""
        unflatten(self._mean, self._weights)
        yield

    def state(self) -> dict[str, Any]:
        """Return the weights, moments and step counts of each learner."""
        if self.place:
            return {}
        adam = self.learner.optimizer
        vector = torch.cat((self._shared.read()[0], flat([*moments(adam), *steps(adam)]).cpu()))
        return {"learners": self.workers.gather(vector, self._leader_group)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the weights, moments and step counts of this learner."""
        adam = self.learner.optimizer
        weights, optimizer = state["learners"][self.node].split(
            [len(self._mean), state["learners"].shape[1] - len(self._mean)]
        )
        self._shared.vector.copy_(weights)
        unflatten(optimizer, [*moments(adam), *steps(adam)])

    def close(self) -> None:
        """Stop the exchanges."""
        if self._exchanges is not None:
            self._exchanges.end()
