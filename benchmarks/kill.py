"""Runs that are killed at random moments, taken up again, and compared with an uninterrupted one, byte for byte.

    python -m benchmarks.kill --times 100 [--only ray]

Four ways: ``--resume`` alone, ``--resume`` on two threads (``--jobs 2``), three shards with ``ninja gather``, each
process of which may be killed, and ``--ray`` on a cluster of two nodes of this machine (the extra ray), where the
command is killed or, as often, one of the cluster's workers. After the last attempt of each trial no temporary file may
be left.
"""

from __future__ import annotations

import argparse
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

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "lat.ark.gz"
COPIES = 25
SHARDS = 3
COMMAND = ("determinize-pruned", "lat.ark", "--beam", "6")
MARK = "NINJA_KILL_BENCHMARK"  # in the environment of the cluster's processes
Names = Sequence[str]


def main() -> None:
    """Kill so many times in each way, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="kills in each way (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="beginning of the name of a way")
    options = parser.parse_args()
    random.seed(options.seed)
    with tempfile.TemporaryDirectory() as folder, cluster() as address:
        os.chdir(folder)
        with ninja.write("lat.ark") as output:
            for copy in range(COPIES):
                for key, lattice in ninja.read(EXAMPLE):
                    output.write(lattice.with_key(f"{key}-{copy}"))
        begin = time.monotonic()
        run([*COMMAND, "-o", "one.ark"])
        seconds = time.monotonic() - begin
        expected = Path("one.ark").read_bytes()
        print(f"one run: {seconds:.2f} s, {len(expected)} bytes")
        resumed = (*COMMAND, "-o", "out.ark", "--resume")
        ways: dict[str, list[Names]] = {
            "--resume": [resumed],
            "--resume --jobs 2": [(*resumed, "--jobs", "2")],
            f"{SHARDS} shards": [
                *((*COMMAND, "-o", "out.ark", "--shard", f"{number}/{SHARDS}") for number in range(1, SHARDS + 1)),
                ("gather", "out.ark"),
            ],
        }
        if address:
            ways["ray"] = [(*COMMAND, "-o", "out.ark", "--ray", address)]
        for name, commands in ways.items():
            if options.only and not name.startswith(options.only):
                continue
            longest = seconds / max(1, len(commands) - 1)
            if name == "ray":
                begin = time.monotonic()
                run(commands[0])
                os.remove("out.ark")
                longest = time.monotonic() - begin
                print(f"{name}: one run {longest:.2f} s")
            kills = trials = kept = 0
            while kills < options.times:
                found = trial(commands, longest, expected)
                kills, kept, trials = kills + found[0], kept + found[1], trials + 1
            print(f"{name}: {kills} kills in {trials} runs, {kept} of them left something to go on from; all equal")


@contextmanager
def cluster() -> Iterator[str]:
    """Start a Ray cluster of two nodes of a core each; yield its address, empty where Ray is not installed."""
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        print("ray is not installed: that way is left out")
        yield ""
        return
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", MARK: str(os.getpid())}
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80_000_000})
    try:
        for _ in range(2):
            found.add_node(num_cpus=1, object_store_memory=80_000_000)
        yield found.address
    finally:
        found.shutdown()


def workers() -> list[int]:
    """Return the processes of the cluster that work on shards."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:  # it has ended
            continue
        if name.startswith(b"ray::Worker") and f"{MARK}={os.getpid()}".encode() in environment.split(b"\0"):
            found.append(int(folder.name))
    return found


def trial(commands: Sequence[Names], seconds: float, expected: bytes) -> tuple[int, int]:
    """Run commands one after the other, each killed up to three times; return the kills, and those that left work."""
    kills = kept = 0
    for command in commands:
        for _ in range(random.randint(0, 3)):
            killed = kill(command, random.uniform(0.0, 1.2 * seconds))
            kills += killed
            kept += killed and bool(left())
        run(command)
    if Path("out.ark").read_bytes() != expected:
        sys.exit("the output differs from that of an uninterrupted run")
    while workers():  # of a command that was killed: Ray ends them
        time.sleep(0.1)
    if rest := left():
        sys.exit(f"temporary files are left: {rest}")
    os.remove("out.ark")
    shutil.rmtree("out.ark.shards", ignore_errors=True)
    return kills, kept


def left() -> list[str]:
    """Return the temporary files that there are, also in the folder of the parts."""
    return [str(path) for path in Path().rglob(".*") if path.name != "."]


def kill(command: Names, after: float) -> bool:
    """Run a command and kill it, or one of its workers where it has some; return whether it was still running."""
    process = start(command)
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        if (found := workers()) and random.random() < 0.5:
            os.kill(random.choice(found), signal.SIGKILL)
            finish(process)
        else:
            process.kill()
            process.communicate()
        return True
    return False


def run(command: Names) -> None:
    """Run a command to its end."""
    finish(start(command))


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for the end of a command, and end with its message if it failed."""
    _, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(errors)


def start(command: Names) -> subprocess.Popen[str]:
    """Start a command."""
    return subprocess.Popen([sys.executable, "-m", "ninja", *command], stderr=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main()
