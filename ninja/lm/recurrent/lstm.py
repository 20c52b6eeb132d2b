"""Run an LSTM language model, one step for a batch of histories per call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ninja import _networks
from ninja.lattice.symbols import SymbolTable
from ninja.lm.compute import device_of, linear
from ninja.lm.protocol import DEFAULTS, LoadOptions
from ninja.lm.recurrent.state_pool import StatePoolLM
from ninja.lm.word_map import Words
from ninja.models.lstm import LSTMLanguageModel

VECTOR = 64  # torch rounds differently in the remainder of a row whose width is not a multiple of this


class LstmLM(StatePoolLM):
    """An LSTM network as a `LanguageModel`.

    A row of the pool contains the output and the cell of each layer, from the first layer to the last.

        row = [ output 1 | cell 1 | output 2 | cell 2 | … ]

    Layers read the first `Config.width` components of embeddings and outputs.
    """

    def __init__(
        self,
        module: LSTMLanguageModel,
        vocabulary: SymbolTable,
        options: LoadOptions = DEFAULTS,
        unk_words: int | None = None,
    ) -> None:
        """Create a language model from a trained network with float32 weights.

        If the network can estimate its normaliser and the options leave `normalize` unset, the estimate is used. The
        layers then compute in half precision if the processor supports it.

        Raises:
            ModelError: The vocabulary and the network differ in size, or the vocabulary lacks ``<s>`` or ``</s>``.
        """
        config = module.config
        words = Words.of(vocabulary, unk_words=unk_words).fit(config.vocabulary)
        width = (config.layers - 1) * config.width + config.embedding + config.layers * config.hidden
        output = width - config.embedding - config.hidden
        fast = config.normaliser > 0 and options.normalize is None
        normaliser = _normaliser(module, device_of(options.device)) if fast else None
        super().__init__(words, module.embedding.weight, module.bias, width, output, options, normaliser=normaliser)
        self._width = config.width
        self._layers = [_Layer(module, number, self._device, half=fast) for number in range(config.layers)]
        self._num_parameters = sum(weight.numel() for weight in module.parameters())
        self._begin()

    def _step(self, row: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        """Advance each state by one word: float32 [n, row] → [n, row]."""
        below = self._embedding[:, : self._width].index_select(0, self._tensor(words))  # [n, width]
        new = torch.empty_like(row)
        place = 0
        for layer in self._layers:
            width = layer.num_outputs + layer.num_cells
            below = layer.step(below, row.narrow(1, place, width), new.narrow(1, place, width))
            place += width
        return new


def _normaliser(module: LSTMLanguageModel, device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function that estimates log-normalisers, float32 [n, embedding] → [n, 1].

    Hidden layers are padded with zeros to a multiple of the processor's vector width. This makes results independent of
    the batch.
    """
    pad, silu = torch.nn.functional.pad, torch.nn.functional.silu
    spare = -module.config.normaliser % VECTOR
    layers = [layer for layer in module.normaliser if isinstance(layer, torch.nn.Linear)]
    weights = [layer.weight.detach().to(device) for layer in layers]
    biases = [layer.bias.detach().to(device) for layer in layers]
    first = linear(pad(weights[0], (0, 0, 0, spare)), pad(biases[0], (0, spare)))
    second = linear(pad(weights[1], (0, spare, 0, spare)), pad(biases[1], (0, spare)))
    last = linear(pad(weights[2], (0, spare)), biases[2])
    return lambda output: last(silu(second(silu(first(output)))))


class _Layer:
    """An LSTM layer that computes one step per call; it avoids ``nn.LSTM``, whose overhead is about 12 ms per call."""

    def __init__(self, module: LSTMLanguageModel, number: int, device: torch.device, *, half: bool) -> None:
        weight, bias, project = (tensor.to(device) for tensor in module.layer(number))
        # torch's order of gates is input, forget, cell, output. One operation computes adjacent sigmoids.
        input_gate, forget, cell, output_gate = torch.arange(len(bias), device=device).chunk(4)
        order = torch.cat((input_gate, forget, output_gate, cell))
        below = weight.shape[1] - len(project)
        self._width = module.config.width
        weight = torch.cat((weight[:, : self._width], weight[:, below : below + self._width]), 1)
        self.gates = linear(weight[order], bias[order], half=half)
        self.project = linear(project, None, half=half)
        self.num_outputs, self.num_cells = project.shape

    def step(self, below: torch.Tensor, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Compute one step of the layer.

        Args:
            below: Input of the layer, float32 [n, inputs].
            old: Output and cell of the layer before the step, float32 [n, outputs + cells].
            new: Output array for the output and cell after the step, float32 [n, outputs + cells].

        Returns:
            The output after the step, float32 [n, outputs].
        """
        n, p = self.num_cells, self.num_outputs
        gates = self.gates(torch.cat((below, old[:, : self._width]), 1))  # [n, 4 cells]
        if gates.is_cpu:  # six times as fast as separate torch operations
            hidden = torch.from_numpy(_networks.lstm_cell(gates.numpy(), old[:, p:].numpy(), new[:, p:].numpy()))
        else:
            sigmoid, candidate = gates[:, : 3 * n].sigmoid_(), gates[:, 3 * n :].tanh_()
            cell = torch.mul(sigmoid[:, n : 2 * n], old[:, p:]).addcmul_(sigmoid[:, :n], candidate)
            new[:, p:] = cell
            hidden = cell.tanh_().mul_(sigmoid[:, 2 * n :])  # [n, cells]
        output = self.project(hidden)  # [n, outputs]
        new[:, :p] = output
        return output
