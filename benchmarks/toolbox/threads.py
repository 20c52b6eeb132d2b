"""Whole commands on one and on more threads, beside the time that reading and writing the bytes takes.

    python -m benchmarks.toolbox threads ARCHIVE --copies 20 --threads 1 --threads 2

ARCHIVE is a Kaldi archive with the files of its recogniser beside it. Commands run by turns with each number of
threads; the least wall and CPU seconds count. The floor is ``cat ARCHIVE > FILE``. All outputs are compared
byte by byte. The last column is as many processes as the most threads, each with a thread and a shard.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from benchmarks.command import argument, command, option
from benchmarks.measure import Usage, ninja, repeat_archive, run, scratch_folder
from benchmarks.tables import head, row, show

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


def side_by_side(commands: Sequence[Sequence[str]]) -> float:
    """Run commands at the same time; return the seconds until the last one ends."""
    begin = time.monotonic()
    processes = [subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for line in commands]
    if any([process.wait() for process in processes]):
        raise SystemExit(f"failed: {' '.join(commands[0])}")
    return time.monotonic() - begin


def table(archive: Path, copies: int, threads: Sequence[int], rounds: int, chosen: Sequence[str]) -> Iterator[str]:
    """Measure; yield the rows of the table."""
    with scratch_folder() as folder:
        source, output = repeat_archive(archive, copies, Path(folder) / "lat.ark"), Path(folder) / "out"
        floor = min(run(["cat", source], output).cpu for _ in range(rounds))
        print(f"{source.stat().st_size / 1e6:.0f} MB; floor {floor:.2f} CPU s")
        walls = (f"{number} threads, s" for number in threads)
        yield from head("command", "CPU s on one thread", "floors", *walls, f"{max(threads)} processes, s")
        for name in chosen or COMMANDS:
            options = [
                str(archive.parent / text) if (archive.parent / text).is_file() else text for text in COMMANDS[name]
            ]
            line = ninja(name, source, *options, "-o", output, "--jobs")
            usages: dict[int, list[Usage]] = {number: [] for number in threads}
            processes, digests = [], set()
            for _ in range(rounds):
                for number in threads:
                    usages[number].append(run([*line, str(number)]))
                    digests.add(hashlib.sha256(output.read_bytes()).digest())
                shards = [f"{number}/{max(threads)}" for number in range(1, max(threads) + 1)]
                processes.append(side_by_side([[*line, "1", "--shard", shard] for shard in shards]))
                shutil.rmtree(f"{output}.shards")
            if len(digests) > 1:
                raise click.ClickException(f"{name}: the outputs of different numbers of threads differ")
            cpu = min(usage.cpu for usage in usages[threads[0]])
            walls = (f"{min(usage.wall for usage in usages[number]):.2f}" for number in threads)
            yield row(name, f"{cpu:.2f}", f"{cpu / floor:.1f}", *walls, f"{min(processes):.2f}")


@command
@argument("archive")
@option("--copies", default=20)
@option("--threads", multiple=True, default=[1, 2], help="Number of threads; may be repeated.")
@option("--rounds", default=3)
@option("--only", multiple=True, type=click.Choice(list(COMMANDS)), help="Command to measure; may be repeated.")
def main(archive: Path, copies: int, threads: tuple[int, ...], rounds: int, only: tuple[str, ...]) -> None:
    show(table(archive, copies, threads, rounds, only))
