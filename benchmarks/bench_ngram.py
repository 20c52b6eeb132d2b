"""Speed of n-gram models in CPU time of one core: loading, look-up after real or drawn histories, composition.

Example:
    python -m benchmarks.bench_ngram ../shared/data/english/first_pass.arpa.gz --text ../shared/data/text/train.txt.gz \
        --lattices ../shared/data/english/test/libri/lat.ark.gz --words ../shared/data/english/words.txt.gz
"""

from __future__ import annotations

import argparse
import gzip
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from ninja.io import read
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load
from ninja.lm.ngram.compose import compose_ngram
from ninja.lm.ngram.model import NgramLM
from ninja.lm.word_map import WordMap

REPEATS = 5
BATCHES = (300, 10_000, 1_000_000)
NUM_QUESTIONS = 1_000_000


def invented_arpa(
    path: str, num_words: int = 100_000, num_bigrams: int = 2_000_000, num_trigrams: int = 1_700_000
) -> None:
    """Write a trigram model of about 100 MB, its words Zipf-distributed, for where no real one is at hand."""
    random = np.random.default_rng(0)

    def drawn(count: int) -> npt.NDArray[np.int64]:
        return (num_words ** random.random(count)).astype(np.int64)

    bigrams = np.unique(drawn(2 * num_bigrams) * num_words + drawn(2 * num_bigrams))
    bigrams = np.sort(random.choice(bigrams, min(num_bigrams, bigrams.size), replace=False))
    trigrams = np.unique(random.choice(bigrams, 2 * num_trigrams) * num_words + drawn(2 * num_trigrams))
    trigrams = np.sort(random.choice(trigrams, min(num_trigrams, trigrams.size), replace=False))
    words = ["<s>", "</s>", "<unk>", *(f"word{number:05d}" for number in range(num_words - 3))]
    with open(path, "w") as stream:
        counts = (num_words, bigrams.size, trigrams.size)
        stream.write("\\data\\\n" + "".join(f"ngram {n + 1}={count}\n" for n, count in enumerate(counts)))
        for order, ngrams in enumerate((np.arange(num_words), bigrams, trigrams)):
            stream.write(f"\n\\{order + 1}-grams:\n")
            logprob, weight = -7 * random.random(ngrams.size), -random.random(ngrams.size)
            for ngram, p, w in zip(ngrams.tolist(), logprob.tolist(), weight.tolist(), strict=True):
                spelled = " ".join(words[ngram // num_words**place % num_words] for place in range(order, -1, -1))
                stream.write(f"{p:.6f}\t{spelled}\t{w:.6f}\n" if order < 2 else f"{p:.6f}\t{spelled}\n")
        stream.write("\n\\end\\\n")


def sentences(lm: NgramLM, text: str | None) -> Iterator[list[int]]:
    """Yield sentences in the model's words, of a text file or drawn evenly."""
    if text is None:
        random = np.random.default_rng(1)
        while True:
            yield (len(lm.vocabulary) ** random.random(20)).astype(np.int64).tolist()
    with gzip.open(text, "rt", encoding="utf-8") if text.endswith(".gz") else open(text, encoding="utf-8") as stream:
        for line in stream:
            found = (lm.vocabulary.id(word) for word in line.lower().split())
            yield [word for word in found if word is not None]


def questions(lm: NgramLM, text: str | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return histories' states and the words that follow them, in random order: no help from caches."""
    taken = sorted(islice(sentences(lm, text), NUM_QUESTIONS // 15), key=len, reverse=True)
    length = np.array([len(sentence) for sentence in taken])
    slots, states, words = lm.start(len(taken)), [], []
    for place in range(int(length.max())):
        running = int(np.count_nonzero(length > place))
        word = np.array([sentence[place] for sentence in taken[:running]], np.int32)
        slots = slots[:running]
        states.append(slots)
        words.append(word)
        slots = lm.advance(slots, word)
    order = np.random.default_rng(2).permutation(sum(part.size for part in states))[:NUM_QUESTIONS]
    return np.concatenate(states)[order], np.concatenate(words)[order]


def cpu_seconds(work: Callable[[], object]) -> float:
    """Least CPU time over some repeats."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="ARPA, const-arpa or grammar; default: an invented ARPA of 100 MB")
    parser.add_argument("--text", help="sentences whose words follow each other in the questions; default: drawn words")
    parser.add_argument("--lattices", help="archive to compose with the model")
    parser.add_argument("--words", help="symbol table of the lattices")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = options.model or os.path.join(folder, "invented.arpa")
        if options.model is None:
            invented_arpa(path)
        begin = time.process_time()
        lm = load(path)
        print(f"load {path} ({os.path.getsize(path) / 1e6:.0f} MB): {time.process_time() - begin:.2f} s")
    assert isinstance(lm, NgramLM)
    print(f"{lm.model.num_ngrams} n-grams, order {lm.order}, {lm.model.num_bytes / 1e6:.0f} MB")
    state, word = questions(lm, options.text)
    for name, ask in (("logprob and advance", lm.step), ("logprob", lm.logprob), ("advance", lm.advance)):
        for batch in BATCHES:
            cuts = [(state[at : at + batch], word[at : at + batch]) for at in range(0, state.size, batch)]
            seconds = cpu_seconds(lambda ask=ask, cuts=cuts: [ask(*cut) for cut in cuts])
            print(f"{name}, batches of {batch}: {state.size / seconds / 1e6:.1f} M words/s")
    if options.lattices:
        table = SymbolTable.read(options.words) if options.words else None
        lattices = [lattice for _, lattice in read(options.lattices, words=table)]
        word_map = WordMap(lattices[0].words, lm, unk_penalty=0.0)
        made = sum(compose_ngram(lattice, lm, word_map=word_map).num_arcs for lattice in lattices)
        seconds = cpu_seconds(lambda: [compose_ngram(lattice, lm, word_map=word_map) for lattice in lattices])
        print(
            f"compose {len(lattices)} lattices into {made} arcs: {seconds:.3f} s, {made / seconds / 1e6:.1f} M arcs/s"
        )


if __name__ == "__main__":
    main()
