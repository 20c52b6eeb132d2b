"""Ninja's verbs against Kaldi's programs: CPU time and memory of whole commands, reading and writing included.

    python -m benchmarks.bench_toolbox ../shared/data/korean --output docs/results.md

Archives are unpacked and repeated, so that starting the interpreter does not count; figures are for one copy. Each
command has one core, as Kaldi's had. With --output the table takes its place between the marks in that page.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import page


@dataclass(frozen=True, slots=True)
class Row:
    """A command, and what Kaldi's program takes for the same: f4007661, -O2, one idle core, lat.ark.gz unpacked."""

    verb: str
    options: tuple[str, ...] = ()  # DATA stands for the folder of the data
    archive: str = "lat"
    twice: bool = False  # the archive with itself
    kaldi: float | None = None  # CPU s
    kaldi_megabytes: float | None = None


ROWS = (
    Row("copy", kaldi=0.20),
    Row("prune", ("--beam=4",), kaldi=0.27),
    Row("best-path", kaldi=0.24),
    Row("to-nbest", ("--n=100",), kaldi=4.86),
    Row("arc-post", kaldi=0.35),
    Row("determinize-pruned", ("--beam=6",), kaldi=1.97),
    Row("determinize-pruned", ("--beam=8",), archive="raw"),
    Row("determinize-phone-pruned", ("--model=DATA/trans.mdl", "--beam=8"), archive="raw"),
    Row("push", kaldi=0.40),
    Row("minimize", kaldi=0.46),
    Row("align-words", ("--word-boundary=DATA/word_boundary.int", "--model=DATA/trans.mdl"), kaldi=1.97),
    Row("align-phones", ("--model=DATA/trans.mdl",)),
    Row("mbr-decode", kaldi=0.84),
    Row("to-ctm-conf", kaldi=0.87),
    Row("oracle", ("--ref=DATA/text", "--words=DATA/words.txt.gz"), kaldi=8.76),
    Row("union", twice=True, kaldi=3.84, kaldi_megabytes=738.0),
)


@dataclass(frozen=True, slots=True)
class Run:
    """What one command took."""

    seconds: float  # CPU, user and system
    megabytes: float  # largest resident size


def run(arguments: Sequence[str]) -> Run:
    """Run ``ninja`` in a process of its own. This one is small: its size would count as the child's."""
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", "ninja", *arguments]
        # An installed command has its modules' bytecode; here the first of several runs leaves it.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(command, stderr=said, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            said.seek(0)
            sys.exit(f"ninja {' '.join(arguments)} ended with {process.returncode}:\n{said.read().decode()[-2000:]}")
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def repeated(archive: Path, copies: int, folder: Path) -> Path:
    """Write an archive unpacked, several times over."""
    path = folder / archive.name.removesuffix(".gz")
    with path.open("wb") as whole:
        for _ in range(copies):
            with gzip.open(archive) as packed:
                while content := packed.read(1 << 20):
                    whole.write(content)
    return path


def table(data: Path, rows: Sequence[Row], copies: int, repeats: int, scratch: Path) -> Iterator[str]:
    """Measure the commands; yield a line for each."""
    yield f"| verb, {copies} copies of {data.name} | CPU s a copy | Kaldi | | MB (Kaldi) |"
    yield "|---|---|---|---|---|"
    archives: dict[str, Path] = {}
    for row in rows:
        if row.archive not in archives:
            archives[row.archive] = repeated(data / f"{row.archive}.ark.gz", copies, scratch)
        archive = str(archives[row.archive])
        options = [each.replace("DATA", str(data)) for each in row.options]
        sources = [archive] * (2 if row.twice else 1)
        runs = [run([row.verb, *sources, *options, "-o", os.devnull]) for _ in range(repeats)]
        seconds = statistics.median(each.seconds for each in runs) / copies
        megabytes = f"{max(each.megabytes for each in runs):.0f}"
        if row.kaldi_megabytes is not None:
            megabytes += f" ({row.kaldi_megabytes:.0f})"
        shown = " ".join(["ninja", row.verb, *(Path(each).name if "/" in each else each for each in row.options)])
        shown = f"`{shown.replace('DATA/', '')}`" + (f" of {row.archive}.ark" if row.archive != "lat" else "")
        kaldi = "| – | |" if row.kaldi is None else f"| {row.kaldi:.2f} | {row.kaldi / seconds:.1f}× |"
        yield f"| {shown} | {seconds:.3f} {kaldi} {megabytes} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of lat.ark.gz, raw.ark.gz, trans.mdl, text, …")
    parser.add_argument("--only", nargs="*", help="verbs to measure; default: all")
    parser.add_argument("--copies", type=int, default=20, help="how often each archive is repeated")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the median counts")
    parser.add_argument("--output", type=Path, help="page that the table takes its place in")
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # commands inherit it
    rows = [row for row in ROWS if not options.only or row.verb in options.only]
    memory = Path("/dev/shm")  # files in memory: no disk to wait for
    lines = []
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        for line in table(options.data, rows, options.copies, options.repeats, Path(scratch)):
            print(line, flush=True)
            lines.append(line)
    if options.output is not None:
        page.put(options.output, "toolbox", lines)


if __name__ == "__main__":
    main()
