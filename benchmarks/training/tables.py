"""Perplexity, time and speed of the methods of sharing a training: the tables of docs/training.md.

    python -m benchmarks.training tables TRAIN DEV FOLDER [--words 2000000] [--only NAME] [--output docs/training.md]

Every cell is kept in FOLDER/cells.jsonl, so that an interrupted run continues. Cells of perplexity are computed by
simulated workers in one process, see `benchmarks.training.simulation`; a few also by real processes. Cells of time are
real processes whose steps sleep.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.command import argument, command, option, output
from benchmarks.tables import Cells, head, put, row
from benchmarks.training.simulation import curve
from benchmarks.training.speed import Machines, measure, table
from ninja.lm import text
from ninja.train import loop, step
from ninja.train.corpus import Choice, open_corpus
from ninja.train.order import Order
from ninja.train.parallel import launch
from ninja.train.recipe import Progress, TrainOptions

BASE = TrainOptions(
    device="cpu",
    parallel="ssgd",
    vocabulary=8000,
    embedding=48,
    hidden=64,
    layers=1,
    dropout=0.0,
    samples=500,
    batch_tokens=128,
    epochs=1,
    learning_rate=4e-3,
    warmup=20,
    check_steps=10**6,
    threads=1,
    workers=8,
    block_steps=16,
)
PAUSE = 1.0  # seconds of sleep in a slowed step: long compared with its computation on a busy machine
SLOWED_BATCHES = {
    "ssgd": 64,
    "bmuf": 64,
    "adpsgd": 320,
    "h-adpsgd": 320,
}  # the last step of the slow worker counts in full
METHODS = ("ssgd", "bmuf", "adpsgd", "h-adpsgd")
FACTORS = (1, 2, 5, 10)
DIVERGED = 8_000.0  # perplexity of a guess among all words
NBM = {"parallel": "bmuf"}
WARM = {**NBM, "block_warmup": 100}
GRID = {  # methods, and rates as multiples of the one worker's
    "one worker": ({"workers": 1}, (0.5, 1, 2, 4)),
    "SSGD": ({"parallel": "ssgd"}, (1, 4, 8)),
    "MA": ({"parallel": "ma"}, (1, 4, 8)),
    "CBM": ({**NBM, "classical_momentum": True}, (0.5, 1)),
    "NBM": (NBM, (0.5, 1, 2)),
    "NBM, warm-up 100": (WARM, (0.5, 1, 2)),
    "ADPSGD": ({"parallel": "adpsgd"}, (1, 4, 8, 16, 32)),
    "H-ADPSGD 4 × 2": ({"parallel": "h-adpsgd", "node_size": 2}, (1, 8, 16)),
}


BLOCKS = {  # options changed from those of NBM ×1
    "momentum 0.5": {"block_momentum": 0.5},
    "momentum 0.75": {"block_momentum": 0.75},
    "block of 4": {"block_steps": 4},
    "block of 64": {"block_steps": 64},
    "moments keep": {"block_optimizer": "keep"},
    "moments reset": {"block_optimizer": "reset"},
}
SHORT_WORDS = 200_000  # of trainings of 26 blocks of 2 steps
SHORT = {
    "one worker": {"workers": 1},
    "MA": {"parallel": "ma"},
    "MA, warm-up 100": {"parallel": "ma", "block_warmup": 100},
    "NBM": NBM,
    "NBM, rate 0.35": {**NBM, "block_rate": 0.35},
    "NBM, rate 0.35, momentum 0.75": {**NBM, "block_rate": 0.35, "block_momentum": 0.75},
    "NBM, warm-up 100, momentum 0.75": {**WARM, "block_momentum": 0.75},
    "NBM, warm-up 100, rate 0.5, momentum 0.5": {**WARM, "block_rate": 0.5, "block_momentum": 0.5},
}
LARGE = {"SSGD": (8,), "NBM, warm-up 100": (0.5, 1), "ADPSGD": (16,), "H-ADPSGD 4 × 2": (16,)}  # rates
TOKENS = (512, 1536)  # of each worker's batches, where they are large
# Also trained by real processes:
RANKS = ("SSGD ×8", "MA ×8", "CBM ×1", "NBM ×1", "NBM, warm-up 100 ×1", "ADPSGD ×16", "H-ADPSGD 4 × 2 ×16")


def _cells() -> dict[str, dict]:
    """Return the cells of perplexity: name and options, the rate as a multiple."""
    cells = {f"{name} ×{rate}": {**options, "rate": rate} for name, (options, rates) in GRID.items() for rate in rates}
    cells |= {f"NBM ×1, {name}": {**NBM, **options} for name, options in BLOCKS.items()}
    for name, rates in LARGE.items():
        for tokens, rate in product(TOKENS, rates):
            options = {**GRID[name][0], "batch_tokens": tokens, "rate": rate}
            for steps in ("block_steps", "warmup", "block_warmup"):  # as many tokens as with small batches
                options[steps] = options.get(steps, getattr(BASE, steps)) * BASE.batch_tokens // tokens
            cells[f"{name} ×{rate}, batches of {tokens}"] = {**options, "block_steps": max(1, options["block_steps"])}
    return cells


def _options(cell_options: dict) -> TrainOptions:
    """Return the options of a cell, whose rate is a multiple."""
    options = {name: value for name, value in cell_options.items() if name != "rate"}
    return replace(BASE, **options, learning_rate=BASE.learning_rate * cell_options.get("rate", 1))


def _is_selected(name: str, only: list[str]) -> bool:
    return not only or any(word in name for word in only)


def sample_text(path: str, words: int, folder: Path) -> str:
    """Write sentences of a text, evenly spread, with about so many words in all; return the file."""
    output = folder / f"train.{words}.txt"
    if not output.exists():
        sentences = list(text.read_sentences(path))
        total = sum(map(len, sentences))
        keep = np.random.default_rng(1).random(len(sentences)) < words / total
        sample = [" ".join(sentence) for sentence, is_in_sample in zip(sentences, keep, strict=True) if is_in_sample]
        output.write_text("\n".join(sample) + "\n")
    return str(output)


def add(cells: Cells, name: str, **figures) -> None:
    """Keep and print a cell."""
    print(name, cells.add(name, **figures), flush=True)


def train_slowed(jobs, progress, workers):
    """Train with steps that sleep, worker 0's longer; return the last report of each training."""
    last_reports = []
    for train_text, dev, model, options, factor in jobs:

        def gradient(*arguments, pause=PAUSE * (factor if workers.rank == 0 else 1), **options):
            time.sleep(pause)
            return step.gradient(*arguments, **options)

        reports: list[Progress] = []
        with patch("ninja.train.loop.gradient", gradient):
            loop._train(train_text, dev, model, options, reports.append, workers)
        last_reports.append(asdict(reports[-1]) if workers.rank == 0 else None)
    return last_reports


def stragglers(train_text: str, dev: str, folder: Path, cells: Cells, only: list[str]) -> None:
    """Measure each method with four workers, of which one is slowed."""
    words = sum(map(len, text.read_sentences(train_text)))
    for method in (method for method in METHODS if not only or method in only):
        factors = [factor for factor in FACTORS if f"straggler {method} ×{factor}" not in cells]
        options = replace(BASE, parallel=method, workers=4, node_size=2, block_steps=4, embedding=16, hidden=24)
        options = replace(options, vocabulary=2000, samples=100, batch_tokens=256, learning_rate=2e-2, warmup=0)
        epoch = epoch_batches(train_text, options)
        options = replace(options, epochs=SLOWED_BATCHES[method] / epoch)
        jobs = [(train_text, dev, str(folder / f"{method}.pt"), options, factor) for factor in factors]
        for factor, last in zip(
            factors, launch.run(train_slowed, (jobs,), 4, "cpu", None) if jobs else (), strict=True
        ):
            rate = last["epoch"] * words / (60 * last["minutes"])
            figures = {name: last[name] for name in ("perplexity", "communication", "staleness")}
            add(cells, f"straggler {method} ×{factor}", rate=rate, **figures)


def epoch_batches(path: str, options: TrainOptions) -> int:
    """Return the number of batches in an epoch of a text."""
    corpus = open_corpus(path, Choice(options.vocabulary, options.min_count, hold_out=False))
    return Order(corpus.sentences, options.batch_tokens, options.seed).epoch_batches


def perplexities(corpus, dev, cells: Cells, only: list[str]) -> None:
    """Compute the missing cells of perplexity."""
    for name, cell_options in _cells().items():
        if name not in cells and _is_selected(name, only):
            begin = time.process_time()
            [(_, perplexity)] = curve(_options(cell_options), corpus, dev)
            add(cells, name, perplexity=perplexity, cpu=time.process_time() - begin)


def ranks(train_text: str, dev: str, folder: Path, cells: Cells, only: list[str]) -> None:
    """Train with eight real processes as some of the simulated trainings."""
    for name in RANKS:
        if f"{name}, eight processes" not in cells and _is_selected(name, only):
            result = loop.train(train_text, dev, folder / "ranks.pt", _options(_cells()[name]))
            add(cells, f"{name}, eight processes", perplexity=result.perplexity, minutes=result.minutes)


def short(train_text: str, dev: str, folder: Path, cells: Cells) -> None:
    """Simulate trainings of few blocks."""
    path = sample_text(train_text, SHORT_WORDS, folder)
    corpus = open_corpus(path, Choice(BASE.vocabulary, BASE.min_count, hold_out=False))
    for name, cell_options in SHORT.items():
        if f"short, {name}" not in cells:
            options = replace(BASE, block_steps=2, batch_tokens=512, **cell_options)
            [(_, perplexity)] = curve(options, corpus, text.encode(dev, corpus.words))
            add(cells, f"short, {name}", perplexity=perplexity)


def render(cells: Cells, page: Path | None) -> None:
    """Put the tables into the page; missing cells are left out."""
    clusters = {"one core a worker": Machines(**cells["step"])} if "step" in cells else {}
    tables = {
        "perplexity": _grid(cells),
        "blocks": _one_column(cells, ["NBM ×1", *(f"NBM ×1, {name}" for name in BLOCKS)]),
        "short": [line.replace("short, ", "") for line in _one_column(cells, [f"short, {name}" for name in SHORT])],
        "batches": _large(cells),
        "ranks": _real_processes(cells),
        "stragglers": _slowed(cells),
        "speed": table({**clusters, "steps of 0.1 s": Machines()}),
    }
    for name, lines in tables.items():
        put(page, name, lines)


def format_perplexity(perplexity: float) -> str:
    """Format a perplexity, or name the divergence of a training."""
    return f"{perplexity:.1f}" if perplexity < DIVERGED else "diverged"


def _format_cell(cell: dict | None, best: float = 0.0) -> str:
    """Return the perplexity of a cell, in bold if it is the best."""
    if cell is None:
        return ""
    figure = format_perplexity(cell["perplexity"])
    return f"**{figure}**" if cell["perplexity"] == best else figure


def _grid(cells: Cells) -> list[str]:
    """Return perplexities by method and rate."""
    rates = sorted({rate for _, rates in GRID.values() for rate in rates})
    lines = head("", *(f"×{rate}" for rate in rates))
    for name in GRID:
        measured = [cells.get(f"{name} ×{rate}") for rate in rates]
        available = [cell["perplexity"] for cell in measured if cell]
        if available:
            best = min(available) if len(available) > 1 else 0.0
            lines.append(row(name, *(_format_cell(cell, best) for cell in measured)))
    return lines


def _one_column(cells: Cells, names: list[str]) -> list[str]:
    return [*head("", "perplexity"), *(row(name, _format_cell(cells[name])) for name in names if name in cells)]


def _real_processes(cells: Cells) -> list[str]:
    """Return perplexities of trainings by real processes and of their simulations."""
    real = {name: cells[f"{name}, eight processes"] for name in RANKS if f"{name}, eight processes" in cells}
    rows = (row(name, _format_cell(cells[name]), _format_cell(cell)) for name, cell in real.items())
    return [*head("", "simulated", "eight processes"), *rows]


def _large(cells: Cells) -> list[str]:
    """Return perplexities by method and size of batches, each at the best of its rates."""
    names = [name for name in LARGE if any(cell.startswith(name) and "batches of" in cell for cell in cells)]
    lines = head("", *(f"8 × {tokens:,} = {8 * tokens:,} tokens" for tokens in (BASE.batch_tokens, *TOKENS)))
    for name in names:
        rates = {rate for rates in (LARGE[name], GRID[name][1]) for rate in rates}
        figures = []
        for size in ("", *(f", batches of {tokens}" for tokens in TOKENS)):
            candidates = [cell for rate in rates if (cell := cells.get(f"{name} ×{rate}{size}"))]
            figures.append(_format_cell(min(candidates, key=lambda cell: cell["perplexity"], default=None)))
        lines.append(row(name, *figures))
    return lines if names else []


def _slowed(cells: Cells) -> list[str]:
    """Return words per second by method and slowness of one worker."""
    lines = head("", *(f"×{factor}" for factor in FACTORS))
    for method in METHODS:
        rates = [cells.get(f"straggler {method} ×{factor}") for factor in FACTORS]
        if any(rates):
            lines.append(row(method, *(f"{cell['rate']:.0f}" if cell else "" for cell in rates)))
    return lines


PARTS = ("perplexity", "short", "ranks", "stragglers", "speed")


@command
@argument("train", type=str)
@argument("dev", type=str)
@argument("folder")
@option("--words", default=2_000_000, help="Words of the text to train on.")
@option("--only", multiple=True, help=f"Part ({', '.join(PARTS)}), or words of cells or methods; may be repeated.")
@output
def main(train: str, dev: str, folder: Path, words: int, only: tuple[str, ...], output: Path | None) -> None:
    folder.mkdir(exist_ok=True)
    cells = Cells(folder / "cells.jsonl")
    train_text = sample_text(train, words, folder)
    parts = [part for part in PARTS if part in only or not only]
    names = [name for name in only if name not in PARTS]
    if "stragglers" in parts:
        stragglers(train_text, dev, folder, cells, names)
    if "ranks" in parts:
        ranks(train_text, dev, folder, cells, names)
    if "short" in parts:
        short(train_text, dev, folder, cells)
    if "perplexity" in parts:
        corpus = open_corpus(train_text, Choice(BASE.vocabulary, BASE.min_count, hold_out=False))
        perplexities(corpus, text.encode(dev, corpus.words), cells, names)
    if "speed" in parts and "step" not in cells:
        machines = measure(train_text, TrainOptions(device="cpu"))
        add(cells, "step", step=machines.step, spread=machines.spread, weights=machines.weights)
    render(cells, output)
