"""Retrieval of phrases by the words that a recogniser wrote in their place: R@1, R@5 and MRR by method and list size.

    python -m benchmarks.phrases retrieval ../shared/data --model context.pt=both [--model …] [--cells cells.jsonl]
    python -m benchmarks.phrases retrieval ../shared/data --held-out held_out.txt        words to train without

Queries are real errors. ``read``: rare words that the LibriSpeech biasing benchmark's baseline got wrong, by the words
of its transcript in their place; lists of the benchmark's other rare words. ``calls``: names missing in the best paths
of calls test; lists of the test-bed's pools. Ties count half. Cells are kept in the file of --cells.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from benchmarks.command import argument, command, option, path_option
from benchmarks.tables import Cells, row
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
    """Words that were recognised in the place of phrases, the phrases, and a pool of distractors."""

    recognised: Sounds
    spoken: Sounds
    pool: Sounds


def read_queries(folder: Path, pronouncer: Pronouncer, limit: int, seed: int = 1) -> Queries:
    """Return rare words that were recognised wrongly, and a pool of rare words that were not spoken."""
    pairs: list[tuple[str, str]] = []
    for part in ("clean", "other"):
        with gzip.open(folder / "bias" / "hyp" / f"test-{part}.b1.rnnt_baseline.tsv.gz", "rt") as lines:
            hypotheses = dict(line.rstrip("\n").split("\t")[:2] for line in lines)
        with gzip.open(folder / "bias" / "ref" / f"test-{part}.biasing_100.tsv.gz", "rt") as lines:
            for line in lines:
                key, text, rare, _ = line.rstrip("\n").split("\t")
                pairs += _replaced(text.split(), hypotheses.get(key, "").split(), set(json.loads(rare)))
    rng = np.random.default_rng(seed)
    sample = [pairs[place] for place in rng.permutation(len(pairs))[:limit]]
    with gzip.open(folder / "bias" / "words" / "all_rare_words.txt.gz", "rt") as lines:
        rare_words = sorted({line.split()[0] for line in lines if line.strip()} - {spoken for spoken, _ in pairs})
    pool = [rare_words[place] for place in rng.permutation(len(rare_words))[: max(SIZES)]]
    return _queries(sample, pool, pronouncer)


def call_queries(folder: Path, pronouncer: Pronouncer) -> Queries:
    """Return names missing in best paths of calls test, with a pool of names that were not spoken."""
    part = folder / "english" / "test" / "calls"
    best = read_text(part / "first_pass_1best")
    pairs = []
    with gzip.open(part / "entities.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    references = read_text(part / "text")
    for record in records:
        words = set(record["entity"].split())
        pairs += _replaced(references[record["utt"]], best.get(record["utt"], []), words, record["entity"])
    names = {record["entity"] for record in records}
    with gzip.open(folder / "english" / "pools" / "pool0.tsv.gz", "rt") as lines:
        pool = [line.rstrip("\n").split("\t")[1] for line in lines]
    return _queries(pairs, [name for name in pool if name not in names], pronouncer)


def _replaced(
    reference: Sequence[str], hypothesis: Sequence[str], rare: set[str], phrase: str | None = None
) -> Iterator[tuple[str, str]]:
    """Yield rare words, or the phrase that they form, with the words recognised in the stretch of errors around."""
    spoken: list[str] = []
    recognised: list[str] = []
    for word, hypothesis_word in [*align(reference, hypothesis).pairs, ("", "")]:
        if word != hypothesis_word:
            spoken += [word] if word else []
            recognised += [hypothesis_word] if hypothesis_word else []
            continue
        words = [word for word in spoken if word in rare]
        if words and recognised:
            for text in words if phrase is None else [phrase]:
                yield text, " ".join(recognised)
        spoken, recognised = [], []


def _queries(pairs: Sequence[tuple[str, str]], pool: Sequence[str], pronouncer: Pronouncer) -> Queries:
    def sounds(texts: Sequence[str]) -> Sounds:
        phones_of = dict(lexicon_entries(pronouncer, texts))
        return Sounds(list(texts), [phones_of.get(text, ()) for text in texts])

    spoken, recognised = zip(*pairs, strict=True)
    return Queries(sounds(recognised), sounds(spoken), sounds(pool))


def part_of(queries: Queries, pronouncer: Pronouncer, in_dictionary: bool) -> Queries:
    """Return the queries for phrases whose words are all in the dictionary, or the remaining queries."""
    words = pronouncer.dictionary
    texts = queries.spoken.texts
    places = [place for place, text in enumerate(texts) if all(map(words.__contains__, text.split())) == in_dictionary]

    def select(sounds: Sounds) -> Sounds:
        return Sounds([sounds.texts[place] for place in places], [sounds.phones[place] for place in places])

    return Queries(select(queries.recognised), select(queries.spoken), queries.pool)


def edit_distances(confusion: Confusion, letters: bool) -> Callable[[Sounds, Sounds], Matrix]:
    """Return the function that compares queries with phrases by letters or phones, per symbol of the longer one."""
    symbols = Symbols(LETTERS, confusion.phones)
    symbol = np.array([NO_PHONE] * FIRST + list(range(len(LETTERS) if letters else len(confusion.phones))))

    def rows(sounds: Sounds) -> list[list[int]]:
        return list(map(symbols.spelled, sounds.texts) if letters else map(symbols.pronounced, sounds.phones))

    def compare(queries: Sounds, phrases: Sounds) -> Matrix:
        query_rows, phrase_rows = rows(queries), rows(phrases)
        lengths = np.maximum(np.array(list(map(len, query_rows)))[:, None], list(map(len, phrase_rows)))
        costs = np.zeros(lengths.shape, np.float32)
        order = np.array(sorted(range(len(phrase_rows)), key=lambda place: len(phrase_rows[place])))
        for part in np.array_split(order, len(order) // 512 + 1):
            phrase = symbol[padded([phrase_rows[place] for place in part.tolist()])]
            for place, query in enumerate(query_rows):
                costs[place, part] = distances(symbol[padded([query])], phrase, confusion)
        return costs / np.maximum(lengths, 1)

    return compare


def encoder_distances(model: PhraseEncoder) -> Callable[[Sounds, Sounds], Matrix]:
    """Return the function that compares queries with phrases by their vectors."""

    def compare(queries: Sounds, phrases: Sounds) -> Matrix:
        return -(model.vectors(queries.texts, queries.phones) @ model.vectors(phrases.texts, phrases.phones).T)

    return compare


def methods(models: dict[str, PhraseEncoder]) -> Iterator[tuple[str, Callable[[Sounds, Sounds], Matrix]]]:
    """Yield names of methods, and functions that compute the distances of queries and phrases."""
    articulatory = Confusion.articulatory()
    letters = edit_distances(Confusion.uniform(list(LETTERS)), letters=True)
    phones = edit_distances(Confusion.uniform(articulatory.phones), letters=False)
    confused = edit_distances(articulatory, letters=False)
    yield "letters", letters
    yield "phones", phones
    yield "phones + letters", lambda queries, phrases: phones(queries, phrases) + letters(queries, phrases)
    yield (
        "confusion-weighted phones + letters",
        lambda queries, phrases: 2 * confused(queries, phrases) + letters(queries, phrases),
    )
    for name, model in models.items():
        yield name, encoder_distances(model)


def ranks(queries: Queries, compare: Callable[[Sounds, Sounds], Matrix]) -> dict[int, npt.NDArray[np.float64]]:
    """Return the rank of each phrase in lists of each size; ties count half."""
    right, wrong_distances = _compared(queries, compare)
    right = right[:, None]
    lists = {size: wrong_distances[:, : size - 1] for size in SIZES}
    return {size: 1 + (wrong < right).sum(1) + (wrong == right).sum(1) / 2 for size, wrong in lists.items()}


def _compared(queries: Queries, compare: Callable[[Sounds, Sounds], Matrix]) -> tuple[Matrix, Matrix]:
    count = len(queries.spoken.texts)
    phrases = Sounds(queries.spoken.texts + queries.pool.texts, queries.spoken.phones + queries.pool.phones)
    costs = compare(queries.recognised, phrases)
    return costs[np.arange(count), np.arange(count)], costs[:, count:]


def rank_again(
    queries: Queries, model: Callable[[Sounds, Sounds], Matrix], exact: Callable[[Sounds, Sounds], Matrix], share: float
) -> dict[int, npt.NDArray[np.float64]]:
    """Return ranks by exact distance and a share of the model's similarity, among the model's shortlist."""
    (right, wrong), (exact_right, exact_wrong) = _compared(queries, model), _compared(queries, exact)
    ranks_of = {}
    for size in SIZES:
        distances = wrong[:, : size - 1]
        last = np.partition(distances, SHORTLIST - 1, axis=1)[:, SHORTLIST - 1] if size > SHORTLIST else np.inf
        cost = np.where(distances <= np.reshape(last, (-1, 1)), exact_wrong[:, : size - 1] + share * distances, np.inf)
        truth = exact_right + share * right
        rank = 1 + (cost < truth[:, None]).sum(1) + (cost == truth[:, None]).sum(1) / 2
        ranks_of[size] = np.where(right <= last, rank, SHORTLIST + 1 + (distances < right[:, None]).sum(1) / 2)
    return ranks_of


def rank_figures(rank: npt.NDArray[np.float64]) -> list[float]:
    """Return R@1, R@5 and MRR."""
    return [100 * float((rank <= 1).mean()), 100 * float((rank <= 5).mean()), float((1 / rank).mean())]


def figures(ranks_of: dict[int, npt.NDArray[np.float64]]) -> list[float]:
    """Return R@1, R@5 and MRR at each size of list."""
    return [value for rank in ranks_of.values() for value in rank_figures(rank)]


def show(name: str, cell: Sequence[float]) -> None:
    """Print a row: R@1, R@5 and MRR at each length of list, and CPU seconds."""
    places = [3 if column % 3 == 2 and column != 3 * len(SIZES) else 1 for column in range(len(cell))]
    print(row(name, *(f"{value:.{digits}f}" for value, digits in zip(cell, places, strict=True))), flush=True)


@command
@argument("folder")
@option("--model", multiple=True, metavar="FILE=NAME", help="Encoder of phrases; may be repeated.")
@option("--queries", "kind", default="read", type=click.Choice(["read", "calls"]))
@option(
    "--part", type=click.Choice(["known", "new"]), help="Only phrases of words in the CMU dictionary, or the others."
)
@option("--most", default=500, help="Number of queries of read.")
@option("--share", default=0.1, help="Weight of the model's similarity in the second ranking.")
@path_option("--cells", help="File that keeps the measured cells.")
@path_option("--held-out", help="Only write the phrases of all queries there.")
def main(folder: Path, model: tuple[str, ...], kind: str, part: str | None, most: int, share: float,
         cells: Path | None, held_out: Path | None) -> None:  # fmt: skip
    pronouncer = Pronouncer.english()
    if held_out is not None:
        every = (call_queries(folder, pronouncer), read_queries(folder, pronouncer, 10**6))
        texts = {text for queries in every for text in queries.spoken.texts}
        held_out.write_text("\n".join(sorted(texts)) + "\n")
        return
    calls = kind == "calls"
    queries = call_queries(folder, pronouncer) if calls else read_queries(folder, pronouncer, most)
    if part is not None:
        queries = part_of(queries, pronouncer, part == "known")
    models = {name: PhraseEncoder.load(file) for file, _, name in (text.partition("=") for text in model)}
    results = Cells(cells)
    print(f"{len(queries.spoken.texts)} queries; R@1, R@5, MRR at {', '.join(map(str, SIZES))}; CPU seconds")
    compare_by_name = dict(methods(models))
    for name, compare in compare_by_name.items():
        key = f"{kind} {part or 'all'} {len(queries.spoken.texts)} {name}"
        start = time.process_time()
        if key not in results:
            results.add(key, row=[*figures(ranks(queries, compare)), time.process_time() - start])
        show(name, results[key]["row"])
        if name in models:
            exact = compare_by_name["confusion-weighted phones + letters"]
            show(f"{name}, ranked again", figures(rank_again(queries, compare, exact, share)))
