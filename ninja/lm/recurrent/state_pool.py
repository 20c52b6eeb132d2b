"""Run networks as language models in torch, with all states in one pool."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from ninja import _networks
from ninja.lm.compute import Threads, as_tensor, device_of, linear, logsumexp
from ninja.lm.protocol import LanguageModel, LoadOptions
from ninja.lm.recurrent.array_lstm import PoolLM
from ninja.lm.word_map import Words

ROWS_ON_DEVICE = 8192  # number of histories per batch on a GPU
# CPU batches are padded to a multiple of this, because oneDNN spends time on each batch size that it has not cached.
EVEN_ROWS = 32
LOGIT_WORDS = 4096  # number of words per matrix product when the normaliser is computed


class StatePoolLM(PoolLM):
    """A `LanguageModel` that runs a PyTorch network; its pool of states is kept on the network's device.

    Subclasses implement `_step`, which computes the row of a history from the row of its parent, and call `_begin` at
    the end of `__init__`.
    """

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
        """Create a language model with an empty pool.

        Args:
            embedding: Output embedding of each word, float32 [words, embedding].
            bias: Added to each word's score, float32 [words]; None if there is no bias.
            width: Number of values in a pool row, which stores the state of a history.
            output: Index in a pool row at which the network's output begins.
            options: Load options; scores are normalised by default.
            first_word: The normaliser excludes words with smaller ids.
            normaliser: Function that estimates log-normalisers from the network's outputs, float32 [n, embedding] →
                [n, 1].  [default: compute log-normalisers exactly]
        """
        super().__init__(words, options, estimates=normaliser is not None)
        self._estimate = normaliser
        self._threads = Threads()
        self._device = device_of(options.device)
        if self._device.type != "cpu":
            self._most_rows = options.max_batch or ROWS_ON_DEVICE
        self._embedding = embedding.detach().to(self._device)  # [words, embedding]
        self.state_size = embedding.shape[1]
        self._bias = None if bias is None else bias.detach().to(self._device)  # [words]
        self._row_width = width
        self._output = output
        blocks = self._embedding[first_word:].split(LOGIT_WORDS) if self.normalized else ()
        biases = [None] * len(blocks) if self._bias is None else self._bias[first_word:].split(LOGIT_WORDS)
        self._logits = [linear(weight, offset) for weight, offset in zip(blocks, biases, strict=False)]
        self._empty()

    def _empty(self) -> None:
        self._states = torch.empty(0, self._row_width, device=self._device)
        super()._empty()

    def twin(self) -> LanguageModel | None:
        """See `LanguageModel.twin`; None on GPUs, where a second thread would save no time."""
        return super().twin() if self._device.type == "cpu" else None

    @abstractmethod
    def _step(self, row: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        """Advance each state by one word: float32 [n, row] → [n, row]; a row of zeros is the state before ``<s>``."""

    def _advance(self, old: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        """Compute the pool rows of new slots; several threads call this method concurrently for different slots."""
        parent = self._states.index_select(0, self._tensor(old))  # [n, row]
        self._states.index_copy_(0, self._tensor(new), self._step(parent, words))

    def _begin(self) -> None:
        """Compute the state after ``<s>`` and keep it for `start`."""
        self._start_row = self._step(torch.zeros(1, self._row_width, device=self._device), np.array([self.bos]))

    @torch.inference_mode()
    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return super().start(count)

    @torch.inference_mode()
    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        count = len(slots)
        if self._most_rows is None and count > EVEN_ROWS and count % EVEN_ROWS:
            spare = (0, -count % EVEN_ROWS)
            slots, words = np.pad(slots, spare, "edge"), np.pad(words, spare, "edge")
        new = super().advance(slots, words)
        self.release(new[count:])
        return new[:count]

    @torch.inference_mode()
    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        return super().logprob(slots, words)

    @torch.inference_mode()
    def states(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        """See `LanguageModel.states`."""
        return self._outputs(slots).cpu().numpy()

    @torch.inference_mode()
    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """See `LanguageModel.word_vectors`."""
        return self._embedding.index_select(0, self._tensor(words)).float().cpu().numpy()

    def _put_start(self, slots: np.ndarray) -> None:
        self._states[self._tensor(slots)] = self._start_row

    def _extend(self, old: np.ndarray, new: np.ndarray, words: np.ndarray) -> None:
        self._in_pieces(lambda piece: self._advance(old[piece], new[piece], words[piece]), len(old))

    def _scores(self, slots: np.ndarray, words: np.ndarray) -> npt.NDArray[np.float32]:
        score = np.empty(len(slots), np.float32)

        def multiply(piece: slice) -> None:
            score[piece] = self._products(self._outputs(slots[piece]), words[piece])

        self._in_pieces(multiply, len(slots))
        return score

    def _log_normalisers_of(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        return self._log_normalisers(self._outputs(slots))

    def _products(self, output: torch.Tensor, words: np.ndarray) -> np.ndarray:
        """Return the unnormalised score of one word for each output, float32 [n]."""
        if output.is_cpu:  # torch would first copy the embeddings of the words
            bias = None if self._bias is None else self._bias.numpy()
            embedding = self._embedding.contiguous().numpy()
            row, word32 = np.arange(len(words)), np.ascontiguousarray(words, np.int32)
            return _networks.word_scores(output.contiguous().numpy(), row, embedding, None, bias, word32)
        word = self._tensor(words)
        score = (output * self._embedding.index_select(0, word)).sum(-1)  # [n]
        if self._bias is not None:
            score += self._bias.index_select(0, word)
        return score.cpu().numpy()

    def _outputs(self, slots: np.ndarray) -> torch.Tensor:
        """Return the network's outputs, float32 [slots, embedding]."""
        return self._states.narrow(1, self._output, self._embedding.shape[1]).index_select(0, self._tensor(slots))

    def _log_normalisers(self, output: torch.Tensor) -> np.ndarray:
        """Return the log-normaliser for each output, float32 [n]."""
        result = np.empty(len(output), np.float32)

        def normalise(piece: slice) -> None:
            rows = output[piece]
            if self._estimate is not None:
                result[piece] = self._estimate(rows)[:, 0].cpu().numpy()
                return
            if not rows.is_cpu:  # on a GPU, all blocks are computed before the only synchronisation
                blocks = torch.stack([logits(rows).logsumexp(-1) for logits in self._logits], 1)  # [piece, blocks]
                result[piece] = blocks.logsumexp(-1).cpu().numpy()
                return
            parts = np.stack([logsumexp(logits(rows)) for logits in self._logits], 1)  # [piece, blocks]
            result[piece] = _networks.logsumexp(parts.reshape(-1), len(rows))

        self._in_pieces(normalise, len(output))
        return result

    def _grow(self, capacity: int) -> None:
        slab = torch.empty(capacity, self._row_width, device=self._device)
        slab[: len(self._states)] = self._states
        self._states = slab
        super()._grow(capacity)

    def _tensor(self, numbers: np.ndarray) -> torch.Tensor:
        return as_tensor(numbers, self._device)
