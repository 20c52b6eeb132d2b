"""Language model scores of decoded sentences, used as features by confidence models."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja.consensus.confidence_model import ConfidenceModel
from ninja.consensus.word_features import Surprise
from ninja.errors import OptionError
from ninja.lm.load import SHIPPED, load
from ninja.lm.protocol import LanguageModel
from ninja.lm.trie import word_logprobs


class WordSurprise:
    """Callable that computes the language model scores of the words in sentences; threads can share it.

    An unknown word is scored as ``<unk>``. If the model has no ``<unk>``, the word is skipped, and its score is 0.

    Args:
        lm: The language model.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self._lm = lm
        self._lock = threading.Lock()
        if lm.unk is None and lm.takes_oov_score:
            lm.score_oovs("skip")

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[Surprise]:
        """Score the lexical words of each sentence."""
        lm = self._lm
        unk = -1 if lm.unk is None else lm.unk
        with self._lock:
            ids = [np.array(lm.vocabulary.ids(sentence), np.int64) for sentence in sentences]
            ids = [np.where(numbers == -1, unk, numbers) for numbers in ids]
            logprobs = word_logprobs(lm, [numbers[numbers >= 0].tolist() for numbers in ids])
        return [_surprise(numbers, logprob, unk) for numbers, logprob in zip(ids, logprobs, strict=True)]


def _surprise(ids: npt.NDArray[np.int64], logprob: npt.NDArray[np.float32], unk: int) -> Surprise:
    """Return the scores of the words and the end of a sentence; words that were not scored (id -1) get the score 0."""
    scores = np.zeros(ids.size + 1)
    scores[np.append(ids >= 0, True)] = logprob
    return Surprise(scores, ids == unk)


def name_of_lm(lm: str) -> str:
    """Return the name that confidence models store: the name of a shipped model, or a file name without the folder."""
    return lm if lm in SHIPPED and not os.path.exists(lm) else os.path.basename(os.path.normpath(lm))


def surprise_of_model(model: ConfidenceModel, lm: str | None = None) -> WordSurprise | None:
    """Load the language model that a confidence model uses.

    Args:
        model: The confidence model.
        lm: File of the language model, or name of a shipped model.  [default: the shipped model whose name `model`
            stores]

    Returns:
        A function that scores sentences, or None if the confidence model uses no language model.

    Raises:
        OptionError: `lm` is missing or not needed, or its name differs from the name of the language model with which
            the confidence model was fitted.
        NinjaError: The language model cannot be loaded.
    """
    if not model.needs_lm:
        if lm is not None:
            raise OptionError("the confidence model uses no language model; omit --confidence-lm")
        return None
    if lm is None:
        if model.lm not in SHIPPED:
            raise OptionError(f"the confidence model uses the language model {model.lm}; specify it (--confidence-lm)")
        return WordSurprise(load(SHIPPED[model.lm]))
    if (name := name_of_lm(lm)) != model.lm:
        raise OptionError(
            f"the confidence model was fitted with the language model {model.lm}, not with {name}; specify {model.lm}"
        )
    return WordSurprise(load(lm))
