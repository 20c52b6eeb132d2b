"""Tables of docs/training.md: what the methods of sharing cost in perplexity, in time, and with slow workers.

    python -m benchmarks.training TRAIN DEV FOLDER [--words 2000000] [--only WORD …] [--render docs/training.md]

Every cell is written to FOLDER/cells.jsonl when it is done, and never computed again, so that a run may be cut off.
Cells of perplexity are simulated workers of one process, see `benchmarks.simulated_training`; a few stand beside real
processes. Cells of time are real processes whose steps sleep.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from benchmarks.page import put
from benchmarks.simulated_training import Simulation
from benchmarks.training_speed import Machines, measured, table
from ninja.errors import ModelError
from ninja.lm import text
from ninja.train import loop
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
PAUSE = 1.0  # seconds that a step sleeps where workers are slowed: long beside its computation on a busy machine
SLOWED_BATCHES = {"ssgd": 64, "bmuf": 64, "adpsgd": 320, "h-adpsgd": 320}  # the last step of the slow one counts whole
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


BLOCKS = {  # what is changed of NBM ×1
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
# Trainings by real processes, too:
RANKS = ("SSGD ×8", "MA ×8", "CBM ×1", "NBM ×1", "NBM, warm-up 100 ×1", "ADPSGD ×16", "H-ADPSGD 4 × 2 ×16")


def _cells() -> dict[str, dict]:
    """Return the cells of perplexity: name and options, the rate as a multiple."""
    cells = {f"{name} ×{rate}": {**options, "rate": rate} for name, (options, rates) in GRID.items() for rate in rates}
    cells |= {f"NBM ×1, {name}": {**NBM, **options} for name, options in BLOCKS.items()}
    for name, rates in LARGE.items():
        for tokens, rate in product(TOKENS, rates):
            given = {**GRID[name][0], "batch_tokens": tokens, "rate": rate}
            for each in ("block_steps", "warmup", "block_warmup"):  # as many tokens as with small batches
                given[each] = given.get(each, getattr(BASE, each)) * BASE.batch_tokens // tokens
            cells[f"{name} ×{rate}, batches of {tokens}"] = {**given, "block_steps": max(1, given["block_steps"])}
    return cells


def _options(chosen: dict) -> TrainOptions:
    """Return the options of a cell, whose rate is a multiple."""
    given = {key: value for key, value in chosen.items() if key != "rate"}
    return replace(BASE, **given, learning_rate=BASE.learning_rate * chosen.get("rate", 1))


def _wanted(name: str, only: list[str]) -> bool:
    return not only or any(word in name for word in only)


def simulated(options: TrainOptions, corpus, dev) -> float:
    """Return the perplexity after training by simulated workers, inf if it diverges."""
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    module = loop._make(options, len(corpus.words))
    module.initialise()
    simulation = Simulation(module, corpus.sentences, options)
    try:
        simulation.run()
    except ModelError:  # it diverged
        return float("inf")
    return simulation.perplexity(dev)


def cut(path: str, words: int, folder: Path) -> str:
    """Write as many sentences of a text, evenly spread, as have some number of words; return the file."""
    output = folder / f"train.{words}.txt"
    if not output.exists():
        sentences = list(text.read_sentences(path))
        total = sum(map(len, sentences))
        keep = np.random.default_rng(1).random(len(sentences)) < words / total
        chosen = [" ".join(each) for each, kept in zip(sentences, keep, strict=True) if kept]
        output.write_text("\n".join(chosen) + "\n")
    return str(output)


class Cells(dict):
    """Results by name, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        super().__init__({each.pop("name"): each for each in map(json.loads, lines)})

    def add(self, name: str, **facts) -> None:
        """Keep a result."""
        self[name] = facts
        with open(self.path, "a") as stream:
            stream.write(json.dumps({"name": name, **facts}) + "\n")
        print(name, facts, flush=True)


def slowed(jobs, progress, workers):
    """Train with steps that sleep, worker 0's longer; return the last report of each training."""
    plain = loop.gradient
    found = []
    for train_text, dev, output, options, factor in jobs:

        def gradient(*given, pause=PAUSE * (factor if workers.rank == 0 else 1), **more):
            time.sleep(pause)
            return plain(*given, **more)

        loop.gradient = gradient
        reports: list[Progress] = []
        loop._train(train_text, dev, output, options, reports.append, workers)
        found.append(asdict(reports[-1]) if workers.rank == 0 else None)
    loop.gradient = plain
    return found


def stragglers(train_text: str, dev: str, folder: Path, cells: Cells, only: list[str]) -> None:
    """Measure each method with four workers, of which one is slowed."""
    words = sum(map(len, text.read_sentences(train_text)))
    for method in (each for each in METHODS if not only or each in only):
        factors = [each for each in FACTORS if f"straggler {method} ×{each}" not in cells]
        options = replace(BASE, parallel=method, workers=4, node_size=2, block_steps=4, embedding=16, hidden=24)
        options = replace(options, vocabulary=2000, samples=100, batch_tokens=256, learning_rate=2e-2, warmup=0)
        epoch = epoch_batches(train_text, options)
        options = replace(options, epochs=SLOWED_BATCHES[method] / epoch)
        jobs = [(train_text, dev, str(folder / f"{method}.pt"), options, factor) for factor in factors]
        for factor, last in zip(factors, launch.run(slowed, (jobs,), 4, "cpu", None) if jobs else (), strict=True):
            rate = last["epoch"] * words / (60 * last["minutes"])
            kept = {name: last[name] for name in ("perplexity", "communication", "staleness")}
            cells.add(f"straggler {method} ×{factor}", rate=rate, **kept)


def epoch_batches(path: str, options: TrainOptions) -> int:
    """Return how many batches an epoch of a text has."""
    corpus = open_corpus(path, Choice(options.vocabulary, options.min_count, hold_out=False))
    return Order(corpus.sentences, options.batch_tokens, options.seed).epoch_batches


def perplexities(corpus, dev, cells: Cells, only: list[str]) -> None:
    """Compute the cells that are not there yet."""
    for name, chosen in _cells().items():
        if name not in cells and _wanted(name, only):
            begun = time.process_time()
            cells.add(name, perplexity=simulated(_options(chosen), corpus, dev), cpu=time.process_time() - begun)


def ranks(train_text: str, dev: str, folder: Path, cells: Cells, only: list[str]) -> None:
    """Train with eight real processes as some of the simulated trainings."""
    for name in RANKS:
        if f"{name}, eight processes" not in cells and _wanted(name, only):
            result = loop.train(train_text, dev, folder / "ranks.pt", _options(_cells()[name]))
            cells.add(f"{name}, eight processes", perplexity=result.perplexity, minutes=result.minutes)


def short(train_text: str, dev: str, folder: Path, cells: Cells) -> None:
    """Simulate trainings of few blocks."""
    path = cut(train_text, SHORT_WORDS, folder)
    corpus = open_corpus(path, Choice(BASE.vocabulary, BASE.min_count, hold_out=False))
    for name, chosen in SHORT.items():
        if f"short, {name}" not in cells:
            options = replace(BASE, block_steps=2, batch_tokens=512, **chosen)
            cells.add(f"short, {name}", perplexity=simulated(options, corpus, text.encode(dev, corpus.words)))


def render(cells: Cells, page: Path) -> None:
    """Put the tables into the page; cells that were not computed are left out."""
    here = Machines(**cells["step"]) if "step" in cells else None
    clusters = {"one core a worker": here} if here else {}
    tables = {
        "perplexity": _grid(cells),
        "blocks": _one_column(cells, ["NBM ×1", *(f"NBM ×1, {name}" for name in BLOCKS)]),
        "short": [line.replace("short, ", "") for line in _one_column(cells, [f"short, {name}" for name in SHORT])],
        "batches": _large(cells),
        "ranks": _beside(cells),
        "stragglers": _slowed(cells),
        "speed": table({**clusters, "steps of 0.1 s": Machines()}),
    }
    for name, lines in tables.items():
        put(page, name, lines)


def _row(name: str, shown: Iterable[str]) -> str:
    return f"| {name} | " + " | ".join(shown) + " |"


def _head(*columns: str) -> list[str]:
    return [_row("", columns), "|---" * (len(columns) + 1) + "|"]


def _grid(cells: Cells) -> list[str]:
    """Return perplexities by method and rate; of several of a method the best is in bold."""
    rates = sorted({rate for _, rates in GRID.values() for rate in rates})
    lines = _head(*(f"×{rate}" for rate in rates))
    for name in GRID:
        found = [cells.get(f"{name} ×{rate}") for rate in rates]
        if any(found):
            known = [each["perplexity"] for each in found if each]
            best = min(known) if len(known) > 1 else 0.0
            lines.append(_row(name, (_shown(each, best) for each in found)))
    return lines


def _shown(cell: dict | None, best: float) -> str:
    if cell is None:
        return ""
    shown = f"{cell['perplexity']:.1f}" if cell["perplexity"] < DIVERGED else "diverged"
    return f"**{shown}**" if cell["perplexity"] == best else shown


def _one_column(cells: Cells, names: list[str]) -> list[str]:
    return [*_head("perplexity"), *(_row(name, [_shown(cells[name], 0.0)]) for name in names if name in cells)]


def _beside(cells: Cells) -> list[str]:
    """Return perplexities of trainings by real processes beside those of their simulations."""
    rows = [(name, cells[name], real) for name in RANKS if (real := cells.get(f"{name}, eight processes"))]
    return _head("simulated", "eight processes") + [
        _row(name, (_shown(one, 0.0), _shown(real, 0.0))) for name, one, real in rows
    ]


def _large(cells: Cells) -> list[str]:
    """Return perplexities by method and size of batches, each at the best of its rates."""
    names = [each for each in LARGE if any(cell.startswith(each) and "batches of" in cell for cell in cells)]
    sizes = (BASE.batch_tokens, *TOKENS)
    lines = _head(*(f"8 × {tokens:,} = {8 * tokens:,} tokens" for tokens in sizes))
    for name in names:
        rates = {rate for rates in (LARGE[name], GRID[name][1]) for rate in rates}
        shown = []
        for size in ("", *(f", batches of {tokens}" for tokens in TOKENS)):
            found = [cells[each] for rate in rates if (each := f"{name} ×{rate}{size}") in cells]
            shown.append(_shown(min(found, key=lambda each: each["perplexity"]), 0.0) if found else "")
        lines.append(_row(name, shown))
    return lines if names else []


def _slowed(cells: Cells) -> list[str]:
    """Return words per second by method and slowness of one worker."""
    lines = _head(*(f"×{factor}" for factor in FACTORS))
    for method in METHODS:
        found = [cells.get(f"straggler {method} ×{factor}") for factor in FACTORS]
        if any(found):
            lines.append(_row(method, (f"{each['rate']:.0f}" if each else "" for each in found)))
    return lines


def main() -> None:
    """Compute what is missing, and render."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--words", type=int, default=2_000_000)
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        help="perplexity, short, ranks, stragglers, speed; words of cells or methods",
    )
    parser.add_argument("--render", type=Path)
    chosen = parser.parse_args()
    chosen.folder.mkdir(exist_ok=True)
    cells = Cells(chosen.folder / "cells.jsonl")
    train_text = cut(chosen.train, chosen.words, chosen.folder)
    parts = [each for each in ("perplexity", "short", "ranks", "stragglers", "speed") if each in chosen.only]
    words = [each for each in chosen.only if each not in parts]
    if "stragglers" in parts or not chosen.only:
        stragglers(train_text, chosen.dev, chosen.folder, cells, words)
    if "ranks" in parts or not chosen.only:
        ranks(train_text, chosen.dev, chosen.folder, cells, words)
    if "short" in parts or not chosen.only:
        short(train_text, chosen.dev, chosen.folder, cells)
    if "perplexity" in parts or not chosen.only:
        corpus = open_corpus(train_text, Choice(BASE.vocabulary, BASE.min_count, hold_out=False))
        perplexities(corpus, text.encode(chosen.dev, corpus.words), cells, words)
    if ("speed" in parts or not chosen.only) and "step" not in cells:
        found = measured(train_text, TrainOptions(device="cpu"))
        cells.add("step", step=found.step, spread=found.spread, weights=found.weights)
    if chosen.render:
        render(cells, chosen.render)


if __name__ == "__main__":
    main()
