"""A word-level LSTM language model with tied embeddings: the definition, in plain torch.

    word ──► embedding ──► LSTM ──► … ──► LSTM ──► · embedding + bias ──► logits
            [V, embedding]  hidden cells, projected back to the embedding's width

The projection makes a cell wide (memory) while its output, which meets the vocabulary in the softmax,
stays narrow (speed). Input and output share one embedding matrix, so the output needs only a bias.

A small network may estimate the log-normaliser ln Σ exp(logits) from the output. A word is then scored with one
product, where the exact normaliser takes one for each word of the vocabulary.

Source: Sak, Senior, Beaufays, "Long short-term memory recurrent neural network architectures for large
scale acoustic modeling", 2014 (projection); Press, Wolf, "Using the output embedding to improve language
models", 2017 (tying).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

# True, and of no use to anyone: the other implementation is as fast.
warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")


@dataclass(frozen=True, slots=True)
class Config:
    """The shape of an LSTM language model."""

    vocabulary: int  # number of words, <s>, </s> and <unk> included
    embedding: int = 256  # width of embeddings and of each layer's output
    hidden: int = 768  # LSTM cells per layer, more than `embedding`
    layers: int = 2
    dropout: float = 0.0  # on embeddings, between layers and before the softmax; in training only
    normaliser: int = 0  # width of the two hidden layers that estimate the log-normaliser; 0: there are none


class LSTMLanguageModel(nn.Module):
    """Predict each word of a sentence from the words before it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        self.lstm = nn.LSTM(
            config.embedding,
            config.hidden,
            config.layers,
            proj_size=config.embedding,
            dropout=config.dropout if config.layers > 1 else 0.0,
        )
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.dropout = nn.Dropout(config.dropout)
        if config.normaliser:
            self.add_normaliser(config.normaliser)

    def add_normaliser(self, width: int) -> None:
        """Add untrained layers that estimate the log-normaliser from an output: [..., embedding] → [..., 1]."""
        self.config = replace(self.config, normaliser=width)
        hidden = nn.Linear(self.config.embedding, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        self.normaliser = nn.Sequential(*hidden, nn.Linear(width, 1))

    def initialise(self) -> None:
        """Draw fresh weights from torch's global generator."""
        nn.init.normal_(self.embedding.weight, std=0.1)
        nn.init.zeros_(self.bias)
        self.lstm.reset_parameters()
        with torch.no_grad():
            for layer in range(self.config.layers):
                # Gates are ordered input, forget, cell, output; open forget gates let gradients through.
                forget = slice(self.config.hidden, 2 * self.config.hidden)
                self.lstm.get_parameter(f"bias_ih_l{layer}")[forget] = 1.0

    def forward(self, word: Tensor) -> Tensor:
        """Compute what predicts the next word, after each word of a batch of sentences.

        Args:
            word: Word ids, int64 [time, batch]; every column starts a sentence, so with ``<s>``.

        Returns:
            Outputs, float [time, batch, embedding]; `logits` turns them into scores.
        """
        embedded = self.dropout(self.embedding(word))  # [time, batch, embedding]
        output, _ = self.lstm(embedded)  # [time, batch, embedding]
        return self.dropout(output)

    def layer(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return a layer as the products of one step.

        Returns:
            Weights of the gates input, forget, cell, output on the layer's input and its last output,
            float [4 * hidden, 2 * embedding], their biases, and the projection of the cells, [embedding, hidden].
        """
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        entry, before, bias, more, project = (self.lstm.get_parameter(f"{kind}_l{number}").detach() for kind in kinds)
        return torch.cat((entry, before), 1), bias + more, project

    def logits(self, output: Tensor) -> Tensor:
        """Return the unnormalised log-probability of every word, float [..., vocabulary]."""
        return nn.functional.linear(output, self.embedding.weight, self.bias)
