"""The simulation of docs/scale.md, in cases with known results."""

import math
from dataclasses import replace

import pytest

from benchmarks.cluster import NOTICED, Cluster, Measured, simulate

MEASURED = Measured(
    rescore=10.0, prune=0.1, packed=1e6, plain=1e7, lattice=0.1, spread=0.0001, start=2.0, shard=0.0, look=0.0, join=1e9
)
EVEN = Cluster(1, slow=0.0, spread=0.0, link=1e15, store=1e18)


@pytest.mark.parametrize("workers", [1, 3, 7])
def test_equal_shards_on_equal_workers_take_rounds(workers):
    found = simulate(200.0, 0.0, 20, replace(EVEN, workers=workers), MEASURED)
    assert found.attempts == 20
    assert found.seconds == pytest.approx(2.0 + 10.0 * math.ceil(20 / workers), abs=0.1)
    assert found.efficiency == pytest.approx(200 / (workers * found.seconds))


def test_failures_cost_what_they_interrupt():
    shaky = simulate(36_000.0, 0.0, 360, replace(EVEN, workers=4, failure=0.5, repair=0.0), MEASURED)
    sound = simulate(36_000.0, 0.0, 360, replace(EVEN, workers=4), MEASURED)
    failures = shaky.attempts - 360
    assert 5 < failures < 60  # 5 hours of 4 workers, one failure every half an hour: 20
    assert shaky.repeated * 36_000 == pytest.approx(50 * failures, rel=0.4)  # half a shard each
    assert sound.seconds < shaky.seconds < sound.seconds + 100 + NOTICED + failures * 110 / 4 + 100


def test_a_second_attempt_beats_a_slow_machine():
    slow = replace(EVEN, workers=20, slow=0.1, factor=10.0)
    alone, spared = (simulate(20_000.0, 0.0, 200, replace(slow, spare=spare), MEASURED) for spare in (False, True))
    assert spared.seconds < alone.seconds
    assert spared.attempts > alone.attempts == 200
