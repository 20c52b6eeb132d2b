"""Shards on a local Ray cluster of two nodes; without Ray, only the error messages are tested."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lattice_files import write_all

import ninja as package
from ninja.errors import DependencyError, OptionError, OutputError, WorkerError
from ninja.pipeline import run_shards
from ninja.pipeline.join import join_shards
from ninja.pipeline.plan import PartOutput, Plan, Shard, units
from ninja.pipeline.shard import Outcome, missing


@pytest.fixture(scope="module")
def cluster():
    """Start a cluster of a head without cores and two nodes with one core each."""
    if not os.environ.get("NINJA_SLOW"):
        # Half a minute and an extra of 100 MB, which CI does not install; `make cluster-check` runs these tests.
        pytest.skip("tests with Ray need NINJA_SLOW=1 and the extra ray")
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_AUTH_MODE", "disabled")
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    folders = Path(__file__).parent, Path(__file__).parents[1] / "support"
    patch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))  # workers import `CopyWork`
    from ray.cluster_utils import Cluster

    ray_cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80_000_000})
    for _ in range(2):
        ray_cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    yield ray_cluster
    ray_cluster.shutdown()
    patch.undo()


def make_plan(shards, output="out.ark"):
    source_units, states = units("lat.ark")
    outputs = (PartOutput("output", output, "lattices"),)
    return Plan(
        os.path.abspath(f"{output}.shards"), shards, "copy", {}, "1", outputs, tuple(states), tuple(source_units)
    )


class CopyWork:
    """Copy lattices, but fail in some shards; each attempt writes a line to the file ``attempts``."""

    def __init__(self, folder, *, failing_shards=(), every_attempt=False, seconds=0.0, error=None):
        self.folder = str(folder)
        self.failing_shards, self.every_attempt = failing_shards, every_attempt
        self.seconds, self.error = seconds, error

    def __call__(self):
        os.chdir(self.folder)
        return self.work

    def work(self, part):
        with open("attempts", "a") as file:
            file.write(f"{part.shard.number} {os.getpid()}\n")
        if part.shard.number in self.failing_shards:
            first_attempt = not os.path.exists(f"died-{part.shard.number}")
            Path(f"died-{part.shard.number}").touch()
            if first_attempt or self.every_attempt:
                if self.error is not None:
                    raise self.error
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        count = 0
        with package.write(part.outputs["output"]) as output:
            for _, lattice in package.read(part.tables):
                output.write(lattice)
                count += 1
        return Outcome(count)


def num_attempts():
    return Counter(int(line.split()[0]) for line in Path("attempts").read_text().splitlines())


def output_is_complete():
    join_shards("out.ark")
    return Path("out.ark").read_bytes() == Path("lat.ark").read_bytes()


def test_shards_run_sequentially_without_a_cluster(example_folder):
    records = run_shards(make_plan(5), CopyWork(example_folder), on_record=(notified := []).append)
    assert notified == records
    assert run_shards(make_plan(5), None) == records  # all shards are complete
    assert output_is_complete()


def test_errors_without_ray_say_how_to_install_it(example_folder, ninja, monkeypatch):
    code, _, errors = ninja("prune", "-o", "out.ark", "--ray", "lat.ark", "lat.ark")
    assert (code, "--ray is 'lat.ark', but must be HOST:PORT" in errors) == (2, True)
    code, _, errors = ninja("prune", "lat.ark", "-o", "out.ark", "--shard", "1/2", "--ray")
    assert (code, "--ray cannot be used with --shard" in errors) == (2, True)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "ninja.pipeline.ray_cluster", raising=False)
    code, _, errors = ninja("prune", "lat.ark", "-o", "out.ark", "--ray")
    assert (code, "pip install 'ninja-asr[ray]'" in errors) == (1, True)
    with pytest.raises(DependencyError, match="a cluster needs ray, which is not installed"):
        run_shards(make_plan(2), CopyWork(example_folder), cluster="auto")
    assert not os.path.exists("out.ark.shards")


def test_commands_on_a_cluster_write_the_output_of_a_single_run(example_folder, ninja, cluster):
    assert ninja("prune", "lat.ark", "--beam", "4", "-o", "one.ark")[0] == 0
    code, _, errors = ninja("prune", "lat.ark", "--beam", "4", "-o", "out.ark", "--ray", cluster.address)
    assert (code, errors) == (0, "ninja: out.ark: 40 lattices from 16 shards\n")
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()
    write_all("subset.ark", (lattice for _, lattice in [*package.read("lat.ark")][:6]))
    command = ["rescore", "subset.ark", "--words", "words.txt", "--beam", "3", "-o"]
    assert ninja(*command, "one.ark")[0] == 0
    assert ninja(*command, "out.ark", "--ray", cluster.address)[0] == 0
    for (key, result), (expected_key, expected) in zip(package.read("out.ark"), package.read("one.ark"), strict=True):
        assert key == expected_key
        assert np.allclose(result.graph, expected.graph, atol=1e-3)
    assert Path("out.ark.scales.toml").read_bytes() == Path("one.ark.scales.toml").read_bytes()
    with open("lat.ark", "ab") as output:
        output.write(b"bad \0Bnothing")
    code, _, errors = ninja("prune", "lat.ark", "--beam", "4", "-o", "out.ark", "--ray", cluster.address)
    assert (code, "40 lattices from 16 shards, 1 failed" in errors) == (1, True)
    assert not list(example_folder.glob("*.shards"))


def test_a_shard_is_retried_if_its_worker_dies_and_fails_after_three_attempts(example_folder, cluster):
    # Empty shards are not attempted.
    expected_attempts = Counter(number for number in range(1, 9) if make_plan(8).tables(Shard(number, 8)))
    run_shards(make_plan(8), CopyWork(example_folder, failing_shards=(2, 5)), cluster=cluster.address)
    assert num_attempts() == expected_attempts + Counter((2, 5))
    assert output_is_complete()
    Path("attempts").unlink()
    plan = make_plan(8, "other.ark")
    with pytest.raises(WorkerError, match=r"1 of 8 shards failed after 3 attempts: 3/8 \(its worker died"):
        run_shards(plan, CopyWork(example_folder, failing_shards=(3,), every_attempt=True), cluster=cluster.address)
    assert num_attempts() == expected_attempts + Counter((3, 3))
    assert missing(plan) == [Shard(3, 8)]
    Path("attempts").unlink()
    work = CopyWork(example_folder, failing_shards=(3,), error=OutputError("the disk was full"))
    Path("died-3").unlink()
    assert len(run_shards(plan, work, cluster=cluster.address)) == 8
    assert num_attempts() == Counter((3, 3))  # the other shards were complete
    join_shards("other.ark")
    with pytest.raises(OptionError, match="contains shards of a run with"):
        run_shards(replace(plan, command="prune"), work, cluster=cluster.address)


DRIVER = """
import os
import sys
sys.path.insert(0, sys.argv[1])
from test_ray import CopyWork, make_plan
from ninja.pipeline import run_shards
run_shards(make_plan(12), CopyWork(os.getcwd(), seconds=0.5), cluster=sys.argv[2])
"""


def test_a_restarted_driver_runs_only_the_missing_shards(example_folder, cluster):
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(Path(__file__).parent), cluster.address]) as driver:
        deadline = time.monotonic() + 60
        while len(records := list(example_folder.glob("out.ark.shards/0*.json"))) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        driver.kill()
    before = {path: path.stat().st_mtime_ns for path in records}
    assert len(run_shards(make_plan(12), CopyWork(example_folder), cluster=cluster.address)) == 12
    assert {path: path.stat().st_mtime_ns for path in records} == before
    assert num_attempts().total() <= 12 + 2 + 2  # each of the two actors may have run one more shard, complete or not
    assert output_is_complete()


def test_a_run_completes_although_a_node_dies(example_folder, cluster, monkeypatch):
    from ninja.pipeline import ray_cluster

    monkeypatch.setattr(ray_cluster, "SPARE_AFTER", 2.0)
    node = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    timer = threading.Timer(3.0, cluster.remove_node, [node], {"allow_graceful": False})
    timer.start()
    records = run_shards(make_plan(15), CopyWork(example_folder, seconds=0.7), cluster=cluster.address)
    timer.join()
    assert [record.shard for record in records] == list(range(1, 16))
    assert output_is_complete()


class Unpicklable(CopyWork):
    """Work that cannot be unpickled in another process."""

    def __reduce__(self):
        return eval, ("no_such_name",)


def test_workers_that_cannot_start_end_the_run(example_folder, cluster):
    with pytest.raises(WorkerError, match="no worker could be started on the Ray cluster: NameError"):
        run_shards(make_plan(4), Unpicklable(example_folder), cluster=cluster.address)


def test_an_address_without_a_cluster_is_an_error(example_folder, ninja, cluster):
    code, _, errors = ninja("prune", "lat.ark", "-o", "out.ark", "--ray", "127.0.0.1:9")
    assert (code, "cannot connect to a Ray cluster at 127.0.0.1:9" in errors) == (2, True)


def test_workers_cache_the_models_that_they_open(monkeypatch):
    load = importlib.import_module("ninja.lm.load")  # `ninja.lm.load` is a function
    options = load.LoadOptions()

    monkeypatch.setattr(load, "_open", load._open)  # restored after the test
    assert load.open_model(None, options) is not load.open_model(None, options)
    load.cache_models()
    assert load.open_model(None, options) is load.open_model(None, options)
