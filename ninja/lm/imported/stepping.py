"""Networks that carry a state from word to word, whatever toolkit runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from ninja.errors import ModelError
from ninja.lm.imported.lazy import LazyLM
from ninja.lm.imported.vocabulary import Words

State = tuple[torch.Tensor, ...]


class StepNetwork(Protocol):
    """One step of a recurrent network."""

    batch: int | None  # rows of a call where the network is made for just so many; None = any number

    def begin(self) -> State:
        """Return the state before ``<s>``, each part without a batch dimension."""

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """Read a word.

        Args:
            word: The word that each history continues with, int64 [n].
            state: Parts of the states before it, each [n, …].

        Returns:
            Every word's score after it, float [n, words], and the parts of the new states, each [n, …].
        """


@torch.inference_mode()
def count_words(network: StepNetwork, device: torch.device) -> int:
    """Return how many words a network scores: it reads word 0 and is asked."""
    size = network.batch or 1
    state = tuple(part.to(device).expand(size, *part.shape) for part in network.begin())
    row, _ = network.step(torch.zeros(size, dtype=torch.int64, device=device), state)
    return row.shape[1]


def batch_axis(name: str, sizes: Sequence[object], batch: object, path: str) -> int:
    """Find which dimension of a state is the batch's.

    Args:
        name: The state's, for messages.
        sizes: Of its dimensions: integers where they are fixed, else names or None.
        batch: Size or name of the word's batch dimension.
        path: The model's file, for messages.

    Raises:
        ModelError: None is, or several may be.
    """
    free = [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]
    equal = [axis for axis, size in enumerate(sizes) if size == batch and size is not None]
    if len(equal) == 1 or (equal and batch == 1):  # of dimensions of size 1, any will do
        return equal[0]
    if not equal and len(free) == 1:
        return free[0]
    problem = "several dimensions" if equal else "no dimension"
    raise ModelError(f"the state {name} {list(sizes)} has {problem} for a batch of {batch}; name it in the model", path)


class StepLM(LazyLM):
    """A `StepNetwork` behind the protocol of `LanguageModel`; each part of the state has a slab, with a row a slot."""

    def __init__(
        self,
        network: StepNetwork,
        words: Words,
        device: str = "cpu",
        *,
        normalize: bool = True,
        max_batch: int | None = None,
    ) -> None:
        """See `LazyLM`."""
        super().__init__(words, device, normalize=normalize, max_batch=max_batch)
        self._network = network
        with torch.inference_mode():
            self._origin = network.begin()
            self._slabs = [part.to(self._device).new_empty(0, *part.shape) for part in self._origin]
        self._known = np.empty(0, bool)  # [capacity] whether the state is in its slabs
        if network.batch is not None:
            self._piece = min(self._piece, network.batch)
        self._begin()

    def _originate(self, slot: int) -> None:
        for slab, part in zip(self._slabs, self._origin, strict=True):
            slab[slot] = part
        self._known[slot] = True

    def _prepare(self, slots: np.ndarray) -> None:
        unknown = np.unique(slots[~self._known[slots]])
        for begin in range(0, len(unknown), self._piece):
            self._compute(unknown[begin : begin + self._piece])

    def _extend(self, slots: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        self._known[new] = False

    def _evaluate(self, slots: np.ndarray) -> torch.Tensor:
        size = self._network.batch or len(slots)
        padded = np.resize(slots, size)  # repeats histories up to the size that the network is made for
        parent = self._tensor(self._parent[padded])
        state = tuple(slab.index_select(0, parent) for slab in self._slabs)  # [size, …]
        row, state = self._network.step(self._tensor(self._word[padded]), state)
        fresh = np.flatnonzero(~self._known[slots])
        where, which = self._tensor(slots[fresh]), self._tensor(fresh)
        for slab, part in zip(self._slabs, state, strict=True):
            slab[where] = part[which]
        self._known[slots] = True
        return row[: len(slots)].float()

    def _grow_states(self, capacity: int) -> None:
        old = len(self._known)
        self._known = np.concatenate((self._known, np.zeros(capacity - old, bool)))
        for number, slab in enumerate(self._slabs):
            self._slabs[number] = slab.new_empty(capacity, *slab.shape[1:])
            self._slabs[number][:old] = slab
