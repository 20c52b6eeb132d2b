"""Slow implementation of the contextual language model: every reading of a history is scored separately."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch

from ninja.context.deep.pointer import ContextPointer

Words = tuple[str, ...]


class SlowContextLM:
    """ln Q of words after histories, from a base model given as ln P of words and its states."""

    def __init__(
        self,
        logprob,
        state,
        word_vector,
        pointer: ContextPointer,
        phrases: Sequence[Words],
        lattice_words: Sequence[str],
    ) -> None:
        """Store the functions (history, word) → ln P, history → state, word → vector, and the words of lattices."""
        self.below, self.state, self.word_vector = cache(logprob), state, word_vector
        self.shares = cache(self.shares)  # histories recur
        self.pointer = pointer
        self.phrases = list(dict.fromkeys(phrases))
        self.longer = [phrase for phrase in self.phrases if len(phrase) > 1 and set(phrase) <= set(lattice_words)]

    def logprob(self, history: Words, word: str) -> float:
        if not self.phrases:
            return self.below(history, word)
        after = (
            self._ended_probability((*history, word)) if word == "</s>" else self._prefix_probability((*history, word))
        )
        return math.log(after) - math.log(self._prefix_probability(history))

    @torch.inference_mode()
    def shares(self, history: Words) -> tuple[float, list[float]]:
        """Return α₀ and α of each phrase."""
        network = self.pointer.network
        query, base_score = network.queries(torch.tensor(np.array([self.state(history)], np.float32)))
        scores = [float(base_score[0] + network.offset * math.log(len(self.phrases)))]
        for phrase in self.phrases:
            vector = torch.from_numpy(self.pointer.encoder.vectors([" ".join(phrase)], [()]))
            first = torch.tensor(np.array([self.word_vector(phrase[0])], np.float32))
            scores.append(float((query * network.keys(vector, first, torch.tensor([float(len(phrase))]))).sum()))
        total = math.fsum(math.exp(score) for score in scores)
        return math.exp(scores[0]) / total, [math.exp(score) / total for score in scores[1:]]

    def _prefix_probability(self, words: Words) -> float:
        """Return the probability of all readings with this prefix of words, including incomplete phrases."""
        return self._ended_probability(words) + math.fsum(
            self._ended_probability(words[:begin]) * self._begin_probability(words[:begin], words[begin:])
            for begin in range(len(words))
        )

    def _ended_probability(self, words: Words) -> float:
        """Return the probability of readings of these words whose last phrase, if any, has ended."""
        if not words:
            return 1.0
        probability = 0.0
        for begin in range(len(words)):
            before, last = words[:begin], words[begin:]
            copied = self._phrase_probability(before, last)
            if len(last) == 1:
                copied += self.shares(before)[0] * math.exp(self.below(before, last[0]))
            probability += self._ended_probability(before) * copied if copied else 0.0
        return probability

    def _begin_probability(self, history: Words, words: Words) -> float:
        """Return the probability of beginning a phrase that continues after some words."""
        longer = [phrase for phrase in self.longer if phrase[: len(words)] == words and len(phrase) > len(words)]
        entered = [phrase for phrase in self.longer if phrase[0] == words[0]]
        if not longer:
            return 0.0
        share = self.shares(history)[1]
        return sum(share[self.phrases.index(candidate)] for candidate in entered) * len(longer) / len(entered)

    def _phrase_probability(self, history: Words, words: Words) -> float:
        """Return the probability of beginning a phrase and ending it with these words."""
        if words not in self.phrases:
            return 0.0
        if len(words) == 1:
            return self.shares(history)[1][self.phrases.index(words)]
        entered = [phrase for phrase in self.longer if phrase[0] == words[0]]
        share = self.shares(history)[1]
        return sum(share[self.phrases.index(candidate)] for candidate in entered) / len(entered)
