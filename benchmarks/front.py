"""Word error rate against CPU seconds: each algorithm, a grid of beams, the shipped models, and Kaldi's points beside.

    python -m benchmarks.front DATA [--output docs/results.md] [--picture docs/pictures/front.svg] [--only WORD …]

DATA is the English test-bed, see `benchmarks.results`. For each point weights are chosen on the dev lattices, then the
test lattices are read, rescored and written on one thread: CPU seconds of the process, the least of two runs, models
loaded before. A second scale makes machines comparable: seconds divided by those of a copy of the same archive, by
`ninja copy` here and by `lattice-copy` where Kaldi was measured. Points are kept in a file as they are done.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import ninja
from benchmarks.results import SEARCH, Set
from ninja.lm import LanguageModel, load
from ninja.models import ENGLISH, ENGLISH_NGRAM
from ninja.rescoring import RescoreOptions
from ninja.rescoring.rescorer import iterate, rescore
from ninja.tune.weights import tune_weights

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- front: begin -->\n", "<!-- front: end -->"
COPY_SECONDS = 0.21  # of Kaldi's lattice-copy, where its other figures were measured
KALDI = {"order 4, beam 6": (8.1, 24.82), "order 4, beam 8": (19.2, 24.75)}  # CPU seconds, WER
NUM_SENTENCES = 200
REPEATS = 2
FIRST_WEIGHT = 0.5  # of the n-gram model, where the LSTM comes after it

LSTM, NGRAM, BOTH = "LSTM", "n-gram", "n-gram, then LSTM"
GRID: dict[str, dict[str, Any]] = {  # algorithm: beams, or other widths, and what else it takes
    "arcbeam": {"beam": (2, 4, 6, 8, 10)},
    "arcbeam, 1 hypothesis": {"beam": (1, 2, 3, 4), "max_hyps": 1},
    "pruned, order 4": {"beam": (2, 4, 6, 8), "max_ngram_order": 4},
    "pushforward": {"beam": (4, 6, 8)},
    "trie": {"max_trie_nodes": (100, 1000)},
    "cover": {"prune_beam": (2, 5)},
    "nbest": {"num_best": (10, 100)},
}
SERIES = (
    *((NGRAM, name) for name in ("arcbeam", "arcbeam, 1 hypothesis", "pruned, order 4")),
    *((BOTH, name) for name in ("arcbeam", "pushforward")),
    *((LSTM, name) for name in GRID),
)


@dataclass(frozen=True)
class Point:
    """A setting and what it gave."""

    model: str
    algorithm: str
    width: str  # such as "beam 8"
    wer: float
    dev_wer: float
    seconds: float  # CPU
    lm_weight: float
    acoustic_scale: float
    word_penalty: float

    def row(self, copy: float, is_best: bool) -> str:
        """Return a line of the table."""
        bold = "**" if is_best else ""
        cells = (self.model, self.algorithm, self.width, f"{self.seconds:.2f}", f"{self.seconds / copy:.1f}")
        return f"| {' | '.join(cells)} | {bold}{self.wer:.2f}{bold} | {self.dev_wer:.2f} |"


def settings(algorithm: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the widths of an algorithm, by name, with the options."""
    given = dict(GRID[algorithm])
    name, widths = next((name, value) for name, value in given.items() if isinstance(value, tuple))
    for width in widths:
        yield f"{name.replace('_', ' ')} {width}", {"algorithm": algorithm.split(",")[0], **given, name: width}


class Bed:
    """The test-bed and the models."""

    def __init__(self, data: Path) -> None:
        words = ninja.SymbolTable.read(data / "words.txt.gz")
        self.dev, self.test = (Set.read(data / each / "libri", words) for each in ("dev", "test"))
        self.models = {LSTM: load(ENGLISH), NGRAM: load(ENGLISH_NGRAM)}
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.archive = Path(self.folder.name) / "lat.ark"
        with ninja.write(self.archive) as output:
            for _, lattice in self.test.lattices:
                output.write(lattice)

    def copy_seconds(self) -> float:
        """Return the CPU seconds of ``ninja copy`` of the test archive, the least of five."""
        found = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            line = [sys.executable, "-m", "ninja", "copy", str(self.archive), "-o", f"{self.folder.name}/copy.ark"]
            subprocess.run([*line, "--jobs", "1"], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(found)

    def point(self, model: str, algorithm: str, width: str, given: dict[str, Any]) -> Point:
        """Choose weights on dev, and measure on test."""
        options = replace(SEARCH, lm_weight=0.8, **given)
        first = replace(SEARCH, lm_weight=FIRST_WEIGHT)  # with the beam it has by default
        last = self.models[NGRAM if model == NGRAM else LSTM]
        lattices = self.dev.lattices
        if model == BOTH:
            lattices = list(rescore(lattices, self.models[NGRAM], first))
        tuned = tune_weights(lattices, self.dev.text, last, options, num_best=NUM_SENTENCES)
        weights = tuned.weights
        scales = {"acoustic_scale": weights.acoustic_scale, "word_penalty": weights.word_penalty}
        passes = [(last, replace(options, lm_weight=weights.lm_weight, **scales))]
        if model == BOTH:
            passes.insert(0, (self.models[NGRAM], replace(first, **scales)))
        seconds = min(self.run(passes) for _ in range(REPEATS))
        words = self.test.words
        results = ninja.read(f"{self.folder.name}/out.ark", words=words)
        wer = self.test.wer(results, weights.acoustic_scale, weights.word_penalty).wer
        return Point(model, algorithm, width, wer, tuned.wer, seconds, weights.lm_weight, *scales.values())

    def run(self, passes: list[tuple[LanguageModel, RescoreOptions]]) -> float:
        """Rescore the test archive into another one; return CPU seconds."""
        began = time.process_time()
        lattices = ninja.read(self.archive, words=self.test.words)
        with ninja.write(f"{self.folder.name}/out.ark") as output:
            for key, lattice in iterate(lattices, passes):
                output.write(lattice, key=key)
        return time.process_time() - began


def on_front(points: list[Point]) -> set[Point]:
    """Return the points that no other one beats in time and WER."""
    return {
        point
        for point in points
        if not any(
            (other.seconds, other.wer) != (point.seconds, point.wer)
            and other.seconds <= point.seconds
            and other.wer <= point.wer
            for other in points
        )
    }


def table(points: list[Point], copy: float) -> list[str]:
    """Return the page's lines: the figures that matter, and all points by time."""
    front = on_front(points)
    seconds, wer = KALDI["order 4, beam 6"]
    budget = seconds / COPY_SECONDS
    lines = ["![WER against CPU seconds](pictures/front.svg)", ""]
    for name, share in (("in that time", 1), ("in a fortieth of it", 40)):
        within = [point for point in points if point.seconds / copy <= budget / share]
        best = min(within, key=lambda point: point.wer, default=None)
        if best is not None:
            lines.append(
                f"- {name}: {best.wer:.2f} by {best.model}, {best.algorithm}, {best.width} ({best.seconds:.2f} s)"
            )
    lines.insert(
        2, f"Kaldi's pruned RNNLM rescoring reaches {wer} in {seconds} s, {budget:.0f} copies of the archive; here,\n"
    )
    lines += [
        "",
        f"A copy is {copy:.2f} s here (`ninja copy`, start-up included) and {COPY_SECONDS} s where Kaldi was measured.",
        "Points in bold are on the front: no other is both faster and better.",
        "",
        "| model | algorithm | width | CPU s | copies | WER test | WER dev |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = [(point.seconds / copy, point.row(copy, point in front)) for point in points]
    for name, (kaldi, reached) in KALDI.items():
        at = kaldi / COPY_SECONDS
        rows.append((at, f"| Kaldi's RNNLM, in Kaldi | pruned | {name} | {kaldi} | {at:.0f} | {reached} | |"))
    return [*lines, *(row for _, row in sorted(rows)), ""]


def draw(points: list[Point], copy: float, path: Path) -> None:
    """Draw WER against seconds, a line a series."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "front"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    styles = {LSTM: "-", NGRAM: ":", BOTH: "--"}
    for model, algorithm in dict.fromkeys((point.model, point.algorithm) for point in points):
        some = [point for point in points if (point.model, point.algorithm) == (model, algorithm)]
        some.sort(key=lambda point: point.seconds)
        at = [point.seconds / copy for point in some]
        axes.plot(at, [point.wer for point in some], styles[model], marker="o", ms=3, label=f"{model}: {algorithm}")
    kaldi = [seconds / COPY_SECONDS for seconds, _ in KALDI.values()]
    axes.plot(kaldi, [wer for _, wer in KALDI.values()], "k*", ms=10, label="Kaldi, its RNNLM: pruned")
    axes.set_xscale("log")
    axes.set_xlabel("CPU time in copies of the archive")
    axes.set_ylabel("WER %, libri test")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    """Measure what is missing, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output", type=Path, help="also write the table here")
    parser.add_argument("--picture", type=Path, default=HERE.parent / "docs/pictures/front.svg")
    parser.add_argument("--points", type=Path, default=HERE.parent / "build/front.json", help="points done so far")
    parser.add_argument("--only", nargs="*", help="models and algorithms to measure; default: all")
    arguments = parser.parse_args()

    import torch

    torch.set_num_threads(1)
    done: dict[str, Any] = json.loads(arguments.points.read_text()) if arguments.points.exists() else {}
    stamp = [[path.name, path.stat().st_size] for path in (ENGLISH, ENGLISH_NGRAM)]
    if done.get("stamp") != stamp:
        done = {"stamp": stamp, "points": {}}
    bed: Bed | None = None
    for model, algorithm in SERIES:
        if arguments.only and not {model, algorithm} & set(arguments.only):
            continue
        for width, given in settings(algorithm):
            name = f"{model}/{algorithm}/{width}"
            if name in done["points"]:
                continue
            if bed is None:
                bed = Bed(arguments.data)
                done["copy"] = min(done.get("copy", float("inf")), bed.copy_seconds())
            point = bed.point(model, algorithm, width, given)
            print(f"{name}: WER {point.wer:.2f} ({point.dev_wer:.2f} on dev), {point.seconds:.2f} CPU s", flush=True)
            done["points"][name] = asdict(point)
            arguments.points.parent.mkdir(parents=True, exist_ok=True)
            arguments.points.write_text(json.dumps(done, indent=1))
    points = [Point(**each) for each in done["points"].values()]
    lines = table(points, done["copy"])
    print("\n".join(lines))
    draw(points, done["copy"], arguments.picture)
    if arguments.output:
        text = arguments.output.read_text(encoding="utf-8")
        before, mark, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not (mark and end):
            parser.error(f"{arguments.output} has no {BEGIN.strip()} … {END} to fill")
        arguments.output.write_text("\n".join([before + BEGIN, *lines]) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
