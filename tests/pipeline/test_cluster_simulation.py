"""The cluster simulation of docs/scale.md, in cases with known results."""

import math
from dataclasses import replace

import pytest

from benchmarks.cluster import NOTICED, Cluster, Measured, simulate

MEASURED = Measured(
    rescore=10.0, prune=0.1, packed=1e6, plain=1e7, lattice=0.1, spread=0.0001, start=2.0, shard=0.0, look=0.0, join=1e9
)
EVEN = Cluster(1, slow=0.0, spread=0.0, link=1e15, store=1e18)


@pytest.mark.parametrize("workers", [1, 3, 7])
def test_equal_shards_on_equal_workers_run_in_rounds(workers):
    result = simulate(200.0, 0.0, 20, replace(EVEN, workers=workers), MEASURED)
    assert result.attempts == 20
    assert result.seconds == pytest.approx(2.0 + 10.0 * math.ceil(20 / workers), abs=0.1)
    assert result.efficiency == pytest.approx(200 / (workers * result.seconds))


def test_failures_repeat_the_interrupted_shards():
    failing = simulate(36_000.0, 0.0, 360, replace(EVEN, workers=4, failure=0.5, repair=0.0), MEASURED)
    reliable = simulate(36_000.0, 0.0, 360, replace(EVEN, workers=4), MEASURED)
    failures = failing.attempts - 360
    assert 5 < failures < 60  # about 20: 10 worker-hours, with one failure per half hour
    assert failing.repeated * 36_000 == pytest.approx(50 * failures, rel=0.4)  # on average, half a shard is lost
    assert reliable.seconds < failing.seconds < reliable.seconds + 100 + NOTICED + failures * 110 / 4 + 100


def test_spare_attempts_shorten_a_run_with_slow_machines():
    slow = replace(EVEN, workers=20, slow=0.1, factor=10.0)
    single, with_spares = (
        simulate(20_000.0, 0.0, 200, replace(slow, spare=spare), MEASURED) for spare in (False, True)
    )
    assert with_spares.seconds < single.seconds
    assert with_spares.attempts > single.attempts == 200
