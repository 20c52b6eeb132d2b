"""Fitting of confidence models to lattices with references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.consensus.confidence_model import ConfidenceModel
from ninja.consensus.decode import mbr_decode
from ninja.consensus.word_confidences import Find, Scorer, WordConfidenceEstimator
from ninja.consensus.word_features import NAMES, OF_LM, OF_UTTERANCE, WordFeatures, sigmoid
from ninja.errors import FormatError, Log, NinjaError
from ninja.evaluate import align
from ninja.evaluate.confidence import ConfidenceScores, score_confidences
from ninja.evaluate.lexical import check_texts
from ninja.evaluate.normal_form import composed_words
from ninja.lattice import Scales
from ninja.lattice.batch import Batch, Keyed, collect_batches, pairs
from ninja.lattice.text import LexicalForms
from ninja.tune.expected import utterance_groups
from ninja.tune.logistic import Logistic, fit_isotonic, fit_logistic

MIN_WORDS = 300  # number of decoded words below which posteriors are kept
MIN_RARER = 30  # number of correct words, and of wrong words, below which posteriors are kept
MIN_BLOCK = 20  # minimum number of words per block of the monotone map
NUM_FOLDS = 5  # number of folds of the cross-validation
PENALTIES = (3.0, 10.0, 30.0, 100.0)  # candidate L2 penalties for the weights of features
WORD_PENALTIES = (10.0, 3.0)  # candidate L2 penalties for the weights of words
UTTERANCE_PENALTY = 3.0  # factor of the penalty for features with one value per utterance, such as means
SPEAKER_CORRELATION = 1e-3  # assumed correlation of the calibration errors of two words of a speaker
DIGITS = 6  # significant digits of written numbers

Method = Literal["logistic", "monotone"]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TunedConfidence:
    """The result of ``tune_confidence``."""

    model: ConfidenceModel
    before: ConfidenceScores  # scores of the posteriors
    after: ConfidenceScores  # scores of models of the chosen kind, each fitted without the fold that it is scored on
    num_lattices: int
    reason: str  # the evidence for the model

    @property
    def evidence(self) -> tuple[str, ...]:
        """Lines that state the quality of posteriors and of calibrated confidences, and explain the choice of map."""
        if self.model.map == "raw":
            return f"posteriors: {self.before}", self.reason
        return f"posteriors: {self.before}", f"calibrated: {self.after}, {self.reason}"


@dataclass(frozen=True, slots=True, eq=False)
class _Words:
    """The decoded words of a development set."""

    features: list[WordFeatures]
    is_correct: Bools
    group: npt.NDArray[np.int64]  # speaker, or utterance if speakers are unknown
    unit: str  # unit of the groups, for messages

    @property
    def texts(self) -> list[str]:
        return [word for part in self.features for word in part.lexical.words]

    @property
    def posterior(self) -> Doubles:
        return np.concatenate([part.posterior for part in self.features])

    @property
    def fold(self) -> npt.NDArray[np.int64]:
        """Fold of each word in the cross-validation."""
        return self.group % NUM_FOLDS

    @property
    def weight(self) -> Doubles:
        """Weight of each word in the fit; the mean is 1.

        A speaker with n words counts as n / (1 + SPEAKER_CORRELATION · (n − 1)) words, because errors of calibration
        are correlated within a speaker. Otherwise, a speaker with most of the words would determine the map for all
        speakers.
        """
        if self.unit != "speaker":
            return np.ones(len(self.group))
        num_words = np.bincount(self.group)[self.group]
        weight = 1.0 / (1.0 + SPEAKER_CORRELATION * (num_words - 1.0))
        result: Doubles = weight / weight.mean()
        return result

    def names(self) -> tuple[str, ...]:
        """Return the names of the features that are available for all lattices."""
        return tuple(name for name in NAMES if all(name in part.values for part in self.features))


def tune_confidence(
    lattices: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    scales: Scales = Scales(),
    *,
    method: Method = "logistic",
    surprise: Scorer | None = None,
    lm: str | None = None,
    unboosted: Find | None = None,
    speakers: Mapping[str, str] | None = None,
    forms: LexicalForms | None = None,
    log: Log | None = None,
) -> TunedConfidence:
    """Fit a map from features of a decoded word to the probability that the word is correct.

    Words from minimum Bayes risk decoding are aligned with the references, and labelled as correct or wrong. The
    logistic map uses posteriors at several scales; the bins, lengths and times of words; means over the utterance; and,
    if available, the surprise of words and their posteriors without boosts. The L2 penalties of this map are chosen by
    cross-validation. The monotone map uses only the posterior, and preserves the ranking of words. Posteriors are kept
    if the set has fewer than 300 words, fewer than 30 correct words or fewer than 30 wrong words, or if the map is not
    better than the posteriors in cross-validation.

    Args:
        lattices: A development set. Lattices without a reference are ignored.
        references: Reference words by key.
        scales: Scales that define the total cost, for decoding and for the posteriors.
        method: Type of calibration map.
        surprise: Function that scores sentences with a language model; see ``ninja.lm.surprise.WordSurprise``.
        lm: Name of the language model for `surprise`, which is stored in the result.
        unboosted: Function that maps the key of an utterance to its lattice without boosts.
        speakers: Speaker of each utterance. With at least 5 speakers, cross-validation folds consist of whole speakers,
            and words of speakers with many words have smaller weights in the logistic map.  [default: folds consist of
            utterances]
        forms: Lexical forms for comparing words.
        log: Log for errors in lattices; lattices with errors are ignored. Without ``log.on_error``, the first error is
            raised.

    Raises:
        FormatError: No lattice has a reference, no word was decoded, or an utterance has no speaker.
        NinjaError: A lattice has no path or no version without boosts, and ``log.on_error`` is not set.
    """
    words = _decoded(
        lattices, references, scales, WordConfidenceEstimator(None, surprise, unboosted), speakers, forms, log or Log()
    )
    before = score_confidences(words.posterior, words.is_correct)
    raw = ConfidenceModel("raw", scales)
    rarer = min(before.num_correct, before.num_words - before.num_correct)
    count = len(words.features)
    if before.num_words < MIN_WORDS or rarer < MIN_RARER:
        size = f"{before.num_words} words, {before.num_words - before.num_correct} of them wrong"
        needed = f"{MIN_WORDS} words, {MIN_RARER} of them wrong and {MIN_RARER} correct"
        return TunedConfidence(
            raw,
            before,
            before,
            count,
            f"{size}, are too few to fit a map, so posteriors are kept; a map needs at least {needed}",
        )
    fit = _fit_monotone if method == "monotone" else _fit_logistic
    model, confidences = fit(words, scales, lm)
    after = score_confidences(confidences, words.is_correct)
    basis = f"cross-validated by {words.unit}"
    if after.nce <= before.nce:
        return TunedConfidence(
            raw, before, before, count, f"no map is better than the posteriors ({basis}), so they are kept"
        )
    return TunedConfidence(model, before, after, count, basis)


def _decoded(
    lattices: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    scales: Scales,
    estimator: WordConfidenceEstimator,
    speakers: Mapping[str, str] | None,
    forms: LexicalForms | None,
    log: Log,
) -> _Words:
    features: list[WordFeatures] = []
    labels: list[bool] = []
    keys: list[str] = []
    check_texts(references)
    scored = ((key, lattice) for key, lattice in pairs(lattices) if key in references)
    for batch in collect_batches(scored):
        for part in _tolerant(batch, lambda some: _batch_features(some, scales, estimator, forms), log):
            hypothesis = part.lexical.words
            reference = list(references[part.key])
            if forms is not None:
                reference = forms.normalizer_of(reference).words(reference)
            alignment = align(composed_words(reference), composed_words(hypothesis)).pairs
            labels += [expected == word for expected, word in alignment if word is not None]
            features.append(part)
            keys += [part.key] * len(hypothesis)
            log.lattices += 1
    if not features:
        raise FormatError("no lattice has a reference; check that the utterance ids match")
    if not labels:
        raise FormatError("no lattice has a decoded word, so there are no confidences to fit")
    order = list(dict.fromkeys(keys))
    group, are_speakers = utterance_groups(order, speakers)
    group_of = dict(zip(order, group.tolist(), strict=True))
    groups = np.array([group_of[key] for key in keys], np.int64)
    return _Words(features, np.array(labels, np.bool_), groups, "speaker" if are_speakers else "utterance")


def _batch_features(
    batch: Batch, scales: Scales, estimator: WordConfidenceEstimator, forms: LexicalForms | None
) -> list[WordFeatures]:
    table = None if forms is None else forms.common_table(batch)
    words = [result.words for result in mbr_decode(batch, scales, forms=table)]
    return estimator.features(batch, words, scales, forms=forms)[0]


def _tolerant(batch: Batch, function: Callable[[Batch], list[WordFeatures]], log: Log) -> list[WordFeatures]:
    """Call a function for a batch; if it fails, call it for each lattice, so that an error affects only one lattice."""
    try:
        return function(batch)
    except NinjaError:
        results: list[WordFeatures] = []
        for lattice in batch:
            try:
                results += function(Batch.of([lattice]))
            except NinjaError as error:
                log.fail(error, lattice.key)
        return results


def _fit_monotone(words: _Words, scales: Scales, lm: str | None) -> tuple[ConfidenceModel, Doubles]:
    """Fit a monotone map; return ``(model, cross-validated confidences)``."""
    posterior = words.posterior
    confidences = np.zeros(len(posterior))
    for is_held_out in _folds(words.fold):
        points = fit_isotonic(posterior[~is_held_out], words.is_correct[~is_held_out], MIN_BLOCK)
        confidences[is_held_out] = np.interp(posterior[is_held_out], *points)
    posteriors, values = (tuple(map(float, column)) for column in fit_isotonic(posterior, words.is_correct, MIN_BLOCK))
    return ConfidenceModel("monotone", scales, posteriors, values), confidences


def _fit_logistic(words: _Words, scales: Scales, lm: str | None) -> tuple[ConfidenceModel, Doubles]:
    """Fit a logistic map with cross-validated penalties; return ``(model, cross-validated confidences)``."""
    names = words.names()
    table = np.concatenate([part.table(names) for part in words.features])
    texts, weight = words.texts, words.weight
    factors = np.array([UTTERANCE_PENALTY if name in OF_UTTERANCE else 1.0 for name in names])

    def of_rows(rows: npt.NDArray[np.int64], penalty: float, word_penalty: float | None) -> Logistic:
        some = [texts[row] for row in rows]
        return fit_logistic(table[rows], some, words.is_correct[rows], penalty * factors, word_penalty, weight[rows])

    def held_out(penalty: float, word_penalty: float | None) -> tuple[float, Doubles]:
        """Return ``(cross-validated loss, held-out confidences)`` for the given penalties."""
        confidences = np.zeros(len(texts))
        for is_held_out in _folds(words.fold):
            rows = np.flatnonzero(is_held_out)
            fitted = of_rows(np.flatnonzero(~is_held_out), penalty, word_penalty)
            confidences[rows] = sigmoid(fitted.logits(table[rows], [texts[row] for row in rows]))
        return -float(weight @ np.log(np.where(words.is_correct, confidences, 1.0 - confidences))), confidences

    of_penalty = {penalty: held_out(penalty, None) for penalty in PENALTIES}
    penalty = min(of_penalty, key=lambda value: of_penalty[value][0])
    of_word_penalty = {None: of_penalty[penalty]} | {value: held_out(penalty, value) for value in WORD_PENALTIES}
    word_penalty = min(of_word_penalty, key=lambda value: of_word_penalty[value][0])
    confidences = of_word_penalty[word_penalty][1]
    fitted = of_rows(np.arange(len(texts)), penalty, word_penalty)
    weights = {name: _rounded(weight) for name, weight in zip(names, fitted.weights.tolist(), strict=True)}
    of_words = {word: _rounded(weight) for word, weight in fitted.words.items()}
    uses_lm = any(name in OF_LM for name in names)
    return (
        ConfidenceModel("logistic", scales, (), (), _rounded(fitted.bias), weights, of_words, lm if uses_lm else None),
        confidences,
    )


def _folds(fold: npt.NDArray[np.int64]) -> Iterable[Bools]:
    """Yield a mask of the words in each fold of the cross-validation."""
    return (fold == number for number in np.unique(fold))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
