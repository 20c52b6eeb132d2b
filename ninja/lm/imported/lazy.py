"""Language models for networks that score all words of the vocabulary in one pass, with a cache of these scores.

After each word, such a network returns a row with the scores of all words. A row of 20,000 scores is five times as
large as the state of a large LSTM, so rows are not stored with their histories. Instead, a history is *evaluated* when
its row is first needed, and again if the row is no longer in the cache:

    advance(slot, word) ──► stores (parent, word)
    logprob, advance    ──► evaluate: the network reads the word after the parent's state; the new state is stored, and
                            the row goes to a first-in first-out cache of `ROW_BYTES`

The model stores the cache, and the states of all histories in use and of their parents. Scores are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from ninja.lm.compute import as_tensor, device_of, logsumexp
from ninja.lm.imported.network import HistoryNetwork, StepNetwork
from ninja.lm.protocol import DEFAULTS, LanguageModel, LoadOptions, SlotPool
from ninja.lm.word_map import Words

FIRST_WIDTH = 16  # number of words per history for which memory is allocated; doubled when a history is longer
ROW_BYTES = 64 * 2**20  # maximum size of the cache
SCORE_BYTES = 32 * 2**20  # maximum size of the rows that a network computes in one call


def language_model(
    network: StepNetwork | HistoryNetwork, words: Words, options: LoadOptions, path: str | None = None
) -> StepLM | HistoryLM:
    """Create a language model from a network and its vocabulary.

    Raises:
        ModelError: The network does not return one score per word, or its tensors have the wrong shapes.
    """
    words.fit(network.count_words(device_of(options.device)), path)
    return (
        HistoryLM(network, words, options) if isinstance(network, HistoryNetwork) else StepLM(network, words, options)
    )


class LazyLM(LanguageModel, ABC):
    """Base class for language models whose network scores all words of the vocabulary in one pass.

    All sentences start in one shared slot. Subclasses manage the states: they compute the scores of all words after a
    history (`_evaluate`), store the data of new slots (`_extend`), and call `_begin` at the end of their constructors.
    """

    def __init__(self, words: Words, options: LoadOptions, batch: int | None) -> None:
        """Create a language model in which no slots are allocated yet.

        Args:
            words: Vocabulary and special words.
            options: Load options.
            batch: Number of histories per network call if this number is fixed, else None.
        """
        self.vocabulary = words.vocabulary
        self.bos: int | None = words.bos
        self.eos = words.eos
        self.unk = words.unk
        self.unk_words = words.unk_words
        self._normalize = options.normalized
        row_bytes = 4 * len(words.vocabulary)
        limits = options.max_batch, batch, max(1, SCORE_BYTES // row_bytes)
        self._piece = min(limit for limit in limits if limit)
        self._device = device_of(options.device)
        self._rows = torch.empty(max(1, ROW_BYTES // row_bytes), len(words.vocabulary), device=self._device)
        self._owner = np.full(len(self._rows), -1, np.int64)  # [rows] slot to which the row belongs, −1 for none
        self._next_row = 0
        self._row = np.empty(0, np.int64)  # [capacity] row of the slot in the cache, −1 for none
        self._normaliser = np.empty(0, np.float32)  # [capacity]
        self._references = np.empty(0, np.int64)  # [capacity] number of references held by callers
        self._children = np.empty(0, np.int64)  # [capacity] number of child slots in use
        self._parent = np.empty(0, np.int64)  # [capacity] parent slot, −1 for none
        self._word = np.empty(0, np.int64)  # [capacity] last word of the history
        self._slots = SlotPool(self._grow)

    @abstractmethod
    def _evaluate(self, slots: np.ndarray) -> torch.Tensor:
        """Compute the states of histories and return the scores of all words after them, float32 [slots, words]."""

    def _prepare(self, slots: np.ndarray) -> None:
        """Compute the missing states of `slots`; called before slots are allocated for their children.

        If memory runs out during this computation, there are no new slots to free.
        """

    @abstractmethod
    def _extend(self, slots: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        """Store the data of the slots `new`, which extend the histories in `slots` by `words`."""

    @abstractmethod
    def _originate(self, slot: int) -> None:
        """Set the state of the empty history, before ``<s>``."""

    @abstractmethod
    def _grow_states(self, capacity: int) -> None:
        """Allocate states for `capacity` slots."""

    def _begin(self) -> None:
        """Create the slot of the history ``<s>``."""
        [origin] = self._take(1)
        self._originate(origin)
        with torch.inference_mode():
            [self._start] = self._append(np.array([origin]), np.array([self.bos]))
            self._compute(np.array([self._start]))

    @property
    def normalized(self) -> bool | None:
        """Whether scores are normalised exactly; None if that depends on the network."""
        return self._normalize or None

    @property
    def num_slots(self) -> int:
        """Number of slot references that callers hold."""
        return int(self._references.sum()) - 2  # excluding the references to the empty history and to ``<s>``

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        self._references[self._start] += count
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
        np.subtract.at(self._references, slots, 1)
        assert not len(slots) or self._references[slots].min() >= 0, "a slot was released twice"
        unused = np.unique(slots)
        unused = unused[self._references[unused] == 0]
        parents = self._parent[unused]
        parents = parents[parents >= 0]
        np.subtract.at(self._children, parents, 1)
        self._parent[unused] = -1
        candidates = np.unique(np.concatenate((unused, parents)))
        free = candidates[(self._references[candidates] == 0) & (self._children[candidates] == 0)]
        self._slots.give_back(free)

    def _compute(self, slots: np.ndarray) -> torch.Tensor:
        """Compute and cache the scores of all words after each history; return them, float32 [slots, words].

        Args:
            slots: Slots of at most `_piece` distinct histories.
        """
        row = self._evaluate(slots)
        if self._normalize:
            self._normaliser[slots] = logsumexp(row)
        some, rows = slots[: len(self._rows)], row[: len(self._rows)]
        places = (self._next_row + np.arange(len(some))) % len(self._rows)
        self._next_row = (self._next_row + len(some)) % len(self._rows)
        old = self._owner[places]
        self._row[old[old >= 0]] = -1
        self._owner[places], self._row[some] = some, places
        self._rows[self._tensor(places)] = rows
        return row

    def _append(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        self._prepare(slots)
        new = self._take(len(slots))
        self._word[new], self._parent[new] = words, slots
        np.add.at(self._children, slots, 1)
        self._extend(slots, new, words)
        return new

    def _take(self, count: int) -> np.ndarray:
        new = self._slots.take(count)
        self._row[new], self._parent[new] = -1, -1
        self._references[new], self._children[new] = 1, 0
        return new

    def _grow(self, capacity: int) -> None:
        self._grow_states(capacity)  # before any change, because this call may fail
        for name in ("_row", "_references", "_children", "_parent", "_word", "_normaliser"):
            array = getattr(self, name)
            setattr(self, name, np.pad(array, (0, capacity - len(array))))

    def _pick(self, row: torch.Tensor, which: np.ndarray, words: np.ndarray) -> np.ndarray:
        return row[self._tensor(which), self._tensor(words).long()].cpu().numpy()

    def _tensor(self, numbers: np.ndarray) -> torch.Tensor:
        return as_tensor(numbers, self._device)


class StepLM(LazyLM):
    """A `StepNetwork` as a `LanguageModel`; each part of the state is a tensor with one row per slot."""

    def __init__(self, network: StepNetwork, words: Words, options: LoadOptions = DEFAULTS) -> None:
        """See `LazyLM`."""
        super().__init__(words, options, network.batch)
        self._network = network
        self._states = [part.start.to(self._device).new_empty(0, *part.start.shape) for part in network.parts]
        self._known = np.empty(0, bool)  # [capacity] whether the state has been computed
        self._begin()

    def _originate(self, slot: int) -> None:
        for rows, part in zip(self._states, self._network.parts, strict=True):
            rows[slot] = part.start
        self._known[slot] = True

    def _prepare(self, slots: np.ndarray) -> None:
        unknown = np.unique(slots[~self._known[slots]])
        for begin in range(0, len(unknown), self._piece):
            self._compute(unknown[begin : begin + self._piece])

    def _extend(self, slots: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        self._known[new] = False

    def _evaluate(self, slots: np.ndarray) -> torch.Tensor:
        padded = np.resize(slots, self._network.batch or len(slots))  # repeats histories to fill a batch of fixed size
        parent = self._tensor(self._parent[padded])
        state = tuple(rows.index_select(0, parent) for rows in self._states)  # [size, …]
        row, state = self._network.step(self._tensor(self._word[padded]), state)
        missing = np.flatnonzero(~self._known[slots])
        where, which = self._tensor(slots[missing]), self._tensor(missing)
        for rows, part in zip(self._states, state, strict=True):
            rows[where] = part[which]
        self._known[slots] = True
        return row[: len(slots)].float()

    def _grow_states(self, capacity: int) -> None:
        old = len(self._known)
        self._known = np.pad(self._known, (0, capacity - old))
        for number, rows in enumerate(self._states):
            self._states[number] = rows.new_empty(capacity, *rows.shape[1:])
            self._states[number][:old] = rows


class HistoryLM(LazyLM):
    """A `HistoryNetwork` as a `LanguageModel`; histories of equal length are scored in one call."""

    def __init__(self, network: HistoryNetwork, words: Words, options: LoadOptions = DEFAULTS) -> None:
        """See `LazyLM`."""
        super().__init__(words, options, network.batch)
        self._network = network
        self._history = np.zeros((0, FIRST_WIDTH), np.int64)  # [capacity, width]
        self._length = np.empty(0, np.int64)  # [capacity]
        self._begin()

    def _originate(self, slot: int) -> None:
        self._length[slot] = 0

    def _extend(self, slots: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        length = self._length[slots]
        if len(length) and length.max() == self._history.shape[1]:
            self._history = np.pad(self._history, ((0, 0), (0, self._history.shape[1])))
        self._history[new] = self._history[slots]
        self._history[new, length] = words
        self._length[new] = length + 1

    def _evaluate(self, slots: np.ndarray) -> torch.Tensor:
        row = torch.empty(len(slots), len(self.vocabulary), device=self._device)
        length = self._length[slots]
        for time in np.unique(length):
            members = np.flatnonzero(length == time)
            # The network also returns the scores after each prefix of a history.
            piece = max(1, SCORE_BYTES // (4 * len(self.vocabulary) * int(time)))
            for begin in range(0, len(members), piece):
                some = members[begin : begin + piece]
                padded = np.resize(some, self._network.batch or len(some))
                score = self._network.score(self._tensor(self._history[slots[padded], :time]))
                row[self._tensor(some)] = score[: len(some)].float()
        return row

    def _grow_states(self, capacity: int) -> None:
        more = (0, capacity - len(self._length))
        self._length = np.pad(self._length, more)
        self._history = np.pad(self._history, (more, (0, 0)))
