"""Training of the contextual model: phrases in the background, and amounts of text by domain, in docs/context.md.

    python -m benchmarks.context training                          the tables, from the stored measurements
    python -m benchmarks.context training --measure ../shared      measure the missing cells first

Pointers for the shipped models learn from books (data/text), from commands (data/english/class_train.txt, with names
of the pools), or from equal parts of both. Cells are stored in training.jsonl next
to this file, each with its date, machine, command and CPU seconds; delete a line to measure it again. Figures are of
test.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import ROOT, command, path_option
from benchmarks.context.bed import COMMANDS, PRIOR, READ, SIZES, Bed, Weights, Words, biased_figures, rescored_words
from benchmarks.measure import set_torch_threads
from benchmarks.tables import Cells, head, put, row
from ninja.context.deep.pointer import ContextPointer
from ninja.context.deep.recipe import PointerOptions
from ninja.context.entities.lists import Entities
from ninja.context.loader import load_pointer
from ninja.context.options import ContextOptions
from ninja.context.settings import DEFAULT_MODEL, Context
from ninja.context.stage import Contextual
from ninja.evaluate import score_biased
from ninja.lm import LanguageModel, load
from ninja.lm.text import read_sentences
from ninja.train import pointer as training

STORED = Path(__file__).with_name("training.jsonl")
COMMAND = "python -m benchmarks.context training --measure .."
FEW, MANY, STEPS = 50_000, 200_000, 600


@dataclass(frozen=True, slots=True)
class Plan:
    """A pointer to train."""

    domains: tuple[str, ...] = ("books",)
    words: int = FEW
    background: int = 1000  # largest number of other phrases in a list

    @property
    def name(self) -> str:
        """The name of its cell."""
        return f"{' and '.join(self.domains)}, {self.words}, {self.background}"


BACKGROUND = [Plan(background=size) for size in (0, 10, 40, 160, 1000)]
AMOUNTS = [Plan(("commands",)), Plan(), Plan(("books", "commands")), Plan(("books", "commands"), MANY)]


def read_books(folder: Path, words: int) -> list[list[str]]:
    """Return evenly spaced sentences of the books."""
    sentences = list(read_sentences(str(folder / "text" / "train.txt.gz")))
    return sentences[:: sum(map(len, sentences)) // words]


def commands(english: Path, words: int) -> list[list[str]]:
    """Return commands with names of the pools in place of the classes; these names do not occur in dev and test."""
    names: dict[str, list[str]] = {}
    for pool in sorted((english / "pools").glob("*.tsv.gz")):
        with gzip.open(pool, "rt") as lines:
            for name, phrase in (line.rstrip("\n").split("\t")[:2] for line in lines):
                names.setdefault(name, []).append(phrase)
    random, sentences, total = np.random.default_rng(1), list[list[str]](), 0
    patterns = (english / "class_train.txt").read_text(encoding="utf-8").splitlines()
    while total < words:
        for pattern in patterns:
            spelt = (
                names[word][random.integers(len(names[word]))] if word in names else word for word in pattern.split()
            )
            sentences.append(" ".join(spelt).split())
            total += len(sentences[-1])
    return sentences


def train(lm: LanguageModel, plan: Plan, texts: dict[str, list[list[str]]]) -> ContextPointer:
    """Train a pointer with the shipped encoder."""
    sentences: list[list[str]] = []
    for domain in plan.domains:
        num_words = plan.words // len(plan.domains)
        step = sum(map(len, texts[domain])) / num_words
        sentences += [texts[domain][int(place)] for place in np.arange(0, len(texts[domain]), step)]
    common = 2000 if "books" in plan.domains else 500  # commands have fewer words
    options = PointerOptions(
        positions=10**9, common=common, steps=STEPS, batch=64, most_phrases=plan.background, threads=1
    )
    return training.train_pointer(lm, "english", lambda: sentences, load_pointer(DEFAULT_MODEL).encoder, options)


def load_once() -> None:
    """Compute the states of the language model once for equal sentences."""
    plain, states = training._read, dict[str, Any]()

    def read(lm: LanguageModel, sentences: list[list[str]]) -> Any:
        key = str(sentences)
        if key not in states:
            states[key] = plain(lm, sentences)
        return states[key]

    training._read = read


def figures(bed: Bed, lm: LanguageModel, model: ContextPointer, plan: Plan) -> dict[str, float]:
    """Return the figures of the tables that have a plan: of read sentences, and of commands with 1,000 names."""
    options = ContextOptions(keyword_boost=0.0, context_prior=PRIOR)

    def words(name: str, entities: Entities, weights: Weights) -> Words:
        stage = Contextual(Context(entities, options=options, context_model=model), None, weights[2])
        return rescored_words(bed.lattices[name], lm, stage, weights)

    cell: dict[str, float] = {}
    for size in SIZES if plan in BACKGROUND else SIZES[1:]:
        texts = words("libri", bed.biasing_entities(size), READ)
        rates = biased_figures(score_biased(bed.references["libri"], texts, bed.biasing[100]))
        cell |= {f"{name} {size}": rate for name, rate in rates.items()}
    if plan in AMOUNTS:
        entities = bed.entities(1000)
        calls, general = (words(name, entities, COMMANDS) for name in ("calls", "general"))
        of_commands = bed.command_figures(calls, general, entities)
        cell |= {"calls": of_commands["contextual"], "general": of_commands["general"], "found": of_commands["found"]}
    return cell


def measure(shared: Path, cells: Cells) -> None:
    """Train and measure the missing pointers."""
    set_torch_threads()
    load_once()
    data, lm = shared / "data", load(None)
    bed = Bed(data / "english", "test")
    texts = {"books": read_books(data, 1_000_000), "commands": commands(data / "english", MANY // 2)}
    for plan in (*BACKGROUND, *AMOUNTS):
        if plan.name not in cells:
            begin = time.process_time()
            model = train(lm, plan, texts)
            trained = time.process_time() - begin
            rates = figures(bed, lm, model, plan)
            cells.measured(plan.name, time.process_time() - begin, COMMAND, training=round(trained, 1), **rates)


def background_table(cells: Cells) -> Iterator[str]:
    """Yield error rates of read sentences by the most background phrases in training."""
    columns = [(name, size) for size in SIZES for name in ("wer", "unbiased", "biased")]
    titles = {"wer": "WER", "unbiased": "U-WER", "biased": "B-WER"}
    yield from head("most phrases in training", *(f"{titles[name]}, {size:,} words" for name, size in columns))
    for plan in BACKGROUND:
        yield row(plan.background, *(f"{cells[plan.name][f'{name} {size}']:.2f}" for name, size in columns))


def amount_table(cells: Cells) -> Iterator[str]:
    """Yield error rates of commands and of read sentences by the text of training."""
    yield from head("training text", "words", "commands WER", "found", "general WER", "read WER", "read B-WER")
    for plan in AMOUNTS:
        cell = cells[plan.name]
        rates = (f"{cell[name]:.2f}" for name in ("general", "wer 1000", "biased 1000"))
        num_found = f"{cell['found']:.0f} of 163"
        yield row(" and ".join(plan.domains), f"{plan.words:,}", f"{cell['calls']:.2f}", num_found, *rates)


@command
@path_option("--measure", "shared", metavar="SHARED", help="Folder with data/, to measure missing cells.")
@path_option("--cells", default=STORED, help="Stored measurements.")
@path_option("--output", default=ROOT / "docs/context.md", metavar="PAGE", help="Page to write the tables to.")
def main(shared: Path | None, cells: Path, output: Path) -> None:
    stored = Cells(cells)
    if shared is not None:
        measure(shared, stored)
    put(output, "background", list(background_table(stored)))
    put(output, "amounts", list(amount_table(stored)))
