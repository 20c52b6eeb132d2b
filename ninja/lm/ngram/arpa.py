"""Write back-off n-gram models as ARPA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja import _lm
from ninja.files.gzip import Packed
from ninja.files.output import StandardOutput, opened
from ninja.lm.ngram.model import NgramLM

ROWS = 1 << 16  # n-grams written at once
STDOUT = "-"
NEVER = -99.0  # what stands for log10 of 0, the probability of <s>


@dataclass(frozen=True, slots=True)
class BackoffNgrams:
    """The n-grams of one length of a back-off model, sorted by context."""

    prefix: npt.NDArray[np.int32]  # the n-gram without its last word, a number among those one shorter; 0 for words
    word: npt.NDArray[np.int32]  # the last word
    logprob: npt.NDArray[np.float64]  # log10 P(last word | words before)
    backoff: npt.NDArray[np.float64]  # log10 weight of backing off from this context; 0 where it is none

    def __len__(self) -> int:
        return len(self.word)


def write_arpa(words: Sequence[str], lengths: Sequence[BackoffNgrams], path: str) -> None:
    """Write a model; the file appears when it is complete.

    Args:
        words: Words by id.
        lengths: The n-grams of each length from 1; those of length 1 are all words.
        path: File to write, packed where its name ends in ``.gz``; ``-`` is the standard output.

    Source: SRILM, ngram-format(5).
    """
    if path == STDOUT:
        output = StandardOutput()
        for block in _blocks(words, lengths):
            output.write(block)
        output.finish()
        return
    with opened(path) as file:
        packed = Packed(file) if path.endswith(".gz") else None
        for block in _blocks(words, lengths):
            (packed or file).write(block)
        if packed is not None:
            packed.close()


def as_language_model(words: Sequence[str], lengths: Sequence[BackoffNgrams], path: str) -> NgramLM:
    """Make the model that reading the written file would give; `path` names it in messages."""
    reader = _lm.ArpaReader(path, sum(map(len, lengths)))
    for block in _blocks(words, lengths):
        reader.feed(block)
    model, _ = reader.finish()
    return NgramLM(model, words, path)


def _blocks(words: Sequence[str], lengths: Sequence[BackoffNgrams]) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines."""
    heads = [f"ngram {length}={len(ngrams)}\n" for length, ngrams in enumerate(lengths, start=1)]
    yield ("\\data\\\n" + "".join(heads)).encode()
    spelled = np.array(words, object)
    for length, ngrams in enumerate(lengths, start=1):
        yield f"\n\\{length}-grams:\n".encode()
        for first in range(0, len(ngrams), ROWS):
            rows = slice(first, first + ROWS)
            columns: list[list[str]] = []
            number: npt.NDArray[Any] = np.arange(len(ngrams))[rows]
            for shorter in reversed(lengths[:length]):
                columns.insert(0, spelled[shorter.word[number]].tolist())
                number = shorter.prefix[number]
            # eight digits are more than a float32 has
            logprob = map("%.8g\t".__mod__, ngrams.logprob[rows].tolist())
            text = map(" ".join, zip(*columns, strict=True))
            weight = ngrams.backoff[rows]
            tail = map("\t%.8g\n".__mod__, weight.tolist()) if weight.any() else repeat("\n")
            yield "".join(part for row in zip(logprob, text, tail, strict=False) for part in row).encode()
    yield b"\n\\end\\\n"
