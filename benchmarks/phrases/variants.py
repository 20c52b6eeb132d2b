"""Comparison of phrase encoders: extractors, letters and phones, other domains, amounts of training.

    python -m benchmarks.phrases variants ../shared/data --cells variants.jsonl [--seconds 45] [--only extractors]

Each encoder is trained for the same CPU time on one thread; cells are kept in the file of --cells. Queries and lists
are those of ``benchmarks.phrases retrieval``, from which the encoders learn nothing: 500 real errors, and the names
missing in best paths of calls test. Those in and out of the CMU dictionary, and classes, are reported separately.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from benchmarks.command import argument, command, option, path_option
from benchmarks.phrases.retrieval import (
    LETTERS,
    SIZES,
    Queries,
    call_queries,
    encoder_distances,
    rank_figures,
    ranks,
    read_queries,
)
from benchmarks.tables import Cells, head, row, show
from ninja.context.deep.encoder import PhraseEncoder
from ninja.context.deep.recipe import EXTRACTORS, EncoderOptions
from ninja.context.deep.symbols import Symbols
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Phones, Pronouncer, phones_of
from ninja.train.encoder import train_on
from ninja.train.pairs import TrainingWords, lexicon_entries, training_words

TIMED_STEPS = 12  # by which the time of one is estimated
ALL = "the CMU dictionary"
Row = dict[str, list[float]]
Parts = dict[str, np.ndarray]
COLUMNS = {  # of each table: queries and a part of them
    "extractors": ("read all", "read known", "read new", "calls all"),
    "phonemes": ("read all", "read known", "read new", "calls all"),
    "domains": ("calls people", "calls others", "read all"),
    "amounts": ("read all", "calls all"),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """An encoder to train."""

    table: str
    name: str
    source: str = ALL  # of the words it learns from
    extractor: str = "boundary"
    inputs: str = "both"
    outputs: str = "joint"
    metric: float = 1.0


VARIANTS = (
    *(
        Variant("extractors", extractor, extractor=extractor, metric=metric)
        for metric in (1.0, 0.0)
        for extractor in ("nnlm-last", "s2s-last", "attention", "attention-boundary", "average", "last", "boundary")
        if metric or extractor != "s2s-last"  # which learns from distances alone
    ),
    *(
        Variant("phonemes", f"{inputs} → {title}", inputs=inputs, outputs=outputs, metric=metric)
        for metric in (1.0, 0.0)
        for inputs, title, outputs in (
            ("letters", "letters", "letters"),
            ("phones", "phones", "phones"),
            ("phones", "letters", "letters"),
            ("letters", "phones", "phones"),
            ("letters", "letters, then phones", "concat"),
            ("letters", "letters and phones", "joint"),
            ("both", "letters and phones", "joint"),
        )
    ),
    *(Variant("domains", source, source=source) for source in ("people", "people, places, artists", ALL)),
    *(Variant("amounts", source, source=source) for source in ("1000", "4000", "16000", "64000", ALL)),
)


class Sources:
    """Words to learn from, without the words of the queries."""

    def __init__(self, folder: Path, pronouncer: Pronouncer, held_out: set[str]) -> None:
        self._folder, self._pronouncer, self._held_out = folder, pronouncer, held_out
        self.confusion = Confusion.articulatory()
        self.symbols = Symbols(LETTERS, self.confusion.phones)
        self._words: dict[str, TrainingWords] = {}

    def words(self, source: str) -> TrainingWords:
        """Return the words of a source, with the words that sound most like them."""
        if source not in self._words:
            entries = self._dictionary() if source == ALL or source.isdigit() else self._pools(source.split(", "))
            if source.isdigit():
                entries = [
                    entries[place] for place in np.random.default_rng(1).permutation(len(entries))[: int(source)]
                ]
            self._words[source] = training_words(entries, self.symbols, self.confusion)
        return self._words[source]

    def _dictionary(self) -> list[tuple[str, Phones]]:
        pronunciations = self._pronouncer.dictionary.items()
        return [(word, phones_of(variant)) for word, variants in pronunciations for variant in variants[:2]
                if word not in self._held_out]  # fmt: skip

    def _pools(self, classes: Sequence[str]) -> list[tuple[str, Phones]]:
        """Return the words of names of some classes, of the pools that queries do not use."""
        class_names = {{"people": "@name", "places": "@place", "artists": "@artist"}[name] for name in classes}
        words: dict[str, None] = {}
        for pool in sorted((self._folder / "english" / "pools").glob("pool[1-9].tsv.gz")):
            with gzip.open(pool, "rt") as lines:
                rows = (line.rstrip("\n").split("\t")[:2] for line in lines)
                words |= dict.fromkeys(word for name, text in rows if name in class_names for word in text.split())
        return lexicon_entries(self._pronouncer, [word for word in words if word not in self._held_out])


def train(variant: Variant, sources: Sources, seconds: float) -> tuple[PhraseEncoder, int]:
    """Train an encoder for some CPU time; return it with the number of its steps."""
    settings = {name: getattr(variant, name) for name in ("extractor", "inputs", "outputs", "metric")}
    options = EncoderOptions(batch=128, threads=1, steps=TIMED_STEPS, **settings)
    words = sources.words(variant.source)
    start = time.process_time()
    train_on(words, sources.symbols, sources.confusion, options)
    steps = max(1, round(TIMED_STEPS * seconds / (time.process_time() - start)))
    return train_on(words, sources.symbols, sources.confusion, replace(options, steps=steps)), steps


def measure(encoder: PhraseEncoder, queries_of: Mapping[str, Queries], parts: Mapping[str, Parts]) -> Row:
    """Return R@1, R@5 and MRR at each size of list, for parts of the queries."""
    return {
        f"{kind} {name} {size}": rank_figures(rank[mask])
        for kind, queries in queries_of.items()
        for size, rank in ranks(queries, encoder_distances(encoder)).items()
        for name, mask in parts[kind].items()
    }


def parts_of(queries_of: Mapping[str, Queries], folder: Path, pronouncer: Pronouncer) -> dict[str, Parts]:
    """Return the mask of each part of the queries, bool [queries]."""
    with gzip.open(folder / "english" / "test" / "calls" / "entities.jsonl.gz", "rt") as lines:
        people = {record["entity"] for record in map(json.loads, lines) if record["class"] == "@name"}
    parts = {}
    for kind, queries in queries_of.items():
        texts = queries.spoken.texts
        in_dictionary = np.array([all(word in pronouncer.dictionary for word in text.split()) for text in texts])
        parts[kind] = {"all": np.ones(len(texts), bool), "known": in_dictionary, "new": ~in_dictionary}
    person = np.array([text in people for text in queries_of["calls"].spoken.texts])
    parts["calls"] |= {"people": person, "others": ~person}
    return parts


def table(name: str, cells: Mapping[str, Row], seconds: float) -> Iterator[str]:
    """Yield a table: R@1 at all sizes of list for each part, and R@5 and MRR at the largest."""
    yield from head(name, *COLUMNS[name])
    for variant in VARIANTS:
        if variant.table == name and (cell := cells.get(_key(variant, seconds))) is not None:
            columns = [[cell[f"{part} {size}"] for size in SIZES] for part in COLUMNS[name]]
            texts = [" / ".join(f"{first:.1f}" for first, _, _ in column) +
                     f"; {column[-1][1]:.1f}, {column[-1][2]:.3f}" for column in columns]  # fmt: skip
            yield row(f"{variant.name}{'' if variant.metric else ', no distances'}", *texts)


def _key(variant: Variant, seconds: float) -> str:
    trained_as = (variant.source, variant.extractor, variant.inputs, variant.outputs, variant.metric, seconds)
    return " · ".join(map(str, trained_as))


@command
@argument("folder")
@path_option("--cells", required=True, help="File that keeps the measured cells.")
@option("--seconds", default=45.0, help="CPU time of each training.")
@option("--only", type=click.Choice([*COLUMNS, *EXTRACTORS]), help="Train the encoders of this table or extractor.")
def main(folder: Path, cells: Path, seconds: float, only: str | None) -> None:
    pronouncer = Pronouncer.english()
    queries_of = {"read": read_queries(folder, pronouncer, 500), "calls": call_queries(folder, pronouncer)}
    held_out = {word for queries in queries_of.values() for text in queries.spoken.texts for word in text.split()}
    sources = Sources(folder, pronouncer, held_out)
    parts = parts_of(queries_of, folder, pronouncer)
    results = Cells(cells)
    for variant in VARIANTS:
        key = _key(variant, seconds)
        if key in results or only not in (None, variant.table, variant.extractor):
            continue
        encoder, steps = train(variant, sources, seconds)
        results.add(key, **measure(encoder, queries_of, parts))
        print(f"{variant.table}: {variant.name}, {steps} steps", flush=True)
    for name in COLUMNS:
        show(table(name, results, seconds))
        print()
