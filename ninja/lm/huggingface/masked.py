"""Masked Hugging Face models, which score the sentences of n-best lists by pseudo-log-likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from ninja.errors import ModelError
from ninja.lm.huggingface.piece_network import device_of_module
from ninja.lm.huggingface.spelling import Spelling
from ninja.lm.protocol import LanguageModel
from ninja.lm.text import runs

BATCH_PIECES = 1024  # pieces per pass; their logits over a vocabulary of 30,000 take 120 MB

REFUSAL = (
    "a masked language model can score only whole sentences, not words after a history; use --algorithm nbest, without "
    "a mixture"
)


class MaskedLM(LanguageModel):
    """A masked language model, which can score only whole sentences, not words after a history.

    The score of a sentence is Σ ln P(piece | all other pieces of the sentence), with each piece masked in turn. It is
    not a probability, but ranks sentences well. The special pieces around the sentence are not scored, so ``</s>`` has
    no cost.

    Source: Salazar, Liang, Nguyen, Kirchhoff, "Masked language model scoring", 2020, equation 1.
    """

    scores_tries = True
    open_vocabulary = True
    whole_sentences = True  # the score of a word depends on later words

    def __init__(
        self, model: Any, spelling: Spelling, marks: tuple[int, int, int], longest: int, max_batch: int | None
    ) -> None:
        """Create a language model from a network.

        Args:
            model: The network.
            spelling: Map from words to pieces.
            marks: Ids of the pieces before and after a sentence, and of the mask.
            longest: Maximum number of pieces per input, including `marks`.
            max_batch: Maximum number of inputs per network call; None for no limit.
        """
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
        """Number of trained parameters."""
        return sum(weight.numel() for weight in self._model.parameters())

    @property
    def reads_written(self) -> bool:
        """See `LanguageModel.reads_written`."""
        return self._spelling.has_written_pieces

    def advice(self, words: Sequence[str]) -> str | None:
        """See `LanguageModel.advice`."""
        return self._spelling.advice(words)

    def start(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a `ModelError`, because the model cannot score words after a history."""
        raise ModelError(REFUSAL)

    advance = logprob = start

    def release(self, slots: np.ndarray) -> None:
        """Do nothing, because there are no slots."""

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Score the sentences of a trie whose leaves are all ``</s>``; see `LanguageModel.score_trie`.

        Returns:
            The pseudo-log-likelihood of the sentence at each ``</s>``, and 0 at words, float32 [n].

        Raises:
            ModelError: A leaf is not ``</s>``, so its sentence is incomplete.
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
        """Score whole sentences.

        In a sentence longer than the network's maximum input, each piece is predicted from a window around it.

        Args:
            sentences: Word ids of each sentence, without ``<s>`` and ``</s>``.

        Returns:
            Natural-log pseudo-likelihoods, float64 [sentences]; 0 for empty sentences.
        """
        pieces = [self._pieces(np.asarray(sentence, np.int64)) for sentence in sentences]
        total = np.zeros(len(pieces))
        # Each piece of each sentence is masked in one row. Rows are not padded, because some networks, such as ConvBERT
        # and FNet, read padding in spite of the attention mask.
        row = [(number, index) for number, sentence in enumerate(pieces) for index in range(len(sentence))]
        row.sort(key=lambda item: len(pieces[item[0]]))
        for width, group in groupby(row, lambda item: min(len(pieces[item[0]]) + 2, self._longest)):
            rows = list(group)
            for run in runs([width] * len(rows), BATCH_PIECES, self._max_batch):
                windows = [self._window(pieces[number], index) for number, index in rows[run]]
                np.add.at(total, [number for number, _ in rows[run]], self._score(windows))
        return total

    def _window(self, pieces: npt.NDArray[np.int64], index: int) -> tuple[npt.NDArray[np.int64], int]:
        """Return the largest window around a piece, including special pieces, and the piece's index in the window."""
        size = self._longest - 2
        first = min(max(index - size // 2, 0), max(len(pieces) - size, 0))
        window = pieces[first : first + size]
        return np.concatenate(([self._marks[0]], window, [self._marks[1]])), index - first + 1

    def _score(self, rows: list[tuple[npt.NDArray[np.int64], int]]) -> npt.NDArray[np.float64]:
        """Mask one piece in each window, and return the natural-log probabilities of the masked pieces, float64 [rows].

        Args:
            rows: Pairs of a window and the index of the piece to mask; all windows have the same length.
        """
        sentence = np.stack([window for window, _ in rows])
        row, masked = np.arange(len(rows)), np.array([index for _, index in rows])
        target = torch.from_numpy(sentence[row, masked]).to(self._device)
        sentence[row, masked] = self._marks[2]
        read = torch.from_numpy(sentence).to(self._device)
        output = self._model(input_ids=read, attention_mask=torch.ones_like(read))
        logits = output.logits[torch.from_numpy(row), torch.from_numpy(masked)].float()  # [rows, pieces]
        logprob = logits.log_softmax(-1).gather(1, target[:, None])[:, 0]
        return np.asarray(logprob.double().cpu())

    def _pieces(self, sentence: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        begin, count = self._spelling.places(sentence, np.arange(len(sentence)) == 0)
        parts = [self._spelling.piece[at : at + size] for at, size in zip(begin.tolist(), count.tolist(), strict=True)]
        return np.concatenate([np.empty(0, np.int64), *parts])
