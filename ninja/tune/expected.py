"""Rescoring weights, and the expected word errors in n-best sentences for any weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError
from ninja.lm.mixture import How
from ninja.tune.choice import MAX_GROUPS, MIN_GROUPS, Outcomes
from ninja.tune.features import Features

# Factor applied to costs in posteriors; with larger values, expected errors are closer to the errors of the best path.
SHARPNESS = 2.0
DIGITS = 4  # decimal places of written weights

Doubles = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Weights:
    """Rescoring weights."""

    lm_weight: float
    acoustic_scale: float
    word_penalty: float
    mixture: tuple[float, ...] = (1.0,)  # shares of the models, which sum to 1; empty without models

    def num_moved(self, start: Weights) -> int:
        """Count the weights that differ from `start`; all weights of a mixture count as one."""
        pairs = zip(self._values, start._values, strict=True)
        return sum(value != other for value, other in pairs)

    @property
    def _values(self) -> tuple[object, ...]:
        return self.lm_weight, self.acoustic_scale, self.word_penalty, self.mixture

    def __str__(self) -> str:
        mixed = f", mixture {','.join(f'{share:.3g}' for share in self.mixture)}" if len(self.mixture) > 1 else ""
        lm = f"LM weight {self.lm_weight:.3g}, " if self.mixture else ""
        return f"{lm}acoustic scale {self.acoustic_scale:.3g}, word penalty {self.word_penalty:.3g}{mixed}"


def rounded_shares(shares: Sequence[float] | Doubles) -> tuple[float, ...]:
    """Round the mixture weights so that they still sum to 1."""
    rounded = [round(float(share), DIGITS) for share in shares]
    last = max(index for index, share in enumerate(rounded) if share > 0)
    rounded[last] = round(1.0 - sum(share for index, share in enumerate(rounded) if index != last), DIGITS)
    return tuple(rounded)


def utterance_groups(keys: Sequence[str], speakers: Mapping[str, str] | None) -> tuple[Int64s, bool]:
    """Assign utterances to numbered groups for bootstrap samples and cross-validation.

    Groups are speakers if at least MIN_GROUPS speakers are known, otherwise utterances. If there are more than
    MAX_GROUPS speakers or utterances, they are assigned to MAX_GROUPS groups in turn, to limit memory.

    Returns:
        The group number of each utterance, int64 [keys], and whether groups consist of speakers.

    Raises:
        FormatError: An utterance has no speaker.
    """
    if speakers is not None:
        number_of: dict[str, int] = {}
        for key in keys:
            if key not in speakers:
                raise FormatError("this utterance has no speaker; add it to utt2spk", key=key)
            number_of.setdefault(speakers[key], len(number_of))
        if len(number_of) >= MIN_GROUPS:
            return np.array([number_of[speakers[key]] % MAX_GROUPS for key in keys], np.int64), True
    return np.arange(len(keys)) % MAX_GROUPS, False


class WordErrors:
    """Word errors in n-best sentences for any weights.

    The expected number of errors in a lattice is a weighted mean over its sentences, with weights proportional to
    exp(−SHARPNESS · cost). It is a smooth function of the rescoring weights; the number of errors in the best sentence
    is a step function.

    Source: Och, 2003, "Minimum Error Rate Training in Statistical Machine Translation", for the smoothed error count.
    """

    def __init__(self, sentences: Features, how: How = "loglinear") -> None:
        self._sentences = sentences
        first = np.flatnonzero(np.diff(sentences.lattice, prepend=-1))
        self._column = np.arange(sentences.lattice.size) - first[sentences.lattice]
        self._shape = (sentences.num_lattices, int(self._column.max(initial=0)) + 1)
        self._graph, self._acoustic = self._padded(sentences.graph), self._padded(sentences.acoustic)
        self._words = self._padded(sentences.num_words)
        self._missing = self._padded(np.zeros(sentences.lattice.size), np.inf)
        self._edits = self._padded(sentences.errors)
        self._row = np.arange(self._shape[0])
        self._old = (
            None if sentences.old_logprob is None else self._padded(sentences.of_sentences(sentences.old_logprob))
        )
        # A log-linear mixture is a weighted mean of log-probabilities, so sum over words before mixing.
        self._sums = sentences.of_sentences(sentences.logprob) if how == "loglinear" else None
        self._mixed: tuple[tuple[float, ...], Doubles] | None = None

    def outcomes(self, points: Sequence[Weights], groups: Int64s) -> Outcomes:
        """Return the errors at each point, summed over the lattices in each group.

        Args:
            groups: Group number of each lattice, int64 [lattices].
        """
        num_groups = int(groups.max(initial=-1)) + 1
        expected, errors = (np.zeros((len(points), num_groups)) for _ in range(2))
        place = 0
        for _, alike in groupby(points, key=lambda point: (point.mixture, point.lm_weight, point.acoustic_scale)):
            same = list(alike)
            costs = self._costs(same[0])
            for point in same:
                for total, of_lattices in zip((expected, errors), self._errors(costs, point), strict=True):
                    total[place] = np.bincount(groups, of_lattices, num_groups)
                place += 1
        words = np.bincount(groups, self._sentences.reference_words, num_groups).astype(np.int64)
        return Outcomes(expected, errors, words)

    def _costs(self, weights: Weights) -> Doubles:
        """Return sentence costs without the word penalty, float64 [lattices, max_sentences], padded with inf."""
        share = 1.0 - weights.lm_weight if self._old is None else 1.0
        cost = weights.acoustic_scale * self._acoustic + share * self._graph + self._missing
        if weights.lm_weight and weights.mixture:
            new = self._logprob(weights.mixture)
            cost -= weights.lm_weight * (new if self._old is None else new - self._old)
        return cost

    def _errors(self, costs: Doubles, weights: Weights) -> tuple[Doubles, Doubles]:
        """Return ``(expected errors, errors in the best sentence)`` for each lattice."""
        total = costs + weights.word_penalty * self._words
        best = total.argmin(1)
        excess = total - total[self._row, best, None]
        posterior = np.exp((-SHARPNESS * excess).astype(np.float32))
        expected = (posterior * self._edits).sum(1, dtype=np.float64) / posterior.sum(1, dtype=np.float64)
        return expected, self._edits[self._row, best]

    def _logprob(self, mixture: tuple[float, ...]) -> Doubles:
        """Return the log-probability of each sentence under the mixture, float64 [lattices, max_sentences]."""
        if self._mixed is None or self._mixed[0] != mixture:
            share = np.array(mixture)
            if self._sums is not None:
                mixed = share @ self._sums
            else:
                used = np.flatnonzero(share > 0)
                joint = np.logaddexp.reduce(self._sentences.logprob[used] + np.log(share[used])[:, None], axis=0)
                mixed = self._sentences.of_sentences(joint)
            self._mixed = mixture, self._padded(mixed)
        return self._mixed[1]

    def _padded(self, values: npt.NDArray[np.generic], missing: float = 0.0) -> Doubles:
        table = np.full(self._shape, missing)
        table[self._sentences.lattice, self._column] = values
        return table
