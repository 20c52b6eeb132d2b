"""Networks of other toolkits, for any runtime: one word and a state a call, or whole histories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ninja.errors import ModelError

State = tuple[torch.Tensor, ...]
Step = Callable[[torch.Tensor, State], tuple[torch.Tensor, Sequence[torch.Tensor]]]


@dataclass(frozen=True, slots=True)
class StatePart:
    """A tensor of a recurrent network's state."""

    name: str
    start: torch.Tensor  # before <s>, without the batch dimension
    axis: int  # the batch dimension


@dataclass
class StepNetwork:
    """A recurrent network that reads one word a call."""

    run: Step  # reads words, int64 [n], after states, each with its batch dimension where the network has it
    parts: Sequence[StatePart]  # of the state, in the order of `run`
    batch: int | None = None  # fixed number of rows in a call, if the network has one
    path: str | None = None  # the model's file, for messages

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """Read a word, int64 [n], after states, parts of [n, …]; return scores, float [n, words], and new states."""
        pairs = zip(self.parts, state, strict=True)
        score, after = self.run(word, tuple(each.movedim(0, part.axis).contiguous() for part, each in pairs))
        if score.dim() != 2 or len(score) != len(word):
            shape = f"its scores have the shape {list(score.shape)} for {len(word)} words"
            raise ModelError(f"{shape}, not [batch, words]", self.path)
        if len(after) != len(self.parts):
            raise ModelError(f"{len(after)} parts of the state come back for {len(self.parts)}", self.path)
        new = []
        for part, each in zip(self.parts, after, strict=True):
            moved = each.movedim(part.axis, 0) if each.dim() == part.start.dim() + 1 else each
            if moved.shape != (len(word), *part.start.shape):
                message = f"the state {part.name} comes back with the shape {list(each.shape)}, not that it had"
                raise ModelError(message, self.path)
            new.append(moved)
        return score, tuple(new)

    @torch.inference_mode()
    def count_words(self, device: torch.device) -> int:
        """Return how many words have scores: the network reads word 0."""
        size = self.batch or 1
        state = tuple(part.start.to(device).expand(size, *part.start.shape) for part in self.parts)
        return self.step(torch.zeros(size, dtype=torch.int64, device=device), state)[0].shape[1]


@dataclass
class HistoryNetwork:
    """A network that reads whole histories."""

    run: Callable[[torch.Tensor], torch.Tensor]  # turns words, int64 [n, time], into scores, [n, time, words]
    batch: int | None = None  # fixed number of rows in a call, if the network has one
    path: str | None = None  # the model's file, for messages

    def score(self, words: torch.Tensor) -> torch.Tensor:
        """Score every word after histories of one length, ``<s>`` first, int64 [n, time]; float [n, words]."""
        score = self.run(words)
        if not isinstance(score, torch.Tensor) or score.dim() != 3 or score.shape[:2] != words.shape:
            shape = list(score.shape) if isinstance(score, torch.Tensor) else type(score).__name__
            message = f"its scores have the shape {shape} for words {list(words.shape)}, not [batch, time, words]"
            raise ModelError(message, self.path)
        return score[:, -1]

    @torch.inference_mode()
    def count_words(self, device: torch.device) -> int:
        """Return how many words have scores: the network reads word 0 twice."""
        return self.score(torch.zeros(self.batch or 1, 2, dtype=torch.int64, device=device)).shape[1]


def state_part(name: str, sizes: Sequence[object], dtype: torch.dtype, batch: object, path: str) -> StatePart:
    """Return a part of a state that begins with zeros.

    Sizes are integers where they are fixed, else names or None; `batch` is that of the word's batch dimension.

    Raises:
        ModelError: No dimension, or several, may be the batch's; or another one is not fixed.
    """
    free = [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]
    equal = [axis for axis, size in enumerate(sizes) if size == batch and size is not None]
    if len(equal) == 1 or (equal and batch == 1):  # of dimensions of size 1, any will do
        axis = equal[0]
    elif not equal and len(free) == 1:
        axis = free[0]
    else:
        dimensions = f"{'several dimensions' if equal else 'no dimension'} for a batch of {batch}"
        raise ModelError(f"the state {name} {list(sizes)} has {dimensions}; name it in the model", path)
    fixed = [size for place, size in enumerate(sizes) if place != axis and isinstance(size, int)]
    if len(fixed) != len(sizes) - 1:
        raise ModelError(f"the state {name} has the sizes {list(sizes)}; all sizes but the batch's must be fixed", path)
    return StatePart(name, torch.zeros(fixed, dtype=dtype), axis)
