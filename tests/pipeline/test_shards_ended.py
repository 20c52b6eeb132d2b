"""Shards that are killed, terminated or run twice, and scripts of job arrays."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from shards import run_shards

import ninja as package
from ninja.errors import FormatError, NinjaError, OptionError, OutputError
from ninja.pipeline.join import join_shards
from ninja.pipeline.plan import Plan, Shard, units
from ninja.pipeline.record import read_plan
from ninja.pipeline.shard import Outcome, missing, run_shard

# Interruptions


def worker(*arguments, **options):
    command = [sys.executable, "-m", "ninja", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **options)


def temporary_files():
    return [str(path) for path in Path().rglob(".*") if path.name not in (".", "..")]


def test_shards_of_killed_workers_are_complete_after_a_rerun(example_folder, ninja):
    random.seed(7)
    with open("lat.ark", "ab") as archive:
        archive.write(49 * Path("lat.ark").read_bytes())
    command = ["determinize-pruned", "lat.ark", "--beam", "8"]
    assert ninja(*command, "-o", "one.ark")[0] == 0
    command += ["-o", "out.ark", "--shard"]
    num_killed = 0
    for number in (1, 2, 3):
        for _ in range(3):
            process = worker(*command, f"{number}/3")
            time.sleep(random.uniform(0.05, 0.5))
            process.kill()
            process.communicate()
            num_killed += process.returncode != 0
    assert num_killed
    run_shards(ninja, 3, *command[:-1])
    assert ninja("gather", "out.ark")[0] == 0
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()
    assert not temporary_files()


def test_two_workers_may_run_the_same_shard(example_folder, ninja):
    command = ["prune", "lat.ark", "-o", "out.ark", "--shard"]
    processes = [worker(*command, f"{number}/2") for number in (1, 2, 1, 2)]
    assert [(process.communicate(), process.returncode)[1] for process in processes] == 4 * [0]
    assert ninja("gather", "out.ark")[0] == 0
    assert ninja("prune", "lat.ark", "-o", "one.ark")[0] == 0
    assert Path("out.ark").read_bytes() == Path("one.ark").read_bytes()
    assert not temporary_files()


def make_plan(shards=2, output="out.ark"):
    from ninja.pipeline.plan import PartOutput

    source_units, states = units("lat.ark")
    outputs = (PartOutput("output", output, "lattices"),)
    return Plan(f"{output}.shards", shards, "copy", {}, "1", outputs, tuple(states), tuple(source_units))


def copy_lattices(part):
    count = 0
    with package.write(part.outputs["output"]) as output:
        for _, lattice in package.read(part.tables):
            output.write(lattice)
            count += 1
    return Outcome(count)


def test_a_python_function_runs_in_shards(example_folder):
    plan = make_plan(3)
    assert [shard.number for shard in missing(plan)] == [1, 2, 3]
    record = run_shard(plan, Shard(2, 3), copy_lattices)
    assert run_shard(plan, Shard(2, 3), None) == record
    assert [shard.number for shard in missing(plan)] == [1, 3]
    with pytest.raises(FormatError, match="2 shards of 3 must still be run: 1, 3"):
        join_shards("out.ark")
    for shard in missing(plan):
        run_shard(plan, shard, copy_lattices)
    joined = join_shards("out.ark")
    assert (joined.lattices, joined.outputs, read_plan("out.ark.shards").digest) == (40, ("out.ark",), plan.digest)
    assert Path("out.ark").read_bytes() == Path("lat.ark").read_bytes()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), MemoryError(), FormatError("bad")])
def test_an_attempt_that_raises_leaves_no_files(example_folder, error):
    def failing(part):
        copy_lattices(part)
        raise error

    with pytest.raises(type(error)):
        run_shard(make_plan(), Shard(1, 2), failing)
    assert os.listdir("out.ark.shards") == ["plan.json"]


def test_a_late_worker_does_not_replace_a_complete_part(example_folder):
    plan = make_plan()

    def finish_late(part):
        run_shard(plan, Shard(1, 2), copy_lattices)
        with open(part.outputs["output"], "wb") as output:
            output.write(b"other bytes")
        return Outcome(1)

    assert run_shard(plan, Shard(1, 2), finish_late).lattices > 1
    assert b"other" not in Path("out.ark.shards/00001-of-00002.out.ark").read_bytes()


def test_files_of_a_dead_process_are_removed(example_folder, ninja):
    import socket

    plan = make_plan()
    run_shard(plan, Shard(1, 2), copy_lattices)
    dead = worker("--version")
    dead.communicate()
    for host in (socket.gethostname(), "elsewhere"):
        os.mkdir(f"out.ark.shards/.00002-of-00002.{host}-{dead.pid}-0123abcd")
    run_shard(plan, Shard(2, 2), copy_lattices)
    assert len(temporary_files()) == 1  # the process on the other host may still run
    assert ninja("gather", "out.ark")[0] == 0
    assert not temporary_files()


def test_a_shard_folder_that_cannot_be_created_is_reported(example_folder, ninja):
    Path("out.ark.shards").write_bytes(b"")  # fails for root, too, unlike a read-only folder
    code, _, errors = ninja("prune", "lat.ark", "-o", "out.ark", "--shard", "1/2")
    assert code == 1
    assert "out.ark.shards: cannot be created" in errors
    assert not temporary_files()


def test_sigterm_removes_temporary_files(example_folder):
    with open("lat.ark", "ab") as archive:
        archive.write(19 * Path("lat.ark").read_bytes())
    process = worker("determinize-pruned", "lat.ark", "--beam", "8", "-o", "out.ark", "--shard", "1/2")
    deadline = time.monotonic() + 30
    while not list(Path().glob("out.ark.shards/.0*/.*.part")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 143
    assert b"terminated by SIGTERM" in errors
    assert not temporary_files()


def test_a_write_error_is_reported_and_leaves_no_files(example_folder, monkeypatch):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    plan = make_plan(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(OutputError, match="cannot be written"):
            run_shard(plan, Shard(1, 1), copy_lattices)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not temporary_files()
    assert os.listdir("out.ark.shards") == ["plan.json"]


# Scripts of job arrays


def test_job_array_scripts_run_all_shards(example_folder, ninja):
    command = ["prune", "lat.ark", "--beam", "4", "-o", "out.ark"]
    assert ninja(*command)[0] == 0
    expected = Path("out.ark").read_bytes()
    for kind, variable in (("--slurm", "SLURM_ARRAY_TASK_ID"), ("--sge", "SGE_TASK_ID")):
        code, script, errors = ninja("shard-script", kind, "2", *command)
        assert code == 0, errors
        assert "1-2" in script
        assert "exec ninja prune lat.ark --beam 4 -o out.ark" in script
        Path("job.sh").write_text(script.replace("exec ninja", f"exec {sys.executable} -m ninja"))
        for number in "12":
            process = subprocess.run(["bash", "job.sh"], env=os.environ | {variable: number}, capture_output=True)
            assert process.returncode == 0, process.stderr
        os.remove("out.ark")
        assert ninja("gather", "out.ark", "--remove-parts")[0] == 0
        assert Path("out.ark").read_bytes() == expected
    assert "JOB_COMPLETION_INDEX + 1" in ninja("shard-script", "--kubernetes", "2", *command)[1]


def test_scripts_of_commands_without_shards_are_refused(example_folder, ninja):
    for command in (["merge", "lat.ark", "-o", "x"], ["prune", "lat.ark"], ["doctor"]):
        code, _, errors = ninja("shard-script", "--slurm", "2", *command)
        assert code == 2, errors
    assert ninja("shard-script", "2", "prune", "lat.ark", "-o", "out.ark")[0] == 2


def test_an_invalid_shard_raises_an_option_error():
    with pytest.raises(OptionError, match="but must be i/n"):
        Shard.parse("1:2")
    assert issubclass(OptionError, NinjaError)
