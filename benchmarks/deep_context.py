"""How well phrases are found by what a recogniser wrote in their place: R@1, R@5 and MRR, by method and length of list.

    python -m benchmarks.deep_context ../shared/data --model context.pt=both [--model …] [--cells cells.json]
    python -m benchmarks.deep_context ../shared/data --held-out held_out.txt        words to train without

Queries are real errors. ``read``: rare words that the LibriSpeech biasing benchmark's baseline got wrong, by the words
of its transcript in their place; lists of the benchmark's other rare words. ``calls``: names missing in the best paths
of calls test; lists of the test-bed's pools. Ties count half. A cell measured once is kept in the file of --cells.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ninja.context.deep.encoder import PhraseEncoder
from ninja.context.deep.symbols import FIRST, Symbols, padded
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.distances import NO_PHONE, distances
from ninja.context.sound.pronunciation import Phones, Pronouncer
from ninja.evaluate import align, read_text
from ninja.train.pairs import lexicon_entries

SIZES = (100, 1000, 5000)
SHORTLIST = 200  # phrases of the encoder that are ranked again, as `RetrievalOptions` has it
LETTERS = "abcdefghijklmnopqrstuvwxyz'"
Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sounds:
    """Phrases with their phones."""

    texts: list[str]
    phones: list[Phones]


@dataclass(frozen=True, slots=True)
class Queries:
    """What stands in the place of phrases, the phrases, and others to tell them from."""

    heard: Sounds
    said: Sounds
    pool: Sounds


def read_queries(folder: Path, pronouncer: Pronouncer, most: int, seed: int = 1) -> Queries:
    """Return rare words that were recognised wrongly, and rare words that nobody said."""
    pairs: list[tuple[str, str]] = []
    for part in ("clean", "other"):
        with gzip.open(folder / "bias" / "hyp" / f"test-{part}.b1.rnnt_baseline.tsv.gz", "rt") as lines:
            heard = dict(line.rstrip("\n").split("\t")[:2] for line in lines)
        with gzip.open(folder / "bias" / "ref" / f"test-{part}.biasing_100.tsv.gz", "rt") as lines:
            for line in lines:
                key, text, rare, _ = line.rstrip("\n").split("\t")
                pairs += _replaced(text.split(), heard.get(key, "").split(), set(json.loads(rare)))
    rng = np.random.default_rng(seed)
    chosen = [pairs[each] for each in rng.permutation(len(pairs))[:most]]
    with gzip.open(folder / "bias" / "words" / "all_rare_words.txt.gz", "rt") as lines:
        rare_words = sorted({line.split()[0] for line in lines if line.strip()} - {said for said, _ in pairs})
    pool = [rare_words[each] for each in rng.permutation(len(rare_words))[: max(SIZES)]]
    return _queries(chosen, pool, pronouncer)


def call_queries(folder: Path, pronouncer: Pronouncer) -> Queries:
    """Return names missing in best paths of calls test, with a pool of names that nobody said."""
    part = folder / "english" / "test" / "calls"
    best = read_text(part / "first_pass_1best")
    pairs = []
    with gzip.open(part / "entities.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    references = read_text(part / "text")
    for record in records:
        said = record["entity"].split()
        pairs += _replaced(references[record["utt"]], best.get(record["utt"], []), set(said), record["entity"])
    names = {record["entity"] for record in records}
    with gzip.open(folder / "english" / "pools" / "pool0.tsv.gz", "rt") as lines:
        pool = [line.rstrip("\n").split("\t")[1] for line in lines]
    return _queries(pairs, [name for name in pool if name not in names], pronouncer)


def _replaced(
    said: Sequence[str], heard: Sequence[str], wanted: set[str], phrase: str | None = None
) -> Iterator[tuple[str, str]]:
    """Yield wanted words, or the phrase they are, with the words of the stretch of errors they are in."""
    one: list[str] = []
    other: list[str] = []
    for word, instead in [*align(said, heard).pairs, ("", "")]:
        if word != instead:
            one += [word] if word else []
            other += [instead] if instead else []
            continue
        found = [each for each in one if each in wanted]
        if found and other:
            for each in found if phrase is None else [phrase]:
                yield each, " ".join(other)
        one, other = [], []


def _queries(pairs: Sequence[tuple[str, str]], pool: Sequence[str], pronouncer: Pronouncer) -> Queries:
    def sounds(texts: Sequence[str]) -> Sounds:
        known = dict(lexicon_entries(pronouncer, texts))
        return Sounds(list(texts), [known.get(text, ()) for text in texts])

    said, heard = zip(*pairs, strict=True)
    return Queries(sounds(heard), sounds(said), sounds(pool))


def part_of(queries: Queries, pronouncer: Pronouncer, known: bool) -> Queries:
    """Return the queries for phrases all of whose words are in the dictionary, or the others."""
    words = pronouncer.dictionary
    chosen = [at for at, text in enumerate(queries.said.texts) if all(map(words.__contains__, text.split())) == known]

    def some(sounds: Sounds) -> Sounds:
        return Sounds([sounds.texts[at] for at in chosen], [sounds.phones[at] for at in chosen])

    return Queries(some(queries.heard), some(queries.said), queries.pool)


def edit_distances(confusion: Confusion, letters: bool) -> Callable[[Sounds, Sounds], Matrix]:
    """Return the function that compares queries with phrases by letters or phones, per symbol of the longer one."""
    symbols = Symbols(LETTERS, confusion.phones)
    row = np.array([NO_PHONE] * FIRST + list(range(len(LETTERS) if letters else len(confusion.phones))))

    def rows(sounds: Sounds) -> list[list[int]]:
        return list(map(symbols.spelled, sounds.texts) if letters else map(symbols.pronounced, sounds.phones))

    def compare(queries: Sounds, phrases: Sounds) -> Matrix:
        one, other = rows(queries), rows(phrases)
        lengths = np.maximum(np.array([len(each) for each in one])[:, None], [len(each) for each in other])
        found = np.zeros(lengths.shape, np.float32)
        order = np.array(sorted(range(len(other)), key=lambda at: len(other[at])))
        for part in np.array_split(order, len(order) // 512 + 1):
            phrase = row[padded([other[at] for at in part.tolist()])]
            for at, query in enumerate(one):
                found[at, part] = distances(row[padded([query])], phrase, confusion)
        return found / np.maximum(lengths, 1)

    return compare


def methods(models: dict[str, PhraseEncoder]) -> Iterator[tuple[str, Callable[[Sounds, Sounds], Matrix]]]:
    """Yield names of methods, and functions of queries and phrases that give their distances."""
    articulatory = Confusion.articulatory()
    letters = edit_distances(Confusion.uniform(list(LETTERS)), letters=True)
    phones = edit_distances(Confusion.uniform(articulatory.phones), letters=False)
    confused = edit_distances(articulatory, letters=False)
    yield "letters", letters
    yield "phones", phones
    yield "phones + letters", lambda one, other: phones(one, other) + letters(one, other)
    yield "confusion-weighted phones + letters", lambda one, other: 2 * confused(one, other) + letters(one, other)
    for name, model in models.items():

        def near(one: Sounds, other: Sounds, model: PhraseEncoder = model) -> Matrix:
            return -(model.vectors(one.texts, one.phones) @ model.vectors(other.texts, other.phones).T)

        yield name, near


def ranks(queries: Queries, compare: Callable[[Sounds, Sounds], Matrix]) -> dict[int, npt.NDArray[np.float64]]:
    """Return the rank of each phrase in lists of each size; ties count half."""
    own, others = _compared(queries, compare)
    return {
        size: 1 + (others[:, : size - 1] < own[:, None]).sum(1) + (others[:, : size - 1] == own[:, None]).sum(1) / 2
        for size in SIZES
    }


def _compared(queries: Queries, compare: Callable[[Sounds, Sounds], Matrix]) -> tuple[Matrix, Matrix]:
    count = len(queries.said.texts)
    phrases = Sounds(queries.said.texts + queries.pool.texts, queries.said.phones + queries.pool.phones)
    found = compare(queries.heard, phrases)
    return found[np.arange(count), np.arange(count)], found[:, count:]


def again(
    queries: Queries, model: Callable[[Sounds, Sounds], Matrix], exact: Callable[[Sounds, Sounds], Matrix], share: float
) -> dict[int, npt.NDArray[np.float64]]:
    """Return ranks by an exact distance among the model's shortlist, the model's similarity with a share in it."""
    (own, others), (exact_own, exact_others) = _compared(queries, model), _compared(queries, exact)
    found = {}
    for size in SIZES:
        kept = others[:, : size - 1]
        last = np.partition(kept, SHORTLIST - 1, axis=1)[:, SHORTLIST - 1] if size > SHORTLIST else np.inf
        cost = np.where(kept <= np.reshape(last, (-1, 1)), exact_others[:, : size - 1] + share * kept, np.inf)
        truth = exact_own + share * own
        rank = 1 + (cost < truth[:, None]).sum(1) + (cost == truth[:, None]).sum(1) / 2
        found[size] = np.where(own <= last, rank, SHORTLIST + 1 + (kept < own[:, None]).sum(1) / 2)
    return found


def figures(found: dict[int, npt.NDArray[np.float64]]) -> list[float]:
    """Return R@1, R@5 and MRR at each size of list."""
    return [
        value
        for rank in found.values()
        for value in (100 * float((rank <= 1).mean()), 100 * float((rank <= 5).mean()), float((1 / rank).mean()))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", action="append", default=[], metavar="FILE=NAME")
    parser.add_argument("--queries", default="read", choices=["read", "calls"])
    parser.add_argument("--part", choices=["known", "new"], help="phrases of words in the CMU dictionary; the others")
    parser.add_argument("--most", type=int, default=500, help="queries of read")
    parser.add_argument("--share", type=float, default=0.1, help="of the model's similarity in what is ranked again")
    parser.add_argument("--cells", type=Path)
    parser.add_argument("--held-out", type=Path)
    arguments = parser.parse_args()
    pronouncer = Pronouncer.english()
    if arguments.held_out is not None:
        said = {text for make in (call_queries, lambda *a: read_queries(*a, 10**6)) for text in
                make(arguments.folder, pronouncer).said.texts}  # fmt: skip
        arguments.held_out.write_text("\n".join(sorted(said)) + "\n")
        return
    if arguments.queries == "calls":
        queries = call_queries(arguments.folder, pronouncer)
    else:
        queries = read_queries(arguments.folder, pronouncer, arguments.most)
    if arguments.part is not None:
        queries = part_of(queries, pronouncer, arguments.part == "known")
    models = {name: PhraseEncoder.load(file) for file, _, name in (each.partition("=") for each in arguments.model)}
    cells = json.loads(arguments.cells.read_text()) if arguments.cells and arguments.cells.exists() else {}
    print(f"{len(queries.said.texts)} queries; R@1, R@5, MRR at {', '.join(map(str, SIZES))}; CPU seconds")
    chosen = dict(methods(models))
    for name, compare in chosen.items():
        key = f"{arguments.queries} {arguments.part or 'all'} {len(queries.said.texts)} {name}"
        start = time.process_time()
        if key not in cells:
            cells[key] = [*figures(ranks(queries, compare)), time.process_time() - start]
        _show(name, cells[key])
        if name in models:
            exact = chosen["confusion-weighted phones + letters"]
            _show(f"{name}, ranked again", figures(again(queries, compare, exact, arguments.share)))
        if arguments.cells:
            arguments.cells.write_text(json.dumps(cells, indent=0))


def _show(name: str, row: Sequence[float]) -> None:
    shown = [f"{each:.1f}" if at % 3 < 2 or at == 9 else f"{each:.3f}" for at, each in enumerate(row)]
    print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
