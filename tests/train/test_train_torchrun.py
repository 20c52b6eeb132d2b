"""Trainings in several processes: killed trainings, torchrun, a user's training loop, and options of oneDNN."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import module_workers  # noqa: E402
import train_workers  # noqa: E402
from module_workers import join  # noqa: E402
from torch.distributed import run as torchrun  # noqa: E402
from torch.multiprocessing.spawn import start_processes  # noqa: E402
from toy_training import toy, toy_command, toy_texts  # noqa: E402

from ninja.errors import ModelError, WorkerError  # noqa: E402
from ninja.lm import checkpoint  # noqa: E402
from ninja.train import loop  # noqa: E402
from ninja.train.parallel import launch  # noqa: E402

# The slow tests start processes that import torch, and take minutes; CI runs only the test of two machines. The other
# tests fork processes from one that has imported torch.
SLOW = "kills trainings for a minute: NINJA_SLOW=1"
slow = pytest.mark.skipif(not os.environ.get("NINJA_SLOW"), reason=SLOW)
# The test of two machines starts six processes, two of which import torch, so it is slow; CI always runs it.
slow_or_ci = pytest.mark.skipif(not {"NINJA_SLOW", "CI"} & os.environ.keys(), reason="starts six processes")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path):
    toy_texts(tmp_path, 800)
    return tmp_path


@pytest.fixture
def forked_workers(monkeypatch):
    """Fork the workers that trainings start."""
    module_workers.forking_context()
    monkeypatch.setattr(
        launch,
        "start_processes",
        lambda *arguments, **options: start_processes(*arguments, **options | {"start_method": "forkserver"}),
    )


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
    arguments = torchrun.get_args_parser().parse_args(shlex.split(line)[1:])
    assert (arguments.module, arguments.training_script, arguments.log_dir) == (True, "ninja", None)
    assert arguments.training_script_args[-2:] == ["--log", "train.jsonl"]
    assert ninja("--", "train", "--help")[0] == 0  # newer versions of Python keep the --


TORCHRUN = ["--rdzv-backend", "c10d"]


@slow
@pytest.mark.parametrize("method", ["bmuf", "adpsgd"])
def test_torchrun_restarts_the_workers_from_the_last_state(folder, method):
    arguments = [*TORCHRUN, "--rdzv-endpoint", "localhost:0", "--nproc-per-node", "2", "--max-restarts", "1"]
    arguments += command(folder, "lm.pt", method, "--log", folder / "log", epochs=30)
    process = start(["-m", "torch.distributed.run", *arguments])
    wait_for_file(folder / "lm.pt.state", process)
    line = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(line[1]), signal.SIGKILL)
    wait_for_end(process)
    assert (folder / "lm.pt").exists()
    assert not (folder / "lm.pt.state").exists()


@slow_or_ci
@pytest.mark.usefixtures("forked_workers")
def test_two_machines_of_one_worker_equal_one_machine_of_two(folder):
    texts = folder / "train.txt", folder / "dev.txt"
    loop.train(*texts, folder / "here.pt", toy(parallel="bmuf", epochs=2, workers=2))
    # This process hosts the store, because another program could take a free port before a machine opens it.
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    arguments = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", f"localhost:{store.port}"]
    arguments += ["--rdzv-id", "7", "--rdzv-conf", "is_host=0", "--local-addr", "localhost"]
    machine = [*TORCHRUN, *arguments, *command(folder, "lm.pt", "bmuf", epochs=2)]
    assert join(module_workers.start(2, module_workers.call, ENVIRONMENT, torchrun.main, machine)) == [0, 0]
    expected, result = weights(folder / "here.pt"), weights(folder / "lm.pt")
    assert all(torch.equal(weight, result[name]) for name, weight in expected.items())


def test_no_thread_of_a_process_group_outlives_the_training(folder):
    texts, methods = (folder / "train.txt", folder / "dev.txt"), ("ssgd", "ma", "bmuf", "adpsgd")
    assert join(module_workers.start(1, module_workers.train_with_each_method, texts, folder, methods)) == [0]
    assert (folder / "threads").read_text() == ""  # threads could abort the process at exit


@pytest.mark.usefixtures("forked_workers")
def test_the_error_names_a_killed_worker():
    # The other worker would wait for a day, longer than the time limit of a test.
    with pytest.raises(WorkerError, match=r"worker 1 \(SIGKILL, process \d+\) was killed by signal 9"):
        launch.run(train_workers.kill_worker, (1,), 2, "cpu", None)


@pytest.mark.usefixtures("forked_workers")
def test_the_first_cause_of_a_failure_is_reported(folder):
    texts = folder / "train.txt", folder / "dev.txt"
    with pytest.raises(ModelError, match="training diverged"):
        loop.train(*texts, folder / "lm.pt", toy(workers=2, parallel="ma", learning_rate=1e30, epochs=50))


@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE_VNNI"])
def test_a_limit_on_the_instructions_of_onednn_is_respected(folder, isa):
    limits = {"ONEDNN_MAX_CPU_ISA": isa, "ATEN_CPU_CAPABILITY": "default"}
    arguments = folder / "train.txt", folder / "dev.txt", folder / "lm.pt", toy(epochs=0.1)
    assert join(module_workers.start(1, module_workers.call, limits, loop.train, *arguments)) == [0]
    assert checkpoint.read(folder / "lm.pt").card["precision"] == "float32"


# A user's training loop

SIZE = 8
EXAMPLE = ROOT / "examples" / "train_workers.py"


def end_states(folder):
    return [torch.load(folder / f"end{rank}", weights_only=True) for rank in range(SIZE)]


def test_eight_processes_resumed_after_a_kill_have_identical_weights(tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    work = module_workers.train_blocks
    codes = join(module_workers.start(SIZE, work, f"file://{tmp_path}/meet1", str(tmp_path / "whole"), None))
    assert codes == [0] * SIZE
    processes = module_workers.start(SIZE, work, f"file://{tmp_path}/meet2", str(tmp_path / "killed"), 13)
    processes[5].join(60)
    assert processes[5].exitcode == -signal.SIGKILL
    for process in processes:
        process.kill()
    join(processes)
    codes = join(module_workers.start(SIZE, work, f"file://{tmp_path}/meet3", str(tmp_path / "killed"), None))
    assert codes == [0] * SIZE
    uninterrupted, resumed = end_states(tmp_path / "whole"), end_states(tmp_path / "killed")
    assert uninterrupted[0]["first"] == 0
    assert resumed[0]["first"] == 12  # within a block of five steps
    for name, weight in uninterrupted[0]["weights"].items():
        for end in (*uninterrupted, *resumed):
            assert torch.equal(end["weights"][name], weight)


def test_pairwise_averaging_over_tcp_loses_no_update(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    size = 3
    assert join(module_workers.start(size, module_workers.train_pairs, url, str(tmp_path))) == [0] * size
    end_states = [torch.load(tmp_path / f"pairs{rank}", weights_only=True) for rank in range(size)]
    updates = sum(-0.125 * (rank + 1) * (4 + rank) for rank in range(size))
    for end in end_states:
        assert (end["begin"] == 0.0).all()  # the weights of the first worker
        assert (end["table"] == 0).all()
        torch.testing.assert_close(end["weight"], torch.full_like(end["weight"], updates / size), rtol=0, atol=1e-12)
        assert end["seen"].item() == pytest.approx(sum(4 + rank for rank in range(size)) / size, abs=1e-12)
    assert sum(end["exchanges"] for end in end_states) >= 4
    assert end_states[1]["exchanges"] == end_states[0]["exchanges"] + end_states[2]["exchanges"]


def test_the_example_learns(tmp_path):
    output = tmp_path / "output"
    assert join(module_workers.start(1, module_workers.run_script, str(EXAMPLE), str(output), daemon=False)) == [0]
    share = re.fullmatch(r"([0-9.]+)% of points are classified correctly\n", output.read_text())
    assert float(share[1]) > 90
    assert len(EXAMPLE.read_text().splitlines()) <= 40
