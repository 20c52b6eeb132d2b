"""Base classes of language models that pool network states and cache normalisers, and an LSTM in NumPy.

`PoolLM` is independent of the numerical library. Its subclass `ArrayPoolLM` uses NumPy, and computes one step for a
batch of histories per call.
"""

from __future__ import annotations

import copy
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ninja import _networks
from ninja.lattice.batch import FEWEST_ROWS, RowThreads
from ninja.lattice.symbols import SymbolTable
from ninja.lm.protocol import DEFAULTS, LanguageModel, LoadOptions, SlotPool
from ninja.lm.stored_network import SCALE, StoredNetwork, lstm_shapes
from ninja.lm.word_map import Words

# Order of gates for `_networks.lstm_step`, as indices into torch's order: input, forget, cell, output.
GATE_ORDER = [0, 1, 3, 2]
CACHED_BYTES = 96 << 20  # maximum size of a `WordRows` cache
LOGIT_WORDS = 4096  # number of words per matrix product when the normaliser is computed
FEWEST_SCORES = 2048  # minimum number of scores per thread; each takes only a product of two vectors
Slots = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class PoolLM(LanguageModel, ABC):
    """A `LanguageModel` that runs a network and stores the state of each history in a row of a pool.

    A row contains the network's output after the last word of a history; the product of the output and a word's
    embedding is the score of that word. The log-normaliser of a history is exact, or estimated by a trained network. It
    is computed once, when the first word after the history is scored. Subclasses implement the computation with a
    numerical library.
    """

    _num_parameters: int | None = None
    _threads: RowThreads

    def __init__(self, words: Words, options: LoadOptions, *, estimates: bool) -> None:
        """Create a model without slots.

        Args:
            words: Vocabulary and special words.
            options: Load options; scores are normalised by default.
            estimates: Whether the network estimates the normaliser instead of computing it exactly.
        """
        self.vocabulary = words.vocabulary
        self.bos: int | None = words.bos
        self.eos = words.eos
        self.unk = words.unk
        self.unk_words = words.unk_words
        self._normalize = options.normalized
        self._estimates = estimates
        self._max_batch = options.max_batch
        self._most_rows = options.max_batch  # maximum number of rows per computation; None if threads share the rows
        self._start_normaliser = np.float32(np.nan)

    def _empty(self) -> None:
        """Remove all slots from the pool."""
        self._normaliser = np.empty(0, np.float32)  # [capacity], NaN = not computed yet
        self._slots = SlotPool(self._grow)

    def twin(self) -> LanguageModel | None:
        """See `LanguageModel.twin`."""
        twin = copy.copy(self)
        twin._empty()
        twin._threads = type(self._threads)(1)
        return twin

    @property
    def num_parameters(self) -> int | None:
        """Number of trained parameters."""
        return self._num_parameters

    @property
    def normalized(self) -> bool:
        """Whether scores are normalised exactly."""
        return self._normalize and not self._estimates

    @property
    def num_slots(self) -> int:
        """Number of slots in use."""
        return self._slots.num_used

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        slots = self._slots.take(count)
        self._put_start(slots)
        if count and self._normalize and np.isnan(self._start_normaliser):
            self._start_normaliser = self._log_normalisers_of(slots[:1])[0]
        self._normaliser[slots] = self._start_normaliser
        return slots

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        new = self._slots.take(len(slots))
        try:
            self._extend(slots, new, words)
        except BaseException:  # callers retry with fewer slots if memory runs out
            self.release(new)
            raise
        self._normaliser[new] = np.nan
        return new

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        if self._normalize:
            missing = np.unique(slots[np.isnan(self._normaliser[slots])])
            self._normaliser[missing] = self._log_normalisers_of(missing)
        score = self._scores(slots, words)
        return score - self._normaliser[slots] if self._normalize else score

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        self._slots.give_back(slots)

    def _grow(self, capacity: int) -> None:
        """Enlarge the pool to `capacity` slots."""
        more = (0, capacity - len(self._normaliser))
        self._normaliser = np.pad(self._normaliser, more, constant_values=np.nan)

    def _in_pieces(self, compute: Callable[[slice], None], num_rows: int, fewest: int = FEWEST_ROWS) -> None:
        """Call `compute` for slices of `_most_rows` rows, or of the size that `RowThreads.run` chooses."""
        if self._most_rows is None:
            self._threads.run(compute, num_rows, fewest)
            return
        for first in range(0, num_rows, self._most_rows):
            compute(slice(first, min(first + self._most_rows, num_rows)))

    @abstractmethod
    def _put_start(self, slots: Slots) -> None:
        """Write the state after ``<s>`` to the pool rows of slots."""

    @abstractmethod
    def _extend(self, old: Slots, new: Slots, words: np.ndarray) -> None:
        """Extend histories by one word each: read the states in pool rows `old` and write new states to rows `new`."""

    @abstractmethod
    def _scores(self, slots: Slots, words: np.ndarray) -> Floats:
        """Return the unnormalised score of a word after each history, float32 [n]."""

    @abstractmethod
    def _log_normalisers_of(self, slots: Slots) -> Floats:
        """Return the log-normaliser after each history, float32 [n]."""


class WordRows:
    """A cache of vectors computed from words; the twins of a model share it.

    The vector of a word is a row of the cache, and is computed when the word first occurs. The cache is emptied when
    new words would make it exceed `CACHED_BYTES`.
    """

    def __init__(self, num_words: int, width: int, compute: Callable[[np.ndarray], Floats]) -> None:
        """Create an empty cache; `compute` returns the vectors of distinct words, float32 [n, width]."""
        self._num_words, self._width = num_words, width
        self._compute = compute
        self._lock = threading.Lock()
        self._most = max(1, CACHED_BYTES // (4 * width))
        self._forget()

    def _forget(self) -> None:
        self._row = np.full(self._num_words, -1)  # [words], -1 = not computed
        # Create a new table, because other threads may still read the old one.
        self._table: Floats = np.empty((0, self._width), np.float32)
        self._num_rows = 0

    def of(self, words: np.ndarray) -> tuple[Floats, Slots]:
        """Return a table of vectors, float32 [capacity, width], and the row of each word in the table, int64 [n]."""
        with self._lock:
            row = self._row[words]
            if len(row) == 0 or row.min() >= 0:
                return self._table, row
            missing = np.unique(words[row < 0])
            if self._num_rows and self._num_rows + len(missing) > self._most:
                self._forget()
                missing = np.unique(words)
            self._add(missing)
            return self._table, self._row[words]

    def _add(self, words: np.ndarray) -> None:
        first, last = self._num_rows, self._num_rows + len(words)
        if last > len(self._table):
            table = np.empty((max(last, min(2 * last, self._most)), self._width), np.float32)
            table[:first] = self._table[:first]
            self._table = table
        self._table[first:last] = self._compute(words)
        self._row[words] = np.arange(first, last)
        self._num_rows = last


class WordVectors(Protocol):
    """A vector for each word."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix of word vectors: (number of words, width of a vector)."""

    def rows(self, words: np.ndarray, width: int | None = None) -> Floats:
        """Return the vectors of words, or their first `width` components, float32 [n, width]."""

    def table(self, words: np.ndarray) -> tuple[npt.NDArray[Any], Floats | None, npt.NDArray[np.int32]]:
        """Return (matrix, scales of its rows or None, row index of each word, int32 [n])."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector for each word, in the precision of the model file."""

    weight: npt.NDArray[Any]  # float32 or int8 [words, width]
    scale: Floats | None = None  # scale of each int8 row, float32 [words]

    def rows(self, words: np.ndarray, width: int | None = None) -> Floats:
        """See `WordVectors.rows`."""
        rows = self.weight[words, :width].astype(np.float32)
        if self.scale is not None:
            rows *= self.scale[words, None]
        return rows

    def table(self, words: np.ndarray) -> tuple[npt.NDArray[Any], Floats | None, npt.NDArray[np.int32]]:
        """See `WordVectors.table`."""
        return self.weight, self.scale, np.ascontiguousarray(words, np.int32)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix of word vectors: (number of words, width of a vector)."""
        return self.weight.shape[0], self.weight.shape[1]


class ArrayPoolLM(PoolLM):
    """A `LanguageModel` that runs a network in NumPy; its pool is an array, float32 [capacity, row].

    Subclasses implement `_advance`, and call `_begin` at the end of `__init__`.
    """

    def __init__(
        self,
        words: Words,
        embedding: WordVectors,
        bias: Floats | None,
        width: int,
        output: int,
        options: LoadOptions,
        first_word: int = 0,
        normaliser: Callable[[Floats, Slots], Floats] | None = None,
    ) -> None:
        """Create a language model with an empty pool.

        Args:
            embedding: Output embedding of each word.
            bias: Added to each word's score, float32 [words]; None if there is no bias.
            width: Number of values in a pool row, which stores the state of a history.
            output: Index in a pool row at which the network's output begins.
            options: Load options; scores are normalised by default.
            first_word: The normaliser excludes words with smaller ids.
            normaliser: Function that returns estimated log-normalisers, float32 [n]. Its arguments are the network's
                outputs for all slots, float32 [capacity, embedding], and the slots to normalise, int64 [n].
                [default: compute log-normalisers exactly]
        """
        super().__init__(words, options, estimates=normaliser is not None)
        self._estimate = normaliser
        self._threads = RowThreads()
        self._embedding = embedding
        num_words, self.state_size = embedding.shape
        self._logits = [
            _networks.Product(embedding.rows(np.arange(first, last)), None if bias is None else bias[first:last])
            for first in range(first_word, num_words if self.normalized else 0, LOGIT_WORDS)
            for last in [min(first + LOGIT_WORDS, num_words)]
        ]
        self._bias = bias
        self._row_width = width
        self._columns = slice(output, output + self.state_size)  # columns of the output
        self._start_row = np.zeros(width, np.float32)
        self._empty()

    def _empty(self) -> None:
        self._states: Floats = np.empty((0, self._row_width), np.float32)
        super()._empty()

    def _begin(self) -> None:
        """Compute the state after ``<s>`` and keep it for `start`."""
        before, after = self._slots.take(2)
        self._states[before] = 0.0
        self._advance(np.array([before]), np.array([after]), np.array([self.bos]))
        self._start_row = self._states[after].copy()
        self.release(np.array([after, before]))

    def _advance(self, old: Slots, new: Slots, words: np.ndarray) -> None:
        """Extend histories by one word each: compute the pool rows of the slots `new` from the rows of the slots `old`.

        `old` is sorted. A row of zeros is the state before ``<s>``. Several threads call this method concurrently for
        different slots.
        """
        raise NotImplementedError

    def states(self, slots: np.ndarray) -> Floats:
        """See `LanguageModel.states`."""
        return self._outputs(slots)

    def word_vectors(self, words: np.ndarray) -> Floats:
        """See `LanguageModel.word_vectors`."""
        return self._embedding.rows(words)

    def _put_start(self, slots: Slots) -> None:
        self._states[slots] = self._start_row

    def _extend(self, old: Slots, new: Slots, words: np.ndarray) -> None:
        order = np.argsort(old, kind="stable")  # puts the continuations of a history into the same piece
        old, new, words = old[order], new[order], words[order]
        self._in_pieces(lambda piece: self._advance(old[piece], new[piece], words[piece]), len(old))

    def _scores(self, slots: Slots, words: np.ndarray) -> Floats:
        output = self._states[:, self._columns]
        weight, scale, row = self._embedding.table(words)
        score = np.empty(len(slots), np.float32)

        def multiply(piece: slice) -> None:
            score[piece] = _networks.word_scores(output, slots[piece], weight, scale, self._bias, row[piece])

        self._in_pieces(multiply, len(slots), FEWEST_SCORES)
        return score

    def _outputs(self, slots: Slots) -> Floats:
        """Return the network's outputs, float32 [slots, embedding]."""
        output: Floats = self._states[slots, self._columns]
        return output

    def _log_normalisers_of(self, slots: Slots) -> Floats:
        result = np.empty(len(slots), np.float32)

        def normalise(piece: slice) -> None:
            if self._estimate is None:
                result[piece] = self._exact_normalisers(self._outputs(slots[piece]))
            else:
                result[piece] = self._estimate(self._states[:, self._columns], slots[piece])

        self._in_pieces(normalise, len(slots))
        return result

    def _exact_normalisers(self, output: Floats) -> Floats:
        """Return the log-sum-exp of the logits of words from `first_word` on, for each output, float32 [n]."""
        parts = [_networks.logsumexp(logits(output).reshape(-1), len(output)) for logits in self._logits]
        return _networks.logsumexp(np.stack(parts, 1).reshape(-1), len(output))

    def _grow(self, capacity: int) -> None:
        slab = np.empty((capacity, self._row_width), np.float32)
        slab[: len(self._states)] = self._states
        self._states = slab
        super()._grow(capacity)


class ArrayLstm(ArrayPoolLM):
    """A `LanguageModel` that runs an LSTM network in NumPy.

    A row of the pool contains the output and the cell of each layer, as in `ninja.lm.recurrent.lstm.LstmLM`. The gates
    of a layer are the sum of two products: one with the layer's input, and one with its output for the previous word.
    The second product is computed once for all continuations of a history. The input of the first layer is a word's
    embedding, so the first product of this layer is computed once for each word.
    """

    def __init__(self, network: StoredNetwork, options: LoadOptions = DEFAULTS) -> None:
        """Create a language model from a trained network.

        If the network can estimate its normaliser and the options leave `normalize` unset, the estimate is used.

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
    """The matrix products of an LSTM layer, with gates in the order of `GATE_ORDER`."""

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
    """Return a function that estimates log-normalisers; `ArrayPoolLM` describes its arguments and result."""
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
