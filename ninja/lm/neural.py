"""Run an LSTM language model as the engine wants it: many histories a call, each one step long."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ninja import _lm
from ninja.errors import ModelError, OptionError
from ninja.lm.text import BOS, EOS, UNK
from ninja.models.lstm import LSTMLanguageModel
from ninja.symbols import SymbolTable

FIRST_CAPACITY = 256  # slots allocated at first; doubled when they run out
LOGIT_BYTES = 8 * 2**20  # logits that exist at once; what fits the cache is faster than what fits the memory
LOGIT_WORDS = 8192  # words they are for; the normaliser is put together from such blocks of the vocabulary


class NeuralLM:
    """An LSTM language model behind the protocol of `LanguageModel`; see there for its methods.

    States are rows of one slab on the device: of each layer the output and then the cell, the last layer's last.

        row = [ output 1 | cell 1 | output 2 | cell 2 | … ]

    The log-normaliser of a history is exact, and computed once: when its first word is scored, together with all
    others that lack theirs in the same call. A score is then one dot product.
    """

    def __init__(
        self,
        module: LSTMLanguageModel,
        vocabulary: SymbolTable,
        device: str = "cpu",
        *,
        normalize: bool = True,
        max_batch: int | None = None,
        unk_words: int | None = None,
    ) -> None:
        """Take over a trained network's weights.

        Args:
            module: The network, float32.
            vocabulary: Its words, ids from 0 without gaps.
            device: Where torch computes, such as ``"cuda"``.
            normalize: Normalise scores exactly. A network trained to normalise itself may go without.
            max_batch: Most histories the network sees at once; None = as many as a call brings. 1 computes step
                by step and word by word, as decoders without batching do.
            unk_words: Distinct words of the training text that ``<unk>`` stood for, where known.

        Raises:
            OptionError: `max_batch` is below 1, or torch has no such device.
            ModelError: Vocabulary and network differ in size, or ``<s>`` or ``</s>`` is missing.
        """
        if max_batch is not None and max_batch < 1:
            raise OptionError(f"max_batch is {max_batch}; it must be at least 1, or None")
        config = module.config
        if len(vocabulary) != config.vocabulary:
            raise ModelError(f"{len(vocabulary)} words in the vocabulary, but the network has {config.vocabulary}")
        bos, eos = vocabulary.id(BOS), vocabulary.id(EOS)
        if bos is None or eos is None:
            raise ModelError(f"the vocabulary lacks {BOS if bos is None else EOS}; train the model on whole sentences")
        self.vocabulary = vocabulary
        self.bos: int | None = bos
        self.eos: int = eos
        self.unk = vocabulary.id(UNK)
        self.unk_words = unk_words
        self.config = config
        self._normalize = normalize
        self._max_batch = max_batch
        try:
            self._device = torch.device(device)
            self._slab = torch.empty(0, config.layers * (config.embedding + config.hidden), device=self._device)
        except (RuntimeError, AssertionError) as error:  # torch's answers to an unknown and to a missing device
            raise OptionError(f"torch cannot use the device {device!r}: {error}") from error
        self._embedding = module.embedding.weight.detach().to(self._device)  # [vocabulary, embedding]
        self._bias = module.bias.detach().to(self._device)  # [vocabulary]
        blocks = zip(self._embedding.split(LOGIT_WORDS), self._bias.split(LOGIT_WORDS), strict=True)
        self._logits = [_linear(weight, bias) for weight, bias in blocks]
        self._layers = [_Layer(module, number, self._device) for number in range(config.layers)]
        self._normaliser = np.empty(0, np.float32)  # [capacity], NaN = not computed yet
        self._free = np.empty(0, np.int64)  # a stack of unused slots, the top first to be reused
        self._num_free = 0
        self._start_row = self._step(torch.zeros(1, self._slab.shape[1], device=self._device), np.array([bos]))
        self._start_normaliser = np.float32(np.nan)

    @property
    def num_slots(self) -> int:
        """Number of slots in use."""
        return len(self._free) - self._num_free

    @torch.inference_mode()
    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        slots = self._take(count)
        self._slab[self._tensor(slots)] = self._start_row
        if count and self._normalize and np.isnan(self._start_normaliser):
            self._normaliser[slots[:1]] = np.nan
            self._start_normaliser = self._normalisers(slots[:1])[0]
        self._normaliser[slots] = self._start_normaliser
        return slots

    @torch.inference_mode()
    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        new = self._take(len(slots))
        piece = self._max_batch or max(len(slots), 1)
        for first in range(0, len(slots), piece):
            last = first + piece
            parent = self._slab.index_select(0, self._tensor(slots[first:last]))  # [piece, row]
            self._slab.index_copy_(0, self._tensor(new[first:last]), self._step(parent, words[first:last]))
        self._normaliser[new] = np.nan
        return new

    @torch.inference_mode()
    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        if self._max_batch is None:
            return self._score(slots, words)
        score = np.empty(len(slots), np.float32)
        for first in range(0, len(slots), self._max_batch):
            piece = slice(first, first + self._max_batch)
            score[piece] = self._score(slots[piece], words[piece])
        return score

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        assert self._num_free + len(slots) <= len(self._free), "a slot was released twice"
        self._free[self._num_free : self._num_free + len(slots)] = slots
        self._num_free += len(slots)

    def _score(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        output = self._outputs(slots)  # [n, embedding]
        word = self._tensor(words)
        score = (output * self._embedding.index_select(0, word)).sum(-1) + self._bias.index_select(0, word)  # [n]
        if not self._normalize:
            return score.cpu().numpy()
        return score.cpu().numpy() - self._normalisers(slots)

    def _outputs(self, slots: np.ndarray) -> torch.Tensor:
        """Return the last layer's outputs, float32 [slots, embedding]."""
        first = self._slab.shape[1] - self.config.embedding - self.config.hidden
        return self._slab.narrow(1, first, self.config.embedding).index_select(0, self._tensor(slots))

    def _normalisers(self, slots: np.ndarray) -> np.ndarray:
        """Return log-normalisers of histories, float32 [slots], computing those that are missing."""
        known = self._normaliser[slots]
        if not np.isnan(known).any():
            return known
        missing = np.unique(slots[np.isnan(known)])
        num_pieces = -(-len(missing) // max(1, LOGIT_BYTES // (4 * LOGIT_WORDS)))
        for some in np.array_split(missing, num_pieces):
            output = self._outputs(some)
            parts = np.stack([_logsumexp(logits(output)) for logits in self._logits], 1)  # [piece, blocks]
            self._normaliser[some] = _lm.logsumexp(parts.reshape(-1), len(some))
        return self._normaliser[slots]

    def _step(self, row: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        """Read one word after each state: float32 [n, row] → [n, row]."""
        below = self._embedding.index_select(0, self._tensor(words))  # [n, embedding]
        new = torch.empty_like(row)
        place = 0
        for layer in self._layers:
            width = layer.num_outputs + layer.num_cells
            below = layer.step(below, row.narrow(1, place, width), new.narrow(1, place, width))
            place += width
        return new

    def _take(self, count: int) -> np.ndarray:
        """Reserve slots, int64 [count], growing the slab when too few are free."""
        if count > self._num_free:
            capacity = max(FIRST_CAPACITY, 2 * len(self._free))
            while capacity - self.num_slots < count:
                capacity *= 2
            self._grow(capacity)
        self._num_free -= count
        return self._free[self._num_free : self._num_free + count].copy()

    def _grow(self, capacity: int) -> None:
        old = len(self._free)
        slab = torch.empty(capacity, self._slab.shape[1], device=self._device)
        slab[:old] = self._slab
        self._slab = slab
        self._normaliser = np.concatenate((self._normaliser, np.full(capacity - old, np.nan, np.float32)))
        free = np.empty(capacity, np.int64)
        free[: self._num_free] = self._free[: self._num_free]
        free[self._num_free : self._num_free + capacity - old] = np.arange(capacity - 1, old - 1, -1)
        self._free, self._num_free = free, self._num_free + capacity - old

    def _tensor(self, numbers: np.ndarray) -> torch.Tensor:
        # Copied: torch takes neither reversed arrays nor, without complaint, read-only ones.
        return torch.from_numpy(np.array(numbers)).to(self._device)


def _logsumexp(score: torch.Tensor) -> np.ndarray:
    """Return ln Σ exp of each row, float32 [rows]."""
    if score.is_cpu:  # torch's own takes four times as long
        return _lm.logsumexp(score.view(-1).numpy(), len(score))
    return score.logsumexp(-1).cpu().numpy()


class _Layer:
    """One LSTM layer as a single step: a product for all gates, a product for the projection.

    ``nn.LSTM`` pays some 12 ms a call, whatever the batch; here a call costs what its arithmetic costs.
    """

    def __init__(self, module: LSTMLanguageModel, number: int, device: torch.device) -> None:
        def parameter(name: str) -> torch.Tensor:
            return module.lstm.get_parameter(f"{name}_l{number}").detach().to(device)

        weight = torch.cat((parameter("weight_ih"), parameter("weight_hh")), 1)  # [4 cells, inputs + outputs]
        bias = parameter("bias_ih") + parameter("bias_hh")  # [4 cells]
        # torch orders gates input, forget, cell, output; with the sigmoids side by side they are one operation.
        entry, forget, cell, leave = torch.arange(len(bias), device=device).chunk(4)
        order = torch.cat((entry, forget, leave, cell))
        self.gates = _linear(weight[order], bias[order])
        self.project = _linear(parameter("weight_hr"), None)
        self.num_outputs, self.num_cells = parameter("weight_hr").shape

    def step(self, below: torch.Tensor, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Fill `new` with output and cell from `old`, and return the output, float32 [n, outputs]."""
        n, p = self.num_cells, self.num_outputs
        gates = self.gates(torch.cat((below, old[:, :p]), 1))  # [n, 4 cells]
        sigmoid, candidate = gates[:, : 3 * n].sigmoid_(), gates[:, 3 * n :].tanh_()
        cell = torch.mul(sigmoid[:, n : 2 * n], old[:, p:]).addcmul_(sigmoid[:, :n], candidate)
        new[:, p:] = cell
        output = self.project(cell.tanh_().mul_(sigmoid[:, 2 * n :]))  # [n, outputs]
        new[:, :p] = output
        return output


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function x ↦ x weightᵀ + bias in float32, as fast as this machine does it.

    On a CPU oneDNN with a weight laid out once is 2 to 3 times as fast as the BLAS behind ``torch.addmm`` (measured
    on AMD Zen 5 for 1 to 256 rows). These are the operators that ``torch.compile`` calls; without them, ``linear``.
    """
    operators = torch.ops.mkldnn
    if weight.device.type == "cpu" and torch.backends.mkldnn.is_available() and hasattr(operators, "_linear_pointwise"):
        packed = operators._reorder_linear_weight(weight.contiguous(), 128)
        return lambda rows: operators._linear_pointwise(rows, packed, bias, "none", [], "")
    return lambda rows: torch.nn.functional.linear(rows, weight, bias)
