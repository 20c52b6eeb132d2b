"""CTC prefix scores, for searches that combine a CTC model with a model that predicts the next unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja.decoding.emissions import log_probabilities
from ninja.errors import OptionError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class CtcPrefixes:
    """Log-probabilities that a CTC model's output begins with, or equals, the units of a hypothesis.

    Args:
        logprob: Natural log-probabilities of all units at each frame, [frames, units] per utterance. The columns
            are the units of the search.
        blank: Column of the blank.

    Raises:
        ModelError: A matrix does not contain log-probabilities.
        OptionError: The matrices have different numbers of columns, or the blank is not a column.

    Source: Watanabe, Hori, Kim, Hershey and Hayashi 2017, "Hybrid CTC/attention architecture for end-to-end speech
    recognition", IEEE Journal of Selected Topics in Signal Processing 11(8), algorithm 2.
    """

    def __init__(self, logprob: Sequence[npt.ArrayLike], blank: int = 0) -> None:
        matrices = [log_probabilities(matrix) for matrix in logprob]
        widths = {matrix.shape[1] for matrix in matrices}
        if len(widths) > 1:
            raise OptionError(
                f"the matrices have {min(widths)} to {max(widths)} columns, but all must have the same number"
            )
        if widths and not 0 <= blank < min(widths):
            raise OptionError(f"blank is column {blank}, but the last column is {min(widths) - 1}")
        self.blank = blank
        self._num_units = min(widths, default=0)
        self._frames = np.array([len(matrix) for matrix in matrices], np.int64)
        longest = max(self._frames, default=0)
        self._logprob = np.full((len(matrices), longest, self._num_units), -np.inf)
        for row, matrix in zip(self._logprob, matrices, strict=True):
            row[: len(matrix)] = matrix

    def __len__(self) -> int:
        return len(self._frames)

    def start(self) -> Floats:
        """Return the state before the first unit for each utterance; see `extend`."""
        state = np.full((len(self), self._logprob.shape[1] + 1, 2), -np.inf)
        state[:, 0, 1] = 0.0
        np.cumsum(self._logprob[:, :, self.blank], axis=1, out=state[:, 1:, 1])
        return state

    def extend(self, utterance: Ints, state: Floats, last: Ints, unit: Ints) -> tuple[Floats, Floats]:
        """Append a unit to each prefix.

        Args:
            utterance: Utterance of each prefix, [n].
            state: States of the prefixes: log-probabilities of the prefix after each number of frames, with a unit and
                with a blank as the last output, [n, frames + 1, 2].
            last: Last unit of each prefix, -1 for an empty prefix, [n].
            unit: Unit to append, [n].

        Returns:
            The log-probability that the output begins with the extended prefix, [n], and the new states.
        """
        if unit.size and not 0 <= unit.min() <= unit.max() < self._num_units:
            bad = unit[(unit < 0) | (unit >= self._num_units)][0]
            raise OptionError(f"unit {bad} is not one of the {self._num_units} columns of the CTC model")
        output = self._logprob[utterance, :, unit]  # [n, frames]
        blank = self._logprob[utterance, :, self.blank]
        with np.errstate(invalid="ignore"):
            # A repeated unit requires a blank in between.
            before = np.where((last == unit)[:, None], state[:, :, 1], np.logaddexp(state[:, :, 0], state[:, :, 1]))
            begins = before[:, :-1] + output  # log-probability that the new unit begins in each frame
            after = np.full_like(state, -np.inf)
            for frame in range(output.shape[1]):
                after[:, frame + 1, 0] = np.logaddexp(after[:, frame, 0] + output[:, frame], begins[:, frame])
                after[:, frame + 1, 1] = np.logaddexp(after[:, frame, 0], after[:, frame, 1]) + blank[:, frame]
        prefix: Floats = np.logaddexp.reduce(begins, axis=1, initial=-np.inf)
        prefix[unit == self.blank] = -np.inf
        return prefix, after

    def final(self, utterance: Ints, state: Floats) -> Floats:
        """Return the log-probability that the output equals each prefix, [n]."""
        at = state[np.arange(len(utterance)), self._frames[utterance]]
        whole: Floats = np.logaddexp(at[:, 0], at[:, 1])
        return whole
