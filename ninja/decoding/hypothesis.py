"""A hypothesis of a decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ninja.context.grammar.tracker import Match


@dataclass(frozen=True, slots=True, repr=False)
class Hypothesis:
    """A word sequence that a search found, with its scores and, of a CTC search without a tracker, its times.

    score = model_score + context_scale · context_score + length_reward · number of units
    """

    words: tuple[tuple[str, ...], ...]  # each with the other words that the lexicon spells the same way
    units: tuple[int, ...]  # without blanks and the end; a CTC search without a tracker also leaves out boundaries
    score: float  # nats, higher is better
    model_score: float  # log-probability by the model, of all alignments by CTC
    context_score: float = 0.0  # the tracker's, unscaled
    matches: tuple[Match, ...] = ()  # phrases of the context, by words
    begin: tuple[int, ...] = ()  # first frame of each word by the best alignment
    end: tuple[int, ...] = ()  # the frame after its last
    cost: tuple[float, ...] = ()  # of the best alignment, from each word's first frame to the next word's; nats
    # By the best alignment, [frames]: the column of a unit; between words, the blank.
    alignment: npt.NDArray[np.int32] | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The words, the first of those spelled the same way, separated by spaces."""
        return " ".join(alike[0] for alike in self.words)

    def __repr__(self) -> str:
        return f"Hypothesis({self.text!r}, score {self.score:.7g})"
