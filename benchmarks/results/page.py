"""Make every table and picture of docs/results.md.

    python -m benchmarks.results [SHARED] [--only PART] [--output docs/results.md]

The parts are commands of their own, each in a process, one after the other. Transcripts, cells and points that were
stored in ``build`` are not measured again; speeds are, so run it on an idle machine.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from benchmarks.command import ROOT, SHARED, argument, command, option, path_option


def parts(shared: Path) -> dict[str, list[str]]:
    """Return the command of each part of the page, by the name of its marks."""
    english, korean = shared / "data/english", shared / "data/korean"
    test, words = english / "test/libri/lat.ark.gz", english / "words.txt.gz"
    ngram = ["kernels", "ngram", f"{english}/first_pass.arpa.gz", "--lattices", f"{test}", "--words", f"{words}"]
    return {
        "evidence": ["results", "evidence", f"{shared}"],
        "results": ["results", "models", f"{english}"],
        "front": ["rescoring", "front", f"{english}"],
        "splits": ["results", "splits", f"{shared}"],
        "confidence": ["results", "confidence", f"{shared}"],
        "formats": ["formats", f"{korean}/lat.ark.gz"],
        "graph": ["kernels", "graph", f"{korean}/lat.ark.gz"],
        "toolbox": ["toolbox", "kaldi", f"{korean}"],
        "kaldi": ["rescoring", "kaldi", f"{shared}", "--rounds", "1"],
        "ngram": ngram,
        "engine": ["rescoring", "engine", f"{english}", "--lattices", "239", "--threads", "2"],
    }


@command
@argument("shared", default=SHARED)
@option("--only", multiple=True, type=click.Choice(list(parts(SHARED))), help="Part to make; may be repeated.")
@path_option("--output", default=ROOT / "docs/results.md", metavar="PAGE", help="Page with the marks of the parts.")
def main(shared: Path, only: tuple[str, ...], output: Path) -> None:
    for name, (module, *arguments) in parts(shared).items():
        if only and name not in only:
            continue
        line = [sys.executable, "-m", f"benchmarks.{module}", *arguments, "--output", str(output)]
        click.echo(f"{name}: {' '.join(line[1:])}", err=True)
        if code := subprocess.call(line, cwd=ROOT):
            raise click.ClickException(f"{name} failed with exit code {code}; the parts before it are written")
