"""Pairwise averaging of weights between learners that do not wait for each other's steps.

Learners in even places are active: they ask one partner after the other. Those in odd places are passive: they answer.
An active one waits only for answers and a passive one only for questions, which it answers while it computes; so there
is no circle of waiting, whatever the delays. A pair averages by

    x ← x + (received − sent) / 2        on both sides

so steps that a learner makes while its message travels are kept, and the sum of all weights stays as it is. The lock
covers this sum and never a message.

Source: Lian, Zhang, Zhang, Liu, "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import torch
import torch.distributed as dist

ASK, ANSWER = 1, 2  # tags of messages


class SharedWeights:
    """The weights of a learner, which its own steps and its partners change."""

    def __init__(self, vector: torch.Tensor) -> None:
        self.vector = vector
        self.exchanges = 0
        self._lock = threading.Lock()

    def read(self) -> tuple[torch.Tensor, int]:
        """Return a copy, and how many exchanges have changed it so far."""
        with self._lock:
            return self.vector.clone(), self.exchanges

    def add_step(self, before: torch.Tensor, after: torch.Tensor, exchanges: int) -> None:
        """Add what a step has changed since `read` gave `before` and `exchanges`."""
        with self._lock:
            if exchanges == self.exchanges:
                self.vector.copy_(after)  # the same, without rounding
            else:
                self.vector.add_(after - before)

    def mix(self, sent: torch.Tensor, received: torch.Tensor) -> None:
        """Go half of the way to the partner."""
        with self._lock:
            self.vector.add_(received - sent, alpha=0.5)
            self.exchanges += 1

    def answer(self, received: torch.Tensor) -> torch.Tensor:
        """Go half of the way to the partner, and return what it has to be sent."""
        with self._lock:
            sent = self.vector.clone()
            self.vector.add_(received - sent, alpha=0.5)
            self.exchanges += 1
        return sent


class Post(Protocol):
    """Messages between learners."""

    def ask(self, partner: int, vector: torch.Tensor) -> torch.Tensor:
        """Send weights to a partner and wait for its."""
        ...

    def stop(self, partner: int) -> None:
        """Tell a partner that this learner asks no more."""
        ...

    def question(self) -> tuple[int, torch.Tensor | None]:
        """Wait for any partner's weights; None: it asks no more."""
        ...

    def answer(self, partner: int, vector: torch.Tensor) -> None:
        """Send weights to a partner that has asked."""
        ...


class GlooPost:
    """Messages over gloo, of weights and a last element that is 1 for "no more"."""

    def __init__(self, group: dist.ProcessGroup, size: int) -> None:
        self._group = group
        self._inbox = torch.empty(size + 1)
        self._outbox = torch.zeros(size + 1)

    def ask(self, partner: int, vector: torch.Tensor) -> torch.Tensor:
        """Send weights to a partner and wait for its."""
        self._outbox[:-1] = vector
        # Both before either is waited for.
        coming = dist.irecv(self._inbox, partner, group=self._group, tag=ANSWER)
        going = dist.isend(self._outbox, partner, group=self._group, tag=ASK)
        assert coming is not None
        assert going is not None
        going.wait()
        coming.wait()
        return self._inbox[:-1]

    def stop(self, partner: int) -> None:
        """Tell a partner that this learner asks no more."""
        self._outbox[-1] = 1.0
        dist.send(self._outbox, partner, group=self._group, tag=ASK)

    def question(self) -> tuple[int, torch.Tensor | None]:
        """Wait for any partner's weights; None: it asks no more."""
        # Blocking: a posted receive of gloo cannot be polled, and one that times out closes the connection.
        partner = dist.recv(self._inbox, group=self._group, tag=ASK)
        return partner, None if self._inbox[-1] else self._inbox[:-1]

    def answer(self, partner: int, vector: torch.Tensor) -> None:
        """Send weights to a partner that has asked."""
        self._outbox[:-1] = vector
        dist.send(self._outbox, partner, group=self._group, tag=ANSWER)


class Exchanges:
    """A thread that averages with partners while the learner computes.

    Args:
        weights: The learner's.
        post: Reaches the partners.
        partners: Of an active learner, those that it asks; of a passive one, those that may ask.
        choose: Picks the next partner; None: the learner is passive.
    """

    def __init__(
        self,
        weights: SharedWeights,
        post: Post,
        partners: Collection[int],
        choose: Callable[[Sequence[int]], int] | None,
    ) -> None:
        self._weights = weights
        self._post = post
        self._partners = sorted(partners)
        self._choose = choose
        self._changed = threading.Condition()
        self._wanted = self._busy = self._ending = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="exchanges", daemon=True)
        self._thread.start()

    def want(self) -> None:
        """Ask a partner soon, unless one is being asked: the learner has made a step. Nothing for a passive learner."""
        with self._changed:
            self._check()
            if self._choose is not None and not self._busy:
                self._wanted = True
                self._changed.notify_all()

    def settle(self) -> None:
        """Wait until no partner is being asked."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or not (self._wanted or self._busy))
            self._check()

    def end(self) -> None:
        """End the thread; a passive learner's ends when all partners have ended theirs."""
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
                self._changed.wait_for(lambda: self._wanted or self._ending)
                if not self._wanted:
                    break
                self._wanted, self._busy = False, True
            partner = choose(self._partners)
            sent, _ = self._weights.read()
            self._weights.mix(sent, self._post.ask(partner, sent))
        for partner in self._partners:
            self._post.stop(partner)

    def _answer(self) -> None:
        asking = set(self._partners)
        while asking:
            partner, received = self._post.question()
            if received is None:
                asking.discard(partner)
            else:
                self._post.answer(partner, self._weights.answer(received))
