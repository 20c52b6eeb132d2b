"""Whole commands on one thread, on more threads, and in as many processes on parts of the archive of nearly equal size.

    python -m benchmarks.toolbox threads ARCHIVE [--copies 20] [--threads 2] [--rounds 5] [--output docs/scale.md]

ARCHIVE is a Kaldi archive with the files of its recogniser next to it; it is read from and written to memory. The three
runs of a command alternate, and the least values count. All outputs are compared byte by byte. ``cp`` has no threads:
its row shows whether the memory system alone lets two processes copy the bytes faster than one.

Wall times mean little while other processes use the cores. "Free cores" therefore estimates them: CPU seconds divided
by the mean number of threads that run or could run, at most the number of cores, sampled every 4 ms (Linux). Time in
which one thread runs and the others wait for it or for the global lock counts as one core.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.command import argument, command, option, output
from benchmarks.measure import ninja, repeat_archive, scratch_folder
from benchmarks.tables import head, put, row, show

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
SHOWN = ("copy", "prune", "determinize-pruned", "to-nbest", "mbr-decode")
INTERVAL = 0.004  # seconds between samples


@dataclass(frozen=True, slots=True)
class Run:
    """Resources that one or more concurrent processes used."""

    cpu: float  # seconds
    wall: float  # seconds
    cores: float  # mean number of cores that their threads ran on, or could have run on
    faults: int  # page faults without input or output

    @property
    def free(self) -> float:
        """Estimate of the wall time on free cores, seconds."""
        return self.cpu / self.cores


def concurrent(lines: Sequence[Sequence[str]], num_cores: int) -> Run:
    """Run command lines at the same time, until the last one ends."""
    begin = time.monotonic()
    started = [subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for line in lines]
    processes = {process.pid: process for process in started}
    cpu, faults, samples = 0.0, 0, [1]
    while processes:
        for pid in list(processes):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _, status, usage = os.wait4(pid, 0)
            process = processes.pop(pid)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise click.ClickException(f"failed: {process.args!r}")
            cpu += usage.ru_utime + usage.ru_stime
            faults += usage.ru_minflt
        if running := sum(map(_num_running, processes)):
            samples.append(min(num_cores, running))
        time.sleep(INTERVAL)
    return Run(cpu, time.monotonic() - begin, sum(samples) / len(samples), faults)


def _num_running(pid: int) -> int:
    """Return the number of threads of a process that run, or wait only for a core or the disk."""
    states = []
    try:
        for task in os.scandir(f"/proc/{pid}/task"):
            states.append(Path(task.path, "stat").read_bytes().rpartition(b") ")[2][:1])
    except OSError:  # the thread or the process has ended
        pass
    return sum(state in (b"R", b"D") for state in states)


def _row(name: str, groups: Sequence[Sequence[Run]]) -> str:
    """Return the row of a command: the least values of its rounds, one group for each way to run it."""
    least = [[min(values) for values in zip(*((run.cpu, run.wall, run.free) for run in runs), strict=True)]
             for runs in groups]  # fmt: skip
    faults = " / ".join(f"{min(run.faults for run in runs) / 1000:.0f}" for runs in groups)
    return row(name, *(" / ".join(f"{value:.2f}" for value in column) for column in zip(*least, strict=True)), faults)


def table(archive: Path, copies: int, threads: int, rounds: int, names: Sequence[str]) -> Iterator[str]:
    """Measure; yield the lines of the section."""
    with scratch_folder() as folder:
        source = repeat_archive(archive, copies, Path(folder) / "lat.ark")
        parts = [repeat_archive(archive, (copies + n) // threads, Path(folder) / f"part{n}") for n in range(threads)]
        yield f"{copies} copies of {archive.parent.name}, {source.stat().st_size / 1e6:.0f} MB; {rounds} rounds."
        yield f"Each cell: one thread / {threads} threads / {threads} processes."
        yield ""
        yield from head("command", "CPU s", "wall s", "s on free cores", "page faults, 1,000")
        load = os.getloadavg()[0]
        yield _row("`cp`, in one process and in several", _alternate([["cp"]], source, parts, threads, rounds))
        for name in names:
            options = [
                str(archive.parent / text) if (archive.parent / text).is_file() else text for text in COMMANDS[name]
            ]
            lines = [ninja(name, *options, "--jobs", str(jobs)) for jobs in (1, threads)]
            yield _row(name, _alternate(lines, source, parts, threads, rounds))
        yield ""
        yield f"Load average, {os.cpu_count()} cores: {load:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end."


def _alternate(
    lines: Sequence[list[str]], source: Path, parts: Sequence[Path], threads: int, rounds: int
) -> list[list[Run]]:
    """Run commands on an archive, and the first one on all parts at the same time; return their runs.

    Raises:
        ClickException: The outputs differ.
    """
    groups = [
        *([_with_files(line, source)] for line in lines),
        [_with_files(lines[0], part) for part in parts],
    ]
    runs: list[list[Run]] = [[] for _ in groups]
    for _ in range(rounds):
        digests = set()
        for group, results in zip(groups, runs, strict=True):
            results.append(concurrent(group, threads))
            digest = hashlib.sha256()
            for line in group:
                with open(line[-1], "rb") as file:
                    while content := file.read(1 << 20):
                        digest.update(content)
                os.remove(line[-1])
            digests.add(digest.digest())
        if len(digests) > 1:
            raise click.ClickException(f"{lines[0]}: the outputs of threads or processes differ")
    return runs


def _with_files(line: list[str], source: Path) -> list[str]:
    """Return a command line with its source and its output, which is the last argument."""
    output = f"{source}.out"
    return [*line, str(source), output] if line == ["cp"] else [*line, str(source), "-o", output]


@command
@argument("archive")
@option("--copies", default=20)
@option("--threads", default=2, help="Number of threads, and of processes.")
@option("--rounds", default=5)
@option("--only", multiple=True, type=click.Choice(list(COMMANDS)), help="Command to measure; may be repeated.")
@output
def main(archive: Path, copies: int, threads: int, rounds: int, only: tuple[str, ...], output: Path | None) -> None:
    if copies < threads:
        raise click.UsageError(f"--copies is {copies}, but must be at least --threads ({threads})")
    put(output, "threads", show(table(archive, copies, threads, rounds, only or SHOWN)))
