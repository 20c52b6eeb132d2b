"""Networks as language models, with states in one pool and cached log-normalisers."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from ninja import _lm
from ninja.lm.compute import Threads, as_tensor, device_of, linear, logsumexp
from ninja.lm.protocol import LanguageModel, LoadOptions, SlotPool
from ninja.lm.word_map import Words

ROWS_ON_DEVICE = 8192  # histories that a device other than the CPU computes on at once
EVEN_ROWS = 32  # CPU batches are padded to a multiple, as oneDNN plans each size not used recently anew
LOGIT_WORDS = 4096  # words whose logits are computed at once for the normaliser


class StatePoolLM(LanguageModel, ABC):
    """A network as a `LanguageModel` whose histories are rows of a pool.

    The pool is on the device. A row contains the network's output after the history's last word, whose product with a
    word's embedding is that word's score. The log-normaliser of a history, exact or estimated by a trained network, is
    computed once, when its first word is scored.

    Subclasses implement `_step`, which computes a row from its parent, and call `_begin` at the end of `__init__`.
    """

    _num_parameters: int | None = None

    def __init__(
        self,
        words: Words,
        embedding: torch.Tensor,
        bias: torch.Tensor | None,
        width: int,
        output: int,
        options: LoadOptions,
        first_word: int = 0,
        normaliser: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        """Make an empty pool.

        Args:
            embedding: Output embedding of each word, float32 [words, embedding].
            bias: Added to each word's score, float32 [words].
            width: Numbers in a row.
            output: Offset of the network's output in a row.
            options: Options of loading; scores are normalised by default.
            first_word: The normaliser excludes words with smaller ids.
            normaliser: Estimates the log-normaliser from outputs, float32 [n, embedding] → [n, 1]. Default: exact.
        """
        self.vocabulary = words.vocabulary
        self.bos: int | None = words.bos
        self.eos = words.eos
        self.unk = words.unk
        self.unk_words = words.unk_words
        self._normalize = options.normalized
        self._estimate = normaliser
        self._max_batch = options.max_batch
        self._threads = Threads()
        self._device = device_of(options.device)
        self._embedding = embedding.detach().to(self._device)  # [words, embedding]
        self.state_size = embedding.shape[1]
        self._bias = None if bias is None else bias.detach().to(self._device)  # [words]
        self._output = output
        blocks = self._embedding[first_word:].split(LOGIT_WORDS) if self.normalized else ()
        biases = [None] * len(blocks) if self._bias is None else self._bias[first_word:].split(LOGIT_WORDS)
        self._logits = [linear(weight, offset) for weight, offset in zip(blocks, biases, strict=False)]
        self._empty(width)
        self._start_normaliser = np.float32(np.nan)

    def _empty(self, width: int) -> None:
        """Reset the pool to no slots."""
        self._states = torch.empty(0, width, device=self._device)
        self._normaliser = np.empty(0, np.float32)  # [capacity], NaN = not computed yet
        self._slots = SlotPool(self._grow)

    def twin(self) -> LanguageModel | None:
        """See `LanguageModel.twin`; None on other devices than the CPU, where a second thread gains nothing."""
        if self._device.type != "cpu":
            return None
        twin = copy.copy(self)
        twin._threads = Threads(1)
        twin._empty(self._states.shape[1])
        return twin

    @abstractmethod
    def _step(self, row: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        """Read one word after each state: float32 [n, row] → [n, row]; a row of zeros is the state before ``<s>``."""

    def _advance(self, old: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        """Compute the rows of new slots; called by several threads at once for different slots."""
        parent = self._states.index_select(0, self._tensor(old))  # [n, row]
        self._states.index_copy_(0, self._tensor(new), self._step(parent, words))

    def _begin(self) -> None:
        """Compute the state after ``<s>``."""
        self._start_row = self._step(torch.zeros(1, self._states.shape[1], device=self._device), np.array([self.bos]))

    @property
    def num_parameters(self) -> int | None:
        """Number of trained parameters."""
        return self._num_parameters

    @property
    def normalized(self) -> bool:
        """True if scores are normalised exactly."""
        return self._normalize and self._estimate is None

    @property
    def num_slots(self) -> int:
        """Number of slots in use."""
        return self._slots.num_used

    @torch.inference_mode()
    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        slots = self._slots.take(count)
        self._states[self._tensor(slots)] = self._start_row
        if count and self._normalize and np.isnan(self._start_normaliser):
            self._normaliser[slots[:1]] = np.nan
            self._start_normaliser = self._log_normalisers(self._outputs(slots[:1]))[0]
        self._normaliser[slots] = self._start_normaliser
        return slots

    @torch.inference_mode()
    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        count = len(slots)
        if self._max_batch is None and self._device.type == "cpu" and count > EVEN_ROWS and count % EVEN_ROWS:
            spare = (0, -count % EVEN_ROWS)
            slots, words = np.pad(slots, spare, "edge"), np.pad(words, spare, "edge")
        new = self._slots.take(len(slots))

        def step(piece: slice) -> None:
            self._advance(slots[piece], new[piece], words[piece])

        try:
            self._in_pieces(step, len(slots))
        except BaseException:  # callers retry with fewer slots if memory runs out
            self.release(new)
            raise
        self.release(new[count:])
        self._normaliser[new] = np.nan
        return new[:count]

    @torch.inference_mode()
    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        if self._normalize:
            missing = np.unique(slots[np.isnan(self._normaliser[slots])])
            self._normaliser[missing] = self._log_normalisers(self._outputs(missing))
        score = np.empty(len(slots), np.float32)

        def multiply(piece: slice) -> None:
            score[piece] = self._products(self._outputs(slots[piece]), words[piece])

        self._in_pieces(multiply, len(slots))
        return score - self._normaliser[slots] if self._normalize else score

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        self._slots.give_back(slots)

    @torch.inference_mode()
    def states(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        """See `LanguageModel.states`."""
        return self._outputs(slots).cpu().numpy()

    @torch.inference_mode()
    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """See `LanguageModel.word_vectors`."""
        return self._embedding.index_select(0, self._tensor(words)).float().cpu().numpy()

    def _in_pieces(self, compute: Callable[[slice], None], num_rows: int) -> None:
        """Compute on all rows of a batch, in pieces of the size that suits the device or that the caller chose."""
        if self._max_batch is None and self._device.type == "cpu":
            self._threads.run(compute, num_rows)
            return
        piece = self._max_batch or ROWS_ON_DEVICE
        for first in range(0, num_rows, piece):
            compute(slice(first, min(first + piece, num_rows)))

    def _products(self, output: torch.Tensor, words: np.ndarray) -> np.ndarray:
        """Return the unnormalised score of a word after each output, float32 [n]."""
        if output.is_cpu:  # torch would copy the embeddings of the words first
            bias = None if self._bias is None else self._bias.numpy()
            embedding = self._embedding.contiguous().numpy()
            return _lm.word_scores(output.contiguous().numpy(), embedding, bias, np.ascontiguousarray(words, np.int32))
        word = self._tensor(words)
        score = (output * self._embedding.index_select(0, word)).sum(-1)  # [n]
        if self._bias is not None:
            score += self._bias.index_select(0, word)
        return score.cpu().numpy()

    def _outputs(self, slots: np.ndarray) -> torch.Tensor:
        """Return the network's outputs, float32 [slots, embedding]."""
        return self._states.narrow(1, self._output, self._embedding.shape[1]).index_select(0, self._tensor(slots))

    def _log_normalisers(self, output: torch.Tensor) -> np.ndarray:
        """Return the log-normaliser after each output, float32 [n]."""
        result = np.empty(len(output), np.float32)

        def normalise(piece: slice) -> None:
            rows = output[piece]
            if self._estimate is not None:
                result[piece] = self._estimate(rows)[:, 0].cpu().numpy()
                return
            if not rows.is_cpu:  # one synchronisation with the device
                blocks = torch.stack([logits(rows).logsumexp(-1) for logits in self._logits], 1)  # [piece, blocks]
                result[piece] = blocks.logsumexp(-1).cpu().numpy()
                return
            parts = np.stack([logsumexp(logits(rows)) for logits in self._logits], 1)  # [piece, blocks]
            result[piece] = _lm.logsumexp(parts.reshape(-1), len(rows))

        self._in_pieces(normalise, len(output))
        return result

    def _grow(self, capacity: int) -> None:
        """Enlarge the pool to this many slots."""
        old = len(self._states)
        slab = torch.empty(capacity, self._states.shape[1], device=self._device)
        slab[:old] = self._states
        self._states = slab
        self._normaliser = np.concatenate((self._normaliser, np.full(capacity - old, np.nan, np.float32)))

    def _tensor(self, numbers: np.ndarray) -> torch.Tensor:
        return as_tensor(numbers, self._device)
