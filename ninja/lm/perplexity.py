"""Perplexity of a text, as computed by SRILM's ``ngram -ppl``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, VocabularyError
from ninja.lm.protocol import LanguageModel
from ninja.lm.trie import word_logprobs

BATCH = 1024  # number of sentences that are scored together
LARGEST = 700.0  # maximum exponent, in nats, to avoid overflow
LN10 = math.log(10.0)
# Threshold for probability zero, in nats. ARPA files represent it as -99, to which back-off weights may be added.
ZERO = -90 * LN10


@dataclass(slots=True)
class Perplexity:
    """Accumulated scores of a text, including sentence ends, and the perplexities that result from them.

    Words with probability zero, and unknown words that the model skips (``oov_score="skip"``), are excluded from all
    perplexities.

    Source: SRILM, ngram(1), ``-ppl``; lm/src/TextStats.cc for the denominators of ``ppl`` and ``ppl1``.
    """

    skips_unknown: bool = False
    num_sentences: int = 0
    num_words: int = 0
    num_unknown: int = 0  # number of unknown words; OOVs in SRILM
    num_zero: int = 0  # number of known words and sentence ends with probability zero; zeroprobs in SRILM
    logprob: float = 0.0  # total log-probability of all scored words and sentence ends, in nats
    unknown_logprob: float = 0.0  # total log-probability of the scored unknown words, in nats
    num_left_out: int = 0  # words and sentence ends that are excluded from perplexities

    def add(self, logprob: npt.NDArray[np.floating], unknown: Sequence[bool]) -> None:
        """Add a sentence.

        Args:
            logprob: Natural-log probabilities of the words and of the end of the sentence, [words + 1].
            unknown: Whether each word is unknown, [words].
        """
        is_unknown = np.array([*unknown, False])
        zero = logprob < ZERO
        scored = ~zero & ~is_unknown if self.skips_unknown else ~zero
        self.num_sentences += 1
        self.num_words += len(unknown)
        self.num_unknown += int(is_unknown.sum())
        self.num_zero += int((zero & ~is_unknown).sum())
        self.num_left_out += int((~scored).sum())
        self.logprob += float(logprob[scored].sum(dtype=np.float64))
        self.unknown_logprob += float(logprob[scored & is_unknown].sum(dtype=np.float64))

    @property
    def perplexity(self) -> float:
        """Perplexity per scored word and end of sentence; NaN if nothing is scored."""
        return _perplexity(self.logprob, self.num_words + self.num_sentences - self.num_left_out)

    @property
    def perplexity_of_words(self) -> float:
        """Perplexity per scored word, not counting ends of sentences; SRILM's ``ppl1``."""
        return _perplexity(self.logprob, self.num_words - self.num_left_out)

    @property
    def known_perplexity(self) -> float:
        """Perplexity per known word and end of sentence."""
        return _perplexity(self.logprob - self.unknown_logprob, self._num_known + self.num_sentences)

    @property
    def known_perplexity_of_words(self) -> float:
        """Perplexity per known word, not counting ends of sentences."""
        return _perplexity(self.logprob - self.unknown_logprob, self._num_known)

    @property
    def _num_known(self) -> int:
        return self.num_words - self.num_unknown - self.num_zero

    def lines(self) -> list[str]:
        """Return the two lines that SRILM prints; if OOVs are scored, add a third line without the OOVs."""
        lines = [
            f"{self.num_sentences} sentences, {self.num_words} words, {self.num_unknown} OOVs",
            f"{self.num_zero} zeroprobs, {_figures(self.logprob, self.perplexity, self.perplexity_of_words)}",
        ]
        if self.num_left_out < self.num_unknown + self.num_zero:
            known_logprob = self.logprob - self.unknown_logprob
            figures = _figures(known_logprob, self.known_perplexity, self.known_perplexity_of_words)
            lines.append(f"without the OOVs: {figures}")
        return lines


def measure(lm: LanguageModel, sentences: Iterable[Sequence[str]], path: str | None = None) -> Perplexity:
    """Compute the perplexity of a text.

    Args:
        lm: The language model.
        sentences: Word sequences without ``<s>`` and ``</s>``.
        path: Path of the text, for messages.

    Raises:
        FormatError: The text contains no sentences.
        VocabularyError: A word is unknown, and the model has no <unk>.
    """
    result = Perplexity(skips_unknown=lm.oov_score == "skip")
    stream = iter(sentences)
    while batch := list(islice(stream, BATCH)):
        ids = [lm.vocabulary.ids(sentence) for sentence in batch]
        if lm.unk is None and any(-1 in numbers for numbers in ids):
            advice = "set oov_score" if lm.takes_oov_score else "use a model with <unk>"
            raise VocabularyError(f"the text contains unknown words, but the model has no <unk>; {advice}", path)
        # The text may contain <unk> itself.
        is_unknown = [[number in (-1, lm.unk) for number in numbers] for numbers in ids]
        known_ids = [[lm.unk if number == -1 else number for number in numbers] for numbers in ids]
        for logprob, unknown in zip(word_logprobs(lm, known_ids), is_unknown, strict=True):  # type: ignore[arg-type]
            result.add(logprob, unknown)
    if not result.num_sentences:
        raise FormatError("the text contains no sentences", path)
    return result


def _perplexity(logprob: float, count: int) -> float:
    return math.exp(min(-logprob / count, LARGEST)) if count > 0 else math.nan


def _figures(logprob: float, perplexity: float, of_words: float) -> str:
    ppl, ppl1 = ("undefined" if math.isnan(value) else f"{value:.6g}" for value in (perplexity, of_words))
    return f"logprob= {logprob / LN10:.6g} ppl= {ppl} ppl1= {ppl1}"
