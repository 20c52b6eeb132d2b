"""Interfaces of imported networks on any runtime: networks that read one word per call, or whole histories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ninja.errors import ModelError

State = tuple[torch.Tensor, ...]
Step = Callable[[torch.Tensor, State], tuple[torch.Tensor, Sequence[torch.Tensor]]]


@dataclass(frozen=True, slots=True)
class StatePart:
    """A tensor in the state of a recurrent network."""

    name: str
    start: torch.Tensor  # value of the tensor before <s> is read, without the batch dimension
    axis: int  # index of the batch dimension


@dataclass
class StepNetwork:
    """A recurrent network that reads one word per call."""

    # Function of words, int64 [n], and the state tensors, with their batch dimensions where the network expects them.
    run: Step
    parts: Sequence[StatePart]  # the state tensors, in the order of the arguments and results of `run`
    batch: int | None = None  # number of rows per call if it is fixed
    path: str | None = None  # path of the model, for messages

    def step(self, word: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """Read one word after each history in a batch.

        Args:
            word: Word ids, int64 [n].
            state: The parts of the state, each [n, …].

        Returns:
            The scores of all words, float [n, words], and the new state.

        Raises:
            ModelError: The network returns tensors with wrong shapes.
        """
        pairs = zip(self.parts, state, strict=True)
        score, after = self.run(word, tuple(rows.movedim(0, part.axis).contiguous() for part, rows in pairs))
        if score.dim() != 2 or len(score) != len(word):
            shape = f"the scores have shape {list(score.shape)} for words of shape {list(word.shape)}"
            raise ModelError(f"{shape}, expected [batch, words]", self.path)
        if len(after) != len(self.parts):
            raise ModelError(f"the network returns {len(after)} state tensors, but reads {len(self.parts)}", self.path)
        new = []
        for part, rows in zip(self.parts, after, strict=True):
            moved = rows.movedim(part.axis, 0) if rows.dim() == part.start.dim() + 1 else rows
            if moved.shape != (len(word), *part.start.shape):
                message = f"the network returns the state {part.name} with shape {list(rows.shape)}, but expects"
                raise ModelError(f"{message} shape {list(part.start.shape)} per row", self.path)
            new.append(moved)
        return score, tuple(new)

    @torch.inference_mode()
    def count_words(self, device: torch.device) -> int:
        """Run the network on word 0 and return the number of words that it scores."""
        size = self.batch or 1
        state = tuple(part.start.to(device).expand(size, *part.start.shape) for part in self.parts)
        return self.step(torch.zeros(size, dtype=torch.int64, device=device), state)[0].shape[1]


@dataclass
class HistoryNetwork:
    """A network that reads whole histories."""

    run: Callable[[torch.Tensor], torch.Tensor]  # maps words, int64 [n, time], to scores, [n, time, words]
    batch: int | None = None  # number of rows per call if it is fixed
    path: str | None = None  # path of the model, for messages

    def score(self, words: torch.Tensor) -> torch.Tensor:
        """Return the scores of all words after each history, float [n, words].

        Args:
            words: Histories of equal length, which begin with ``<s>``, int64 [n, time].

        Raises:
            ModelError: The network returns scores with the wrong shape.
        """
        score = self.run(words)
        if not isinstance(score, torch.Tensor) or score.dim() != 3 or score.shape[:2] != words.shape:
            shape = list(score.shape) if isinstance(score, torch.Tensor) else type(score).__name__
            message = f"the scores for words of shape {list(words.shape)} have shape {shape}"
            raise ModelError(f"{message}, but must have shape [batch, time, words]", self.path)
        return score[:, -1]

    @torch.inference_mode()
    def count_words(self, device: torch.device) -> int:
        """Run the network on the history (0, 0) and return the number of words that it scores."""
        return self.score(torch.zeros(self.batch or 1, 2, dtype=torch.int64, device=device)).shape[1]


def state_part(name: str, sizes: Sequence[object], dtype: torch.dtype, batch: object, path: str) -> StatePart:
    """Find the batch dimension of a state tensor and return a `StatePart` that is initialised with zeros.

    Args:
        name: Name of the tensor.
        sizes: Size of each dimension: an integer if it is fixed, else a name or None.
        dtype: Type of the tensor.
        batch: Size of the batch dimension in the word input.
        path: Path of the model, for messages.

    Raises:
        ModelError: The batch dimension is missing or ambiguous, or another dimension is not fixed.
    """
    free = [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]
    equal = [axis for axis, size in enumerate(sizes) if size == batch and size is not None]
    if len(equal) == 1 or (equal and batch == 1):  # all dimensions of size 1 are equivalent
        axis = equal[0]
    elif not equal and len(free) == 1:
        axis = free[0]
    else:
        dimensions = f"{'several dimensions' if equal else 'no dimension'} with the batch size {batch}"
        raise ModelError(
            f"the state {name} of shape {list(sizes)} has {dimensions}; name the batch dimension in the model", path
        )
    fixed = [size for index, size in enumerate(sizes) if index != axis and isinstance(size, int)]
    if len(fixed) != len(sizes) - 1:
        raise ModelError(
            f"the state {name} has sizes {list(sizes)}; all dimensions except the batch dimension must be fixed",
            path,
        )
    return StatePart(name, torch.zeros(fixed, dtype=dtype), axis)
