"""Run an LSTM language model on many histories a call, one step each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ninja import _lm
from ninja.lattice.symbols import SymbolTable
from ninja.lm.compute import device_of, linear
from ninja.lm.protocol import DEFAULTS, LoadOptions
from ninja.lm.recurrent.state_pool import StatePoolLM
from ninja.lm.word_map import Words
from ninja.models.lstm import LSTMLanguageModel

VECTOR = 64  # numbers; torch computes fewer, at the end of an operation, in another way


class LstmLM(StatePoolLM):
    """An LSTM language model behind the protocol of `LanguageModel`; see there for its methods.

    A row of the pool holds of each layer the output and then the cell, the last layer's last.

        row = [ output 1 | cell 1 | output 2 | cell 2 | … ]

    Of embeddings and outputs, steps read the first `Config.width` numbers.
    """

    def __init__(
        self,
        module: LSTMLanguageModel,
        vocabulary: SymbolTable,
        options: LoadOptions = DEFAULTS,
        unk_words: int | None = None,
    ) -> None:
        """Take over the weights of a trained network, float32.

        Where the network estimates its normaliser, and the options do not say how scores are to be normalised, the
        estimate is taken and layers compute in half precision where the processor does.

        Raises:
            ModelError: Vocabulary and network differ in size, or ``<s>`` or ``</s>`` is missing.
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
        """Read one word after each state: float32 [n, row] → [n, row]."""
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

    Hidden layers are widened, with zeros, to whole vectors of the processor: then a row has the same bits in any batch.
    """
    pad, silu = torch.nn.functional.pad, torch.nn.functional.silu
    spare = -module.config.normaliser % VECTOR
    layers = [each for each in module.normaliser if isinstance(each, torch.nn.Linear)]
    weights = [each.weight.detach().to(device) for each in layers]
    biases = [each.bias.detach().to(device) for each in layers]
    first = linear(pad(weights[0], (0, 0, 0, spare)), pad(biases[0], (0, spare)))
    second = linear(pad(weights[1], (0, spare, 0, spare)), pad(biases[1], (0, spare)))
    last = linear(pad(weights[2], (0, spare)), biases[2])
    return lambda output: last(silu(second(silu(first(output)))))


class _Layer:
    """One LSTM layer as a single step: ``nn.LSTM`` pays some 12 ms a call, whatever the batch."""

    def __init__(self, module: LSTMLanguageModel, number: int, device: torch.device, *, half: bool) -> None:
        weight, bias, project = (each.to(device) for each in module.layer(number))
        # torch orders gates input, forget, cell, output; with the sigmoids side by side they are one operation.
        entry, forget, cell, leave = torch.arange(len(bias), device=device).chunk(4)
        order = torch.cat((entry, forget, leave, cell))
        below = weight.shape[1] - len(project)
        self._width = module.config.width
        weight = torch.cat((weight[:, : self._width], weight[:, below : below + self._width]), 1)
        self.gates = linear(weight[order], bias[order], half=half)
        self.project = linear(project, None, half=half)
        self.num_outputs, self.num_cells = project.shape

    def step(self, below: torch.Tensor, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Fill `new` with output and cell from `old`, and return the output, float32 [n, outputs]."""
        n, p = self.num_cells, self.num_outputs
        gates = self.gates(torch.cat((below, old[:, : self._width]), 1))  # [n, 4 cells]
        if gates.is_cpu:  # torch's own operations, one by one, take six times as long
            hidden = torch.from_numpy(_lm.lstm_cell(gates.numpy(), old[:, p:].numpy(), new[:, p:].numpy()))
        else:
            sigmoid, candidate = gates[:, : 3 * n].sigmoid_(), gates[:, 3 * n :].tanh_()
            cell = torch.mul(sigmoid[:, n : 2 * n], old[:, p:]).addcmul_(sigmoid[:, :n], candidate)
            new[:, p:] = cell
            hidden = cell.tanh_().mul_(sigmoid[:, 2 * n :])  # [n, cells]
        output = self.project(hidden)  # [n, outputs]
        new[:, :p] = output
        return output
