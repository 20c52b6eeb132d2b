"""Measure how well a language model predicts a text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from ninja.errors import FormatError, VocabularyError
from ninja.lm.protocol import LanguageModel
from ninja.lm.trie import word_logprobs

BATCH = 1024  # sentences scored side by side
LARGEST = 700.0  # nats that can be exponentiated


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Scores of a held-out text; ends of sentences are predicted as words are."""

    num_sentences: int
    num_words: int
    num_unknown: int  # of them
    logprob: float  # nats, of all words and ends; unknown words as <unk>
    unknown_logprob: float  # nats, of the unknown words

    @property
    def perplexity(self) -> float:
        """Per word and end of sentence."""
        return _perplexity(self.logprob, self.num_words + self.num_sentences)

    @property
    def known_perplexity(self) -> float:
        """The same without the unknown words, as other tools give it."""
        num_known = self.num_words - self.num_unknown + self.num_sentences
        return _perplexity(self.logprob - self.unknown_logprob, num_known)


def measure(lm: LanguageModel, sentences: Iterable[Sequence[str]], path: str | None = None) -> HeldOut:
    """Score a text, the words of each sentence without ``<s>`` and ``</s>``.

    Raises:
        FormatError: There is no sentence.
        VocabularyError: A word is unknown, and the model has none that stands for such.
    """
    num_sentences = num_words = num_unknown = 0
    total = unknown = 0.0
    rest = iter(sentences)
    while some := list(islice(rest, BATCH)):
        ids = [[lm.vocabulary.id(word) for word in sentence] for sentence in some]
        if lm.unk is None and any(None in each for each in ids):
            raise VocabularyError("words are unknown, but the model has no <unk> for them", path)
        # a text may spell <unk> itself
        strange = [[number is None or number == lm.unk for number in each] for each in ids]
        known = [[lm.unk if number is None else number for number in each] for each in ids]
        for logprob, odd in zip(word_logprobs(lm, known), strange, strict=True):  # type: ignore[arg-type]
            total += float(logprob.sum(dtype="float64"))
            unknown += float(logprob[:-1][odd].sum(dtype="float64"))
            num_words += len(odd)
            num_unknown += sum(odd)
        num_sentences += len(some)
    if not num_sentences:
        raise FormatError("no sentence in this text", path)
    return HeldOut(num_sentences, num_words, num_unknown, total, unknown)


def _perplexity(logprob: float, count: int) -> float:
    return math.exp(min(-logprob / count, LARGEST))
