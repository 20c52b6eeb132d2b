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

    def __init__(self, own, boxes, seed, patience):
        self.own, self.boxes, self.patience = own, boxes, patience
        self.random = np.random.default_rng((seed, own))

    def delay(self):
        if self.random.random() < 0.01:
            time.sleep(self.random.random() * 1e-3)

    def ask(self, partner, vector):
        self.boxes[partner, "requests"].put((self.own, vector.clone()))
        self.delay()
        return self.boxes[self.own, "answers"].get(timeout=self.patience)

    def stop(self, partner):
        self.boxes[partner, "requests"].put((self.own, None))

    def receive(self):
        self.delay()
        return self.boxes[self.own, "requests"].get(timeout=self.patience)

    def answer(self, partner, vector):
        self.delay()
        self.boxes[partner, "answers"].put(vector.clone())


def learners(count, seed, size=5, patience=30):
    """Create learners with random weights, the even ones active."""
    boxes = {(each, kind): queue.SimpleQueue() for each in range(count) for kind in ("requests", "answers")}
    weights = [
        SharedWeights(torch.from_numpy(np.random.default_rng((seed, n)).normal(size=size))) for n in range(count)
    ]
    found = []
    for own in range(count):
        random = np.random.default_rng((seed, own, 1))
        choose = None if own % 2 else lambda partners, random=random: partners[int(random.integers(len(partners)))]
        partners = range(own % 2 == 0, count, 2)
        found.append(Exchanges(weights[own], Queues(own, boxes, seed, patience), partners, choose))
    return weights, found


def end(exchanges):
    """End the active ones first: the passive ones wait for them."""
    for each in (*exchanges[::2], *exchanges[1::2]):
        each.end()


def total(weights):
    return sum(each.vector for each in weights)


def spread(weights):
    stacked = torch.stack([each.vector for each in weights])
    return float((stacked - stacked.mean(0)).norm())


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_averaging_keeps_the_sum_and_contracts_the_disagreement(count):
    weights, exchanges = learners(count, seed=count)
    before, spreads = total(weights), [spread(weights)]
    for _ in range(60):
        for each in exchanges[::2]:  # one at a time: what two do at once may move them apart for a while
            each.want()
            each.settle()
            torch.testing.assert_close(total(weights), before, rtol=0, atol=1e-12)
            spreads.append(spread(weights))
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(spreads))
    assert spreads[-1] < 1e-3 * spreads[0]
    end(exchanges)


def test_a_pair_meets_in_the_middle():
    weights, exchanges = learners(2, seed=0)
    middle = total(weights) / 2
    exchanges[0].want()
    exchanges[0].settle()
    for each in weights:
        torch.testing.assert_close(each.vector, middle)
        assert each.exchanges == 1
    end(exchanges)


def test_steps_made_while_a_message_travels_are_kept():
    own, partner = (SharedWeights(torch.full((3,), value, dtype=torch.float64)) for value in (1.0, 5.0))
    before, exchanges = own.read()
    sent, _ = own.read()
    own.mix(sent, partner.answer(sent))
    own.add_step(before, before + 0.25, exchanges)
    assert own.vector.tolist() == [3.25] * 3
    assert partner.vector.tolist() == [3.0] * 3
    before, exchanges = own.read()
    own.add_step(before, torch.full((3,), 0.1, dtype=torch.float64), exchanges)
    assert own.vector.tolist() == [0.1] * 3  # without rounding, where nothing came between


@pytest.mark.parametrize("count", range(3, 9))
def test_learners_with_random_delays_never_wait_in_a_circle(count):
    asked = 100_000 // 6 if os.environ.get("NINJA_SLOW") else 400
    weights, exchanges = learners(count, seed=count)
    start, added = total(weights), [0] * count
    active = range(0, count, 2)

    def train(own):
        random = np.random.default_rng((own, 7))
        for _ in range(asked // len(active)):
            before, seen = weights[own].read()
            if random.random() < 0.01:
                time.sleep(random.random() * 1e-3)
            weights[own].add_step(before, before + 1.0, seen)
            added[own] += 1
            exchanges[own].want()
            if own % 2 == 0:
                exchanges[own].settle()

    threads = [threading.Thread(target=train, args=(own,), daemon=True) for own in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
        assert not each.is_alive(), "a learner waits for ever"
    end(exchanges)
    assert sum(each.exchanges for each in weights) == 2 * len(active) * (asked // len(active))
    torch.testing.assert_close(total(weights), start + sum(added), rtol=1e-9, atol=1e-6)


def test_the_error_of_a_partner_reaches_the_learner():
    _, exchanges = learners(2, seed=1, patience=0.05)
    exchanges[1].want()  # nothing for a passive one
    time.sleep(0.2)  # the passive one has waited too long, so nobody answers
    with pytest.raises(queue.Empty):
        exchanges[1].settle()
    exchanges[0].want()
    with pytest.raises(queue.Empty):
        exchanges[0].settle()
    with pytest.raises(queue.Empty):
        exchanges[0].want()
