"""The class `Hypothesis`: one result of a decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ninja.context.grammar.tags import tagged

if TYPE_CHECKING:
    from ninja.context.grammar.tracker import Match


@dataclass(frozen=True, slots=True, repr=False)
class Hypothesis:
    """A word sequence with its scores and, after a CTC search without a context tracker, its word times.

    score = model_score + context_scale · context_score + length_reward · number of units
    """

    words: tuple[tuple[str, ...], ...]  # each word, followed by words that have the same spelling in the lexicon
    units: tuple[int, ...]  # units without blanks and the end; a CTC search without a tracker also omits boundaries
    score: float  # nats, higher is better
    # Log-probability of the model (for CTC, of all alignments), or the weighted mean of model and CTC scores.
    model_score: float
    context_score: float = 0.0  # score of the tracker, unscaled
    matches: tuple[Match, ...] = ()  # phrases of the context; positions are word indices
    begin: tuple[int, ...] = ()  # first frame of each word in the best alignment
    end: tuple[int, ...] = ()  # last frame + 1 of each word
    cost: tuple[float, ...] = ()  # cost of the best alignment from the first frame of a word to the next word, nats
    # Column that the best alignment assigns to each frame, [frames]; between words, the column of the blank.
    alignment: npt.NDArray[np.int32] | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The words, separated by spaces; if several words have the same spelling, the first one is used."""
        return " ".join(alike[0] for alike in self.words)

    @property
    def tagged(self) -> str:
        """The text with the classes of its phrases, as in ``call [@name tom chen]``."""
        return tagged([alike[0] for alike in self.words], self.matches)

    def __repr__(self) -> str:
        return f"Hypothesis({self.text!r}, score {self.score:.7g})"
