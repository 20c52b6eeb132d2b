"""Run Kaldi RNNLMs on NumPy, one step for a batch of histories per call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ninja import _networks
from ninja.lattice.symbols import SymbolTable
from ninja.lm.kaldi.array_operations import LIBRARY
from ninja.lm.kaldi.feature_embedding import FeatureEmbedding
from ninja.lm.kaldi.rnnlm import Features, KaldiModel
from ninja.lm.protocol import DEFAULTS, LoadOptions
from ninja.lm.recurrent.array_lstm import ArrayPoolLM, Embedding, Slots, WordVectors
from ninja.lm.word_map import Words
from ninja.models.nnet3 import Network


class ArrayRnnlm(ArrayPoolLM):
    """A Kaldi RNNLM on NumPy as a `LanguageModel`.

    The rows of the pool have the layout of `ninja.lm.kaldi.torch_rnnlm.KaldiRnnlm`. The normaliser excludes word 0
    (epsilon).
    """

    def __init__(self, model: KaldiModel, options: LoadOptions = DEFAULTS, path: str | None = None) -> None:
        """Wrap a model; scores are normalised only on request, because training keeps them nearly normalised."""
        words = Words(SymbolTable.from_words(model.words, path), model.bos, model.eos, model.unk)
        features = model.embedding
        if isinstance(features, Features):
            embedding: WordVectors = FeatureEmbedding(features.weight, features.begin, features.index, features.value)
        else:
            embedding = Embedding(np.ascontiguousarray(features))
        self._network = Network(model.network.graph, LIBRARY)
        options = replace(options, normalize=options.normalize is True)
        super().__init__(words, embedding, None, self._network.width, 0, options, first_word=1)
        self._num_parameters = model.num_parameters
        self._begin()

    def _advance(self, old: Slots, new: Slots, words: np.ndarray) -> None:
        table, scale, row = self._embedding.table(words)
        assert scale is None, "Kaldi's embeddings are in single precision"
        pieces = self._network.step(self._states[old], table[row])
        _networks.scatter_rows(pieces, new, self._states)
