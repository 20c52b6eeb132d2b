"""The protocol of language models: states by slot, batches in, log-probabilities out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError
from ninja.lattice.symbols import SymbolTable


@runtime_checkable
class LanguageModel(Protocol):
    """A language model over words, which keeps the states of histories itself; models derive from this class.

    A history is a sentence's beginning: ``<s>`` and the words after it. The model holds what it knows of each in
    a *slot*; callers hold the slot's number, an opaque integer ≥ 0. Every call works on a batch, and what it
    returns for one history does not depend on the others beyond 1e-4.

        slot ──advance(word)──► new slot        the old one stays valid until released
          └────logprob(word)──► ln P(word | history)
    """

    vocabulary: SymbolTable  # the model's own words and ids; all word ids below are these
    bos: int | None  # id of <s>, where the model has one
    eos: int  # id of </s>
    unk: int | None  # id of the word that stands for all unknown ones, where the model has one
    unk_words: int | None = None  # how many distinct words that was in training, where known

    # Abilities beyond the four methods.
    scores_tries: bool = False  # `score_trie` scores whole tries in one pass
    whole_sentences: bool = False  # only whole sentences have scores, and only `score_trie` gives them

    @property
    def num_parameters(self) -> int | None:
        """Number of trained numbers, where known."""
        return None

    @property
    def normalized(self) -> bool | None:
        """True if scores are normalised exactly; None: unknown."""
        return None

    def start(self, count: int) -> np.ndarray:
        """Make slots of the history that is ``<s>`` alone.

        Returns:
            Slots, int64 [count], distinct unless the model needs no states.
        """

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Make slots of longer histories.

        Args:
            slots: Histories, int64 [n]; one may occur several times.
            words: The word that follows each, int32 [n].

        Returns:
            New slots, int64 [n].
        """

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Score words after histories.

        Args:
            slots: Histories, int64 [n]; one may occur several times, and is then cheapest.
            words: The word scored after each, int32 [n]; `eos` ends the sentence.

        Returns:
            Natural-log probabilities, float32 [n].
        """

    def release(self, slots: np.ndarray) -> None:
        """Give slots back, int64 [n], each once; later calls reuse them."""

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Score every node of a trie in one pass, as `ninja.lm.trie.score_trie` describes; see `scores_tries`."""
        raise OptionError("this language model scores no tries; use ninja.lm.trie.score_trie")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of computing with a language model; a kind of model ignores those it does not have."""

    device: str = "cpu"  # where torch computes, such as "cuda"
    normalize: bool | None = None  # normalise scores exactly; None: as the kind of model is meant to be used
    max_batch: int | None = None  # most histories that a network sees at once; None: as many as a call brings
    words: SymbolTable | None = None  # of a file that numbers its words; None: found in it or beside it

    def __post_init__(self) -> None:
        if self.max_batch is not None and self.max_batch < 1:
            raise OptionError(f"max_batch is {self.max_batch}; it must be at least 1, or None")

    @property
    def normalized(self) -> bool:
        """True unless normalisation was switched off."""
        return self.normalize is not False


DEFAULTS = LoadOptions()


FIRST_CAPACITY = 256  # slots at first; doubled when they run out


class SlotPool:
    """A stack of free slots, the last one given back first reused."""

    def __init__(self, grow: Callable[[int], None]) -> None:
        """Begin without slots; `grow` makes room for so many in all."""
        self._grow = grow
        self._free: npt.NDArray[np.int64] = np.empty(0, np.int64)  # [capacity], a stack
        self._num_free = 0

    @property
    def num_used(self) -> int:
        """Number of slots in use."""
        return len(self._free) - self._num_free

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """Reserve slots, int64 [count]."""
        if count > self._num_free:
            old = len(self._free)
            capacity = max(FIRST_CAPACITY, 2 * old)
            while capacity - self.num_used < count:
                capacity *= 2
            self._grow(capacity)  # first: memory may run out here
            free = np.empty(capacity, np.int64)
            free[: self._num_free] = self._free[: self._num_free]
            self._free = free
            self.give_back(np.arange(capacity - 1, old - 1, -1))
        self._num_free -= count
        return self._free[self._num_free : self._num_free + count].copy()

    def give_back(self, slots: npt.NDArray[np.int64]) -> None:
        """Make slots free again, each once."""
        assert self._num_free + len(slots) <= len(self._free), "a slot was released twice"
        self._free[self._num_free : self._num_free + len(slots)] = slots
        self._num_free += len(slots)
