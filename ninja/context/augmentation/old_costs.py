"""Language model scores of the first pass for words in the place of others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lm.coverage import WordMapping
from ninja.lm.ngram.model import NgramLM
from ninja.lm.word_map import NO_WORD, WordMap

Place = tuple[int, int, npt.NDArray[np.int64], Sequence[int]]  # start, end, arcs of the path, words to put there


class OldCosts:
    """Differences of the first pass's language model costs; words that it lacks are as `WordMap` has them."""

    def __init__(
        self,
        words: SymbolTable,
        lm: NgramLM,
        unk_penalty: float | None = None,
        map_words: Collection[WordMapping] = (),
    ) -> None:
        self._lm = lm
        self._map = WordMap(words, lm, unk_penalty, map_words=map_words, name="the old language model")
        self._context = max(lm.order - 1, 0)

    def changes(self, lattice: Lattice, acoustic_scale: float, places: Sequence[Place]) -> npt.NDArray[np.float64]:
        """Return the cost of words less that of the path they replace; nats, float64 [places].

        The sentence is the lattice's best through the path; words around it count as far as the model looks.
        """
        if not places:
            return np.zeros(0)
        best_in, best_out = _context.best_arcs(lattice, acoustic_scale)
        src, lm_word = lattice.src, self._map.lm_word
        sentences: list[list[int]] = []
        unchanged: list[int] = []  # words at the beginning of each sentence
        ends: list[bool] = []  # whether the sentence's end is within the model's reach
        for start, end, arcs, words in places:
            before = words_along(lattice, best_in, src, start, lm_word, self._context)[::-1]
            after = words_along(lattice, best_out, lattice.dst, end, lm_word, self._context)
            for middle in (lattice.word[arcs].tolist(), words):
                heard = [word for word in middle if lm_word[word] != NO_WORD]
                sentences.append([*before, *heard, *after])
                unchanged.append(len(before))
                ends.append(len(after) < self._context or not self._context)
        cost = self._costs(sentences, np.array(unchanged), np.array(ends))
        return cost[1::2] - cost[0::2]

    def _costs(
        self, sentences: Sequence[Sequence[int]], unchanged: npt.NDArray[np.int64], ends: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float64]:
        """Return the cost of each sentence without its unchanged beginning, and without its end if that is far."""
        length = np.array([len(sentence) for sentence in sentences])
        slots = self._lm.start(len(sentences))
        cost = np.zeros(len(sentences))
        for place in range(int(length.max(initial=0))):
            here = np.flatnonzero(length > place)
            word = np.array([sentences[each][place] for each in here.tolist()], np.int64)
            logprob, slots[here] = self._lm.step(slots[here], self._map.lm_word[word])
            cost[here] += np.where(place >= unchanged[here], self._map.extra[word] - logprob.astype(np.float64), 0.0)
        final = self._lm.logprob(slots, np.full(len(slots), self._lm.eos, np.int32))
        return cost - np.where(ends, final.astype(np.float64), 0.0)


def words_along(
    lattice: Lattice,
    best: npt.NDArray[np.int64],
    onward: npt.NDArray[np.int32],
    state: int,
    lm_word: npt.NDArray[np.int32],
    most: int,
) -> list[int]:
    """Return the words along best arcs from a state that a model looks at, at most so many."""
    found: list[int] = []
    while len(found) < most and (arc := int(best[state])) >= 0:
        word = int(lattice.word[arc])
        if lm_word[word] != NO_WORD:
            found.append(word)
        state = int(onward[arc])
    return found


def with_unknown(lm: NgramLM) -> NgramLM:
    """Return a model with <unk>: itself, or a copy whose rarest word stands for <unk>.

    The model of a first pass may lack <unk>; but augmentation adds words that the first pass did not know.
    """
    if lm.unk is not None:
        return lm
    words = np.array([number for word, number in lm.vocabulary if word not in ("<s>", "</s>")], np.int32)
    logprob = lm.logprob(lm.start(len(words)), words)
    logprob[~np.isfinite(logprob)] = np.inf
    found = copy(lm)
    found.unk = int(words[np.argmin(logprob)])
    return found
