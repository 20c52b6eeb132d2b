"""Shards on a Ray cluster of two nodes on this machine; without Ray, only the error messages."""

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

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Create a folder with the example as a plain archive of 40 lattices, and its words."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_bytes((EXAMPLES / "words.txt").read_bytes())
    write_all("lat.ark", (lattice for _, lattice in package.read(EXAMPLES / "lat.ark.gz")))
    return tmp_path


@pytest.fixture(scope="module")
def cluster():
    """Start a head without cores and two nodes of one core each."""
    if not os.environ.get("NINJA_SLOW"):
        # Half a minute, and an extra of 100 MB that CI does not install; `make cluster-check` runs them.
        pytest.skip("Ray was not asked for: NINJA_SLOW=1, the extra ray")
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_AUTH_MODE", "disabled")
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    folders = Path(__file__).parent, Path(__file__).parents[1] / "support"
    patch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))  # of the workers, which import `Copying`
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80_000_000})
    for _ in range(2):
        found.add_node(num_cpus=1, object_store_memory=80_000_000)
    yield found
    found.shutdown()
    patch.undo()


def plan_of(shards, output="out.ark"):
    found, states = units("lat.ark")
    outputs = (PartOutput("output", output, "lattices"),)
    return Plan(os.path.abspath(f"{output}.shards"), shards, "copy", {}, "1", outputs, tuple(states), tuple(found))


class Copying:
    """Work that copies lattices, and fails at some shards; each attempt writes a line to the file ``attempts``."""

    def __init__(self, folder, *, dies_at=(), always=False, seconds=0.0, refuses=None):
        self.folder = str(folder)
        self.dies_at, self.always, self.seconds, self.refuses = dies_at, always, seconds, refuses

    def __call__(self):
        os.chdir(self.folder)
        return self.work

    def work(self, part):
        with open("attempts", "a") as attempts:
            attempts.write(f"{part.shard.number} {os.getpid()}\n")
        if part.shard.number in self.dies_at:
            first = not os.path.exists(f"died-{part.shard.number}")
            Path(f"died-{part.shard.number}").touch()
            if first or self.always:
                if self.refuses is not None:
                    raise self.refuses
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        count = 0
        with package.write(part.outputs["output"]) as output:
            for _, lattice in package.read(part.tables):
                output.write(lattice)
                count += 1
        return Outcome(count)


def attempts():
    return Counter(int(line.split()[0]) for line in Path("attempts").read_text().splitlines())


def is_whole():
    join_shards("out.ark")
    return Path("out.ark").read_bytes() == Path("lat.ark").read_bytes()


def test_shards_run_one_after_the_other_without_a_cluster(here):
    records = run_shards(plan_of(5), Copying(here), on_record=(seen := []).append)
    assert seen == records
    assert run_shards(plan_of(5), None) == records  # all are done
    assert is_whole()


def test_errors_without_a_cluster_name_the_remedy(here, ninja, monkeypatch):
    code, _, errors = ninja("prune", "-o", "out.ark", "--ray", "lat.ark", "lat.ark")
    assert (code, "--ray is 'lat.ark', but must be HOST:PORT" in errors) == (2, True)
    code, _, errors = ninja("prune", "lat.ark", "-o", "out.ark", "--shard", "1/2", "--ray")
    assert (code, "--ray cannot be used with --shard" in errors) == (2, True)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "ninja.pipeline.ray_cluster", raising=False)
    code, _, errors = ninja("prune", "lat.ark", "-o", "out.ark", "--ray")
    assert (code, "pip install 'ninja-asr[ray]'" in errors) == (1, True)
    with pytest.raises(DependencyError, match="a cluster needs ray, which is not installed"):
        run_shards(plan_of(2), Copying(here), cluster="auto")
    assert not os.path.exists("out.ark.shards")


def test_commands_on_a_cluster_write_what_one_run_writes(here, ninja, cluster):
    assert ninja("prune", "lat.ark", "--beam", "4", "-o", "one.ark")[0] == 0
    code, _, errors = ninja("prune", "lat.ark", "--beam", "4", "-o", "out.ark", "--ray", cluster.address)
    assert (code, errors) == (0, "ninja: out.ark: 40 lattices from 16 shards\n")
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()
    write_all("few.ark", (lattice for _, lattice in [*package.read("lat.ark")][:6]))
    command = ["rescore", "few.ark", "--words", "words.txt", "--beam", "3", "-o"]
    assert ninja(*command, "one.ark")[0] == 0
    assert ninja(*command, "out.ark", "--ray", cluster.address)[0] == 0
    for (key, found), (other, expected) in zip(package.read("out.ark"), package.read("one.ark"), strict=True):
        assert key == other
        assert np.allclose(found.graph, expected.graph, atol=1e-3)
    assert Path("out.ark.scales.toml").read_bytes() == Path("one.ark.scales.toml").read_bytes()
    with open("lat.ark", "ab") as output:
        output.write(b"bad \0Bnothing")
    code, _, errors = ninja("prune", "lat.ark", "--beam", "4", "-o", "out.ark", "--ray", cluster.address)
    assert (code, "40 lattices from 16 shards, 1 failed" in errors) == (1, True)
    assert not list(here.glob("*.shards"))


def test_a_shard_whose_worker_dies_is_tried_again_and_given_up_after_three_times(here, cluster):
    each = Counter(number for number in range(1, 9) if plan_of(8).tables(Shard(number, 8)))  # some are empty
    run_shards(plan_of(8), Copying(here, dies_at=(2, 5)), cluster=cluster.address)
    assert attempts() == each + Counter((2, 5))
    assert is_whole()
    Path("attempts").unlink()
    plan = plan_of(8, "other.ark")
    with pytest.raises(WorkerError, match=r"1 of 8 shards failed after 3 attempts: 3/8 \(its worker died"):
        run_shards(plan, Copying(here, dies_at=(3,), always=True), cluster=cluster.address)
    assert attempts() == each + Counter((3, 3))
    assert missing(plan) == [Shard(3, 8)]
    Path("attempts").unlink()
    refused = Copying(here, dies_at=(3,), refuses=OutputError("the disk was full"))
    Path("died-3").unlink()
    assert len(run_shards(plan, refused, cluster=cluster.address)) == 8
    assert attempts() == Counter((3, 3))  # the others were done
    join_shards("other.ark")
    with pytest.raises(OptionError, match="contains shards of a run with"):
        run_shards(replace(plan, command="prune"), refused, cluster=cluster.address)


DRIVER = """
import os
import sys
sys.path.insert(0, sys.argv[1])
from test_ray import Copying, plan_of
from ninja.pipeline import run_shards
run_shards(plan_of(12), Copying(os.getcwd(), seconds=0.5), cluster=sys.argv[2])
"""


def test_a_driver_that_is_killed_and_started_again_runs_what_is_missing(here, cluster):
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(Path(__file__).parent), cluster.address]) as driver:
        until = time.monotonic() + 60
        while len(done := list(here.glob("out.ark.shards/0*.json"))) < 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        driver.kill()
    before = {path: path.stat().st_mtime_ns for path in done}
    assert len(run_shards(plan_of(12), Copying(here), cluster=cluster.address)) == 12
    assert {path: path.stat().st_mtime_ns for path in done} == before
    assert attempts().total() <= 12 + 2 + 2  # one in the hands of each of two actors, of which some had ended
    assert is_whole()


def test_a_node_that_dies_costs_nothing_but_time(here, cluster, monkeypatch):
    from ninja.pipeline import ray_cluster

    monkeypatch.setattr(ray_cluster, "SPARE_AFTER", 2.0)
    node = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    killed = threading.Timer(3.0, cluster.remove_node, [node], {"allow_graceful": False})
    killed.start()
    records = run_shards(plan_of(15), Copying(here, seconds=0.7), cluster=cluster.address)
    killed.join()
    assert [record.shard for record in records] == list(range(1, 16))
    assert is_whole()


class Unheard(Copying):
    """Work that cannot be sent to another process."""

    def __reduce__(self):
        return eval, ("no_such_name",)


def test_workers_that_cannot_begin_end_the_run(here, cluster):
    with pytest.raises(WorkerError, match="no worker could be started on the Ray cluster: NameError"):
        run_shards(plan_of(4), Unheard(here), cluster=cluster.address)


def test_an_address_without_a_cluster(here, ninja, cluster):
    code, _, errors = ninja("prune", "lat.ark", "-o", "out.ark", "--ray", "127.0.0.1:9")
    assert (code, "cannot connect to a Ray cluster at 127.0.0.1:9" in errors) == (2, True)


def test_a_worker_holds_the_models_that_it_opens(monkeypatch):
    load = importlib.import_module("ninja.lm.load")  # the package has a function of this name
    options = load.LoadOptions()

    monkeypatch.setattr(load, "_open", load._open)  # put back in the end
    assert load.open_model(None, options) is not load.open_model(None, options)
    load.cache_models()
    assert load.open_model(None, options) is load.open_model(None, options)
