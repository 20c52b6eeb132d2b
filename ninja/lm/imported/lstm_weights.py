"""Ninja's LSTM as matrices, for writing it in the forms of other toolkits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninja.errors import ModelError
from ninja.lm.checkpoint import Checkpoint
from ninja.models.lstm import LSTMLanguageModel


@dataclass(frozen=True, slots=True)
class Layer:
    """One LSTM layer: gates from what it reads and its last output, then a projection of the cells."""

    gates: torch.Tensor  # float32 [4 cells, inputs + outputs], in the order input, forget, candidate, output
    bias: torch.Tensor  # float32 [4 cells]
    project: torch.Tensor  # float32 [outputs, cells]


@dataclass(frozen=True, slots=True)
class LstmWeights:
    """An LSTM language model with one matrix for input and output."""

    embedding: torch.Tensor  # float32 [words, outputs]
    bias: torch.Tensor  # float32 [words]
    layers: tuple[Layer, ...]


def lstm_weights(checkpoint: Checkpoint) -> LstmWeights:
    """Take a checkpoint's LSTM apart.

    Raises:
        ModelError: The checkpoint holds another kind of network.
    """
    module = checkpoint.module
    if not isinstance(module, LSTMLanguageModel):
        raise ModelError(f"a {type(module).__name__} cannot be written in this form; only Ninja's LSTM can")

    def parameter(name: str, layer: int) -> torch.Tensor:
        return module.lstm.get_parameter(f"{name}_l{layer}").detach().cpu()

    layers = tuple(
        Layer(
            torch.cat((parameter("weight_ih", layer), parameter("weight_hh", layer)), 1),
            parameter("bias_ih", layer) + parameter("bias_hh", layer),
            parameter("weight_hr", layer),
        )
        for layer in range(module.config.layers)
    )
    return LstmWeights(module.embedding.weight.detach().cpu(), module.bias.detach().cpu(), layers)
