"""A masked language model of Hugging Face: whole sentences by pseudo-log-likelihood, for n-best lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from ninja.errors import ModelError
from ninja.lm.huggingface.spelling import Spelling
from ninja.lm.protocol import LanguageModel
from ninja.lm.text import runs

BATCH_PIECES = 1024  # read in one pass; their logits over 30,000 pieces are 120 MB

REFUSAL = "a masked language model scores whole sentences, not words after a history; use nbest, and no mixture"


class MaskedLM(LanguageModel):
    """A masked language model, which only scores whole sentences; of the protocol it has the attributes.

    A sentence's score is Σ ln P(piece | all other pieces of the sentence), each hidden in turn: no probability, but it
    ranks sentences well. The marks around the sentence are never predicted, so nothing is paid for ``</s>``.

    Source: Salazar, Liang, Nguyen, Kirchhoff, "Masked language model scoring", 2020, equation 1.
    """

    scores_tries = True
    whole_sentences = True  # what a word of a sentence scores depends on the words behind it

    def __init__(
        self, model: Any, spelling: Spelling, marks: tuple[int, int, int], longest: int, max_batch: int | None
    ) -> None:
        """Take over a network; `marks` are the pieces before a sentence, behind it, and of the mask."""
        self.vocabulary = spelling.vocabulary
        self.bos: int | None = 0
        self.eos = 1
        self.unk = spelling.unk
        self._model = model
        self._spelling = spelling
        self._marks = marks
        self._max_batch = max_batch
        self._device = model.device
        self._longest = longest

    @property
    def num_parameters(self) -> int:
        """Number of trained numbers."""
        return int(self._model.num_parameters())

    def start(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse scores of words after a history."""
        raise ModelError(REFUSAL)

    advance = logprob = start

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`; there are no slots."""

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Score the sentences of a trie, each of whose leaves is ``</s>``.

        Returns:
            A sentence's pseudo-log-likelihood at its ``</s>``, and 0 at words, float32 [n].

        Raises:
            ModelError: A leaf is a word: the end of its sentence is not known.
        """
        leaf = np.ones(len(parent), np.bool_)
        leaf[parent[parent >= 0]] = False
        if (word[leaf] != self.eos).any():
            raise ModelError(REFUSAL)
        sentences = []
        ends = np.flatnonzero(word == self.eos)
        above, words = parent.tolist(), word.tolist()
        for end in ends.tolist():
            sentence = []
            while (end := above[end]) >= 0:
                sentence.append(words[end])
            sentences.append(np.array(sentence[::-1], np.int64))
        score = np.zeros(len(parent), np.float32)
        score[ends] = self.score_sentences(sentences)
        return score

    @torch.inference_mode()
    def score_sentences(self, sentences: Sequence[npt.NDArray[np.integer]]) -> npt.NDArray[np.float64]:
        """Score whole sentences, given as word ids without ``<s>`` and ``</s>``.

        Returns:
            Pseudo-log-likelihoods, natural log, float64 [sentences]; NaN for sentences of more pieces than the network
            can read, 0 for empty ones.
        """
        pieces = [self._pieces(np.asarray(sentence)) for sentence in sentences]
        total = np.where([len(sentence) > self._longest for sentence in pieces], np.nan, 0.0)
        # One row for each piece of each sentence: the row in which it is hidden; long rows together.
        readable = [(number, sentence) for number, sentence in enumerate(pieces) if len(sentence) <= self._longest]
        row = [(number, place) for number, sentence in readable for place in range(1, len(sentence) - 1)]
        row.sort(key=lambda item: len(pieces[item[0]]))
        for run in runs([len(pieces[number]) for number, _ in row], BATCH_PIECES, self._max_batch):
            np.add.at(total, [number for number, _ in row[run]], self._score(pieces, row[run]))
        return total

    def _score(self, pieces: list[npt.NDArray[np.int64]], rows: list[tuple[int, int]]) -> npt.NDArray[np.float64]:
        """Predict one piece in each row; natural-log probabilities [rows]."""
        width = len(pieces[rows[-1][0]])
        sentence = np.full((len(rows), width), self._marks[1], np.int64)
        inside = np.zeros(sentence.shape, np.int64)
        for place, (number, _) in enumerate(rows):
            sentence[place, : len(pieces[number])] = pieces[number]
            inside[place, : len(pieces[number])] = 1
        every, hidden = np.arange(len(rows)), np.array([place for _, place in rows])
        target = torch.from_numpy(sentence[every, hidden]).to(self._device)
        sentence[every, hidden] = self._marks[2]
        logits = self._model(
            input_ids=torch.from_numpy(sentence).to(self._device),
            attention_mask=torch.from_numpy(inside).to(self._device),
        ).logits[torch.from_numpy(every), torch.from_numpy(hidden)]  # [rows, pieces]
        logprob = logits.log_softmax(-1).gather(1, target[:, None])[:, 0]
        return logprob.double().cpu().numpy()

    def _pieces(self, sentence: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        entry = self._spelling.entry(sentence, np.arange(len(sentence)) == 0).tolist()
        begin, piece = self._spelling.begin, self._spelling.piece
        parts = [piece[begin[each] : begin[each + 1]] for each in entry]
        return np.concatenate([np.array([self._marks[0]], np.int64), *parts, [self._marks[1]]])
