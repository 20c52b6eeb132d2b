"""Learning curves, momentum, warm-up and times of shared training: the section "Curves" of docs/training.md.

    python -m benchmarks.training curves                                 the section, from the stored measurements
    python -m benchmarks.training curves --texts TRAIN DEV               measure the missing cells first
    python -m benchmarks.training curves --texts TRAIN DEV --only times  a part of them

Cells are stored in curves.jsonl next to this file, each with its date, machine, command and seconds; delete a line to
measure it again. Perplexities are of simulated workers (`benchmarks.training.simulation`), times of real processes.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from benchmarks.command import ROOT, command, option, path_option
from benchmarks.tables import Cells, head, put, row
from benchmarks.training import speed
from benchmarks.training.simulation import curve
from benchmarks.training.speed import Machines, speed_up
from benchmarks.training.tables import BASE, WARM, format_perplexity, sample_text
from ninja.lm import text
from ninja.models.lstm import LSTMLanguageModel
from ninja.train import loop, step
from ninja.train.corpus import Choice, open_corpus
from ninja.train.order import Order
from ninja.train.parallel import launch
from ninja.train.parallel.blocks import Blocks
from ninja.train.parallel.gossip import Gossip
from ninja.train.parallel.workers import Workers
from ninja.train.recipe import TrainOptions
from ninja.tune.plot import COLOURS, MARKERS, drawn_panels

Durations = dict[str, list[float]]
Job = tuple[str, str, str, TrainOptions]
STORED = Path(__file__).with_name("curves.jsonl")
COMMAND = "python -m benchmarks.training curves --texts data/text/train.txt.gz data/text/dev.txt.gz"
WORDS = 400_000
SMALL = replace(BASE, batch_tokens=256, block_steps=2)
POINTS = 5
FOUR = {**WARM, "workers": 4, "block_steps": 4, "rate": 1}  # of the tables of momentum and warm-up
CURVES: dict[str, dict[str, Any]] = {  # with rates as multiples: the best of docs/training.md, halved for four workers
    "one worker": {"workers": 1, "rate": 2},
    "SSGD": {"rate": 8},
    "MA": {"parallel": "ma", "rate": 8},
    "CBM": {**WARM, "classical_momentum": True, "rate": 1},
    "NBM": {**WARM, "rate": 2},
    "ADPSGD": {"parallel": "adpsgd", "rate": 16},
    "ADPSGD, ring": {"parallel": "adpsgd", "rate": 16, "ring": True},
    "MA, 4 workers": {**FOUR, "parallel": "ma", "rate": 4},
    "NBM, 4 workers": FOUR,
}
METHODS, SIZES, STEPS = ("ssgd", "bmuf", "adpsgd"), (2, 4, 8), 48  # of real processes, and steps of each
PARTS = ("optimising", "aggregating", "validating")
MOMENTA = (0.0, 0.5, 0.75, 0.875, 0.95, 0.98)
WARMUPS = (0, 50, 100, 200)
PUBLISHED_MOMENTUM = {0.93: 34.6, 0.94: 34.8, 0.95: 33.8, 0.96: 34.0, 0.97: 34.4}


def _filtered(momentum: float) -> dict[str, Any]:
    """Return the options of NBM whose ζ is 1, as published; C is its weight of a block in the long run."""
    return {**FOUR, "block_momentum": momentum, "block_rate": 1 / (FOUR["workers"] * (1 - momentum))}


TRAININGS = {f"curve {name}": settings for name, settings in CURVES.items()}
TRAININGS |= {f"momentum {momentum}": _filtered(momentum) for momentum in MOMENTA if momentum != 0.75}
TRAININGS |= {f"warm-up {warmup}": {**FOUR, "block_warmup": warmup} for warmup in WARMUPS if warmup != 100}


def trainings(train_text: str, dev_text: str, cells: Cells) -> None:
    """Simulate the missing trainings."""
    corpus = open_corpus(train_text, Choice(SMALL.vocabulary, SMALL.min_count, hold_out=False))
    dev = text.encode(dev_text, corpus.words)
    for name, settings in TRAININGS.items():
        if name not in cells:
            begin = time.process_time()
            changes = {key: value for key, value in settings.items() if key not in ("rate", "ring")}
            options = replace(SMALL, **changes, learning_rate=SMALL.learning_rate * settings.get("rate", 1))
            points = curve(options, corpus, dev, POINTS if name.startswith("curve") else 1, ring="ring" in settings)
            cells.measured(name, time.process_time() - begin, COMMAND, points=points)


def clock(stack: ExitStack, owner: Any, name: str, durations: Durations, now: Callable[[], float]) -> None:
    """Store the durations of all calls of a function or method, until the stack is closed."""
    plain = getattr(owner, name)

    @wraps(plain)
    def timed(*arguments: Any, **options: Any) -> Any:
        begin = now()
        result = plain(*arguments, **options)
        durations[name].append(now() - begin)
        return result

    setattr(owner, name, timed)
    stack.callback(setattr, owner, name, plain)


def shares(train_text: str, options: TrainOptions) -> tuple[Machines, dict[str, float]]:
    """Measure a step on one core: its time, and the CPU time of its parts as shares."""
    durations: Durations = defaultdict(list)
    places = (step, "pad"), (LSTMLanguageModel, "forward"), (step, "backward"), (speed, "gradient"), (speed, "update")
    with ExitStack() as stack:
        for owner, name in places:
            clock(stack, owner, name, durations, time.process_time)
        machines = speed.measure(train_text, options)
    parts = {name: sum(calls[2:]) for name, calls in durations.items()}  # the first calls also allocate
    parts["rest"] = parts.pop("gradient") - parts["pad"] - parts["forward"] - parts["backward"]
    return machines, {name: seconds / sum(parts.values()) for name, seconds in parts.items()}


def timed(jobs: list[Job], _: object, workers: Workers) -> list[list[float]]:
    """Train; return the seconds of optimising, aggregating and validating of each training, means over workers."""
    results = []
    places = (loop, "gradient"), (loop, "update"), (Blocks, "synchronize"), (Gossip, "synchronize"), (loop, "_measured")
    for job in jobs:
        durations: Durations = defaultdict(list)
        waits: Durations = defaultdict(list)  # of SSGD, while it computes
        with ExitStack() as stack:
            for owner, name in places:
                clock(stack, owner, name, durations, time.perf_counter)
            clock(stack, loop, "gradient", waits, lambda: workers.seconds)
            loop._train(*job, None, workers)
        seconds_of = {name: sum(calls) for name, calls in durations.items()}
        waited = sum(waits["gradient"])
        parts = (
            seconds_of["gradient"] + seconds_of["update"] - waited,
            seconds_of.get("synchronize", 0.0) + waited,
            seconds_of["_measured"],
        )
        results.append([total / workers.size for total in workers.total(*parts)])
    return results


def times(texts: tuple[str, str], train_text: str, folder: Path, cells: Cells) -> None:
    """Measure the missing times of real processes, and shares of a step."""
    corpus = open_corpus(train_text, Choice(SMALL.vocabulary, SMALL.min_count, hold_out=False))
    batches = Order(corpus.sentences, SMALL.batch_tokens, SMALL.seed).epoch_batches
    for size in SIZES:
        names = [f"time {method}, {size}" for method in METHODS]
        if any(name not in cells for name in names):
            begin = time.perf_counter()
            options = replace(SMALL, workers=size, block_steps=16, epochs=STEPS * size / batches)
            first = replace(options, parallel="ssgd", epochs=8 * size / batches)  # its steps also allocate
            plans = [first, *(replace(options, parallel=method) for method in METHODS)]
            jobs = [(train_text, texts[1], str(folder / "model.pt"), plan) for plan in plans]
            results = launch.run(timed, (jobs,), size, "cpu", None)[1:]
            seconds = (time.perf_counter() - begin) / len(METHODS)
            for name, parts in zip(names, results, strict=True):
                cells.measured(name, seconds, COMMAND, **dict(zip(PARTS, parts, strict=True)))
    networks = {"small network": (train_text, SMALL), "default network": (texts[0], TrainOptions(device="cpu"))}
    for name, (path, options) in networks.items():
        if f"shares, {name}" not in cells:
            begin = time.process_time()
            machines, parts = shares(path, options)
            seconds = time.process_time() - begin
            cells.measured(f"shares, {name}", seconds, COMMAND, machines=asdict(machines), parts=parts)


def _final(cells: Cells, name: str) -> str:
    """Return the perplexity at the end of a training; that of the learning curve has momentum 0.75 and warm-up 100."""
    cell = cells.get("curve NBM, 4 workers" if name in ("momentum 0.75", "warm-up 100") else name)
    return format_perplexity(cell["points"][-1][1]) if cell else ""


def curve_table(cells: Cells) -> Iterator[str]:
    """Yield the perplexity of each method by the share of the text that has been seen."""
    yield from head("", *(f"{100 * (point + 1) // POINTS}%" for point in range(POINTS)))
    for name in CURVES:
        yield row(name, *(format_perplexity(perplexity) for _, perplexity in cells[f"curve {name}"]["points"]))


def draw(cells: Cells, picture: Path) -> None:
    """Draw the learning curves."""
    picture.parent.mkdir(exist_ok=True)
    with drawn_panels(picture, ["held-out perplexity"], "words seen (thousands)") as [axes]:
        methods = [name.partition(", 4")[0] for name in CURVES]
        for name, method in zip(CURVES, methods, strict=True):
            points = [(words / 1000, perplexity) for words, perplexity in cells[f"curve {name}"]["points"]]
            at, line = methods.index(method), "-" if name == method else "--"
            axes.plot(*zip(*points, strict=True), line, color=COLOURS[at], marker=MARKERS[at], label=name)
        axes.set_yscale("log")
        axes.set_yticks((200, 300, 500, 1000, 3000), labels=("200", "300", "500", "1,000", "3,000"))
        axes.minorticks_off()
        axes.set_xlim(right=1.5 * WORDS / 1000)  # room for the legend


def momentum_table(cells: Cells) -> Iterator[str]:
    """Yield perplexity by block momentum, and the published WER."""
    yield from head("momentum", "C", "perplexity, 4 workers", "C, published", "WER, published, 16 workers")
    for momentum in sorted({*MOMENTA, *PUBLISHED_MOMENTUM}):
        ours = _final(cells, f"momentum {momentum}")
        weight, theirs = (f"{1 / (size * (1 - momentum)):.2f}" for size in (FOUR["workers"], 16))
        published = PUBLISHED_MOMENTUM.get(momentum, "")
        yield row(momentum, weight if ours else "", ours, theirs if published else "", published)


def warmup_table(cells: Cells) -> Iterator[str]:
    """Yield perplexity by the steps of the warm-up."""
    yield from head("warm-up steps", *WARMUPS)
    yield row("perplexity", *(_final(cells, f"warm-up {warmup}") for warmup in WARMUPS))


def time_table(cells: Cells) -> Iterator[str]:
    """Yield seconds of real processes by method and number of workers."""
    yield from head("", "workers", *PARTS, "aggregating / (optimising + aggregating)")
    for method in METHODS:
        for size in SIZES:
            optimising, aggregating, validating = (cells[f"time {method}, {size}"][part] for part in PARTS)
            share = f"{aggregating / (optimising + aggregating):.1%}"
            yield row(method, size, *(f"{part:.1f}" for part in (optimising, aggregating, validating)), share)


def waiting_table(cells: Cells) -> Iterator[str]:
    """Yield the simulated share of time in which workers wait and send, and the published share."""
    sizes = (8, 16, 32, 64)
    clusters = {
        "one core a worker": Machines(**cells["shares, default network"]["machines"]),
        "steps of 0.1 s": Machines(),
    }
    yield from head("", *sizes)
    for method in ("ssgd", "bmuf", "adpsgd"):
        for name, machines in clusters.items():
            waiting_shares = (1 - speed_up(method, size, machines) / size for size in sizes)
            yield row(f"{method}, {name}", *(f"{max(0.0, share):.1%}" for share in waiting_shares))
    yield row("bmuf, published", "3.5%", "4.8%", "6.1%", "10.4%")


def share_table(cells: Cells) -> Iterator[str]:
    """Yield the shares of the parts of a step."""
    parts = {
        "pad": "loading", "forward": "forward", "backward": "softmax and backward", "update": "update", "rest": "rest"
    }  # fmt: skip
    yield from head("", "seconds per step", *parts.values())
    for name in ("small network", "default network"):
        cell = cells[f"shares, {name}"]
        yield row(name, f"{cell['machines']['step']:.3f}", *(f"{cell['parts'][part]:.1%}" for part in parts))


@command
@option("--texts", nargs=2, type=str, metavar="TRAIN DEV", help="Texts to measure missing cells with.")
@option("--only", type=click.Choice(["trainings", "times"]), help="Part to measure.")
@path_option("--cells", default=STORED, help="Stored measurements.")
@path_option("--output", default=ROOT / "docs/training.md", metavar="PAGE", help="Page to write the tables to.")
def main(texts: tuple[str, str] | None, only: str | None, cells: Path, output: Path) -> None:
    stored = Cells(cells)
    if texts is not None:
        with tempfile.TemporaryDirectory() as folder:
            train_text, dev_text = sample_text(texts[0], WORDS, Path(folder)), texts[1]
            if only in (None, "trainings"):
                trainings(train_text, dev_text, stored)
            if only in (None, "times"):
                times(texts, train_text, Path(folder), stored)
    tables = {
        "curves": curve_table,
        "momentum": momentum_table,
        "warm-up": warmup_table,
        "times": time_table,
        "waiting": waiting_table,
        "shares": share_table,
    }
    for name, table in tables.items():
        put(output, name, list(table(stored)))
    draw(stored, output.parent / "pictures/training_curves.svg")
