"""The protocol of language models: states by slot, batches in, log-probabilities out."""

from __future__ import annotations

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
