"""Measure CPU time, wall time and memory of calls and of commands."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that a process used."""

    cpu: float  # seconds, user and system
    wall: float  # seconds
    megabytes: float  # largest resident size


def cpu_seconds(call: Callable[[], object], repeats: int = 1) -> float:
    """Return the least CPU time of this process over some calls."""
    return min(by_turns({"": call}, repeats)[""])


def by_turns(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of calls, alternating in each round, so that other load affects all equally."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            seconds[name].append(time.process_time() - begin)
    return seconds


def run(command: Sequence[str | Path], output: Path | None = None) -> Usage:
    """Run a program to its end. Keep this process small: its size counts as the child's.

    Raises:
        CalledProcessError: The program failed; ``stderr`` has its last 2,000 characters.
    """
    # An installed command has its modules' bytecode; here the first of several runs writes it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with open(output or os.devnull, "wb") as stdout, tempfile.TemporaryFile() as stderr:
        begin = time.monotonic()
        process = subprocess.Popen(list(map(str, command)), stdout=stdout, stderr=stderr, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            stderr.seek(0)
            message = stderr.read().decode(errors="replace")[-2000:]
            raise subprocess.CalledProcessError(process.returncode, process.args, stderr=message)
    return Usage(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def ninja(*arguments: str | Path) -> list[str]:
    """Return the command line of ``ninja`` with these arguments."""
    return [sys.executable, "-m", "ninja", *map(str, arguments)]


def use_one_core() -> None:
    """Bind this process, and the commands that it starts, to one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def set_torch_threads(count: int = 1) -> None:
    """Set the number of threads of torch, which is imported here because few benchmarks need it."""
    import torch

    torch.set_num_threads(count)


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder in memory, to exclude the time of the disk."""
    return tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)


def repeat_archive(archive: Path, copies: int, target: Path) -> Path:
    """Write the unpacked content of an archive several times, incrementally; return the target."""
    with archive.open("rb") as file:
        open_source = gzip.open if file.read(2) == b"\x1f\x8b" else open
    with target.open("wb") as output:
        for _ in range(copies):
            with open_source(archive, "rb") as source:
                shutil.copyfileobj(source, output)
    return target
