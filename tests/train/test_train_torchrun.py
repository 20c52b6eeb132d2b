"""Killed trainings and torchrun; the tests are slow, because each process imports torch."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.distributed.run import get_args_parser  # noqa: E402
from toy_training import toy, toy_command, toy_texts  # noqa: E402

from ninja.train import loop  # noqa: E402

# These tests start processes that import torch and take minutes; CI runs only the test of two machines.
SLOW = "kills trainings for a minute: NINJA_SLOW=1"
slow = pytest.mark.skipif(not os.environ.get("NINJA_SLOW"), reason=SLOW)
slow_or_ci = pytest.mark.skipif(not {"NINJA_SLOW", "CI"} & os.environ.keys(), reason="starts seven processes")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path):
    toy_texts(tmp_path, 800)
    return tmp_path


def command(folder, output, method, *arguments, **options):
    options_of_training = toy_command(parallel=method, epochs=options.pop("epochs", 12), patience=1000, **options)
    texts = [str(folder / "train.txt"), "--dev", str(folder / "dev.txt"), "-o", str(folder / output)]
    # Without --, torchrun would parse --log as its own option.
    return ["-m", "ninja", "--", "train", *texts, *options_of_training, *map(str, arguments)]


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def start(arguments):
    # Messages go to a file, because a full pipe would block the process.
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115
    process = subprocess.Popen(
        [sys.executable, *arguments], env=ENVIRONMENT, stderr=log, stdout=subprocess.DEVNULL, text=True
    )
    process.log = log
    return process


def messages(process):
    process.log.seek(0)
    return process.log.read()


def wait_until(condition, processes):
    """Wait until a condition holds; after an exit or a timeout, stop all processes and report their messages."""
    deadline = time.monotonic() + 120
    while True:
        codes = [process.poll() for process in processes]  # before the condition, which may hold when a process ends
        if condition():
            return
        if any(codes) or None not in codes or time.monotonic() > deadline:
            for process in processes:
                process.kill()
                process.wait()
            raise AssertionError("\n".join([f"exit codes {codes}", *map(messages, processes)]))
        time.sleep(0.02)


def wait_for_end(*processes):
    wait_until(lambda: all(process.poll() == 0 for process in processes), processes)


def wait_for_file(path, process):
    wait_until(path.exists, [process])
    assert process.poll() is None, "the training ended before the test could stop it"


def children(process):
    """Return the process ids of the workers of a training."""
    processes = []
    for process_id in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if b"spawn_main" in Path(f"/proc/{process_id}/cmdline").read_bytes():
            processes.append(int(process_id))
    return processes


def weights(path):
    return torch.load(path, weights_only=True)["state"]


@slow
@pytest.mark.parametrize("method", ["ssgd", "bmuf"])
@pytest.mark.parametrize("victim", ["worker", "parent"])
def test_a_killed_and_resumed_training_equals_an_uninterrupted_one(folder, method, victim):
    wait_for_end(start(command(folder, "whole.pt", method, workers=2)))
    process = start(command(folder, "halves.pt", method, "--log", folder / "log", workers=2))
    wait_for_file(folder / "halves.pt.state", process)
    workers = children(process)
    os.kill(workers[1] if victim == "worker" else process.pid, signal.SIGKILL)
    code, errors = process.wait(), messages(process)
    if victim == "worker":
        assert code == 1
        assert f"worker 1 (SIGKILL, process {workers[1]}) was killed by signal 9" in errors
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.05)
    assert (folder / "halves.pt.state").exists()
    wait_for_end(start(command(folder, "halves.pt", method, "--log", folder / "log", workers=2, resume=True)))
    expected, result = weights(folder / "whole.pt"), weights(folder / "halves.pt")
    assert all(torch.equal(weight, result[name]) for name, weight in expected.items())
    steps = [json.loads(line)["step"] for line in (folder / "log").read_text().splitlines()]
    assert steps[-1] == max(steps)


def test_the_documented_options_are_passed_to_ninja_not_torchrun(ninja):
    page = (ROOT / "docs" / "training.md").read_text().replace("\\\n", "")
    line, *_ = (line for line in page.splitlines() if line.startswith("torchrun "))
    arguments = get_args_parser().parse_args(shlex.split(line)[1:])
    assert (arguments.module, arguments.training_script, arguments.log_dir) == (True, "ninja", None)
    assert arguments.training_script_args[-2:] == ["--log", "train.jsonl"]
    assert ninja("--", "train", "--help")[0] == 0  # newer versions of Python keep the --


TORCHRUN = ["-m", "torch.distributed.run", "--rdzv-backend", "c10d"]


@slow
@pytest.mark.parametrize("method", ["bmuf", "adpsgd"])
def test_torchrun_restarts_the_workers_from_the_last_state(folder, method):
    arguments = [*TORCHRUN, "--rdzv-endpoint", "localhost:0", "--nproc-per-node", "2", "--max-restarts", "1"]
    process = start([*arguments, *command(folder, "lm.pt", method, "--log", folder / "log", epochs=30)])
    wait_for_file(folder / "lm.pt.state", process)
    line = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(line[1]), signal.SIGKILL)
    wait_for_end(process)
    assert (folder / "lm.pt").exists()
    assert not (folder / "lm.pt.state").exists()


@slow_or_ci
def test_two_machines_of_one_worker_equal_one_machine_of_two(folder):
    texts = folder / "train.txt", folder / "dev.txt"
    loop.train(*texts, folder / "here.pt", toy(parallel="bmuf", epochs=2, workers=2))
    # This process hosts the store, because another program could take a free port before a machine opens it.
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    arguments = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", f"localhost:{store.port}"]
    arguments += ["--rdzv-id", "7", "--rdzv-conf", "is_host=0", "--local-addr", "localhost"]
    machine = [*TORCHRUN, *arguments, *command(folder, "lm.pt", "bmuf", epochs=2)]
    wait_for_end(start(machine), start(machine))
    expected, result = weights(folder / "here.pt"), weights(folder / "lm.pt")
    assert all(torch.equal(weight, result[name]) for name, weight in expected.items())


# Prints the names of remaining threads, which could abort the process at exit.
THREADS = """
from pathlib import Path
from toy_training import toy
from ninja.train import loop
for method in "ssgd", "ma", "bmuf", "adpsgd":
    loop.train("train.txt", "dev.txt", f"{method}.pt", toy(parallel=method, epochs=1))
print(*(name for task in Path("/proc/self/task").iterdir() if "gloo" in (name := (task / "comm").read_text())))
"""


def test_no_thread_of_a_process_group_outlives_the_training(folder):
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"}
    arguments = [sys.executable, "-c", THREADS]
    process = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout.split()) == (0, []), process.stderr
