"""Which encoder of phrases finds what was said: extractors, letters and phones, other domains, amounts of training.

    python -m benchmarks.deep_variants ../shared/data --cells variants.json [--seconds 45] [--only extractors]

Each encoder is trained for the same CPU time on one thread; a cell measured once is kept in the file of --cells. Queries
and lists are those of `benchmarks.deep_context`, from which the encoders learn nothing. Of its 500 real errors those in
and out of the CMU dictionary are reported apart; names missing in best paths of calls test, by class.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.deep_context import LETTERS, Queries, Sounds, call_queries, ranks, read_queries
from ninja.context.deep.encoder import PhraseEncoder
from ninja.context.deep.pairs import TrainingWords, lexicon_entries, training_words
from ninja.context.deep.recipe import EncoderOptions
from ninja.context.deep.symbols import Symbols
from ninja.context.deep.train import train_on
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Phones, Pronouncer, phones_of

TRIED = 12  # steps by which the time of one is known
ALL = "the CMU dictionary"
Row = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Variant:
    """An encoder to train."""

    table: str
    name: str
    queries: str = "read"
    source: str = ALL  # of the words it learns from
    extractor: str = "boundary"
    inputs: str = "both"
    outputs: str = "joint"
    metric: float = 1.0


VARIANTS = (
    *(
        Variant("extractors", each, extractor=each, metric=metric)
        for metric in (1.0, 0.0)
        for each in ("nnlm-last", "s2s-last", "attention", "average", "last", "boundary")
        if metric or each not in ("s2s-last",)  # which learns from nothing else
    ),
    Variant("phonemes", "letters → letters", inputs="letters", outputs="letters"),
    Variant("phonemes", "phones → phones", inputs="phones", outputs="phones"),
    Variant("phonemes", "phones → letters", inputs="phones", outputs="letters"),
    Variant("phonemes", "letters → phones", inputs="letters", outputs="phones"),
    Variant("phonemes", "letters → letters, then phones", inputs="letters", outputs="concat"),
    Variant("phonemes", "letters → letters and phones", inputs="letters", outputs="joint"),
    Variant("phonemes", "both → letters and phones"),
    *(Variant("domains", each, queries="calls", source=each) for each in ("people", "people, places, artists", ALL)),
    *(Variant("amounts", each, source=each) for each in ("1000", "4000", "16000", "64000", ALL)),
)


class Sources:
    """Words to learn from, without the words that queries ask for."""

    def __init__(self, folder: Path, pronouncer: Pronouncer, left_out: set[str]) -> None:
        self._folder, self._pronouncer, self._left_out = folder, pronouncer, left_out
        self.confusion = Confusion.articulatory()
        self.symbols = Symbols(LETTERS, self.confusion.phones)
        self._found: dict[str, TrainingWords] = {}

    def words(self, source: str) -> TrainingWords:
        """Return the words of a source, with their neighbours."""
        if source not in self._found:
            chosen = self._dictionary() if source == ALL or source.isdigit() else self._pools(source.split(", "))
            if source.isdigit():
                chosen = [chosen[at] for at in np.random.default_rng(1).permutation(len(chosen))[: int(source)]]
            self._found[source] = training_words(chosen, self.symbols, self.confusion)
        return self._found[source]

    def _dictionary(self) -> list[tuple[str, Phones]]:
        known = self._pronouncer.dictionary.items()
        return [(word, phones_of(each)) for word, variants in known for each in variants[:2]
                if word not in self._left_out]  # fmt: skip

    def _pools(self, classes: Sequence[str]) -> list[tuple[str, Phones]]:
        """Return the words of names of some classes, of the test-bed's pools but the one that is asked from."""
        wanted = {{"people": "@name", "places": "@place", "artists": "@artist"}[each] for each in classes}
        words: dict[str, None] = {}
        for pool in sorted((self._folder / "english" / "pools").glob("pool[1-9].tsv.gz")):
            with gzip.open(pool, "rt") as lines:
                rows = (line.rstrip("\n").split("\t")[:2] for line in lines)
                words |= dict.fromkeys(word for name, text in rows if name in wanted for word in text.split())
        return lexicon_entries(self._pronouncer, [word for word in words if word not in self._left_out])


def trained(variant: Variant, sources: Sources, seconds: float) -> tuple[PhraseEncoder, int]:
    """Train an encoder for so much CPU time; return it with the number of its steps."""
    chosen = {name: getattr(variant, name) for name in ("extractor", "inputs", "outputs", "metric")}
    options = EncoderOptions(batch=128, threads=1, steps=TRIED, **chosen)
    words = sources.words(variant.source)
    start = time.process_time()
    train_on(words, sources.symbols, sources.confusion, options)
    each = (time.process_time() - start) / TRIED
    steps = max(1, round(seconds / each))
    return train_on(words, sources.symbols, sources.confusion, replace(options, steps=steps)), steps


def measured(encoder: PhraseEncoder, queries: Queries, parts: Mapping[str, np.ndarray]) -> Row:
    """Return R@1, R@5 and MRR at each size of list, for parts of the queries."""

    def near(one: Sounds, other: Sounds) -> np.ndarray:
        return -(encoder.vectors(one.texts, one.phones) @ encoder.vectors(other.texts, other.phones).T)

    found = ranks(queries, near)
    return {
        f"{name}, {size}": [100 * float((rank[which] <= 1).mean()), 100 * float((rank[which] <= 5).mean()),
                            float((1 / rank[which]).mean())]
        for name, which in parts.items() for size, rank in found.items()
    }  # fmt: skip


def parts_of(queries: Queries, kind: str, folder: Path, pronouncer: Pronouncer) -> dict[str, np.ndarray]:
    """Return which queries belong to each part that is reported."""
    said = queries.said.texts
    if kind == "read":
        known = np.array([text in pronouncer.dictionary for text in said])
        return {"all": np.ones(len(said), bool), "in": known, "out": ~known}
    with gzip.open(folder / "english" / "test" / "calls" / "entities.jsonl.gz", "rt") as lines:
        people = {record["entity"] for record in map(json.loads, lines) if record["class"] == "@name"}
    person = np.array([text in people for text in said])
    return {"people": person, "places, artists": ~person}


def rows(cells: Mapping[str, Row], seconds: float) -> Iterator[str]:
    """Yield the tables."""
    for table in dict.fromkeys(each.table for each in VARIANTS):
        yield f"\n{table}: R@1, R@5, MRR"
        for each in VARIANTS:
            if each.table == table and (row := cells.get(_key(each, seconds))) is not None:
                shown = [f"{part} {a:.1f}, {b:.1f}, {c:.3f}" for part, (a, b, c) in row.items()]
                yield f"| {each.name}{'' if each.metric else ', no distances'} | {' | '.join(shown)} |"


def _key(variant: Variant, seconds: float) -> str:
    trained_as = (variant.source, variant.extractor, variant.inputs, variant.outputs, variant.metric)
    return " · ".join(map(str, (variant.queries, *trained_as, seconds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=45.0, help="CPU time of each training")
    parser.add_argument("--only", choices=sorted({each.table for each in VARIANTS}))
    arguments = parser.parse_args()
    pronouncer = Pronouncer.english()
    asked = {"read": read_queries(arguments.folder, pronouncer, 500), "calls": call_queries(arguments.folder, pronouncer)}
    left_out = {word for make in asked.values() for text in make.said.texts for word in text.split()}
    sources = Sources(arguments.folder, pronouncer, left_out)
    cells = json.loads(arguments.cells.read_text()) if arguments.cells.exists() else {}
    for variant in VARIANTS:
        key = _key(variant, arguments.seconds)
        if key in cells or arguments.only not in (None, variant.table):
            continue
        queries = asked[variant.queries]
        encoder, steps = trained(variant, sources, arguments.seconds)
        cells[key] = measured(encoder, queries, parts_of(queries, variant.queries, arguments.folder, pronouncer))
        print(f"{variant.table}: {variant.name}, {steps} steps: {cells[key]}", flush=True)
        arguments.cells.write_text(json.dumps(cells, indent=0, ensure_ascii=False))
    print("\n".join(rows(cells, arguments.seconds)))


if __name__ == "__main__":
    main()
