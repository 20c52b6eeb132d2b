"""Error rates of a contextual language model on read sentences with biasing lists, and its costs.

    python -m benchmarks.context pointer ../shared/data/english                        the tables of docs/context.md
    python -m benchmarks.context pointer ../shared/data/english --set dev --grid       weights to choose from, on dev
    python -m benchmarks.context pointer ../shared/data/english --only cost

The folder is that of `benchmarks.context tables`. Weights were chosen on dev; figures are of test unless --set says
otherwise. ``other lists`` gives each utterance the list of the one after it, less the words of its reference.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import click

from benchmarks.command import argument, command, option, path_option
from benchmarks.context.bed import (
    LIBRI_PENALTY,
    LIBRI_SCALE,
    LM_WEIGHT,
    PRIOR,
    READ,
    SIZES,
    Bed,
    biased_figures,
    rescored_words,
)
from benchmarks.measure import set_torch_threads
from benchmarks.tables import head, row, show
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.deep.pointer import ContextPointer
from ninja.context.entities.lists import Entities
from ninja.context.loader import load_pointer
from ninja.context.options import ContextOptions
from ninja.context.settings import DEFAULT_MODEL, Augmentation, Context
from ninja.context.stage import Contextual
from ninja.evaluate import score_biased
from ninja.lm import LanguageModel, load
from ninja.rescoring import RescoreOptions
from ninja.rescoring.rescorer import Rescorer

BOOST = {100: 6.0, 1000: 4.0}  # of all costs, by the length of the list
WEIGHT = 1.0  # of the pointer
RESCORING = RescoreOptions(acoustic_scale=LIBRI_SCALE, word_penalty=LIBRI_PENALTY, lm_weight=LM_WEIGHT)


@dataclass(frozen=True, slots=True)
class Method:
    """A method on one length of list."""

    name: str
    size: int = 0  # 0: no list
    points: bool = False
    augment: bool = False
    foreign: bool = False  # lists of other utterances


METHODS = (
    Method("none"),
    *(Method("boosts", size) for size in SIZES),
    *(Method("boosts + augmentation", size, augment=True) for size in SIZES),
    *(Method("contextual LM", size, points=True) for size in SIZES),
    *(Method("contextual LM + augmentation", size, points=True, augment=True) for size in SIZES),
    *(Method("contextual LM, other lists", size, points=True, foreign=True) for size in SIZES),
)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights that are chosen on dev."""

    prior: float = PRIOR
    weight: float = WEIGHT
    boost: float | None = None  # default: `BOOST`


def lists(bed: Bed, size: int, *, foreign: bool) -> Entities:
    """Return LibriSpeech's lists, or for each utterance that of the next one, less the words of its reference."""
    if not foreign:
        return bed.biasing_entities(size)
    keys = list(bed.biasing[size])
    foreign_lists = {}
    for key, next_key in zip(keys, [*keys[1:], keys[0]], strict=True):
        words = set(bed.references["libri"].get(key, ()))
        foreign_lists[key] = {"phrases": [word for word in bed.biasing[size][next_key].bias if word not in words]}
    return Entities.from_dict({"utterances": foreign_lists}, words=bed.words)


def measure(bed: Bed, lm: LanguageModel, model: ContextPointer, method: Method, weights: Weights) -> dict[str, float]:
    """Return WER, U-WER, B-WER and the CPU seconds of a method."""
    entities = lists(bed, method.size, foreign=method.foreign) if method.size else Entities.from_dict({})
    boost = BOOST.get(method.size, 0.0) if weights.boost is None else weights.boost
    options = ContextOptions(
        keyword_boost=0.0 if method.points else boost, context_prior=weights.prior, context_weight=weights.weight
    )
    augmentation = Augmentation(AugmentOptions(acoustic_scale=LIBRI_SCALE)) if method.augment else None
    context = Context(
        entities, options=options, augmentation=augmentation, context_model=model if method.points else None
    )
    stage = Contextual(context, bed.old_lm if method.augment else None, LM_WEIGHT)
    start = time.process_time()
    hypotheses = rescored_words(bed.lattices["libri"], lm, stage, READ)
    seconds = time.process_time() - start
    rates = score_biased(bed.references["libri"], hypotheses, bed.biasing[100])
    return biased_figures(rates) | {"seconds": seconds}


def rates(cell: dict[str, float]) -> Iterator[str]:
    """Yield WER, U-WER and B-WER."""
    return (f"{cell[name]:.2f}" for name in ("wer", "unbiased", "biased"))


def table(bed: Bed, lm: LanguageModel, model: ContextPointer, weights: Weights) -> Iterator[str]:
    """Yield the table of word errors."""
    yield from head("method", "phrases", "WER", "U-WER", "B-WER", "B-WER against none", "CPU s")
    base = 0.0
    for method in METHODS:
        cell = measure(bed, lm, model, method, weights)
        base = base or cell["biased"]
        change = f"{cell['biased'] / base - 1:+.1%}"
        yield row(method.name, method.size or "–", *rates(cell), change, f"{cell['seconds']:.1f}")


def grid(bed: Bed, lm: LanguageModel, model: ContextPointer) -> Iterator[str]:
    """Yield word errors by weights of the pointer, and by boosts."""
    yield from head("weights", "phrases", "WER", "U-WER", "B-WER")
    for size in SIZES:
        for weight, prior in product((1.0, 1.5), (-1.0, 0.0, 1.0, 2.0)):
            cell = measure(bed, lm, model, Method("", size, points=True), Weights(prior, weight))
            yield row(f"prior {prior:g}, weight {weight:g}", size, *rates(cell))
        for boost in (2.0, 4.0, 6.0, 8.0):
            yield row(f"boost {boost:g}", size, *rates(measure(bed, lm, model, Method("", size), Weights(boost=boost))))


def costs(bed: Bed, lm: LanguageModel, model: str) -> Iterator[str]:
    """Yield CPU seconds of rescoring with new and with known lists, by turns with those without lists.

    Each utterance of libri has a list of its own, of whose 1,000 words 600 are in no earlier list; calls share 8 pools.
    """
    yield from head("lattices", "phrases", "CPU s without", "new phrases", "factor", "known phrases", "factor")

    def seconds(name: str, entities: Entities | None, pointer: ContextPointer | None = None) -> float:
        context = None if entities is None else Contextual(Context(entities, context_model=pointer), None, LM_WEIGHT)
        rescorer = Rescorer(lm, RESCORING, context=context)
        start = time.process_time()
        for _ in rescorer(iter(bed.lattices[name])):
            pass
        return time.process_time() - start

    for name, size in (("libri", 100), ("libri", 1000), ("calls", 1000), ("calls", 5000)):
        entities = bed.biasing_entities(size) if name == "libri" else bed.entities(size)
        turns = []
        for _ in range(3):
            pointer = load_pointer(model)
            turns.append((seconds(name, None), seconds(name, entities, pointer), seconds(name, entities, pointer)))
        without, new, cached = map(min, zip(*turns, strict=True))
        factors = (f"{new:.1f}", f"{new / without:.2f}", f"{cached:.1f}", f"{cached / without:.2f}")
        yield row(name, f"{size:,}", f"{without:.1f}", *factors)


@command
@argument("folder")
@option("--set", "part", default="test", type=click.Choice(["dev", "test"]))
@option("--only", type=click.Choice(["words", "cost"]))
@option("--grid", "is_grid", is_flag=True, help="Print word errors by weights.")
@path_option("--rnnlm")
@path_option("--context-model", default=DEFAULT_MODEL)
@option("--prior", default=PRIOR)
@option("--weight", default=WEIGHT)
def main(folder: Path, part: str, only: str | None, is_grid: bool, rnnlm: Path | None, context_model: Path,
         prior: float, weight: float) -> None:  # fmt: skip
    set_torch_threads()
    bed, lm, model = Bed(folder, part), load(rnnlm), load_pointer(str(context_model))
    if is_grid:
        show(grid(bed, lm, model))
        return
    if only != "cost":
        show(table(bed, lm, model, Weights(prior, weight)))
        print()
    if only != "words":
        show(costs(bed, lm, str(context_model)))
