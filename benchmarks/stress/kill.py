"""Runs that are killed at random moments, resumed, and compared with an uninterrupted one, byte by byte.

    python -m benchmarks.stress kill --times 100 [--only ray]

Four methods: ``--resume`` alone, ``--resume`` on two threads (``--jobs 2``), three shards with ``ninja gather``, each
process of which may be killed, and ``--ray`` on a cluster of two nodes of this machine (the extra ray), where the
command is killed or, as often, one of the cluster's workers. After the last attempt no temporary file may be left.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import ninja
from benchmarks.command import EXAMPLES, command, option
from benchmarks.measure import ninja as ninja_command

COPIES = 25
SHARDS = 3
COMMAND = ("determinize-pruned", "lat.ark", "--beam", "6")
RECORD = ".out.ark.run"  # remains next to the output of --resume
MARK = "NINJA_KILL_BENCHMARK"  # in the environment of the cluster's processes
Names = Sequence[str]


@contextmanager
def cluster() -> Iterator[str]:
    """Start a Ray cluster of two nodes of a core each; yield its address, empty where Ray is not installed."""
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        print("ray is not installed: it is not tested")
        yield ""
        return
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", MARK: str(os.getpid())}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80_000_000})
    try:
        for _ in range(2):
            nodes.add_node(num_cpus=1, object_store_memory=80_000_000)
        yield nodes.address
    finally:
        nodes.shutdown()


def workers() -> list[int]:
    """Return the ids of the cluster's processes that work on shards."""
    ids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:  # it has ended
            continue
        if name.startswith(b"ray::Worker") and f"{MARK}={os.getpid()}".encode() in environment.split(b"\0"):
            ids.append(int(folder.name))
    return ids


def trial(commands: Sequence[Names], seconds: float, expected: bytes) -> tuple[int, int]:
    """Run commands and kill each up to three times; return the number of kills, and of kills that left files."""
    kills = num_with_files = 0
    for line in commands:
        for _ in range(random.randint(0, 3)):
            killed = kill(line, random.uniform(0.0, 1.2 * seconds))
            kills += killed
            num_with_files += killed and bool(temporary_files())
        run(line)
    if Path("out.ark").read_bytes() != expected:
        sys.exit("the output differs from that of an uninterrupted run")
    while workers():  # of a command that was killed: Ray ends them
        time.sleep(0.1)
    if files := temporary_files():
        sys.exit(f"temporary files are left: {files}")
    os.remove("out.ark")
    Path(RECORD).unlink(missing_ok=True)
    shutil.rmtree("out.ark.shards", ignore_errors=True)
    return kills, num_with_files


def temporary_files() -> list[str]:
    """Return the temporary files, also in the folder of the parts."""
    return [str(path) for path in Path().rglob(".*") if path.name not in (".", RECORD)]


def kill(line: Names, after: float) -> bool:
    """Run a command and kill it or, as often, one of its workers; return whether it was still running."""
    process = start(line)
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        if (ids := workers()) and random.random() < 0.5:
            os.kill(random.choice(ids), signal.SIGKILL)
            finish(process)
        else:
            process.kill()
            process.communicate()
        return True
    return False


def run(line: Names) -> None:
    finish(start(line))


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for the end of a command; exit with its message if it failed."""
    _, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(errors)


def start(line: Names) -> subprocess.Popen[str]:
    return subprocess.Popen(ninja_command(*line), stderr=subprocess.PIPE, text=True)


@command
@option("--times", default=100, help="Kills in each method.")
@option("--seed", default=0)
@option("--only", default="", help="Beginning of the name of a method.")
def main(times: int, seed: int, only: str) -> None:
    random.seed(seed)
    with tempfile.TemporaryDirectory() as folder, cluster() as address:
        os.chdir(folder)
        with ninja.write("lat.ark") as output:
            for copy in range(COPIES):
                for key, lattice in ninja.read(EXAMPLES / "lat.ark.gz"):
                    output.write(lattice.with_key(f"{key}-{copy}"))
        begin = time.monotonic()
        run([*COMMAND, "-o", "one.ark"])
        seconds = time.monotonic() - begin
        expected = Path("one.ark").read_bytes()
        print(f"one run: {seconds:.2f} s, {len(expected)} bytes")
        output_to = (*COMMAND, "-o", "out.ark")
        shards = [(*output_to, "--shard", f"{number}/{SHARDS}") for number in range(1, SHARDS + 1)]
        methods: dict[str, list[Names]] = {
            "--resume": [(*output_to, "--resume")],
            "--resume --jobs 2": [(*output_to, "--resume", "--jobs", "2")],
            f"{SHARDS} shards": [*shards, ("gather", "out.ark")],
        }
        if address:
            methods["ray"] = [(*output_to, "--ray", address)]
        for name, lines in methods.items():
            if not name.startswith(only):
                continue
            longest = seconds / max(1, len(lines) - 1)
            if name == "ray":
                begin = time.monotonic()
                run(lines[0])
                os.remove("out.ark")
                longest = time.monotonic() - begin
                print(f"{name}: one run {longest:.2f} s")
            kills = trials = resumed = 0
            while kills < times:
                counts = trial(lines, longest, expected)
                kills, resumed, trials = kills + counts[0], resumed + counts[1], trials + 1
            print(f"{name}: {kills} kills in {trials} runs, {resumed} of them left a part to resume from; all equal")
