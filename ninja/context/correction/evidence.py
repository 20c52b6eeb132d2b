"""Features of candidate corrections: how similar the phrase and the words are, and how improbable the words are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja.context.correction.search import Match
from ninja.evaluate import edits
from ninja.lattice.characters import plain_letters
from ninja.lm.ngram.model import NgramLM

Doubles = npt.NDArray[np.float64]

FEATURES = (
    "distance_per_symbol",  # distance between the phones of the phrase and of the words, per phone
    "edits_per_letter",  # edit distance between the letters of the phrase and of the words, per letter
    "distance",  # distance between the phones, in units of the confusion costs
    "edits",
    "inverse_length",  # 1 / number of phones of the phrase
    "log_length",
    "length_difference",  # |phones of the words − phones of the phrase| / phones of the phrase
    "shared",  # information of the phones that the phrase shares with the words, nats; see `search.Match`
    "log_phrases",  # ln of the number of phrases of the utterance
    "surprise",  # cost of the words and of the next two words, minus the cost if <unk> replaces the words, nats
    "surprise_by_phrase",  # cost of the words and of the next two words, minus the cost if the phrase replaces them
    "rarest_word",  # largest unigram cost of the words, nats
    "mean_word",  # mean unigram cost of the words, nats
    "unknown_words",  # number of words that are not in the model's vocabulary
    "phrase_word",  # mean unigram cost of the words of the phrase, nats
    "word_difference",  # absolute difference between the numbers of words
    "phrase_words",  # number of words of the phrase
    "doubt",  # mean −ln of the confidences of the words; 0 if the confidences are unknown
    "has_confidence",  # 1 if the confidences are known
)
AFTER = 2  # number of words after a span whose costs are included in the surprise of the span
MAX_SURPRISE = 30.0  # nats
LEAST_CONFIDENCE = 0.02
UNKNOWN_WORD = 16.0  # cost of words that are not in the model's vocabulary, nats; other unigram costs are lower


class Surprise:
    """Costs of words and word sequences under an n-gram model.

    Args:
        lm: A model of lexical words with <unk>.
    """

    def __init__(self, lm: NgramLM) -> None:
        assert lm.unk is not None
        self._lm = lm
        self._unk = lm.unk
        self._unigram: dict[str, float] = {}
        unknown = np.array([self._unk], np.int32)
        self._start = lm.start(1)
        # After two unknown words, the model backs off to unigrams.
        self._empty = lm.advance(lm.advance(self._start, unknown), unknown)

    def word(self, word: str) -> float:
        """Return the cost of a word without context, in nats."""
        cost = self._unigram.get(word)
        if cost is None:
            number = self._id(word)
            if number == self._unk:  # not cached, because the number of unknown words is unlimited
                return UNKNOWN_WORD
            cost = self._unigram[word] = -float(self._lm.logprob(self._empty, np.array([number], np.int32))[0])
        return cost

    def histories(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the states of the model before each word and after the last one, int64 [words + 1]."""
        states = [self._start]
        for word in words:
            states.append(self._lm.advance(states[-1], np.array([self._id(word)], np.int32)))
        return np.concatenate(states)

    def paths(self, states: npt.NDArray[np.int64], paths: Sequence[Sequence[str | None]]) -> Doubles:
        """Return the cost of each word sequence from the corresponding element of `states`, in nats, float64 [paths].

        In the sequences, None represents an unknown word.
        """
        ids = [[self._unk if word is None else self._id(word) for word in path] for path in paths]
        cost = np.zeros(len(paths))
        slots = states.copy()
        for index in range(max(map(len, ids), default=0)):
            rows = np.array([row for row, path in enumerate(ids) if len(path) > index])
            word = np.array([ids[row][index] for row in rows.tolist()], np.int32)
            logprob, slots[rows] = self._lm.step(slots[rows], word)
            cost[rows] -= logprob
        return cost

    def _id(self, word: str) -> int:
        number = self._lm.vocabulary.id(word)
        return self._unk if number is None else number


def evidence(
    words: Sequence[str],
    confidences: Sequence[float] | None,
    candidates: Sequence[Match],
    num_phrases: int,
    surprise: Surprise,
) -> Doubles:
    """Return the features of candidates, float64 [candidates, features], in the order of `FEATURES`.

    Args:
        words: Lexical words of the transcript.
        confidences: Confidence of each word in [0, 1]; None if they are unknown.
        candidates: Phrases and the words that they would replace.
        num_phrases: Number of phrases in the utterance's lists.
        surprise: Word costs under an n-gram model.
    """
    if not candidates:
        return np.zeros((0, len(FEATURES)))
    histories = surprise.histories(words)
    states = histories[[match.begin for match in candidates]]
    following = [_following(words, match.end) for match in candidates]
    spans = [list(words[match.begin : match.end]) for match in candidates]
    phrases = [match.variant.text.split(" ") for match in candidates]
    choices: tuple[Sequence[Sequence[str | None]], ...] = (spans, [[None]] * len(spans), phrases)
    of_words, of_unknown, of_phrase = (
        surprise.paths(states, [[*path, *remaining] for path, remaining in zip(paths, following, strict=True)])
        for paths in choices
    )
    rows = []
    for number, (match, span, phrase) in enumerate(zip(candidates, spans, phrases, strict=True)):
        letters = plain_letters("".join(span))
        others = plain_letters(match.variant.recognised.replace(" ", "") or "".join(phrase))
        num_edits = edits(letters, others)
        costs = [surprise.word(word) for word in span]
        doubt = 0.0
        if confidences is not None:
            doubts = [-math.log(max(confidences[at], LEAST_CONFIDENCE)) for at in range(match.begin, match.end)]
            doubt = sum(doubts) / len(doubts)
        rows.append(
            (
                match.distance / match.length,
                num_edits / max(len(letters), len(others), 1),
                match.distance,
                num_edits,
                1 / match.length,
                math.log(match.length),
                abs(match.num_symbols - match.length) / match.length,
                match.shared,
                math.log(max(num_phrases, 1)),
                _clipped(of_words[number] - of_unknown[number]),
                _clipped(of_words[number] - of_phrase[number]),
                max(costs),
                sum(costs) / len(costs),
                sum(cost >= UNKNOWN_WORD for cost in costs),
                sum(map(surprise.word, phrase)) / len(phrase),
                abs(len(span) - len(phrase)),
                len(phrase),
                doubt,
                confidences is not None,
            )
        )
    return np.array(rows, np.float64)


def _following(words: Sequence[str], end: int) -> list[str]:
    following = list(words[end : end + AFTER])
    return following if end + AFTER <= len(words) else [*following, "</s>"]


def _clipped(surprise: float) -> float:
    return min(max(surprise, -MAX_SURPRISE), MAX_SURPRISE)
