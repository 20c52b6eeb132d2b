"""Whole commands on one and on more threads, beside the time that reading and writing the bytes takes.

    python -m benchmarks.threads ARCHIVE --copies 20 --threads 1 2

Every command runs in turn with each number of threads, again and again; the least wall and CPU seconds count. The floor
is ``cat ARCHIVE > FILE``. Outputs of all numbers of threads are compared byte for byte. The last column is the most
threads' number of processes, each with one thread on its own shard.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

COMMANDS = {
    "copy": (),
    "prune": ("--beam", "6"),
    "1best": (),
    "best": (),
    "best-path": (),
    "arc-post": (),
    "push": (),
    "minimize": (),
    "to-nbest": ("--n", "100"),
    "determinize-pruned": ("--beam", "4"),
    "mbr-decode": (),
    "align-words": ("--word-boundary", "word_boundary.int", "--model", "trans.mdl"),
    "oracle": ("--ref", "text", "--words", "words.txt.gz"),
}


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="packed Kaldi archive, with the files of its recogniser beside it")
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        source, output = f"{folder}/lat.ark", f"{folder}/out"
        with open(source, "wb") as file, gzip.open(options.archive) as packed:
            content = packed.read()
            for _ in range(options.copies):
                file.write(content)
        floor = min(measured(["cat", source], output)[1] for _ in range(options.rounds))
        print(f"{os.path.getsize(source) / 1e6:.0f} MB; floor {floor:.2f} CPU s")
        walls = " | ".join(f"{number} threads, s" for number in options.threads)
        most = max(options.threads)
        print(f"| command | CPU s on one thread | floors | {walls} | {most} processes, s |")
        for name in options.commands:
            arguments = [str(options.archive.parent / each) if "." in each else each for each in COMMANDS[name]]
            arguments = [str(options.archive.parent / "text") if each == "text" else each for each in arguments]
            found = {number: [float("inf"), float("inf")] for number in options.threads}
            shards = float("inf")
            outputs = set()
            for _ in range(options.rounds):
                line = [sys.executable, "-m", "ninja", name, source, *arguments, "-o", output, "--jobs"]
                for number, best in found.items():
                    best[:] = map(min, best, measured([*line, str(number)]))
                    outputs.add(subprocess.check_output(["sha256sum", output]))
                shards = min(shards, together([[*line, "1", "--shard", f"{i + 1}/{most}"] for i in range(most)]))
                shutil.rmtree(f"{output}.shards")
            cpu = found[options.threads[0]][1]
            walls = " | ".join(f"{wall:.2f}" for wall, _ in found.values())
            same = "" if len(outputs) == 1 else "  THE OUTPUTS DIFFER"
            print(f"| {name} | {cpu:.2f} | {cpu / floor:.1f} | {walls} | {shards:.2f} |{same}", flush=True)


def measured(command: Sequence[str], output: str | None = None) -> tuple[float, float]:
    """Run a command; return its wall and CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    with open(output or os.devnull, "wb") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def together(commands: Sequence[Sequence[str]]) -> float:
    """Run commands side by side; return the seconds until the last one ends."""
    begin = time.monotonic()
    running = [subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for each in commands]
    if any([each.wait() for each in running]):
        raise SystemExit(f"failed: {' '.join(commands[0])}")
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
