"""Model of the probability that a candidate correction is right, which depends on the competing candidates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.context.correction.evidence import FEATURES
from ninja.errors import FormatError
from ninja.files.text import read_toml

FORMAT = "ninja correction 1"
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """Conditional logit model: overlapping candidates compete with each other and with leaving words unchanged."""

    weights: Doubles  # [features]
    bias: float
    threshold: float  # minimum probability of a correction, in [0, 1]
    confident_threshold: float  # minimum probability of a correction if the transcript has confidences
    origin: str = ""  # data from which weights and threshold were estimated

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Decision:
        """Read a model from a TOML file, whose content must be in the format that `values` returns.

        Raises:
            FormatError: The file has the wrong format, or a weight is missing.
        """
        table = read_toml(path)
        if table.get("format") != FORMAT:
            raise FormatError(
                f"not a decision model for corrections: format is {table.get('format')!r}, but must be {FORMAT!r}", path
            )
        names = ("bias", "threshold", "confident_threshold", *(f"weight_{name}" for name in FEATURES))
        for name in names:
            if not isinstance(table.get(name), int | float) or isinstance(table[name], bool):
                raise FormatError(f"{name} is {table.get(name)!r}, but must be a number", path)
        weights = np.array([table[f"weight_{name}"] for name in FEATURES], np.float64)
        bias, threshold, confident_threshold = (float(table[name]) for name in names[:3])
        return cls(weights, bias, threshold, confident_threshold, str(table.get("origin", "")))

    def values(self) -> dict[str, object]:
        """Return the model as the content of the TOML file that `read` reads."""
        weights = {f"weight_{name}": round(float(w), 5) for name, w in zip(FEATURES, self.weights, strict=True)}
        thresholds = {"threshold": self.threshold, "confident_threshold": self.confident_threshold}
        head = {"format": FORMAT, "origin": self.origin, **thresholds, "bias": round(self.bias, 5)}
        return {**head, **weights}

    def probabilities(
        self, features: Doubles, spans: Sequence[tuple[int, int]], log_prior: Doubles | None = None
    ) -> Doubles:
        """Return the probability that each candidate is right, float64 [candidates].

        The probability of candidate c is ``exp(s_c) / (1 + sum of exp(s_k) over the candidates k that overlap c)``,
        where s is the weighted sum of the features.

        Args:
            features: Features of the candidates, float64 [candidates, features]; see `evidence`.
            spans: Words that each candidate replaces, as (index of the first word, index of the last word + 1).
            log_prior: Value added to the score of each candidate.  [default: 0]
        """
        score = features @ self.weights + self.bias
        if log_prior is not None:
            score = score + log_prior
        return np.exp(score - log_totals(score, overlaps(spans)))


def overlaps(spans: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Return whether each pair of spans has a word in common, bool [spans, spans]."""
    begin, end = np.array(spans, np.int64).reshape(-1, 2).T
    return (begin[:, None] < end[None, :]) & (begin[None, :] < end[:, None])


def log_totals(score: Doubles, overlap: npt.NDArray[np.bool_]) -> Doubles:
    """Return ``ln(1 + sum of exp(score_k) over the candidates k that overlap c)`` for each candidate c."""
    largest = np.maximum(score.max(initial=0.0), 0.0)
    total: Doubles = largest + np.log(overlap @ np.exp(score - largest) + np.exp(-largest))
    return total
