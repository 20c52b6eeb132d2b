"""Networks as language models: histories are rows of a pool, log-normalisers are cached."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from ninja.lm.protocol import LanguageModel, LoadOptions, SlotPool
from ninja.lm.row_threads import RowThreads
from ninja.lm.word_map import Words

Slots = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class PoolLM(LanguageModel, ABC):
    """A network as a `LanguageModel` whose histories are rows of a pool.

    A row contains the network's output after the history's last word, whose product with a word's embedding is that
    word's score. The log-normaliser of a history, exact or estimated by a trained network, is computed once, when its
    first word is scored. Subclasses choose the library that computes.
    """

    _num_parameters: int | None = None
    _threads: RowThreads

    def __init__(self, words: Words, options: LoadOptions, *, estimates: bool) -> None:
        """Set the words; scores are normalised unless `options` disable it, exactly unless the network `estimates`."""
        self.vocabulary = words.vocabulary
        self.bos: int | None = words.bos
        self.eos = words.eos
        self.unk = words.unk
        self.unk_words = words.unk_words
        self._normalize = options.normalized
        self._estimates = estimates
        self._max_batch = options.max_batch
        self._start_normaliser = np.float32(np.nan)

    def _empty(self) -> None:
        """Reset the pool to no slots."""
        self._normaliser = np.empty(0, np.float32)  # [capacity], NaN = not computed yet
        self._slots = SlotPool(self._grow)

    def _copy(self) -> PoolLM:
        """Return a model with the same weights and an empty pool."""
        twin = copy.copy(self)
        twin._empty()
        return twin

    @property
    def num_parameters(self) -> int | None:
        """Number of trained parameters."""
        return self._num_parameters

    @property
    def normalized(self) -> bool:
        """True if scores are normalised exactly."""
        return self._normalize and not self._estimates

    @property
    def num_slots(self) -> int:
        """Number of slots in use."""
        return self._slots.num_used

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        slots = self._slots.take(count)
        self._put_start(slots)
        if count and self._normalize and np.isnan(self._start_normaliser):
            self._start_normaliser = self._log_normalisers_of(slots[:1])[0]
        self._normaliser[slots] = self._start_normaliser
        return slots

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        new = self._slots.take(len(slots))
        try:
            self._extend(slots, new, words)
        except BaseException:  # callers retry with fewer slots if memory runs out
            self.release(new)
            raise
        self._normaliser[new] = np.nan
        return new

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        if self._normalize:
            missing = np.unique(slots[np.isnan(self._normaliser[slots])])
            self._normaliser[missing] = self._log_normalisers_of(missing)
        score = self._scores(slots, words)
        return score - self._normaliser[slots] if self._normalize else score

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        self._slots.give_back(slots)

    def _grow(self, capacity: int) -> None:
        """Enlarge the pool to this many slots."""
        more = np.full(capacity - len(self._normaliser), np.nan, np.float32)
        self._normaliser = np.concatenate((self._normaliser, more))

    @abstractmethod
    def _put_start(self, slots: Slots) -> None:
        """Fill rows with the state after ``<s>``."""

    @abstractmethod
    def _extend(self, old: Slots, new: Slots, words: np.ndarray) -> None:
        """Fill the rows `new` with the states after `old` and one more word."""

    @abstractmethod
    def _scores(self, slots: Slots, words: np.ndarray) -> Floats:
        """Return the unnormalised score of a word after each history, float32 [n]."""

    @abstractmethod
    def _log_normalisers_of(self, slots: Slots) -> Floats:
        """Return the log-normaliser after each history, float32 [n]."""
