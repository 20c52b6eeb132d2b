"""What networks of other toolkits share behind the protocol: they score all words at once, too many to keep.

A network that is a black box scores all words at once, when it reads the word before. A row of 20,000 scores is five
times a large LSTM's state, so rows are not kept with their histories. Instead a history is *evaluated* when it is
first needed, and again if its row is asked for later and has left the cache:

    advance(slot, word) ──► remembers (parent, word)
    logprob, advance    ──► evaluate: the network reads the word after the parent's state; the new state stays, the row
                            goes to a cache of `ROW_BYTES`, first in, first out

What bounds the memory is then the states of the histories held and of their parents, plus the cache. Scores are exact
either way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from ninja import _lm
from ninja.errors import OptionError
from ninja.lm.imported.vocabulary import Words
from ninja.lm.protocol import LanguageModel

FIRST_CAPACITY = 256  # slots allocated at first; doubled when they run out
ROW_BYTES = 64 * 2**20  # rows of scores that are kept
SCORE_BYTES = 32 * 2**20  # rows of scores that a network makes at once


class LazyLM(LanguageModel, ABC):
    """A network that scores all words at once, behind the protocol of `LanguageModel`; see there for its methods.

    All who start a sentence share one slot, which is free when each has given it back. A subclass keeps the states:
    it says how rows come about (`_evaluate`), what a new slot remembers (`_extend`), and calls `_begin` at last.
    """

    def __init__(
        self, words: Words, device: str = "cpu", *, normalize: bool = True, max_batch: int | None = None
    ) -> None:
        """Make a model without slots.

        Args:
            words: The vocabulary, as many as the network has scores.
            device: Where torch computes, such as ``"cuda"``.
            normalize: Subtract from each score the logarithm of the sum of all their exponentials.
            max_batch: Most histories the network sees at once; None = as many as a call brings.

        Raises:
            OptionError: `max_batch` is below 1, or torch has no such device.
        """
        if max_batch is not None and max_batch < 1:
            raise OptionError(f"max_batch is {max_batch}; it must be at least 1, or None")
        self.vocabulary = words.vocabulary
        self.bos: int | None = words.bos
        self.eos = words.eos
        self.unk = words.unk
        self.unk_words = words.unk_words
        self._normalize = normalize
        num_words = len(words.vocabulary)
        self._piece = min(max_batch or num_words**2, max(1, SCORE_BYTES // (4 * num_words)))
        try:
            self._device = torch.device(device)
            self._rows = torch.empty(max(1, ROW_BYTES // (4 * num_words)), num_words, device=self._device)
        except (RuntimeError, AssertionError) as error:  # torch's answers to an unknown and to a missing device
            raise OptionError(f"torch cannot use the device {device!r}: {error}") from error
        self._owner = np.full(len(self._rows), -1, np.int64)  # [rows] slot whose row it is
        self._next_row = 0
        self._row = np.empty(0, np.int64)  # [capacity] place in the cache, −1 = not there
        self._normaliser = np.empty(0, np.float32)  # [capacity]
        self._held = np.empty(0, np.int64)  # [capacity] how often the caller holds it
        self._children = np.empty(0, np.int64)  # [capacity] slots held whose parent it is
        self._parent = np.empty(0, np.int64)  # [capacity] −1 = none
        self._word = np.empty(0, np.int64)  # [capacity] the history's last
        self._free: list[int] = []

    @abstractmethod
    def _evaluate(self, slots: np.ndarray) -> torch.Tensor:
        """Return all words' scores after histories, float32 [slots, words], and see that their states are there."""

    @abstractmethod
    def _prepare(self, slots: np.ndarray) -> None:
        """Compute what `_extend` will need of the parents; if memory ends here, no slot has been taken."""

    @abstractmethod
    def _extend(self, slots: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        """Prepare what evaluating `new` slots will need; `slots` are their parents."""

    @abstractmethod
    def _originate(self, slot: int) -> None:
        """Give a slot the state of the empty history, before ``<s>``."""

    @abstractmethod
    def _grow_states(self, capacity: int) -> None:
        """Make room for the states of so many slots."""

    def _begin(self) -> None:
        """Make the slot of the history that is ``<s>`` alone."""
        [origin] = self._take(1)
        self._originate(origin)
        with torch.inference_mode():
            [self._start] = self._append(np.array([origin]), np.array([self.bos]))
            self._compute(np.array([self._start]))

    @property
    def normalized(self) -> bool | None:
        """Whether scores are normalised exactly; None: as the network is."""
        return self._normalize or None

    @property
    def num_slots(self) -> int:
        """Number of slots that the caller holds; one that it was given several times counts as often."""
        return int(self._held.sum()) - 2  # ours: the origin and the start

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        self._held[self._start] += count
        return np.full(count, self._start, np.int64)

    @torch.inference_mode()
    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        return self._append(np.asarray(slots), np.asarray(words))

    @torch.inference_mode()
    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        slots, words = np.asarray(slots), np.asarray(words)
        score = np.empty(len(slots), np.float32)
        cached = self._row[slots] >= 0
        score[cached] = self._pick(self._rows, self._row[slots[cached]], words[cached])
        missing = np.flatnonzero(~cached)
        missing = missing[np.argsort(slots[missing], kind="stable")]
        distinct, first = np.unique(slots[missing], return_index=True)
        first = np.append(first, len(missing))
        for begin in range(0, len(distinct), self._piece):
            some = distinct[begin : begin + self._piece]
            row = self._compute(some)
            pairs = missing[first[begin] : first[begin + len(some)]]
            score[pairs] = self._pick(row, np.searchsorted(some, slots[pairs]), words[pairs])
        return score - self._normaliser[slots] if self._normalize else score

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        np.subtract.at(self._held, slots, 1)
        assert not len(slots) or self._held[slots].min() >= 0, "a slot was released twice"
        gone = np.unique(slots)
        gone = gone[self._held[gone] == 0]
        parents = self._parent[gone]
        parents = parents[parents >= 0]
        np.subtract.at(self._children, parents, 1)
        self._parent[gone] = -1
        candidates = np.unique(np.concatenate((gone, parents)))
        free = candidates[(self._held[candidates] == 0) & (self._children[candidates] == 0)]
        self._free.extend(free[::-1].tolist())

    def _compute(self, slots: np.ndarray) -> torch.Tensor:
        """Evaluate distinct histories, at most a piece of them; keep rows and normalisers; float32 [slots, words]."""
        row = self._evaluate(slots)
        if self._normalize:
            self._normaliser[slots] = logsumexp(row)
        some, kept = slots[: len(self._rows)], row[: len(self._rows)]
        places = (self._next_row + np.arange(len(some))) % len(self._rows)
        self._next_row = (self._next_row + len(some)) % len(self._rows)
        old = self._owner[places]
        self._row[old[old >= 0]] = -1
        self._owner[places], self._row[some] = some, places
        self._rows[self._tensor(places)] = kept
        return row

    def _append(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        self._prepare(slots)
        new = self._take(len(slots))
        self._word[new], self._parent[new] = words, slots
        np.add.at(self._children, slots, 1)
        self._extend(slots, new, words)
        return new

    def _take(self, count: int) -> np.ndarray:
        while len(self._free) < count:
            self._grow()
        new = np.array([self._free.pop() for _ in range(count)], np.int64)
        self._row[new], self._parent[new] = -1, -1
        self._held[new], self._children[new] = 1, 0
        return new

    def _grow(self) -> None:
        old = len(self._word)
        capacity = max(FIRST_CAPACITY, 2 * old)
        self._grow_states(capacity)  # first: it is what may fail
        for name in ("_row", "_held", "_children", "_parent", "_word", "_normaliser"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate((array, np.zeros(capacity - old, array.dtype))))
        self._free[:0] = range(capacity - 1, old - 1, -1)

    def _pick(self, row: torch.Tensor, which: np.ndarray, words: np.ndarray) -> np.ndarray:
        return row[self._tensor(which), self._tensor(words).long()].cpu().numpy()

    def _tensor(self, numbers: np.ndarray) -> torch.Tensor:
        # Copied: torch takes neither reversed arrays nor, without complaint, read-only ones.
        return torch.from_numpy(np.array(numbers)).to(self._device)


def logsumexp(row: torch.Tensor) -> np.ndarray:
    """Return ln Σ exp of each row, float32 [rows]."""
    if row.is_cpu:  # torch's own takes four times as long
        return _lm.logsumexp(row.contiguous().view(-1).numpy(), len(row))
    return row.logsumexp(-1).cpu().numpy()
