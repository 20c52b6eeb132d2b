"""Costs of added phrases, computed with a class language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja.context.augmentation.old_costs import words_along
from ninja.lattice import Lattice
from ninja.lm.ngram.model import NgramLM
from ninja.lm.word_map import WordMap


class ClassEntry(NamedTuple):
    """A phrase that can be added to a lattice: its first state, class, and numbers of words and phones."""

    start: int  # first state of the path on which the phrase is added
    cls: str
    num_words: int
    num_phones: int


class ClassCosts:
    """Costs that added phrases receive instead of boosts.

    Boosts are tuned for recognised words. The cost of an added phrase depends on the probability of its class
    after the preceding words, on its similarity to the replaced words, and on its length, because long phrases seldom
    sound similar by chance.

    Args:
        lm: The class language model.
        class_map: Map from the lattices' symbols to the model's words.
        class_word: Word id of each class in the model.
        class_boost: The grammar's boost for entering a class, in nats.
        keyword_boost: The grammar's boost for each word of a phrase, in nats.
        place_weight: Weight of the cost ``-ln P(class | preceding words)``. The weighted cost is added to the costs of
            the grammar.
        phone_reward: Reward for each phone of a phrase, in nats.
    """

    def __init__(
        self,
        lm: NgramLM,
        class_map: WordMap,
        class_word: Mapping[str, int],
        *,
        class_boost: float,
        keyword_boost: float,
        place_weight: float,
        phone_reward: float,
    ) -> None:
        self._lm = lm
        self._map = class_map
        self._class_word = class_word
        self._class_boost, self._keyword_boost = class_boost, keyword_boost
        self._place_weight, self._phone_reward = place_weight, phone_reward

    def of(self, lattice: Lattice, acoustic_scale: float, entries: Sequence[ClassEntry]) -> npt.NDArray[np.float64]:
        """Return the costs of phrases in nats, float64 [entries]; 0 for classes that are unknown to the model.

        The words before a phrase are taken from the best path to its first state.
        """
        cost = np.zeros(len(entries))
        indices = [index for index, entry in enumerate(entries) if entry.cls in self._class_word]
        if not indices:
            return cost
        best_in, _ = _context.best_arcs(lattice, acoustic_scale)
        start, number = np.unique([entries[index].start for index in indices], return_inverse=True)
        slots = self._after(lattice, best_in, start.tolist())[number]
        words = np.array([self._class_word[entries[index].cls] for index in indices], np.int32)
        logprob = self._lm.logprob(slots, words).astype(np.float64)
        num_words = np.array([entries[index].num_words for index in indices])
        num_phones = np.array([entries[index].num_phones for index in indices])
        boost = self._class_boost + self._keyword_boost * num_words
        cost[indices] = boost - self._place_weight * logprob - self._phone_reward * num_phones
        return cost

    def _after(self, lattice: Lattice, best_in: npt.NDArray[np.int64], states: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return the model's slot after the words on the best path to each lattice state, int64 [states]."""
        reach = max(self._lm.order - 1, 0)
        before = [words_along(lattice, best_in, lattice.src, state, self._map.lm_word, reach)[::-1] for state in states]
        slots = self._lm.start(len(states))
        for position in range(reach):
            active = np.flatnonzero([len(words) > position for words in before])
            word = np.array([before[row][position] for row in active.tolist()], np.int64)
            _, slots[active] = self._lm.step(slots[active], self._map.lm_word[word])
        return slots
