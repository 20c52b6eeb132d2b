"""Count the source files, functions and modules that a command or call uses, and how often it opens and parses sources.

    python -m benchmarks.trips [TRIP …] [--show]

Each trip, a command or a call, runs in a separate process, under a profile hook and an audit hook. ``files`` and
``functions`` are those in ``ninja/`` that run after the imports; ``modules`` are the imported modules of Ninja.
``opens`` is the number of times that a source was opened, and ``parses`` the number of times that a reader of a format
was started on it (maxima over sources).
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import click

from benchmarks.command import EXAMPLES, ROOT, command, option, path_option

PACKAGE = ROOT / "ninja"
ARCHIVE = EXAMPLES / "lat.ark.gz"
WORDS = EXAMPLES / "words.txt"
NUM_LATTICES = 8
PARSERS = os.sep + "formats" + os.sep
READERS = {"entries", "_entries", "archive", "plain_file", "bare", "script"}  # generators that read a whole file
COLUMNS = {"files": 7, "functions": 11, "modules": 9, "opens": 7, "parses": 8}  # and their widths
TRIPS = {
    "prune": "prune lat.ark --beam 6 -o out.ark",
    "prune gzip": "prune lat.ark.gz --beam 6 -o out.ark.gz",
    "prune scp": "prune scp:lat.scp --beam 6 -o out.ark",
    "prune list": "prune lat.list --beam 6 -o out.ark",
    "prune stdin": "prune - --beam 6 -o out.ark < lat.ark",
    "prune folder": "prune slfs --beam 6 -o pruned.arrow",
    "best folder": "best slfs",
    "best list": "best slf.list",
    "best stdin": "best - < one.slf",
    "rescore": "rescore lat.ark --words words.txt -o out.ark",
    "rescore gzip": "rescore lat.ark.gz --words words.txt -o out.ark",
    "rescore folder": "rescore slfs -o out.ark",
    "convert": "convert slfs -o converted --to slf:base=0",
    "convert gzip": "convert lat.ark.gz --words words.txt -o out.jsonl",
    "Python prune": "ninja.graph.prune(ninja.read('lat.ark'))",
    "Python SLF": "ninja.read('one.slf')",
    "Python rescore": "ninja.rescore(ninja.read('lat.ark'))",
}


def prepare(folder: Path) -> None:
    """Write the sources of the trips to a folder."""
    import ninja

    archive = folder / "lat.ark"
    with ninja.write(archive) as writer:
        lattices = [lattice for _, lattice in zip(range(NUM_LATTICES), ninja.read(ARCHIVE, words=WORDS), strict=False)]
        for _, lattice in lattices:
            writer.write(lattice)
    (folder / "lat.ark.gz").write_bytes(gzip.compress(archive.read_bytes()))
    with ninja.write(f"ark,scp:{folder}/of_scp.ark,{folder}/lat.scp") as writer:
        for _, lattice in lattices:
            writer.write(lattice)
    (folder / "slfs").mkdir()
    with ninja.write(folder / "slfs", to="slf") as writer:
        for _, lattice in lattices:
            writer.write(lattice)
    files = sorted((folder / "slfs").iterdir())
    (folder / "one.slf").write_bytes(files[0].read_bytes())
    (folder / "slf.list").write_text("".join(f"{file}\n" for file in files))
    (folder / "lat.list").write_text("lat.ark\n")
    (folder / "words.txt").write_text(WORDS.read_text())


class Trace:
    """Counts of functions, files, opens and parses between ``start`` and ``stop``."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder) + os.sep
        self.codes: set[CodeType] = set()
        self.opens: Counter[str] = Counter()
        self.parses: Counter[str] = Counter()
        self._importing: Counter[int] = Counter()  # by thread
        self._frames: list[FrameType] = []  # frames of readers, stored so that each is counted once
        self._running = False
        sys.addaudithook(self._audit)

    def start(self) -> None:
        """Start counting."""
        self._running = True
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def stop(self) -> None:
        """Stop counting."""
        sys.setprofile(None)
        threading.setprofile(None)
        self._running = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._running or event != "open":
            return
        path, _, flags = arguments
        if path == 0:
            self.opens["standard input"] += 1
        if not isinstance(path, str | bytes | os.PathLike) or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        path = os.path.abspath(os.fsdecode(path))
        if path.startswith(self.folder) and os.path.isfile(path) and os.path.basename(path) != "words.txt":
            self.opens[path.removeprefix(self.folder)] += 1

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        thread = threading.get_ident()
        if code.co_name == "<module>":
            self._importing[thread] += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing[thread] and code.co_filename.startswith(str(PACKAGE)):
            self.codes.add(code)
            if code.co_name in READERS and PARSERS in code.co_filename and not code.co_filename.endswith("format.py"):
                self._note_parse(frame)

    def _note_parse(self, frame: FrameType) -> None:
        if not any(frame is recorded_frame for recorded_frame in self._frames):
            self._frames.append(frame)
            content = frame.f_locals.get("content", frame.f_locals.get("stream"))
            self.parses[str(getattr(content, "name", content))] += 1

    def result(self) -> dict[str, Any]:
        """Return the counts."""
        files = Counter(os.path.relpath(code.co_filename, ROOT) for code in self.codes)
        modules = [name for name in sys.modules if name == "ninja" or name.startswith("ninja.")]
        return {
            "files": dict(sorted(files.items())),
            "functions": len(self.codes),
            "modules": len(modules),
            "opens": max(self.opens.values(), default=0),
            "parses": max(self.parses.values(), default=0),
            "opened": dict(self.opens),
        }


def travel(name: str, folder: Path) -> dict[str, Any]:
    """Run one trip in this process."""
    os.chdir(folder)
    trace = Trace(folder)
    if name.startswith("Python"):
        trace.start()
        import ninja

        if name == "Python SLF":
            list(ninja.read("one.slf"))
        elif name == "Python prune":
            [ninja.graph.prune(lattice, 6.0) for _, lattice in ninja.read("lat.ark")]
        else:
            lm = ninja.lm.load()
            list(ninja.rescore(ninja.read("lat.ark", words="words.txt"), lm))
        trace.stop()
        return trace.result()
    from ninja.cli.main import main

    command, _, stdin = TRIPS[name].partition(" < ")
    if stdin:
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        trace.opens.clear()
    sys.argv = ["ninja", *command.split()]
    stdout, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO())
    trace.start()
    try:
        code = main()
    finally:
        trace.stop()
        sys.stdout = stdout
    if code:
        raise SystemExit(f"{name}: exit code {code}")
    return trace.result()


@command
@click.argument("trips", nargs=-1, type=click.Choice(list(TRIPS)))
@option("--show", is_flag=True, help="List the files of each trip, with the number of their functions.")
@path_option("--in", "folder", hidden=True)  # of a process that makes one trip
def main(trips: tuple[str, ...], show: bool, folder: Path | None) -> None:
    if folder is not None:
        print(json.dumps(travel(trips[0], folder)))
        return
    print(f"{'trip':<16}" + "".join(f"{name:>{width}}" for name, width in COLUMNS.items()) + "   command")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        prepare(folder)
        for trip in trips or TRIPS:
            line = [sys.executable, "-m", "benchmarks.trips", trip, "--in", str(folder)]
            process = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
            if process.returncode:
                print(f"{trip:<16}failed: {process.stderr.strip()}")
                continue
            trace = json.loads(process.stdout.splitlines()[-1])
            figures = trace | {"files": len(trace["files"])}
            row = "".join(f"{figures[name]:>{width}}" for name, width in COLUMNS.items())
            print(f"{trip:<16}{row}   {TRIPS[trip]}")
            if show:
                for file, count in trace["files"].items():
                    print(f"    {file} {count}")
                print(f"    opened: {trace['opened']}")


if __name__ == "__main__":
    main()
