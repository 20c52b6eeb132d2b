"""Base class of networks as language models, with pooled states and caches of log-normalisers and rows of words."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ninja.files.threads import num_cores
from ninja.lm.protocol import LanguageModel, LoadOptions, SlotPool
from ninja.lm.word_map import Words

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

CACHED_BYTES = 96 << 20
ROWS_AT_ONCE = 256  # rows per thread and step, which fit its cache
FEWEST_ROWS = 16  # rows for which another thread is worthwhile
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
        """Create a model without slots.

        Args:
            words: Vocabulary and special words.
            options: Load options; scores are normalised by default.
            estimates: Whether the network estimates the normaliser instead of computing it exactly.
        """
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


class WordRows:
    """A cache with a row for each word that has occurred; the twins of a model share it."""

    def __init__(self, num_words: int, width: int, compute: Callable[[np.ndarray], Floats]) -> None:
        """Create an empty cache; `compute` returns the rows of distinct words, float32 [n, width]."""
        self._num_words, self._width = num_words, width
        self._compute = compute
        self._lock = threading.Lock()
        self._most = max(1, CACHED_BYTES // (4 * width))
        self._forget()

    def _forget(self) -> None:
        self._row = np.full(self._num_words, -1)  # [words], -1 = not computed
        # A new table, as other threads may read the former one.
        self._table: Floats = np.empty((0, self._width), np.float32)
        self._num_rows = 0

    def of(self, words: np.ndarray) -> tuple[Floats, Slots]:
        """Return the table of rows, float32 [rows, width], and the row number of each word, int64 [n]."""
        with self._lock:
            missing = np.unique(words[self._row[words] < 0])
            if self._num_rows and self._num_rows + len(missing) > self._most:
                self._forget()
                missing = np.unique(words)
            if len(missing):
                self._add(missing)
            return self._table, self._row[words]

    def _add(self, words: np.ndarray) -> None:
        first, last = self._num_rows, self._num_rows + len(words)
        if last > len(self._table):
            table = np.empty((max(last, min(2 * last, self._most)), self._width), np.float32)
            table[:first] = self._table[:first]
            self._table = table
        self._table[first:last] = self._compute(words)
        self._row[words] = np.arange(first, last)
        self._num_rows = last


class RowThreads:
    """A pool of `count` threads, by default one for each core, that compute on separate rows of a batch."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or num_cores()
        self._pool: ThreadPoolExecutor | None = None

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self.count, "rows")
        return self._pool

    def run(self, compute: Callable[[slice], None], num_rows: int) -> None:
        """Compute all rows of a batch in pieces, one per thread."""
        if num_rows < 2 * FEWEST_ROWS:
            if num_rows:
                compute(slice(0, num_rows))
            return
        num_pieces = -(-num_rows // ROWS_AT_ONCE)
        num_pieces = min(-(-num_pieces // self.count) * self.count, num_rows // FEWEST_ROWS)
        edges = [num_rows * place // num_pieces for place in range(num_pieces + 1)]
        pieces = [slice(first, last) for first, last in pairwise(edges)]
        if self.count == 1:
            for piece in pieces:
                compute(piece)
            return
        from concurrent.futures import wait

        futures = [self._started().submit(compute, piece) for piece in pieces]
        wait(futures)  # also after an error, so that no piece writes rows that the caller reuses
        for future in futures:
            future.result()
