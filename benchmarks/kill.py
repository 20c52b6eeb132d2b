"""Runs that are killed at random moments, taken up again, and compared with an uninterrupted one, byte for byte.

    python -m benchmarks.kill --times 100

Three ways: ``--resume`` alone, ``--resume`` on two threads (``--jobs 2``), and three shards with ``ninja gather``, each
process of which may be killed. After the last attempt of each trial no temporary file may be left.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import ninja

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "lat.ark.gz"
COPIES = 25
SHARDS = 3
COMMAND = ("determinize-pruned", "lat.ark", "--beam", "6")
Names = Sequence[str]


def main() -> None:
    """Kill so many times in each way, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="kills in each way (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random.seed(options.seed)
    with tempfile.TemporaryDirectory() as folder:
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
        for name, commands in ways.items():
            kills = trials = kept = 0
            while kills < options.times:
                found = trial(commands, seconds, expected)
                kills, kept, trials = kills + found[0], kept + found[1], trials + 1
            print(f"{name}: {kills} kills in {trials} runs, {kept} of them left something to go on from; all equal")


def trial(commands: Sequence[Names], seconds: float, expected: bytes) -> tuple[int, int]:
    """Run commands one after the other, each killed up to three times; return the kills, and those that left work."""
    kills = kept = 0
    for command in commands:
        for _ in range(random.randint(0, 3)):
            killed = kill(command, random.uniform(0.0, 1.2 * seconds / max(1, len(commands) - 1)))
            kills += killed
            kept += killed and bool(left())
        run(command)
    if Path("out.ark").read_bytes() != expected:
        sys.exit("the output differs from that of an uninterrupted run")
    if rest := left():
        sys.exit(f"temporary files are left: {rest}")
    os.remove("out.ark")
    shutil.rmtree("out.ark.shards", ignore_errors=True)
    return kills, kept


def left() -> list[str]:
    """Return the temporary files that there are, also in the folder of the parts."""
    return [str(path) for path in Path().rglob(".*") if path.name != "."]


def kill(command: Names, after: float) -> bool:
    """Run a command and kill it; return whether it was still running."""
    process = start(command)
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    return False


def run(command: Names) -> None:
    """Run a command to its end."""
    process = start(command)
    _, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: {errors}")


def start(command: Names) -> subprocess.Popen[str]:
    """Start a command."""
    return subprocess.Popen([sys.executable, "-m", "ninja", *command], stderr=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main()
