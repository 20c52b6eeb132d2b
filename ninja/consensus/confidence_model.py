"""Maps from word features to calibrated confidences, and TOML files that store the maps."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from ninja.consensus.word_features import NAMES, OF_BOOSTS, OF_LM, OF_TIMES, Doubles, WordFeatures, sigmoid
from ninja.errors import FormatError, LatticeError
from ninja.files.output import toml_text
from ninja.files.text import read_toml
from ninja.lattice import Scales

VERSION = 1
MapKind = Literal["raw", "monotone", "logistic"]


@dataclass(frozen=True, slots=True)
class ConfidenceModel:
    """A map from features of a word to the probability that the word is correct.

    The map ``raw`` returns the posterior. ``monotone`` interpolates linearly between points, and assigns higher
    confidences to words with higher posteriors. ``logistic`` is a logistic regression with an additional weight
    for each frequent word.
    """

    map: MapKind
    scales: Scales  # scales of the costs from which the posteriors are computed
    posteriors: tuple[float, ...] = ()  # points of the monotone map, in increasing order
    confidences: tuple[float, ...] = ()  # confidences at these points, in increasing order
    bias: float = 0.0  # bias of the logistic map
    weights: Mapping[str, float] = field(default_factory=dict)  # feature → weight
    words: Mapping[str, float] = field(default_factory=dict)  # lexical word → weight
    lm: str | None = None  # name of the language model whose surprisal is a feature

    @property
    def needs_lm(self) -> bool:
        """Whether the model uses features that require a language model."""
        return any(name in OF_LM for name in self.weights)

    @property
    def needs_unboosted(self) -> bool:
        """Whether the model uses features that require lattices without boosts."""
        return any(name in OF_BOOSTS for name in self.weights)

    def confidences_of(self, features: WordFeatures) -> Doubles:
        """Return the confidence of each lexical word, float64 [num_words], in [0, 1].

        Raises:
            LatticeError: A feature is missing, such as the duration if the lattice has no times.
        """
        if self.map == "raw":
            return features.posterior
        if self.map == "monotone":
            return np.interp(features.posterior, self.posteriors, self.confidences)
        if missing := [name for name in self.weights if name not in features.values]:
            raise LatticeError(_missing(missing[0]), key=features.key)
        weight = np.array(list(self.weights.values()), np.float64)
        of_words = np.array([self.words.get(word, 0.0) for word in features.lexical.words], np.float64)
        logits = self.bias + features.table(list(self.weights)) @ weight + of_words
        return sigmoid(logits)

    def text(self, comments: Iterable[str] = ()) -> str:
        """Return the content of a TOML file that contains comments and this model."""
        values: dict[str, Any] = {
            "version": VERSION,
            "map": self.map,
            "acoustic_scale": self.scales.acoustic,
            "lm_scale": self.scales.lm,
            "word_penalty": self.scales.word_penalty,
        }
        if self.lm is not None:
            values["lm"] = self.lm
        if self.map == "monotone":
            values |= {"posteriors": list(self.posteriors), "confidences": list(self.confidences)}
        if self.map == "logistic":
            values |= {"bias": self.bias, "features": list(self.weights), "weights": list(self.weights.values())}
            values |= {"words": list(self.words), "word_weights": list(self.words.values())}
        return toml_text(values, comments)


def _missing(name: str) -> str:
    if name in OF_TIMES:
        return (
            "the lattice has no times, but the confidence model uses durations; fit a model on lattices without times"
        )
    if name in OF_LM:
        return "the confidence model uses the surprisal of a language model; specify the model (--confidence-lm)"
    return "the confidence model uses posteriors without boosts; specify the lattices without boosts (--unboosted)"


def read_confidence_model(path: str | os.PathLike[str]) -> ConfidenceModel:
    """Read a confidence model written by ``ninja tune --confidence``.

    Raises:
        InputError: The file cannot be read.
        FormatError: The file is not TOML, or not a confidence model of a known version.
    """
    reader = _Reader(read_toml(path), path)
    version = reader.table.get("version")
    if version != VERSION:
        raise reader.error("version", f"must be {VERSION}; fit the model again with `ninja tune --confidence`")
    kind: MapKind = reader.table.get("map")  # type: ignore[assignment]
    if kind not in get_args(MapKind):
        raise reader.error("map", f"must be {', '.join(get_args(MapKind)[:-1])} or {get_args(MapKind)[-1]}")
    scales = Scales(reader.number("acoustic_scale"), reader.number("lm_scale"), reader.number("word_penalty"))
    lm = reader.table.get("lm")
    if lm is not None and not isinstance(lm, str):
        raise reader.error("lm", "must be the name of a language model")
    if kind == "monotone":
        posteriors, confidences = reader.numbers("posteriors"), reader.numbers("confidences", like="posteriors")
        for name, numbers in (("posteriors", posteriors), ("confidences", confidences)):
            if len(numbers) < 2 or not (np.diff(numbers) > 0).all() or not 0 <= numbers[0] < numbers[-1] <= 1:
                raise reader.error(name, "must be at least two increasing numbers between 0 and 1")
        return ConfidenceModel(kind, scales, posteriors, confidences)
    if kind == "raw":
        return ConfidenceModel(kind, scales)
    names = reader.names("features")
    if unknown := [name for name in names if name not in NAMES]:
        raise reader.error("features", f"contains {unknown[0]!r}, which is not a feature of this version of Ninja")
    weights = dict(zip(names, reader.numbers("weights", like="features"), strict=True))
    words = dict(zip(reader.names("words"), reader.numbers("word_weights", like="words"), strict=True))
    return ConfidenceModel(kind, scales, (), (), reader.number("bias"), weights, words, lm)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader that checks the values in a TOML file."""

    table: Mapping[str, Any]
    path: str | os.PathLike[str]

    def error(self, name: str, message: str) -> FormatError:
        value = repr(self.table.get(name))
        shown = value if len(value) <= 60 else value[:60] + "…"
        return FormatError(
            f"{name} is {shown}, but {message}" if name in self.table else f"{name} is missing", self.path
        )

    def number(self, name: str) -> float:
        value = self.table.get(name)
        if not _is_number(value):
            raise self.error(name, "must be a finite number")
        return float(value)  # type: ignore[arg-type]

    def numbers(self, name: str, like: str | None = None) -> tuple[float, ...]:
        values = self.table.get(name)
        if not isinstance(values, list) or not all(map(_is_number, values)):
            raise self.error(name, "must be a list of finite numbers")
        if like is not None and len(values) != len(self.table[like]):
            raise self.error(name, f"must have as many values as {like} ({len(self.table[like])})")
        return tuple(map(float, values))

    def names(self, name: str) -> list[str]:
        values = self.table.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.error(name, "must be a list of strings")
        return values


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
