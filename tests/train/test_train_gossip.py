"""Pairwise averaging: its invariants, and the absence of deadlocks between learners."""

import os
import queue
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ninja.train.parallel.exchange import Exchanges, SharedWeights  # noqa: E402


class Queues:
    """Message passing within a process, with random delays."""

    def __init__(self, rank, boxes, seed, patience):
        self.rank, self.boxes, self.patience = rank, boxes, patience
        self.random = np.random.default_rng((seed, rank))

    def delay(self):
        if self.random.random() < 0.01:
            time.sleep(self.random.random() * 1e-3)

    def ask(self, partner, vector):
        self.boxes[partner, "requests"].put((self.rank, vector.clone()))
        self.delay()
        return self.boxes[self.rank, "answers"].get(timeout=self.patience)

    def stop(self, partner):
        self.boxes[partner, "requests"].put((self.rank, None))

    def receive(self):
        self.delay()
        return self.boxes[self.rank, "requests"].get(timeout=self.patience)

    def answer(self, partner, vector):
        self.delay()
        self.boxes[partner, "answers"].put(vector.clone())


def learners(count, seed, size=5, patience=30):
    """Return learners with random weights; those with even numbers are active."""
    boxes = {(learner, kind): queue.SimpleQueue() for learner in range(count) for kind in ("requests", "answers")}
    weights = [
        SharedWeights(torch.from_numpy(np.random.default_rng((seed, n)).normal(size=size))) for n in range(count)
    ]
    exchanges = []
    for rank in range(count):
        random = np.random.default_rng((seed, rank, 1))
        choose = None if rank % 2 else lambda partners, random=random: partners[int(random.integers(len(partners)))]
        partners = range(rank % 2 == 0, count, 2)
        exchanges.append(Exchanges(weights[rank], Queues(rank, boxes, seed, patience), partners, choose))
    return weights, exchanges


def end(exchanges):
    """End the active learners first, because the passive learners wait for them."""
    for exchange in (*exchanges[::2], *exchanges[1::2]):
        exchange.end()


def total(weights):
    return sum(learner_weights.vector for learner_weights in weights)


def spread(weights):
    vectors = torch.stack([learner_weights.vector for learner_weights in weights])
    return float((vectors - vectors.mean(0)).norm())


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_averaging_preserves_the_sum_and_reduces_the_spread(count):
    weights, exchanges = learners(count, seed=count)
    weight_sum, spreads = total(weights), [spread(weights)]
    for _ in range(60):
        for exchange in exchanges[::2]:  # not in parallel, which may increase the spread temporarily
            exchange.want()
            exchange.settle()
            torch.testing.assert_close(total(weights), weight_sum, rtol=0, atol=1e-12)
            spreads.append(spread(weights))
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(spreads))
    assert spreads[-1] < 1e-3 * spreads[0]
    end(exchanges)


def test_an_exchange_averages_both_learners():
    weights, exchanges = learners(2, seed=0)
    middle = total(weights) / 2
    exchanges[0].want()
    exchanges[0].settle()
    for learner_weights in weights:
        torch.testing.assert_close(learner_weights.vector, middle)
        assert learner_weights.exchanges == 1
    end(exchanges)


def test_steps_during_an_exchange_are_preserved():
    weights, partner = (SharedWeights(torch.full((3,), value, dtype=torch.float64)) for value in (1.0, 5.0))
    weights_before, exchanges_before = weights.read()
    message, _ = weights.read()
    weights.mix(message, partner.answer(message))
    weights.add_step(weights_before, weights_before + 0.25, exchanges_before)
    assert weights.vector.tolist() == [3.25] * 3
    assert partner.vector.tolist() == [3.0] * 3
    weights_before, exchanges_before = weights.read()
    weights.add_step(weights_before, torch.full((3,), 0.1, dtype=torch.float64), exchanges_before)
    assert weights.vector.tolist() == [0.1] * 3  # exact, because no exchange happened in between


@pytest.mark.parametrize("count", range(3, 9))
def test_learners_with_random_delays_never_deadlock(count):
    num_exchanges = 100_000 // 6 if os.environ.get("NINJA_SLOW") else 400
    weights, exchanges = learners(count, seed=count)
    start, num_steps = total(weights), [0] * count
    active = range(0, count, 2)

    def train(rank):
        random = np.random.default_rng((rank, 7))
        for _ in range(num_exchanges // len(active)):
            weights_before, exchanges_before = weights[rank].read()
            if random.random() < 0.01:
                time.sleep(random.random() * 1e-3)
            weights[rank].add_step(weights_before, weights_before + 1.0, exchanges_before)
            num_steps[rank] += 1
            exchanges[rank].want()
            if rank % 2 == 0:
                exchanges[rank].settle()

    threads = [threading.Thread(target=train, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a learner is deadlocked"
    end(exchanges)
    num_averages = sum(learner_weights.exchanges for learner_weights in weights)
    assert num_averages == 2 * len(active) * (num_exchanges // len(active))
    torch.testing.assert_close(total(weights), start + sum(num_steps), rtol=1e-9, atol=1e-6)


def test_an_error_of_the_partner_is_raised_in_the_learner():
    _, exchanges = learners(2, seed=1, patience=0.05)
    exchanges[1].want()  # has no effect for a passive learner
    time.sleep(0.2)  # longer than the patience of the passive learner, so no reply comes
    with pytest.raises(queue.Empty):
        exchanges[1].settle()
    exchanges[0].want()
    with pytest.raises(queue.Empty):
        exchanges[0].settle()
    with pytest.raises(queue.Empty):
        exchanges[0].want()
