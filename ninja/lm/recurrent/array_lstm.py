"""Run an LSTM language model on NumPy, one step for a batch of histories per call."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ninja import _networks
from ninja.lattice.symbols import SymbolTable
from ninja.lm.protocol import DEFAULTS, LoadOptions
from ninja.lm.recurrent.pool import ArrayPoolLM, Embedding, Floats, Slots, WordRows
from ninja.lm.stored_network import SCALE, StoredNetwork, lstm_shapes
from ninja.lm.word_map import Words

GATE_ORDER = [
    0,
    1,
    3,
    2,
]  # converts torch's order input, forget, cell, output to that of `_networks.lstm_step`


class ArrayLstm(ArrayPoolLM):
    """An LSTM network on NumPy as a `LanguageModel`.

    A row of the pool contains the output and the cell of each layer, as in `ninja.lm.recurrent.lstm.LstmLM`. The gates
    of a layer are the sum of two products: one with the layer's input, and one with its output for the previous word.
    The second product is computed once for all continuations of a history. The input of the first layer is a word's
    embedding, so its product is computed once for each word.
    """

    def __init__(self, network: StoredNetwork, options: LoadOptions = DEFAULTS) -> None:
        """Use the weights of a trained network.

        If the network can estimate its normaliser, and the options leave `normalize` unset, the estimate is used.

        Raises:
            ModelError: An array is missing or does not fit the configuration.
        """
        shapes = lstm_shapes(network.config)
        network.check_shapes(shapes)
        words = Words.of(SymbolTable.from_words(network.words, network.path), unk_words=network.unk_words)
        name = "embedding.weight"
        is_scaled = network.is_scaled(name)
        embedding = Embedding(
            network.arrays[name] if is_scaled else network.weight(name),
            network.arrays[name + SCALE] if is_scaled else None,
        )
        layers = [_Layer(network, number) for number in range(network.config["layers"])]
        estimates = network.config["normaliser"] > 0 and options.normalize is None
        super().__init__(
            words,
            embedding,
            network.weight("bias"),
            width=sum(layer.num_outputs + layer.num_cells for layer in layers),
            output=sum(layer.num_outputs + layer.num_cells for layer in layers[:-1]),
            options=options,
            normaliser=_normaliser(network) if estimates else None,
        )
        self._layers = layers
        entry = layers[0].entry
        self._word_gates = WordRows(
            len(network.words), entry.num_outputs, lambda words: entry(embedding.rows(words, entry.num_inputs))
        )
        self._num_parameters = sum(math.prod(shape) for shape in shapes.values())
        self._begin()

    def _advance(self, old: Slots, new: Slots, words: np.ndarray) -> None:
        is_first = np.append(True, old[1:] != old[:-1])  # first slot of each history; equal slots are adjacent
        parent, parent_row = old[is_first], np.cumsum(is_first) - 1
        below, below_row = self._word_gates.of(words)
        place = 0
        for number, layer in enumerate(self._layers):
            outputs = self._states[:, place : place + layer.num_outputs]
            before = layer.recurrent(outputs[:, : layer.recurrent.num_inputs], parent)
            place += layer.num_outputs
            cells = self._states[:, place : place + layer.num_cells]
            output = layer.project(_networks.lstm_step(below, below_row, before, parent_row, cells, old, new))
            outputs[new] = output
            place += layer.num_cells
            if number + 1 < len(self._layers):
                below, below_row = self._layers[number + 1].entry(output), np.arange(len(words))


class _Layer:
    """The matrix products of a layer, with gates in the order of `GATE_ORDER`."""

    def __init__(self, network: StoredNetwork, number: int) -> None:
        def gates(kind: str) -> Floats:
            weight = network.weight(f"lstm.{kind}_l{number}")
            return weight.reshape(4, -1)[GATE_ORDER].reshape(weight.shape)

        # Gates are the sum of both products.
        self.entry = _networks.Product(gates("weight_ih"), gates("bias_ih") + gates("bias_hh"))
        self.recurrent = _networks.Product(gates("weight_hh"), None)
        self.num_cells = self.entry.num_outputs // 4
        name = f"lstm.weight_hr_l{number}"
        projection = network.weight(name) if name in network.arrays else None
        if "more.weight" in network.arrays and number == network.config["layers"] - 1:
            first = np.eye(self.num_cells, dtype=np.float32) if projection is None else projection
            projection = np.concatenate((first, network.weight("more.weight")))
        self._projection = None if projection is None else _networks.Product(projection, None)
        self.num_outputs = self.num_cells if projection is None else len(projection)

    def project(self, hidden: Floats) -> Floats:
        """Return the layer's output, float32 [n, outputs]."""
        return hidden if self._projection is None else self._projection(hidden)


def _normaliser(network: StoredNetwork) -> Callable[[Floats, Slots], Floats]:
    """Return the function that estimates the log-normalisers of some rows of outputs, float32 [rows, embedding]."""
    names = (f"normaliser.{number}" for number in (0, 2, 4))
    first, second, last = (
        _networks.Product(network.weight(f"{name}.weight"), network.weight(f"{name}.bias")) for name in names
    )

    def estimate(output: Floats, row: Slots) -> Floats:
        hidden = first(output, row)
        _networks.silu(hidden.reshape(-1))
        hidden = second(hidden)
        _networks.silu(hidden.reshape(-1))
        return last(hidden)[:, 0]

    return estimate
