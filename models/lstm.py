"""Definition, in plain torch, of a word-level LSTM language model with tied embeddings.

    word ──► embedding ──► LSTM ──► … ──► LSTM ──► · embedding + bias ──► logits
            [V, embedding]  hidden cells, projected back to the embedding's width

A projection allows a layer to have many cells, which store information, but a narrow output, which makes steps fast:
every step multiplies the previous output by a matrix. Input and output share one embedding matrix, so the output needs
only a bias. If embeddings are wider than layer outputs, layers read only the first components of each embedding, and
the last layer has a second projection, which only the softmax reads. There is no projection if a layer has at most as
many cells as the embedding has components.

    last layer's cells ──► [ projection, read by the next step | more ] · embedding + bias

A small network can estimate the log-normaliser ln Σ exp(logits) from the output. Scoring a word then takes a
single dot product instead of one for each word of the vocabulary.

Source: Sak, Senior, Beaufays, "Long short-term memory recurrent neural network architectures for large
scale acoustic modeling", 2014 (projection); Press, Wolf, "Using the output embedding to improve language
models", 2017 (tying).
"""

import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

# oneDNN does not support projections; torch then uses its own implementation, which is equally fast.
warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes and options of an LSTM language model."""

    vocabulary: int  # number of words, including <s>, </s> and <unk>
    embedding: int = 256  # width of embeddings
    hidden: int = 768  # LSTM cells per layer
    layers: int = 2
    dropout: float = 0.0  # dropout on embeddings, between layers and before the softmax, in training
    normaliser: int = 0  # width of the two hidden layers that estimate the log-normaliser; 0 = no such layers
    projection: int = 0  # width of each layer's output, less than `embedding`; 0 = `embedding`

    @property
    def width(self) -> int:
        """Width of each layer's output."""
        return min(self.projection or self.embedding, self.hidden)


class LSTMLanguageModel(nn.Module):
    """LSTM that predicts each word of a sentence from the words before it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        self.lstm = nn.LSTM(
            config.width,
            config.hidden,
            config.layers,
            proj_size=config.width if config.width < config.hidden else 0,
            dropout=config.dropout if config.layers > 1 else 0.0,
        )
        self.is_narrow = config.width < config.embedding  # outputs of layers are narrower than embeddings
        if self.is_narrow:
            self.more = nn.Linear(config.hidden, config.embedding - config.width, bias=False)
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
        """Initialise the weights from torch's global generator."""
        nn.init.normal_(self.embedding.weight, std=0.1)
        nn.init.zeros_(self.bias)
        self.lstm.reset_parameters()
        if self.is_narrow:
            self.more.reset_parameters()
        with torch.no_grad():
            for layer in range(self.config.layers):
                # The order of gates is input, forget, cell, output. Forget gates that are open let gradients pass.
                forget = slice(self.config.hidden, 2 * self.config.hidden)
                self.lstm.get_parameter(f"bias_ih_l{layer}")[forget] = 1.0

    def forward(self, word: Tensor) -> Tensor:
        """Compute, for each word of a batch of sentences, the output that predicts the word after it.

        Args:
            word: Word ids, int64 [time, batch]; every column is a sentence that begins with ``<s>``.

        Returns:
            Outputs, float [time, batch, embedding]; `logits` converts them to scores.
        """
        embedded = self.dropout(self.embedding(word))  # [time, batch, embedding]
        output = self._one_by_one(embedded) if self.is_narrow else self.lstm(embedded)[0]
        return self.dropout(output)  # [time, batch, embedding]

    def _one_by_one(self, embedded: Tensor) -> Tensor:
        """Compute the output of the last layer, which is the concatenation of its two projections."""
        value = embedded[..., : self.config.width]
        for number in range(self.config.layers):
            entry, before, bias, more_bias, project = self._weights(number)
            if number == self.config.layers - 1:
                project = torch.cat((project, self.more.weight))  # [embedding, cells]
                before = nn.functional.pad(
                    before, (0, len(self.more.weight))
                )  # the next step does not read the second projection
            if number:
                value = self.dropout(value)
            states = tuple(value.new_zeros(1, value.shape[1], size) for size in project.shape)
            weights = [entry, before, bias, more_bias, project]
            if len(project) == self.config.hidden:  # torch does not accept a projection that is as wide as the cells
                del weights[-1]
            value = torch.lstm(value, states, weights, True, 1, 0.0, self.training, False, False)[0]
        return value

    def _weights(self, number: int) -> list[Tensor]:
        """Return the weights of a layer: input to gates, previous output to gates, two biases, and projection."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights: list[Tensor] = [self.lstm.get_parameter(f"{kind}_l{number}") for kind in kinds]
        if self.lstm.proj_size:
            return [*weights, self.lstm.get_parameter(f"weight_hr_l{number}")]
        return [*weights, torch.eye(self.config.hidden, dtype=weights[0].dtype, device=weights[0].device)]

    def layer(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weights for a single step of layer `number`, counted from 0.

        Returns:
            ``(weights, biases, projection)``: the weights from the layer's input and previous output to the gates
            (input, forget, cell, output), float [4 * hidden, input + output]; the biases of the gates, float
            [4 * hidden]; and the projection from the cells to the output, float [output, hidden]. The input of the
            first layer and the output of the last layer are as wide as embeddings. If embeddings are wider than
            `Config.width`, only the first `Config.width` components have nonzero weights to the gates.
        """
        entry, before, bias, more_bias, project = (weight.detach() for weight in self._weights(number))
        more = self.config.embedding - self.config.width
        if more and number == 0:
            entry = nn.functional.pad(entry, (0, more))
        if more and number == self.config.layers - 1:
            before, project = nn.functional.pad(before, (0, more)), torch.cat((project, self.more.weight.detach()))
        return torch.cat((entry, before), 1), bias + more_bias, project

    def logits(self, output: Tensor) -> Tensor:
        """Return the unnormalised log-probability of every word, float [..., vocabulary], for outputs of `forward`."""
        return nn.functional.linear(output, self.embedding.weight, self.bias)
