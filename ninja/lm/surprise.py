"""Scores of decoded sentences by a language model, for confidences."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from ninja.consensus.word_features import Surprise
from ninja.lm.protocol import LanguageModel
from ninja.lm.trie import word_logprobs


class WordSurprise:
    """Score the words of sentences with a language model; threads may share it.

    A word that the model lacks is scored as ``<unk>``; if the model has no ``<unk>``, it is skipped: its score is 0.

    Args:
        lm: The language model.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self._lm = lm
        self._lock = threading.Lock()
        if lm.unk is None and lm.takes_oov_score:
            lm.score_oovs("skip")

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[Surprise]:
        """Return the scores of sentences of lexical words."""
        lm = self._lm
        with self._lock:
            ids = [lm.vocabulary.ids(sentence) for sentence in sentences]
            is_unknown = [np.array([number in (-1, lm.unk) for number in numbers], np.bool_) for numbers in ids]
            known = [[lm.unk if number == -1 else number for number in numbers] for numbers in ids]
            logprobs = word_logprobs(lm, known)  # type: ignore[arg-type]
        return [
            Surprise(np.asarray(logprob, np.float64), unknown)
            for logprob, unknown in zip(logprobs, is_unknown, strict=True)
        ]
