"""The simulated speed-ups of docs/training.md, in cases with known results."""

from dataclasses import replace

import pytest

from benchmarks.training.speed import Machines, all_reduce, exchanges_per_step, speed_up, table

EVEN = Machines(spread=0.0, link=1e18, node_link=1e18, latency=0.0)
METHODS = ("ssgd", "ma", "bmuf", "adpsgd", "h-adpsgd")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("workers", [1, 8, 64])
def test_equal_workers_with_free_messages_have_linear_speed_up(method, workers):
    assert speed_up(method, workers, EVEN, node_size=min(4, workers)) == pytest.approx(workers)


@pytest.mark.parametrize("slow", [2.0, 5.0, 10.0])
def test_one_slow_worker_delays_synchronous_workers(slow):
    machines = replace(EVEN, slow=slow)
    for method in ("ssgd", "ma", "bmuf"):
        assert speed_up(method, 4, machines) == pytest.approx(4 / slow)
    assert speed_up("adpsgd", 4, machines) == pytest.approx(3 + 1 / slow)
    assert speed_up("h-adpsgd", 4, machines, node_size=2) == pytest.approx(2 + 2 / slow)


def test_message_time_depends_on_size_and_latency():
    assert all_reduce(4, 8e6, 1e6, 0.5) == pytest.approx(2 * 3 / 4 * 8 + 2 * 3 * 0.5)
    machines = replace(EVEN, step=1.0, weights=4e6, link=1e6, block_steps=10, block_tensors=3)
    assert speed_up("bmuf", 4, machines) == pytest.approx(4 * 10 / (10 + 2 * 3 / 4 * 12))
    assert speed_up("ssgd", 4, machines) == pytest.approx(4 / (1 + 2 * 3 / 4 * 4 - 0.5))
    assert speed_up("adpsgd", 4, machines) == pytest.approx(4)
    assert exchanges_per_step(machines) == pytest.approx(1 / 8)


def test_block_methods_suffer_less_from_varying_step_times():
    machines = replace(EVEN, spread=0.2)
    speed_ups = [speed_up(method, 32, machines) for method in ("ssgd", "bmuf", "adpsgd")]
    assert speed_ups[0] < 0.8 * speed_ups[1] < 0.8 * speed_ups[2]


def test_the_table_includes_the_published_figures():
    lines = table({"here": Machines(step=0.5), "there": Machines()})
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        *(f"{method}, {place}" for method in ("ssgd", "bmuf", "adpsgd", "h-adpsgd") for place in ("here", "there")),
        *("bmuf, published", "bmuf, Chen and Huo, published", "h-adpsgd, published"),
    ]
