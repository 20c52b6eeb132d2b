"""Changes in first-pass language model costs when words are replaced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import NgramLM
from ninja.lm.word_map import NO_WORD, WordMap, WordMapping

Change = tuple[int, int, npt.NDArray[np.int64], Sequence[int]]  # start state, end state, arcs of the path, new words


class OldCosts:
    """Changes in first-pass language model costs when words are replaced; see `WordMap` for the arguments."""

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

    def changes(self, lattice: Lattice, acoustic_scale: float, changes: Sequence[Change]) -> npt.NDArray[np.float64]:
        """Return the cost of new words minus the cost of the path that they replace, in nats, float64 [changes].

        Both word sequences are scored in context: with up to ``order - 1`` words on each side, taken from the best
        sentence that contains the path.
        """
        if not changes:
            return np.zeros(0)
        best_in, best_out = _context.best_arcs(lattice, acoustic_scale)
        src, lm_word = lattice.src, self._map.lm_word
        sentences: list[list[int]] = []
        unchanged: list[int] = []  # number of words before the replaced words in each sentence
        ends: list[bool] = []  # whether the end of each sentence is within the n-gram order
        for start, end, arcs, words in changes:
            before = words_along(lattice, best_in, src, start, lm_word, self._context)[::-1]
            after = words_along(lattice, best_out, lattice.dst, end, lm_word, self._context)
            for middle in (lattice.word[arcs].tolist(), words):
                scored = [word for word in middle if lm_word[word] != NO_WORD]
                sentences.append([*before, *scored, *after])
                unchanged.append(len(before))
                ends.append(len(after) < self._context or not self._context)
        cost = self._costs(sentences, np.array(unchanged), np.array(ends))
        return cost[1::2] - cost[0::2]

    def _costs(
        self, sentences: Sequence[Sequence[int]], unchanged: npt.NDArray[np.int64], ends: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float64]:
        """Return the cost of each sentence, excluding its first `unchanged` words, in nats, float64 [sentences].

        The cost of a sentence includes ``</s>`` if the corresponding element of `ends` is true.
        """
        length = np.array([len(sentence) for sentence in sentences])
        slots = self._lm.start(len(sentences))
        cost = np.zeros(len(sentences))
        for position in range(int(length.max(initial=0))):
            active = np.flatnonzero(length > position)
            word = np.array([sentences[row][position] for row in active.tolist()], np.int64)
            logprob, slots[active] = self._lm.step(slots[active], self._map.lm_word[word])
            cost[active] += np.where(
                position >= unchanged[active], self._map.extra[word] - logprob.astype(np.float64), 0.0
            )
        final = self._lm.logprob(slots, np.full(len(slots), self._lm.eos, np.int32))
        return cost - np.where(ends, final.astype(np.float64), 0.0)


def words_along(
    lattice: Lattice,
    best: npt.NDArray[np.int64],
    onward: npt.NDArray[np.int32],
    state: int,
    lm_word: npt.NDArray[np.int32],
    max_words: int,
) -> list[int]:
    """Return the first words that a model scores along the best arcs from a state.

    Args:
        lattice: The lattice.
        best: Best arc of each state, in the direction of the search, or -1; int64 [num_states].
        onward: State to which the search moves along each arc, int32 [num_arcs].
        state: First state.
        lm_word: The model's id for each word id; `NO_WORD` for words that are not scored.
        max_words: Maximum number of words.
    """
    words: list[int] = []
    while len(words) < max_words and (arc := int(best[state])) >= 0:
        word = int(lattice.word[arc])
        if lm_word[word] != NO_WORD:
            words.append(word)
        state = int(onward[arc])
    return words


def with_unknown(lm: NgramLM) -> NgramLM:
    """Return a model with <unk>: the model itself, or a copy that uses its least probable word as <unk>.

    Augmentation can add unknown words, for which a first-pass model without <unk> has no score.
    """
    if lm.unk is not None:
        return lm
    words = np.array([number for word, number in lm.vocabulary if word not in ("<s>", "</s>")], np.int32)
    logprob = lm.logprob(lm.start(len(words)), words)
    logprob[~np.isfinite(logprob)] = np.inf
    result = copy(lm)
    result.unk = int(words[np.argmin(logprob)])
    return result
