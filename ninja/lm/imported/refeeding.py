"""Networks without a state: the whole history is fed again for every word."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from ninja.lm.imported.lazy import SCORE_BYTES, LazyLM
from ninja.lm.imported.vocabulary import Words

FIRST_WIDTH = 16  # words of a history there is room for at first; doubled when one gets longer


class HistoryNetwork(Protocol):
    """A network that reads whole histories."""

    batch: int | None  # rows of a call where the network is made for just so many; None = any number

    def score(self, words: torch.Tensor) -> torch.Tensor:
        """Score every word after histories of one length.

        Args:
            words: Histories, ``<s>`` first, int64 [n, time].

        Returns:
            Scores of what may follow the last word, float [n, words].
        """


class HistoryLM(LazyLM):
    """A `HistoryNetwork` behind the protocol of `LanguageModel`; histories of one length share a call."""

    def __init__(
        self,
        network: HistoryNetwork,
        words: Words,
        device: str = "cpu",
        *,
        normalize: bool = True,
        max_batch: int | None = None,
    ) -> None:
        """See `LazyLM`."""
        super().__init__(words, device, normalize=normalize, max_batch=max_batch)
        self._network = network
        self._history = np.zeros((0, FIRST_WIDTH), np.int64)  # [capacity, width]
        self._length = np.empty(0, np.int64)  # [capacity]
        if network.batch is not None:
            self._piece = min(self._piece, network.batch)
        self._begin()

    def _originate(self, slot: int) -> None:
        self._length[slot] = 0

    def _prepare(self, slots: np.ndarray) -> None:
        """Nothing is needed of a parent but its words."""

    def _extend(self, slots: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        length = self._length[slots]
        if len(length) and length.max() == self._history.shape[1]:
            self._history = np.concatenate((self._history, np.zeros_like(self._history)), 1)
        self._history[new] = self._history[slots]
        self._history[new, length] = words
        self._length[new] = length + 1

    def _evaluate(self, slots: np.ndarray) -> torch.Tensor:
        row = torch.empty(len(slots), len(self.vocabulary), device=self._device)
        length = self._length[slots]
        for time in np.unique(length):
            members = np.flatnonzero(length == time)
            piece = max(1, SCORE_BYTES // (4 * len(self.vocabulary) * int(time)))  # it scores after every word
            for begin in range(0, len(members), piece):
                some = members[begin : begin + piece]
                padded = np.resize(some, self._network.batch or len(some))
                score = self._network.score(self._tensor(self._history[slots[padded], :time]))
                row[self._tensor(some)] = score[: len(some)].float()
        return row

    def _grow_states(self, capacity: int) -> None:
        more = capacity - len(self._length)
        self._length = np.concatenate((self._length, np.zeros(more, np.int64)))
        self._history = np.concatenate((self._history, np.zeros((more, self._history.shape[1]), np.int64)))
