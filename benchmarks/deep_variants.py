"""Which encoder of phrases finds what was said: extractors, letters and phones, other domains, amounts of training.

    python -m benchmarks.deep_variants ../shared/data --cells variants.json [--seconds 45] [--only extractors]

Each encoder is trained for the same CPU time on one thread; a cell measured once is kept in the file of --cells.
Queries and lists are those of `benchmarks.deep_context`, from which the encoders learn nothing: 500 real errors, and
the names missing in best paths of calls test. Those in and out of the CMU dictionary, and classes, are reported apart.
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

from benchmarks.deep_context import LETTERS, SIZES, Queries, Sounds, call_queries, ranks, read_queries
from ninja.context.deep.encoder import PhraseEncoder
from ninja.context.deep.recipe import EncoderOptions
from ninja.context.deep.symbols import Symbols
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Phones, Pronouncer, phones_of
from ninja.train.encoder import train_on
from ninja.train.pairs import TrainingWords, lexicon_entries, training_words

TRIED = 12  # steps by which the time of one is known
ALL = "the CMU dictionary"
Row = dict[str, list[float]]
Parts = dict[str, np.ndarray]
SHOWN = {  # columns of each table: queries, and which of them
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
        Variant("extractors", each, extractor=each, metric=metric)
        for metric in (1.0, 0.0)
        for each in ("nnlm-last", "s2s-last", "attention", "average", "last", "boundary")
        if metric or each != "s2s-last"  # which learns from distances alone
    ),
    *(
        Variant("phonemes", f"{inputs} → {written}", inputs=inputs, outputs=outputs, metric=metric)
        for metric in (1.0, 0.0)
        for inputs, written, outputs in (
            ("letters", "letters", "letters"),
            ("phones", "phones", "phones"),
            ("phones", "letters", "letters"),
            ("letters", "phones", "phones"),
            ("letters", "letters, then phones", "concat"),
            ("letters", "letters and phones", "joint"),
            ("both", "letters and phones", "joint"),
        )
    ),
    *(Variant("domains", each, source=each) for each in ("people", "people, places, artists", ALL)),
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


def measured(encoder: PhraseEncoder, asked: Mapping[str, Queries], parts: Mapping[str, Parts]) -> Row:
    """Return R@1, R@5 and MRR at each size of list, for parts of the queries."""

    def near(one: Sounds, other: Sounds) -> np.ndarray:
        return -(encoder.vectors(one.texts, one.phones) @ encoder.vectors(other.texts, other.phones).T)

    row = {}
    for kind, queries in asked.items():
        for size, rank in ranks(queries, near).items():
            for name, which in parts[kind].items():
                first, five = (100 * float((rank[which] <= most).mean()) for most in (1, 5))
                row[f"{kind} {name} {size}"] = [first, five, float((1 / rank[which]).mean())]
    return row


def parts_of(asked: Mapping[str, Queries], folder: Path, pronouncer: Pronouncer) -> dict[str, Parts]:
    """Return which queries belong to each part that is reported."""
    with gzip.open(folder / "english" / "test" / "calls" / "entities.jsonl.gz", "rt") as lines:
        people = {record["entity"] for record in map(json.loads, lines) if record["class"] == "@name"}
    found = {}
    for kind, queries in asked.items():
        said = queries.said.texts
        known = np.array([all(word in pronouncer.dictionary for word in text.split()) for text in said])
        found[kind] = {"all": np.ones(len(said), bool), "known": known, "new": ~known}
    person = np.array([text in people for text in asked["calls"].said.texts])
    found["calls"] |= {"people": person, "others": ~person}
    return found


def tables(cells: Mapping[str, Row], seconds: float) -> Iterator[str]:
    """Yield the tables: R@1 at all sizes of list for each part, and R@5 and MRR at the largest."""
    for table, parts in SHOWN.items():
        yield f"\n| {table} | {' | '.join(parts)} |"
        yield f"|---|{'---|' * len(parts)}"
        for each in VARIANTS:
            if each.table == table and (row := cells.get(_key(each, seconds))) is not None:
                columns = [[row[f"{part} {size}"] for size in SIZES] for part in parts]
                shown = [" / ".join(f"{first:.1f}" for first, _, _ in column) +
                         f"; {column[-1][1]:.1f}, {column[-1][2]:.3f}" for column in columns]  # fmt: skip
                yield f"| {each.name}{'' if each.metric else ', no distances'} | {' | '.join(shown)} |"


def _key(variant: Variant, seconds: float) -> str:
    trained_as = (variant.source, variant.extractor, variant.inputs, variant.outputs, variant.metric, seconds)
    return " · ".join(map(str, trained_as))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=45.0, help="CPU time of each training")
    parser.add_argument("--only", choices=sorted({each.table for each in VARIANTS}))
    arguments = parser.parse_args()
    pronouncer = Pronouncer.english()
    folder = arguments.folder
    asked = {"read": read_queries(folder, pronouncer, 500), "calls": call_queries(folder, pronouncer)}
    left_out = {word for make in asked.values() for text in make.said.texts for word in text.split()}
    sources = Sources(folder, pronouncer, left_out)
    parts = parts_of(asked, folder, pronouncer)
    cells = json.loads(arguments.cells.read_text()) if arguments.cells.exists() else {}
    for variant in VARIANTS:
        key = _key(variant, arguments.seconds)
        if key in cells or arguments.only not in (None, variant.table):
            continue
        encoder, steps = trained(variant, sources, arguments.seconds)
        cells[key] = measured(encoder, asked, parts)
        print(f"{variant.table}: {variant.name}, {steps} steps", flush=True)
        arguments.cells.write_text(json.dumps(cells, indent=0, ensure_ascii=False))
    print("\n".join(tables(cells, arguments.seconds)))


if __name__ == "__main__":
    main()
