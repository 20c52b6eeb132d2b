"""Quality measures for word confidences: normalised cross entropy, calibration error and ranking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError
from ninja.evaluate.lexical import NormalizerName
from ninja.evaluate.scoring import Mode, score_each
from ninja.lattice.text import NONE, make_normalizer

NUM_BINS = 10
CLIP = 1e-4  # confidences are clipped to CLIP … 1 − CLIP for the cross entropy

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Number, accuracy and mean confidence of the words whose confidences are in a given interval."""

    num_words: int
    num_correct: int
    confidence: float  # mean confidence of the words; NaN if there are no words

    @property
    def accuracy(self) -> float:
        """Fraction of the words that are correct; NaN if there are no words."""
        return self.num_correct / self.num_words if self.num_words else math.nan


@dataclass(frozen=True, slots=True)
class ConfidenceScores:
    """Quality measures for the confidences of a set of words."""

    num_words: int
    num_correct: int
    nce: float  # normalised cross entropy, at most 1; 0 if each confidence is the share of correct words
    ece: float  # expected calibration error, in [0, 1]
    auc: float  # probability that a correct word has a greater confidence than a wrong one; ties count half
    num_clipped: int  # number of confidences that were clipped for the cross entropy
    bins: tuple[ReliabilityBin, ...]  # bins of equal width

    def __str__(self) -> str:
        """Format the scores on one line, followed by the counts in brackets."""
        counts = f"{self.num_correct} correct of {self.num_words} words"
        nce = round(self.nce, 3) + 0.0  # converts -0.0 to 0.0
        return f"NCE {nce:.3f}, ECE {self.ece:.3f}, AUC {self.auc:.3f} [ {counts} ]"


def score_confidences(
    confidences: Sequence[float] | Doubles, is_correct: Sequence[bool] | npt.NDArray[np.bool_]
) -> ConfidenceScores:
    """Measure how well word confidences predict which words are correct.

    The normalised cross entropy is (H_max + Σ log2 p) / H_max. The sum is over all words; p is the confidence of a
    correct word, or one minus the confidence of a wrong word; and H_max is the number of words times the entropy of the
    share of correct words. If all words are correct or all are wrong, the normalised cross entropy and the area under
    the ROC curve (AUC) are NaN. Confidences are clipped to 0.0001 … 0.9999 for the cross entropy only. The
    expected calibration error is the mean absolute difference between the mean confidence and the share of correct
    words over 10 bins of equal width, weighted by the number of words in each bin.

    Args:
        confidences: Confidences in [0, 1].
        is_correct: Whether each word is correct.

    Raises:
        OptionError: A confidence is not in [0, 1], there are no words, or the lengths of the arguments differ.

    Source: NIST, SCTK, doc/sclite.htm, for the normalised cross entropy; Naeini, Cooper and Hauskrecht, 2015,
        "Obtaining well calibrated probabilities using Bayesian binning", for the expected calibration error.
    """
    confidence, correct = np.asarray(confidences, np.float64), np.asarray(is_correct, np.bool_)
    if confidence.ndim != 1 or confidence.shape != correct.shape:
        raise OptionError(f"there are {confidence.size} confidences for {correct.size} words")
    if not len(confidence):
        raise OptionError("there are no words, so there are no confidences to score")
    if not ((confidence >= 0.0) & (confidence <= 1.0)).all():
        wrong = confidence[~((confidence >= 0.0) & (confidence <= 1.0))][0]
        raise OptionError(f"a confidence is {wrong:g}, but must be between 0 and 1")
    num_words, num_correct = len(correct), int(correct.sum())
    clipped = np.clip(confidence, CLIP, 1.0 - CLIP)
    share = num_correct / num_words
    nce = auc = math.nan
    if 0 < num_correct < num_words:
        entropy = -num_correct * math.log2(share) - (num_words - num_correct) * math.log2(1.0 - share)
        nce = float((entropy + np.log2(np.where(correct, clipped, 1.0 - clipped)).sum()) / entropy)
        auc = _area_under_roc(confidence, correct)
    bin = np.minimum((confidence * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    counts, of_correct = (np.bincount(bin, weight, NUM_BINS) for weight in (None, correct))
    sums = np.bincount(bin, confidence, NUM_BINS)
    bins = tuple(
        ReliabilityBin(int(count), int(right), total / count if count else math.nan)
        for count, right, total in zip(counts.tolist(), of_correct.tolist(), sums.tolist(), strict=True)
    )
    ece = float(np.abs(sums - of_correct).sum() / num_words)
    num_clipped = int((clipped != confidence).sum())
    return ConfidenceScores(num_words, num_correct, nce, ece, auc, num_clipped, bins)


def _area_under_roc(confidence: Doubles, correct: npt.NDArray[np.bool_]) -> float:
    _, index, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[index]  # ≥ 1; equal confidences get their mean rank
    num_correct, num_wrong = int(correct.sum()), int((~correct).sum())
    return float((rank[correct].sum() - num_correct * (num_correct + 1) / 2) / (num_correct * num_wrong))


@dataclass(frozen=True, slots=True, eq=False)
class ConfidentWords:
    """A hypothesis with word confidences."""

    words: Sequence[str]
    confidences: Sequence[float | None]  # confidence of each word, [num_words]; None if it is unknown


def label_words(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, ConfidentWords],
    mode: Mode = "strict",
    *,
    normalizer: NormalizerName = NONE,
) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    """Align hypotheses with references, and return ``(confidences, is_correct)`` for all words.

    A word is correct if the alignment with the fewest edits pairs it with an equal word in the reference. With a
    normalizer, lexical words are compared; each has the confidence of the written word to which it belongs. Words
    without a confidence are ignored.

    Args:
        references: Reference words by utterance id.
        hypotheses: Recognised words by utterance id.
        mode: Treatment of references without a hypothesis; see ``score``.
        normalizer: Normalizer applied before words are compared; see ``score``.

    Raises:
        FormatError: No word of the scored utterances has a confidence, or a confidence is not in [0, 1]; see also
            ``score``.
    """
    normalizer = make_normalizer(normalizer)
    lexical: dict[str, list[str]] = {}
    confidences: dict[str, list[float | None]] = {}
    for key, hypothesis in hypotheses.items():
        forms = normalizer.forms(list(hypothesis.words))
        lexical[key] = [part for form in forms for part in form]
        confidences[key] = [
            confidence for form, confidence in zip(forms, hypothesis.confidences, strict=True) for _ in form
        ]
    references = {key: normalizer.words(words) for key, words in references.items()}
    labelled: list[tuple[float, bool]] = []
    for key, alignment in score_each(references, lexical, mode).items():
        words = [(word, reference == word) for reference, word in alignment.pairs if word is not None]
        for confidence, (word, label) in zip(confidences.get(key, ()), words, strict=True):
            if confidence is None:
                continue
            check_confidence(word, confidence, key)
            labelled.append((confidence, label))
    if not labelled:
        raise FormatError("the words of the scored utterances have no confidences; specify hypotheses with confidences")
    return np.array([pair[0] for pair in labelled]), np.array([pair[1] for pair in labelled], np.bool_)


def check_confidence(word: str, confidence: float, key: str) -> None:
    """Raise FormatError if the confidence of a word is not a probability."""
    if not 0.0 <= confidence <= 1.0:
        message = f"the confidence of {word!r} is {confidence:g}, but must be between 0 and 1"
        raise FormatError(f"{message}; convert log-probabilities and percentages to probabilities", key=key)
