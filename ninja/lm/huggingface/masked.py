"""A masked language model of Hugging Face: whole sentences by pseudo-log-likelihood, for n-best lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from ninja.errors import ModelError
from ninja.lm.huggingface.piece_network import device_of_module
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
    spells_words = True
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
        self._device = device_of_module(model)
        self._longest = longest

    @property
    def num_parameters(self) -> int:
        """Number of trained numbers."""
        return sum(weight.numel() for weight in self._model.parameters())

    def advice(self, words: Sequence[str]) -> str | None:
        """See `LanguageModel.advice`."""
        return self._spelling.advice(words)

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
            Pseudo-log-likelihoods, natural log, float64 [sentences]; 0 for empty ones. Of a sentence of more pieces
            than the network reads, each piece is predicted from those in a window around it.
        """
        pieces = [self._pieces(np.asarray(sentence, np.int64)) for sentence in sentences]
        total = np.zeros(len(pieces))
        # One row for each piece of each sentence: the row in which it is hidden; long rows together.
        row = [(number, place) for number, inner in enumerate(pieces) for place in range(len(inner))]
        row.sort(key=lambda item: len(pieces[item[0]]))
        width = [min(len(pieces[number]) + 2, self._longest) for number, _ in row]
        for run in runs(width, BATCH_PIECES, self._max_batch):
            windows = [self._window(pieces[number], place) for number, place in row[run]]
            np.add.at(total, [number for number, _ in row[run]], self._score(windows))
        return total

    def _window(self, inner: npt.NDArray[np.int64], place: int) -> tuple[npt.NDArray[np.int64], int]:
        """Return a sentence with its marks, or as much around a place as the network reads, and the place in it."""
        room = self._longest - 2
        first = min(max(place - room // 2, 0), max(len(inner) - room, 0))
        window = inner[first : first + room]
        return np.concatenate(([self._marks[0]], window, [self._marks[1]])), place - first + 1

    def _score(self, rows: list[tuple[npt.NDArray[np.int64], int]]) -> npt.NDArray[np.float64]:
        """Predict one piece in each row, the longest last; natural-log probabilities [rows]."""
        sentence = np.full((len(rows), len(rows[-1][0])), self._marks[1], np.int64)
        inside = np.zeros(sentence.shape, np.int64)
        for place, (window, _) in enumerate(rows):
            sentence[place, : len(window)] = window
            inside[place, : len(window)] = 1
        every, hidden = np.arange(len(rows)), np.array([place for _, place in rows])
        target = torch.from_numpy(sentence[every, hidden]).to(self._device)
        sentence[every, hidden] = self._marks[2]
        logits = (
            self._model(
                input_ids=torch.from_numpy(sentence).to(self._device),
                attention_mask=torch.from_numpy(inside).to(self._device),
            )
            .logits[torch.from_numpy(every), torch.from_numpy(hidden)]
            .float()
        )  # [rows, pieces]
        logprob = logits.log_softmax(-1).gather(1, target[:, None])[:, 0]
        return np.asarray(logprob.double().cpu())

    def _pieces(self, sentence: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        begin, count = self._spelling.places(sentence, np.arange(len(sentence)) == 0)
        parts = [self._spelling.piece[at : at + size] for at, size in zip(begin.tolist(), count.tolist(), strict=True)]
        return np.concatenate([np.empty(0, np.int64), *parts])
