"""What a language model that reads the list gives on read sentences with biasing lists, and what it costs.

    python -m benchmarks.context_lm ../shared/data/english                        the tables of docs/context.md
    python -m benchmarks.context_lm ../shared/data/english --set dev --grid       weights to choose from, on dev
    python -m benchmarks.context_lm ../shared/data/english --only cost

The folder is that of `benchmarks.bench_context`. Weights were chosen on dev; figures are of test unless --set says
otherwise. ``other lists`` gives each utterance the list of the one after it, less the words that it says.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_context import LIBRI_PENALTY, LIBRI_SCALE, LM_WEIGHT, Bed, transcripts
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

SIZES = (100, 1000)
BOOST = {100: 6.0, 1000: 4.0}  # of all costs, by the length of the list
PRIOR, WEIGHT = 1.0, 1.0  # of the pointer


@dataclass(frozen=True, slots=True)
class Row:
    """A method on one length of list."""

    name: str
    size: int = 0  # 0: no list
    points: bool = False
    augment: bool = False
    others: bool = False  # lists of other utterances


ROWS = (
    Row("none"),
    *(Row("boosts", size) for size in SIZES),
    *(Row("boosts + augmentation", size, augment=True) for size in SIZES),
    *(Row("contextual LM", size, points=True) for size in SIZES),
    *(Row("contextual LM + augmentation", size, points=True, augment=True) for size in SIZES),
    *(Row("contextual LM, other lists", size, points=True, others=True) for size in SIZES),
)


@dataclass(frozen=True, slots=True)
class Weights:
    """What is chosen on dev."""

    prior: float = PRIOR
    weight: float = WEIGHT
    boost: float | None = None  # None: `BOOST`


def lists(bed: Bed, size: int, *, others: bool) -> Entities:
    """Return the benchmark's lists, or to each utterance that of the next one, less the words it says."""
    if not others:
        return bed.biasing_entities(size)
    keys = list(bed.biasing[size])
    given = {}
    for key, other in zip(keys, [*keys[1:], keys[0]], strict=True):
        said = set(bed.references["libri"].get(key, ()))
        given[key] = {"phrases": [word for word in bed.biasing[size][other].bias if word not in said]}
    return Entities.from_dict({"utterances": given}, words=bed.words)


def measure(bed: Bed, lm: LanguageModel, model: ContextPointer, row: Row, weights: Weights) -> dict[str, float]:
    """Return WER, U-WER, B-WER and the CPU seconds of a row."""
    entities = lists(bed, row.size, others=row.others) if row.size else Entities.from_dict({})
    boost = BOOST.get(row.size, 0.0) if weights.boost is None else weights.boost
    options = ContextOptions(
        keyword_boost=0.0 if row.points else boost, context_prior=weights.prior, context_weight=weights.weight
    )
    augmentation = Augmentation(AugmentOptions(acoustic_scale=LIBRI_SCALE)) if row.augment else None
    context = Context(entities, options=options, augmentation=augmentation, context_model=model if row.points else None)
    stage = Contextual(context, bed.old_lm if row.augment else None, LM_WEIGHT)
    chosen = RescoreOptions(acoustic_scale=LIBRI_SCALE, word_penalty=LIBRI_PENALTY, lm_weight=LM_WEIGHT, output="best")
    start = time.process_time()
    found = transcripts(Rescorer(lm, chosen, context=stage)(iter(bed.lattices["libri"])), LIBRI_SCALE, LIBRI_PENALTY)
    seconds = time.process_time() - start
    rates = score_biased(bed.references["libri"], found, bed.biasing[100])
    return {"wer": rates.overall.wer, "unbiased": rates.unbiased.wer, "biased": rates.biased.wer, "seconds": seconds}


def table(bed: Bed, lm: LanguageModel, model: ContextPointer, weights: Weights) -> Iterator[str]:
    """Yield the table of word errors."""
    yield "| method | phrases | WER | U-WER | B-WER | B-WER against none | CPU s |"
    yield "|---|---|---|---|---|---|---|"
    base = 0.0
    for row in ROWS:
        found = measure(bed, lm, model, row, weights)
        base = base or found["biased"]
        yield (
            f"| {row.name} | {row.size or '–'} | {found['wer']:.2f} | {found['unbiased']:.2f} "
            f"| {found['biased']:.2f} | {found['biased'] / base - 1:+.1%} | {found['seconds']:.1f} |"
        )


def grid(bed: Bed, lm: LanguageModel, model: ContextPointer) -> Iterator[str]:
    """Yield word errors by weights of the pointer, and by boosts."""
    yield "| what | phrases | WER | U-WER | B-WER |"
    yield "|---|---|---|---|---|"
    chosen = [(Row("contextual LM", size, points=True), Weights(prior, weight))
              for size in SIZES for weight in (1.0, 1.5) for prior in (-1.0, 0.0, 1.0, 2.0)]  # fmt: skip
    chosen += [(Row("boosts", size), Weights(boost=boost)) for size in SIZES for boost in (2.0, 4.0, 6.0, 8.0)]
    for row, weights in chosen:
        found = measure(bed, lm, model, row, weights)
        said = f"prior {weights.prior:g}, weight {weights.weight:g}" if row.points else f"boost {weights.boost:g}"
        yield f"| {said} | {row.size} | {found['wer']:.2f} | {found['unbiased']:.2f} | {found['biased']:.2f} |"


def costs(bed: Bed, lm: LanguageModel, model: str) -> Iterator[str]:
    """Yield CPU seconds of rescoring with lists, new ones and ones met before, by turns with those without.

    The lists of libri are each utterance's own, of 1,000 words 600 are in no list before; those of calls are 8 pools.
    """
    yield "| lattices | phrases | CPU s without | new phrases | factor | known phrases | factor |"
    yield "|---|---|---|---|---|---|---|"
    options = RescoreOptions(acoustic_scale=LIBRI_SCALE, word_penalty=LIBRI_PENALTY, lm_weight=LM_WEIGHT)

    def seconds(name: str, entities: Entities | None, pointer: ContextPointer | None = None) -> float:
        context = None if entities is None else Contextual(Context(entities, context_model=pointer), None, LM_WEIGHT)
        rescorer = Rescorer(lm, options, context=context)
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
        without, new, known = (min(each) for each in zip(*turns, strict=True))
        yield (
            f"| {name} | {size:,} | {without:.1f} | {new:.1f} | {new / without:.2f} "
            f"| {known:.1f} | {known / without:.2f} |"
        )


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", default="test", choices=["dev", "test"])
    parser.add_argument("--only", choices=["words", "cost"])
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--rnnlm")
    parser.add_argument("--context-model", default=DEFAULT_MODEL)
    parser.add_argument("--prior", type=float, default=PRIOR)
    parser.add_argument("--weight", type=float, default=WEIGHT)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    bed, lm, model = Bed(arguments.folder, arguments.set), load(arguments.rnnlm), load_pointer(arguments.context_model)
    if arguments.grid:
        tables = [grid(bed, lm, model)]
    else:
        weights = Weights(arguments.prior, arguments.weight)
        tables = [table(bed, lm, model, weights)] if arguments.only != "cost" else []
        tables += [costs(bed, lm, arguments.context_model)] if arguments.only != "words" else []
    for each in tables:
        for line in each:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
