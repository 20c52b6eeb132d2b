"""Confidences of decoded words, with and without boosts: posteriors or calibrated probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ninja.consensus.confidence_model import ConfidenceModel
from ninja.consensus.decode import Consensus, Words
from ninja.consensus.word_features import (
    Doubles,
    Surprise,
    WordFeatures,
    lexical_words,
    surprise_features,
    unboosted_features,
    word_features,
)
from ninja.errors import LatticeError
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import frozen
from ninja.lattice.text import LexicalForms

Scorer = Callable[[Sequence[Sequence[str]]], list[Surprise]]
Find = Callable[[str], Lattice | None]  # utterance key → lattice, or None if there is none


@dataclass(frozen=True, slots=True, eq=False)
class WordConfidences:
    """Confidences of the words in a sequence; NaN for each written word that has no lexical words, such as a comma."""

    confidences: Doubles  # [num_words]
    without_boosts: Doubles | None = None  # [num_words]; None if there is no lattice without boosts


@dataclass(frozen=True, slots=True)
class WordConfidenceEstimator:
    """Callable that computes the confidences of word sequences in lattices.

    Args:
        model: The calibration model; without a model, confidences are posteriors.
        surprise: Function that scores sentences with the language model that the calibration uses; see
            ``ninja.lm.surprise.WordSurprise``.
        unboosted: Function that maps the key of an utterance to its lattice without boosts. Confidences without boosts
            are the confidences of the decoded words in this lattice.
    """

    model: ConfidenceModel | None = None
    surprise: Scorer | None = None
    unboosted: Find | None = None

    def __call__(
        self,
        lattices: Batch,
        words: Sequence[Words],
        scales: Scales = Scales(),
        *,
        forms: LexicalForms | None = None,
    ) -> list[WordConfidences]:
        """Compute the confidences of one word sequence per lattice.

        Args:
            lattices: The lattices from which the words were decoded.
            words: Word ids for each lattice, such as the result of ``mbr_decode`` or the words of the best path.
            scales: Scales that define the total cost; a calibration replaces them with the scales for which it was
                fitted.
            forms: Lexical forms; see ``mbr_decode``. The confidence of a word is the smallest confidence of its
                lexical words.

        Raises:
            LatticeError: See `word_features`; or something that the calibration requires (word times, a language
                model or a lattice without boosts) is not available.
            SymbolError: See `word_features`.
        """
        only_posteriors = self.model is None or self.model.map != "logistic"
        boosted, plain = self.features(lattices, words, scales, forms=forms, only_posteriors=only_posteriors)
        return [
            WordConfidences(
                self._of_words(part, len(sequence)),
                None if plain is None else self._of_words(plain[index], len(sequence)),
            )
            for index, (part, sequence) in enumerate(zip(boosted, words, strict=True))
        ]

    def features(
        self,
        lattices: Batch,
        words: Sequence[Words],
        scales: Scales = Scales(),
        *,
        forms: LexicalForms | None = None,
        only_posteriors: bool = False,
    ) -> tuple[list[WordFeatures], list[WordFeatures] | None]:
        """Return ``(features in the lattices, features in the lattices without boosts)`` for word sequences.

        See `__call__` and `word_features` for the arguments.
        """
        scales = scales if self.model is None else self.model.scales
        lexical = [lexical_words(*pair, forms) for pair in zip(lattices, words, strict=True)]
        compute = partial(word_features, words=lexical, scales=scales, forms=forms, only_posteriors=only_posteriors)
        boosted = compute(lattices)
        plain = None if self.unboosted is None else compute(Batch.of(map(self._unboosted, lattices.keys)))
        if only_posteriors:
            return boosted, plain
        if plain is not None:
            boosted = [part.with_values(unboosted_features(other)) for part, other in zip(boosted, plain, strict=True)]
            plain = [part.with_values(unboosted_features(part)) for part in plain]
        if self.surprise is not None:
            scores = [surprise_features(score) for score in self.surprise([sequence.words for sequence in lexical])]
            boosted = [part.with_values(score) for part, score in zip(boosted, scores, strict=True)]
            if plain is not None:
                plain = [part.with_values(score) for part, score in zip(plain, scores, strict=True)]
        return boosted, plain

    def _unboosted(self, key: str) -> Lattice:
        assert self.unboosted is not None
        lattice = self.unboosted(key)
        if lattice is None:
            raise LatticeError("the lattice without boosts is missing; provide a lattice with this key", key=key)
        return lattice

    def _of_words(self, features: WordFeatures, num_words: int) -> Doubles:
        lexical = features.posterior if self.model is None else self.model.confidences_of(features)
        confidences = np.full(num_words, np.inf)
        np.minimum.at(confidences, features.lexical.written, lexical)
        confidences[np.isinf(confidences)] = np.nan
        return confidences


def with_confidences(
    results: Sequence[Consensus],
    lattices: Batch,
    estimator: WordConfidenceEstimator,
    scales: Scales = Scales(),
    *,
    forms: LexicalForms | None = None,
) -> list[tuple[Consensus, Doubles | None]]:
    """Replace the confidences of decoded words, except for silence and for words without lexical words.

    Args:
        results: Results of ``mbr_decode`` for the lattices.
        lattices: The lattices.
        estimator: Estimator of the confidences.
        scales: Scales that define the total cost; they are passed to the estimator.
        forms: Lexical forms; they are passed to the estimator.

    Returns:
        ``(result, confidences without boosts)`` for each lattice. The result contains the new confidences; confidences
        without boosts are float64 [num_words], or None if they are not available.

    Raises:
        NinjaError: The estimator cannot compute the confidences.
    """
    estimates = estimator(lattices, [result.words for result in results], scales, forms=forms)
    replaced = []
    for result, estimate in zip(results, estimates, strict=True):
        posterior = np.clip(result.confidences.astype(np.float64), 0.0, 1.0)
        is_missing = np.isnan(estimate.confidences)
        without_boosts = estimate.without_boosts
        confidences = np.where(is_missing, posterior, estimate.confidences)
        if without_boosts is not None:
            without_boosts = np.where(is_missing, posterior, without_boosts)
        replaced.append((replace(result, confidences=frozen(confidences, np.float32)), without_boosts))
    return replaced
