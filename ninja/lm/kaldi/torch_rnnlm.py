"""Run Kaldi RNNLMs on torch, one step for a batch of histories per call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ninja import _networks
from ninja.lattice.symbols import SymbolTable
from ninja.lm.compute import device_of, linear
from ninja.lm.kaldi.rnnlm import Features, KaldiModel
from ninja.lm.protocol import DEFAULTS, LoadOptions
from ninja.lm.recurrent.state_pool import StatePoolLM
from ninja.lm.word_map import Words
from ninja.models.nnet3 import Network
from ninja.models.nnet3_operations import Kernels, library


class KaldiRnnlm(StatePoolLM):
    """A Kaldi RNNLM on torch as a `LanguageModel`.

    A row of the pool contains the network's output followed by its memory; see `ninja.models.nnet3`.
    The normaliser excludes word 0 (epsilon).
    """

    def __init__(self, model: KaldiModel, options: LoadOptions = DEFAULTS, path: str | None = None) -> None:
        """Wrap a model; scores are normalised only on request, because training keeps them nearly normalised."""
        vocabulary = SymbolTable(((word, number) for number, word in enumerate(model.words)), path)
        words = Words(vocabulary, model.bos, model.eos, model.unk)
        place = device_of(options.device)
        kernels = Kernels(linear, _lstm_cell) if place.type == "cpu" else Kernels(linear)
        self._network = Network(model.network.graph, library(place, kernels))
        options = replace(options, normalize=options.normalize is True)
        super().__init__(words, _word_embedding(model), None, self._network.width, 0, options, first_word=1)
        self._num_parameters = model.num_parameters
        self._begin()

    def _step(self, row: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        return torch.cat(self._pieces(row, words), 1)

    def _pieces(self, row: torch.Tensor, words: np.ndarray) -> list[torch.Tensor]:
        pieces: list[torch.Tensor] = self._network.step(row, self._embedding.index_select(0, self._tensor(words)))
        return pieces

    def _advance(self, old: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        if not self._states.is_cpu:
            super()._advance(old, new, words)
            return
        parent = self._states.index_select(0, self._tensor(old))  # [n, row]
        pieces = [piece.numpy() for piece in self._pieces(parent, words)]
        _networks.scatter_rows(pieces, new, self._states.numpy())


def _lstm_cell(gates: torch.Tensor, before: torch.Tensor, peephole: torch.Tensor) -> torch.Tensor:
    """Compute `ninja.models.nnet3_operations.lstm_cell` in one pass over memory instead of a dozen."""
    return torch.from_numpy(_networks.peephole_cell(gates.numpy(), before.numpy(), peephole.numpy()))


def _word_embedding(model: KaldiModel) -> torch.Tensor:
    """Return the embedding of each word, float32 [words, embedding]."""
    features = model.embedding
    if not isinstance(features, Features):
        return torch.tensor(features)
    return torch.nn.functional.embedding_bag(
        torch.tensor(features.index),
        torch.tensor(features.weight),
        torch.tensor(features.begin),
        mode="sum",
        per_sample_weights=torch.tensor(features.value),
        include_last_offset=True,
    )
