"""Speed of n-gram models in CPU time of one core: loading, look-up after the histories of a text, composition.

python -m benchmarks.kernels ngram MODEL [--text TEXT] [--lattices ARCHIVE --words words.txt] [--output docs/results.md]
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.command import argument, command, output, path_option
from benchmarks.measure import cpu_seconds
from benchmarks.tables import head, put, row, show
from ninja.io import read
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load
from ninja.lm.ngram.compose import compose_ngram
from ninja.lm.ngram.model import NgramLM
from ninja.lm.text import read_sentences
from ninja.lm.word_map import WordMap
from ninja.models import ENGLISH_NGRAM

REPEATS = 5
BATCHES = (300, 10_000, 1_000_000)
NUM_QUESTIONS = 1_000_000


def questions(lm: NgramLM, text: Path | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return states of histories and the words that follow, in random order, so that caches do not help."""
    count = NUM_QUESTIONS // 15
    if text is None:
        words = (len(lm.vocabulary) ** np.random.default_rng(1).random((count, 20))).astype(np.int32)
        sentences = words.tolist()
    else:
        spelled = ((lm.vocabulary.id(word) for word in words) for words in read_sentences(str(text)))
        sentences = [[word for word in words if word is not None] for words in islice(spelled, count)]
        sentences.sort(key=len, reverse=True)
    length = np.array([len(sentence) for sentence in sentences])
    slots, states, following = lm.start(len(sentences)), [], []
    for index in range(int(length.max())):
        running = int(np.count_nonzero(length > index))
        word = np.array([sentence[index] for sentence in sentences[:running]], np.int32)
        slots = slots[:running]
        states.append(slots)
        following.append(word)
        slots = lm.advance(slots, word)
    order = np.random.default_rng(2).permutation(sum(part.size for part in states))[:NUM_QUESTIONS]
    return np.concatenate(states)[order], np.concatenate(following)[order]


def rows(model: Path, text: Path | None, lattices: Path | None, words: Path | None) -> Iterator[str]:
    """Measure; yield the rows of the table."""
    begin = time.process_time()
    lm = load(model)
    assert isinstance(lm, NgramLM)
    loading = time.process_time() - begin
    yield from head(f"{model.name}: {lm.model.num_ngrams:,} n-grams, order {lm.order}", "")
    yield row(
        f"load {model.stat().st_size / 1e6:.0f} MB into {lm.model.num_bytes / 1e6:.0f} MB", f"{loading:.2f} CPU s"
    )
    state, word = questions(lm, text)
    for name, ask in (("logprob and advance", lm.step), ("logprob", lm.logprob), ("advance", lm.advance)):
        for batch in BATCHES:
            cuts = [(state[at : at + batch], word[at : at + batch]) for at in range(0, state.size, batch)]
            seconds = cpu_seconds(lambda ask=ask, cuts=cuts: [ask(*cut) for cut in cuts], REPEATS)
            yield row(f"{name}, batches of {batch:,}", f"{state.size / seconds / 1e6:.1f} M words/s")
    if lattices is not None:
        table = None if words is None else SymbolTable.read(words)
        group = [lattice for _, lattice in read(lattices, words=table)]
        word_map = WordMap(group[0].words, lm, unk_penalty=0.0)
        num_arcs = sum(compose_ngram(lattice, lm, word_map=word_map).num_arcs for lattice in group)
        seconds = cpu_seconds(lambda: [compose_ngram(lattice, lm, word_map=word_map) for lattice in group], REPEATS)
        rate = f"{seconds:.3f} CPU s, {num_arcs / seconds / 1e6:.1f} M arcs/s"
        yield row(f"compose {len(group)} lattices into {num_arcs:,} arcs", rate)


@command
@argument("model", default=ENGLISH_NGRAM)
@path_option("--text", help="Sentences whose words are looked up; without it words are drawn.")
@path_option("--lattices", help="Archive to compose with the model.")
@path_option("--words", help="Symbol table of the lattices.")
@output
def main(model: Path, text: Path | None, lattices: Path | None, words: Path | None, output: Path | None) -> None:
    put(output, "ngram", show(rows(model, text, lattices, words)))
