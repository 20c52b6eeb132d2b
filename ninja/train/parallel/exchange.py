"""Pairwise averaging of weights between learners that do not wait for each other's steps.

Learners of even rank are active: they send requests to one partner at a time. Learners of odd rank are passive: they
reply. In background threads, active learners wait only for replies and passive learners only for requests, so there is
no deadlock. A pair averages its weights by

    x ← x + (received − sent) / 2        on both sides

which preserves updates made while messages are in transit, as well as the sum of all weights. The lock is held during
this addition, but never while messages are sent.

Source: Lian, Zhang, Zhang, Liu, "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, cast

import torch
import torch.distributed as dist

from ninja.train.parallel.workers import TIMEOUT

ASK, ANSWER = 1, 2  # message tags of requests and replies


class SharedWeights:
    """The weights of a learner, which are changed by its own steps and by its partners."""

    def __init__(self, vector: torch.Tensor) -> None:
        self.vector = vector
        self.exchanges = 0
        self._lock = threading.Lock()

    def read(self) -> tuple[torch.Tensor, int]:
        """Return ``(copy of the weights, number of exchanges so far)``."""
        with self._lock:
            return self.vector.clone(), self.exchanges

    def add_step(self, before: torch.Tensor, after: torch.Tensor, exchanges: int) -> None:
        """Add the update ``after - before`` of a step that began when `read` returned `before` and `exchanges`."""
        with self._lock:
            if exchanges == self.exchanges:
                self.vector.copy_(after)  # the same as adding the update, but without a rounding error
            else:
                self.vector.add_(after - before)

    def mix(self, sent: torch.Tensor, received: torch.Tensor) -> None:
        """Move the weights halfway to the partner's weights `received`, after `sent` was sent to the partner."""
        with self._lock:
            self.vector.add_(received - sent, alpha=0.5)
            self.exchanges += 1

    def answer(self, received: torch.Tensor) -> torch.Tensor:
        """Move the weights halfway to the partner's weights; return the previous weights as the reply."""
        with self._lock:
            sent = self.vector.clone()
            self.vector.add_(received - sent, alpha=0.5)
            self.exchanges += 1
        return sent


class Transport(Protocol):
    """Protocol for passing messages between learners."""

    def ask(self, partner: int, vector: torch.Tensor) -> torch.Tensor:
        """Send weights to a partner and return its weights."""
        ...

    def stop(self, partner: int) -> None:
        """Notify a partner that this learner sends no more requests."""
        ...

    def receive(self) -> tuple[int, torch.Tensor | None]:
        """Wait for a message; return the partner and its weights, or None if the partner sends no more requests."""
        ...

    def answer(self, partner: int, vector: torch.Tensor) -> None:
        """Send weights in reply to a partner's request."""
        ...


class GlooTransport:
    """Message passing with gloo: messages contain the weights, and a last element that is 1 if no requests follow."""

    def __init__(self, group: dist.ProcessGroup, vector: torch.Tensor) -> None:
        self._group = group
        self._inbox = vector.new_empty(len(vector) + 1)
        self._outbox = vector.new_zeros(len(vector) + 1)

    def ask(self, partner: int, vector: torch.Tensor) -> torch.Tensor:
        """Send weights to a partner and return its weights."""
        self._outbox[:-1] = vector
        receiving = self._group.recv([self._inbox], partner, ANSWER)
        self._group.send([self._outbox], partner, ASK).wait()
        receiving.wait()
        return self._inbox[:-1]

    def stop(self, partner: int) -> None:
        """Notify a partner that this learner sends no more requests."""
        self._outbox[-1] = 1.0
        self._group.send([self._outbox], partner, ASK).wait()

    def receive(self) -> tuple[int, torch.Tensor | None]:
        """Wait for a message; return the partner and its weights, or None if the partner sends no more requests."""
        # This call blocks, because gloo cannot poll a pending receive, and a timeout would close the connection.
        receiving = self._group.recv_anysource([self._inbox], ASK)
        receiving.wait()
        return receiving._source_rank(), None if self._inbox[-1] else self._inbox[:-1]

    def answer(self, partner: int, vector: torch.Tensor) -> None:
        """Send weights in reply to a partner's request."""
        self._outbox[:-1] = vector
        self._group.send([self._outbox], partner, ANSWER).wait()


def message_group(group: dist.ProcessGroup | None, device: torch.device) -> dist.ProcessGroup:
    """Form a group with the same workers and ranks that exchanges messages with gloo.

    `torch.distributed.new_group` would have to be called in all processes or, with ``use_local_synchronization``,
    would derive the name of the group from the number of groups in each process; workers that belong to different
    numbers of groups would wait for each other forever. Here, the first worker draws a random name and sends the name
    to the other workers.

    Args:
        group: The workers; None for all processes.
        device: Device of the tensors that the backend of `group` sends.
    """
    name = torch.tensor([uuid.uuid4().int >> 66], device=device)
    dist.broadcast(name, dist.get_process_group_ranks(group)[0], group=group)
    store = dist.PrefixStore(f"ninja/messages/{int(name)}", dist.distributed_c10d._get_default_store())
    messages = dist.ProcessGroupGloo(store, dist.get_rank(group), dist.get_world_size(group), TIMEOUT)
    return cast("dist.ProcessGroup", messages)  # torch does not declare that both types have the same methods


class Exchanges:
    """Background thread that averages weights with partners while the learner computes.

    Args:
        weights: Weights of the learner.
        transport: Transport for messages to the partners.
        partners: Learners to which an active learner sends requests, or from which a passive learner receives them.
        choose: Selects the next partner of an active learner; None for a passive learner.
    """

    def __init__(
        self,
        weights: SharedWeights,
        transport: Transport,
        partners: Collection[int],
        choose: Callable[[Sequence[int]], int] | None,
    ) -> None:
        self._weights = weights
        self._transport = transport
        self._partners = sorted(partners)
        self._choose = choose
        self._changed = threading.Condition()
        self._requested = self._busy = self._ending = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="exchanges", daemon=True)
        self._thread.start()

    def want(self) -> None:
        """Request an exchange after a step, unless one is in progress; do nothing for a passive learner."""
        with self._changed:
            self._check()
            if self._choose is not None and not self._busy:
                self._requested = True
                self._changed.notify_all()

    def settle(self) -> None:
        """Wait until no exchange is in progress."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or not (self._requested or self._busy))
            self._check()

    def end(self) -> None:
        """Stop the thread; a passive learner first waits until its partners have stopped sending requests."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            if self._choose is None:
                self._answer()
            else:
                self._ask(self._choose)
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _ask(self, choose: Callable[[Sequence[int]], int]) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._requested or self._ending)
                if not self._requested:
                    break
                self._requested, self._busy = False, True
            partner = choose(self._partners)
            sent, _ = self._weights.read()
            self._weights.mix(sent, self._transport.ask(partner, sent))
        for partner in self._partners:
            self._transport.stop(partner)

    def _answer(self) -> None:
        asking = set(self._partners)
        while asking:
            partner, received = self._transport.receive()
            if received is None:
                asking.discard(partner)
            else:
                self._transport.answer(partner, self._weights.answer(received))
