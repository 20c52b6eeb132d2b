"""Slow implementation of the contextual language model: every reading of a history, one after the other."""

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
        self, logprob, state, word_vector, pointer: ContextPointer, phrases: Sequence[Words], known: Sequence[str]
    ) -> None:
        """Take functions: (history, word) → ln P, history → state, word → vector; and the words of lattices."""
        self.below, self.state, self.word_vector = cache(logprob), state, word_vector
        self.shares = cache(self.shares)  # histories come again
        self.pointer = pointer
        self.phrases = list(dict.fromkeys(phrases))
        self.longer = [each for each in self.phrases if len(each) > 1 and set(each) <= set(known)]

    def logprob(self, history: Words, word: str) -> float:
        if not self.phrases:
            return self.below(history, word)
        after = self._outside((*history, word)) if word == "</s>" else self._mass((*history, word))
        return math.log(after) - math.log(self._mass(history))

    @torch.inference_mode()
    def shares(self, history: Words) -> tuple[float, list[float]]:
        """Return α₀ and α of each phrase."""
        network = self.pointer.network
        query, alone = network.queries(torch.tensor(np.array([self.state(history)], np.float32)))
        scores = [float(alone[0] + network.offset * math.log(len(self.phrases)))]
        for phrase in self.phrases:
            vector = torch.from_numpy(self.pointer.encoder.vectors([" ".join(phrase)], [()]))
            first = torch.tensor(np.array([self.word_vector(phrase[0])], np.float32))
            scores.append(float((query * network.keys(vector, first, torch.tensor([float(len(phrase))]))).sum()))
        total = math.fsum(math.exp(each) for each in scores)
        return math.exp(scores[0]) / total, [math.exp(each) / total for each in scores[1:]]

    def _mass(self, words: Words) -> float:
        """Return the probability of all readings that begin with some words, including an incomplete phrase."""
        return self._outside(words) + math.fsum(
            self._outside(words[:begin]) * self._begun(words[:begin], words[begin:]) for begin in range(len(words))
        )

    def _outside(self, words: Words) -> float:
        """Return the probability of readings of these words whose last phrase, if any, has ended."""
        if not words:
            return 1.0
        found = 0.0
        for begin in range(len(words)):
            before, last = words[:begin], words[begin:]
            copied = self._whole(before, last)
            if len(last) == 1:
                copied += self.shares(before)[0] * math.exp(self.below(before, last[0]))
            found += self._outside(before) * copied if copied else 0.0
        return found

    def _begun(self, history: Words, words: Words) -> float:
        """Return the probability of beginning a phrase that continues after some words."""
        longer = [phrase for phrase in self.longer if phrase[: len(words)] == words and len(phrase) > len(words)]
        entered = [phrase for phrase in self.longer if phrase[0] == words[0]]
        if not longer:
            return 0.0
        share = self.shares(history)[1]
        return sum(share[self.phrases.index(each)] for each in entered) * len(longer) / len(entered)

    def _whole(self, history: Words, words: Words) -> float:
        """Return the probability of beginning a phrase and ending it with these words."""
        if words not in self.phrases:
            return 0.0
        if len(words) == 1:
            return self.shares(history)[1][self.phrases.index(words)]
        entered = [phrase for phrase in self.longer if phrase[0] == words[0]]
        share = self.shares(history)[1]
        return sum(share[self.phrases.index(each)] for each in entered) / len(entered)
