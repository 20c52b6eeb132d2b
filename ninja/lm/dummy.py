"""Language models without a network: they make the engine around them visible, in tests and benchmarks."""

from __future__ import annotations

import numpy as np

from ninja.errors import SymbolError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.protocol import LanguageModel

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_INCREMENT = np.uint64(0xD1B54A32D192ED03)


def _mix(value: np.ndarray) -> np.ndarray:
    """Spread each of some 64-bit integers over all 64 bits, reversibly (the finaliser of SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


class HashLM(LanguageModel):
    """Scores that look random, depend on the whole history, and are the same in every run; not normalised.

    A slot *is* the hash of its history, so nothing is stored and equal histories have equal slots.
    """

    def __init__(self, vocabulary: SymbolTable, seed: int = 0, lowest: float = -12.0, highest: float = -0.1) -> None:
        """Make a model whose log-probabilities lie evenly in ``[lowest, highest)``.

        Raises:
            SymbolError: The vocabulary lacks ``</s>``.
        """
        self.vocabulary = vocabulary
        self.bos = vocabulary.id("<s>")
        self.unk = vocabulary.id("<unk>")
        self.eos = _id_of_eos(vocabulary)
        self._root = int(_mix(np.array([seed], np.uint64) + _INCREMENT)[0] >> np.uint64(1))
        self._lowest, self._width = lowest, highest - lowest

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return np.full(count, self._root, np.int64)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        return (self._pair(slots, words) >> np.uint64(1)).astype(np.int64)  # 63 bits: slots are not negative

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        fraction = _mix(self._pair(slots, words) + _INCREMENT) >> np.uint64(40)  # 24 bits, exact in float32
        return (self._lowest + fraction.astype(np.float32) * (self._width / 2**24)).astype(np.float32)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`; there is nothing to free."""

    def _pair(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        return _mix(slots.astype(np.uint64) * _MULTIPLIER + words.astype(np.uint64) + _INCREMENT)


class UniformLM(LanguageModel):
    """Every word is as probable as every other, whatever came before: the least work a model can be."""

    def __init__(self, vocabulary: SymbolTable) -> None:
        """Make a model over a vocabulary.

        Raises:
            SymbolError: The vocabulary lacks ``</s>``.
        """
        self.vocabulary = vocabulary
        self.bos = vocabulary.id("<s>")
        self.unk = vocabulary.id("<unk>")
        self.eos = _id_of_eos(vocabulary)
        self._logprob = -float(np.log(len(vocabulary)))

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return np.zeros(count, np.int64)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        return np.zeros(len(slots), np.int64)

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        return np.full(len(slots), self._logprob, np.float32)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`; there is nothing to free."""


def _id_of_eos(vocabulary: SymbolTable) -> int:
    eos = vocabulary.id("</s>")
    if eos is None:
        raise SymbolError("the vocabulary lacks </s>, which ends every sentence", vocabulary.path)
    return eos
