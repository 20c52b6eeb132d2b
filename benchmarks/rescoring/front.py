"""Word error rate against CPU seconds: each algorithm, a grid of beams, the shipped models, and Kaldi's points.

    python -m benchmarks.rescoring front DATA [--output docs/results.md] [--picture docs/pictures/front.svg]

DATA is the English test-bed, see `benchmarks.results.models`. For each point weights are chosen on the dev lattices,
then the test lattices are read, rescored and written on one thread: CPU seconds of the process, the least of two runs,
models loaded before. A second scale makes machines comparable: seconds divided by those of a copy of the same archive,
by `ninja copy` here and by `lattice-copy` where Kaldi was measured. Points are kept in a file as they are done.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

import ninja
from benchmarks.command import ROOT, argument, command, option, output, path_option
from benchmarks.measure import ninja as ninja_command
from benchmarks.measure import run, scratch_folder, set_torch_threads
from benchmarks.results.models import SEARCH, Set
from benchmarks.tables import Cells, head, put, row, svg
from ninja.lm import LanguageModel, load
from ninja.models import ENGLISH, ENGLISH_NGRAM
from ninja.rescoring import RescoreOptions
from ninja.rescoring.run import iterate, rescore
from ninja.tune.weights import tune_weights

COPY_SECONDS = 0.21  # time of lattice-copy on the machine where Kaldi's other figures were measured
KALDI = {"order 4, beam 6": (8.1, 24.82), "order 4, beam 8": (19.2, 24.75)}  # CPU seconds, WER
NUM_SENTENCES = 200
REPEATS = 2
FIRST_WEIGHT = 0.5  # of the n-gram model, where the LSTM comes after it

LSTM, NGRAM, BOTH = "LSTM", "n-gram", "n-gram, then LSTM"
GRID: dict[str, dict[str, Any]] = {  # algorithm: beams or other widths, and its other options
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
    """A setting, its error rates and its time."""

    model: str
    algorithm: str
    width: str  # such as "beam 8"
    wer: float
    dev_wer: float
    seconds: float  # CPU
    lm_weight: float
    acoustic_scale: float
    word_penalty: float


def settings(algorithm: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the widths of an algorithm, by name, with the options."""
    options = dict(GRID[algorithm])
    name, widths = next((name, value) for name, value in options.items() if isinstance(value, tuple))
    for width in widths:
        yield f"{name.replace('_', ' ')} {width}", {"algorithm": algorithm.split(",")[0], **options, name: width}


class Bed:
    """The test-bed and the models."""

    def __init__(self, data: Path) -> None:
        words = ninja.SymbolTable.read(data / "words.txt.gz")
        self.dev, self.test = (Set.read(data / part / "libri", words) for part in ("dev", "test"))
        self.models = {LSTM: load(ENGLISH), NGRAM: load(ENGLISH_NGRAM)}
        self.scratch = scratch_folder()
        self.archive, self.output = (Path(self.scratch.name) / name for name in ("lat.ark", "out.ark"))
        with ninja.write(self.archive) as output:
            for _, lattice in self.test.lattices:
                output.write(lattice)

    def copy_seconds(self) -> float:
        """Return the CPU seconds of ``ninja copy`` of the test archive, the least of five."""
        command = ninja_command("copy", self.archive, "-o", self.output, "--jobs", "1")
        return min(run(command).cpu for _ in range(5))

    def point(self, model: str, algorithm: str, width: str, settings: dict[str, Any]) -> Point:
        """Choose weights on dev, and measure on test."""
        options = replace(SEARCH, lm_weight=0.8, **settings)
        first = replace(SEARCH, lm_weight=FIRST_WEIGHT)  # with the default beam
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
        seconds = min(self.rescore(passes) for _ in range(REPEATS))
        results = ninja.read(self.output, words=self.test.words)
        wer = self.test.wer(results, weights.acoustic_scale, weights.word_penalty).wer
        return Point(model, algorithm, width, wer, tuned.wer, seconds, weights.lm_weight, *scales.values())

    def rescore(self, passes: list[tuple[LanguageModel, RescoreOptions]]) -> float:
        """Rescore the test archive into the output; return CPU seconds."""
        began = time.process_time()
        lattices = ninja.read(self.archive, words=self.test.words)
        with ninja.write(self.output) as output:
            for key, lattice in iterate(lattices, passes):
                output.write(lattice, key=key)
        return time.process_time() - began


def on_front(points: list[Point]) -> set[Point]:
    """Return the points that no other point beats in time and WER."""
    return {
        point
        for point in points
        if not any(
            (rival.seconds, rival.wer) != (point.seconds, point.wer)
            and rival.seconds <= point.seconds
            and rival.wer <= point.wer
            for rival in points
        )
    }


def table(points: list[Point], copy: float) -> list[str]:
    """Return the lines of the page: the best points within Kaldi's time, and all points by time."""
    seconds, wer = KALDI["order 4, beam 6"]
    budget = seconds / COPY_SECONDS
    lines = [
        "![WER against CPU seconds](pictures/front.svg)",
        "",
        f"Kaldi's pruned RNNLM rescoring reaches {wer} in {seconds} s, as long as {budget:.0f} copies of the archive. "
        "Ninja reaches\n",
    ]
    for name, share in (("in that time", 1), ("in a fortieth of that time", 40)):
        within = [point for point in points if point.seconds / copy <= budget / share]
        if within:
            best = min(within, key=lambda point: point.wer)
            setting = f"{best.model}, {best.algorithm}, {best.width}"
            lines.append(f"- {name}: {best.wer:.2f} with {setting} ({best.seconds:.2f} s)")
    lines += [
        "",
        f"A copy takes {copy:.2f} s here (`ninja copy`, with start-up) and {COPY_SECONDS} s where Kaldi was measured.",
        "Points in bold are on the front: no other point is both faster and better.",
        "",
        *head("model", "algorithm", "width", "CPU s", "copies", "WER test", "WER dev"),
    ]
    rows = []
    for point in points:
        wer_text = f"**{point.wer:.2f}**" if point in on_front(points) else f"{point.wer:.2f}"
        setting, times = (point.model, point.algorithm, point.width), point.seconds / copy
        rows.append((times, row(*setting, f"{point.seconds:.2f}", f"{times:.1f}", wer_text, f"{point.dev_wer:.2f}")))
    for name, (kaldi, reached) in KALDI.items():
        times = kaldi / COPY_SECONDS
        rows.append((times, row("Kaldi's RNNLM, in Kaldi", "pruned", name, kaldi, f"{times:.0f}", reached, "")))
    return [*lines, *(line for _, line in sorted(rows))]


def draw(points: list[Point], copy: float, path: Path) -> None:
    """Draw WER against seconds, a line a series."""
    styles = {LSTM: "-", NGRAM: ":", BOTH: "--"}
    with svg(path, figsize=(8, 5)) as axes:
        for model, algorithm in dict.fromkeys((point.model, point.algorithm) for point in points):
            series = [point for point in points if (point.model, point.algorithm) == (model, algorithm)]
            series.sort(key=lambda point: point.seconds)
            times = [point.seconds / copy for point in series]
            rates = [point.wer for point in series]
            axes.plot(times, rates, styles[model], marker="o", ms=3, label=f"{model}: {algorithm}")
        times = [seconds / COPY_SECONDS for seconds, _ in KALDI.values()]
        axes.plot(times, [wer for _, wer in KALDI.values()], "k*", ms=10, label="Kaldi, its RNNLM: pruned")
        axes.set_xscale("log")
        axes.set_xlabel("CPU time in copies of the archive")
        axes.set_ylabel("WER %, libri test")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)


@command
@argument("data")
@path_option("--points", default=ROOT / "build/front.jsonl", help="File that keeps the measured points.")
@option("--only", multiple=True, help="Model or algorithm to measure; may be repeated.")
@path_option("--picture", default=ROOT / "docs/pictures/front.svg")
@output
def main(data: Path, points: Path, only: tuple[str, ...], picture: Path, output: Path | None) -> None:
    set_torch_threads()
    cells = Cells(points)
    stamp = [[path.name, path.stat().st_size] for path in (ENGLISH, ENGLISH_NGRAM)]
    if cells.get("models") != {"stamp": stamp}:
        cells.clear()
        cells.add("models", stamp=stamp)
    bed: Bed | None = None
    for model, algorithm in SERIES:
        if only and not {model, algorithm} & set(only):
            continue
        for width, options in settings(algorithm):
            name = f"{model}/{algorithm}/{width}"
            if name in cells:
                continue
            if bed is None:
                bed = Bed(data)
                copy_seconds = cells.get("copy", {"seconds": float("inf")})["seconds"]
                cells.add("copy", seconds=min(copy_seconds, bed.copy_seconds()))
            point = bed.point(model, algorithm, width, options)
            print(f"{name}: WER {point.wer:.2f} ({point.dev_wer:.2f} on dev), {point.seconds:.2f} CPU s", flush=True)
            cells.add(name, **asdict(point))
    measured = [Point(**cell) for name, cell in cells.items() if "/" in name]
    if not measured:
        raise click.ClickException(f"no points are measured: {', '.join(only)} names no model and no algorithm")
    lines = table(measured, cells["copy"]["seconds"])
    print("\n".join(lines))
    draw(measured, cells["copy"]["seconds"], picture)
    put(output, "front", lines)
