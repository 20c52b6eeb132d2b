"""Make docs/parity.md: compare Ninja with all stored results of Kaldi's tools.

    python -m benchmarks.parity SHARED [--output docs/parity.md] [--only NAME]

SHARED holds ``golden/korean`` and ``golden/english``, the output of Kaldi's tools, and ``data``, their input. All
commands run through the command line. Exit code 1 if anything differs.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import argument, command, option, path_option
from benchmarks.parity.cases import Case, cases
from benchmarks.parity.checks import Finding
from benchmarks.tables import head, row
from ninja.cli.commands import COMMANDS
from ninja.cli.main import main as run_command

SETS = {"korean": 1.0, "english": 0.1}  # and the acoustic scale of all their commands

INTRODUCTION = """# Parity with Kaldi

This page compares Ninja with Kaldi's programs (revision f4007661, July 2025). The lattices come from a Kaldi chain
model (Korean, acoustic scale 1.0) and from PocketSphinx (English, 0.1).
`python -m benchmarks.parity ../shared --output docs/parity.md` generates the page.

A lattice counts as equal if everything compared is equal, or within the tolerance shown. Where word sequences are
compared, the costs of all sequences are compared after determinization, and the costs and alignments of the best
thousand one by one, which is exhaustive for lattices with fewer sequences.

"""


@dataclass(slots=True)
class Outcome:
    """A comparison, or the reason why it failed."""

    name: str
    case: Case
    finding: Finding | None
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether everything is equal."""
        return self.finding is not None and self.finding.equal == self.finding.count > 0


class Runs:
    """Commands that have run, with the paths of their outputs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._results: dict[tuple[str, ...], tuple[Path, str]] = {}

    def output(self, commands: tuple[str, ...], places: dict[str, str]) -> tuple[Path, str]:
        """Run commands unless they have run already; return the path of their output, and the error."""
        filled = tuple(command.format(out="{out}", **places) for command in commands)
        if filled not in self._results:
            path = self._folder / str(len(self._results))
            problem = ""
            for command in filled:
                problem = problem or _run(shlex.split(command.format(out=path)))
            self._results[filled] = path, problem
        return self._results[filled]


def _run(arguments: list[str]) -> str:
    if arguments[0] not in COMMANDS:
        return f"there is no command {arguments[0]}"
    messages = io.StringIO()
    with contextlib.redirect_stderr(messages):
        code = run_command(arguments)
    return "" if code == 0 else f"exit code {code}: {messages.getvalue().strip().splitlines()[-1:]}"


def compare(shared: Path, only: str = "") -> list[Outcome]:
    """Make all comparisons whose golden files exist."""
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        for name, scale in SETS.items():
            data = shared / "data" / name
            places = {
                "golden": str(shared / "golden" / name),
                "data": str(data),
                "scale": str(scale),
                "text": str(data / "text" if name == "korean" else data / "test/libri/text"),
                "words": str(data / "words.txt.gz"),
            }
            for case in cases(name, scale):
                theirs = shared / "golden" / name / case.golden
                if name not in case.sets or not theirs.exists() or only not in f"{name}/{case.golden}":
                    continue
                path, problem = runs.output(case.commands, places)
                finding = None if problem else case.check(theirs, Path(case.ours.format(out=path)))
                outcomes.append(Outcome(f"{name}/{case.golden}", case, finding, problem))
                print(_row(outcomes[-1]), file=sys.stderr)
    return outcomes


def _row(outcome: Outcome) -> str:
    finding = outcome.finding
    cells = (outcome.name.removesuffix(".gz"), f"`{outcome.case.commands[-1].split()[0]}`", outcome.case.subject)
    if finding is None:
        return row(*cells, "–", "–", outcome.problem)
    worst = "–" if finding.worst is None else f"{finding.worst:.1e}" if finding.worst else "0"
    equal = str(finding.equal) if outcome.ok else f"**{finding.equal}** (not: {', '.join(finding.unequal)})"
    return row(*cells, finding.count, equal, worst)


def render(outcomes: list[Outcome]) -> str:
    """Return the page."""
    good = sum(outcome.ok for outcome in outcomes)
    lines = head("golden file", "command", "what is compared", "lattices", "equal", "worst difference")
    lines += map(_row, outcomes)
    return f"{INTRODUCTION}{good} of {len(outcomes)} comparisons are equal.\n\n" + "\n".join([*lines, ""])


@command
@argument("shared")
@path_option("--output", metavar="PAGE", help="Write the page there.")
@option("--only", default="", help="Part of the names of the files to compare.")
def main(shared: Path, output: Path | None, only: str) -> None:
    outcomes = compare(shared, only)
    page = render(outcomes)
    if output is None:
        print(page, end="")
    else:
        output.write_text(page)
    sys.exit(not all(outcome.ok for outcome in outcomes))
