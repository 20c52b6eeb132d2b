"""Ninja's commands against Kaldi's programs: CPU time and memory of whole commands, reading and writing included.

    python -m benchmarks.toolbox kaldi ../shared/data/korean --output docs/results.md

Archives are unpacked and repeated, so that starting the interpreter does not count; figures are for one copy. Each
command runs on one core, as Kaldi's did.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import argument, command, option, output
from benchmarks.measure import ninja, repeat_archive, run, scratch_folder, use_one_core
from benchmarks.tables import head, put, row, show


@dataclass(frozen=True, slots=True)
class Row:
    """A command, and the time of Kaldi's program: f4007661, -O2, one idle core, lat.ark.gz unpacked."""

    verb: str
    options: tuple[str, ...] = ()  # DATA is replaced by the folder of the data
    archive: str = "lat"
    two_sources: bool = False  # two sources: the archive and itself
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
    Row("union", two_sources=True, kaldi=3.84, kaldi_megabytes=738.0),
)


def table(data: Path, commands: Sequence[Row], copies: int, repeats: int, scratch: Path) -> Iterator[str]:
    """Measure the commands; yield the rows of the table."""
    yield from head(f"command, {copies} copies of {data.name}", "CPU s a copy", "Kaldi", "", "MB (Kaldi)")
    for case in commands:
        archive = scratch / f"{case.archive}.ark"
        if not archive.exists():
            repeat_archive(data / f"{case.archive}.ark.gz", copies, archive)
        options = [text.replace("DATA", str(data)) for text in case.options]
        sources = [archive] * (2 if case.two_sources else 1)
        runs = [run(ninja(case.verb, *sources, *options, "-o", os.devnull)) for _ in range(repeats)]
        seconds = statistics.median(usage.cpu for usage in runs) / copies
        megabytes = f"{max(usage.megabytes for usage in runs):.0f}"
        if case.kaldi_megabytes is not None:
            megabytes += f" ({case.kaldi_megabytes:.0f})"
        command_text = f"`{' '.join(['ninja', case.verb, *case.options]).replace('DATA/', '')}`"
        command_text += f" of {archive.name}" if case.archive != "lat" else ""
        kaldi = ("–", "") if case.kaldi is None else (f"{case.kaldi:.2f}", f"{case.kaldi / seconds:.1f}×")
        yield row(command_text, f"{seconds:.3f}", *kaldi, megabytes)


@command
@argument("data")
@option("--only", multiple=True, help="Command to measure; may be repeated.")
@option("--copies", default=20, help="Copies of each archive in one file.")
@option("--repeats", default=3, help="Runs, of which the median counts.")
@output
def main(data: Path, only: tuple[str, ...], copies: int, repeats: int, output: Path | None) -> None:
    use_one_core()
    commands = [case for case in ROWS if not only or case.verb in only]
    with scratch_folder() as scratch:
        lines = show(table(data, commands, copies, repeats, Path(scratch)))
    put(output, "toolbox", lines)
