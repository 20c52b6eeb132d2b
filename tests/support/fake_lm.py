"""A language model without a network: every log-probability is a hash of the whole history and the word."""

from __future__ import annotations

import threading
import zlib

import numpy as np

from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel


class FakeLM(LanguageModel):
    """Stores each slot's history, and fails if a slot is used after its release."""

    def __init__(self, num_words: int = 8, unk: bool = True, salt: int = 0, extra_words: tuple[str, ...] = ()) -> None:
        """Create a model of w1, w2, …; a different salt gives different scores, and extra words shift the ids."""
        marks = ["<s>", "</s>", *(["<unk>"] if unk else [])]
        words = [*marks, *extra_words, *(f"w{i}" for i in range(1, num_words + 1))]
        self.vocabulary = SymbolTable.from_words(words)
        self.bos: int | None = 0
        self.eos = 1
        self.unk = 2 if unk else None
        self.unk_words: int | None = None
        self.history: dict[int, tuple[int, ...]] = {}
        self.next_slot = 0
        self.num_advanced = 0
        self.num_scored = 0
        self.salt = salt

    def start(self, count: int) -> np.ndarray:
        return self._new([()] * count)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        assert slots.shape == words.shape
        self.num_advanced += len(slots)
        return self._new([(*self.history[int(s)], int(w)) for s, w in zip(slots, words, strict=True)])

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        assert slots.shape == words.shape
        self.num_scored += len(slots)
        pairs = zip(slots, words, strict=True)
        return np.array([self.score(self.history[int(s)], int(w)) for s, w in pairs], np.float32)

    def release(self, slots: np.ndarray) -> None:
        for slot in slots:
            del self.history[int(slot)]

    def score(self, history: tuple[int, ...], word: int) -> float:
        """Return a log-probability in [-8, 0) on a grid that float32 represents exactly."""
        return -(zlib.crc32(np.array([*history, word], np.int32).tobytes(), self.salt) % 512 + 1) / 64

    def _new(self, histories: list[tuple[int, ...]]) -> np.ndarray:
        slots = np.arange(self.next_slot, self.next_slot + len(histories))
        self.next_slot += len(histories)
        self.history.update(zip(slots.tolist(), histories, strict=True))
        return slots


class GatedLM(FakeLM):
    """A model that returns scores only when its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        assert self.gate.wait(60)
        return super().logprob(slots, words)


def symbols(num_words: int = 8) -> SymbolTable:
    """Return a symbol table with the words of the fake model, and a last word that the model lacks."""
    return SymbolTable.from_words(["<eps>", *(f"w{i}" for i in range(1, num_words)), "unheard-of"])
