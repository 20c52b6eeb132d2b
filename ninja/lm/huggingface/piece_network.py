"""Run a left-to-right network of the transformers library on pieces: keys and values along the trie of histories."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import linear, pad

from ninja.errors import ModelError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.attention.network import AttentionLM, Ids
from ninja.lm.compute import reason
from ninja.lm.protocol import LoadOptions
from ninja.lm.text import LONGEST_SENTENCE
from ninja.lm.trie import score_by_levels
from ninja.lm.word_map import Words

NO_LIMIT = 2**31  # pieces, of a network that reads any number
READ_AT_ONCE = 8192  # pieces of windows that slide in one pass
TOLERANCE = 1e-3  # nats between two ways to one score
ROUGH_TOLERANCE = 0.1  # the same in half precision
# What architectures say to arguments that they do not know.
UNFIT = (RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError, NotImplementedError)


@dataclass(frozen=True, slots=True)
class _CacheLayer:
    """Keys and values that a layer keeps of each piece."""

    heads: int
    key_width: int
    value_width: int


class PieceLM(AttentionLM):
    """A network of the transformers library behind the protocol of `LanguageModel`, over pieces.

    It must be what nearly all are: a network whose last layer's output, multiplied with an output embedding, is its
    logits (others are `LogitsLM`). Two more things most of them can are tried when one is opened (`open_pieces`), and
    gone without otherwise: to go on from keys and values that are given to them, and to read a trie with a mask of who
    sees whom.

    Of a history of more pieces than the network reads, the first half of the window is forgotten whenever the window is
    full: piece n is read with all before it up to the window's size L, then with the last L − L/2 to L of them.
    """

    def __init__(
        self,
        model: Any,
        network: Any,
        head: tuple[torch.Tensor, torch.Tensor | None],
        bos: int,
        cache: list[_CacheLayer] | None,
        options: LoadOptions,
    ) -> None:
        """Take over a network that lies on its device.

        Args:
            model: The model, for its configuration.
            network: The part of it that is run.
            head: Output embedding [pieces, width] and bias [pieces].
            bos: The piece that begins a text.
            cache: Its layers' state of a piece, None = none.
        """
        words = Words(SymbolTable([]), bos, bos, None)  # pieces have only numbers
        # Without keys and values a row keeps the piece itself, which is exact in float32 up to 2**24.
        kept = 1 if cache is None else sum(layer.heads * (layer.key_width + layer.value_width) for layer in cache)
        super().__init__(words, *head, kept, kept, options)
        self._network = network
        self._bos = bos
        self._cache = cache
        self._piece = np.empty(0, np.int64)  # of each slot
        self._dtype = dtype_of(model)
        self._uncached = {"use_cache": False} if _takes(network, "use_cache") else {}
        # A layer may see only so many pieces back. A mask of ours would undo that, so it must not be long enough to.
        config = getattr(model, "config", None)
        windows = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
        self._window = min((window for window in windows if window), default=None)
        self._longest = max(getattr(config, "max_position_embeddings", None) or NO_LIMIT, 2)
        self._num_parameters = sum(weight.numel() for weight in model.parameters())
        self._begin()

    @property
    def num_pieces(self) -> int:
        """Number of pieces that have scores."""
        return len(self._embedding)

    @property
    def computes_exactly(self) -> bool:
        """True if it computes in single precision."""
        return self._dtype is torch.float32

    def at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        """Tell which histories are ``<s>`` alone, [n]."""
        return np.equal(self._depth[slots], 0)

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        slots = super().start(count)
        self._piece[slots] = self._bos
        return slots

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`; a window that is full slides."""
        full = self._depth[slots] + 1 >= self._longest
        if not full.any():
            new = super().advance(slots, words)
        else:
            long, which = np.unique(slots[full], return_inverse=True)
            slid = self._slide(long)
            slots = slots.copy()
            slots[full] = slid[which.reshape(-1)]
            try:
                new = super().advance(slots, words)
            finally:
                self.release(slid)  # lives on below the longer ones
        self._piece[new] = words
        return new

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`; a trie deeper than the network's window is read level by level."""
        depth: list[int] = []
        for above in parent.tolist():
            depth.append(1 if above < 0 else depth[above] + 1)
        window = self._window if self._block_nodes is not None else None  # which a mask of ours would undo
        if max(depth, default=0) > min(self._longest, window or NO_LIMIT):
            return score_by_levels(self, parent, word)
        return super().score_trie(parent, word)

    def reads_tries(self, able: bool) -> None:
        """Say whether the network can read tries; otherwise it reads their sentences, each from its start."""
        wide = self._window is None or self._window >= LONGEST_SENTENCE
        self._block_nodes = type(self)._block_nodes if able and wide else None

    def _read(self, path: Ids, words: npt.NDArray[np.integer]) -> torch.Tensor:
        inside = path >= 0
        length = inside.sum(1)  # [n], pieces before
        path = np.where(inside, path, path[:, -1:])  # what fills up short paths is read, but not seen
        before = self._states[:, : self._output].index_select(0, self._tensor(path.reshape(-1)))  # [n · pieces, kept]
        before = before.view(*path.shape, self._output)
        piece = self._tensor(words.astype(np.int64))
        if self._cache is None:
            return self._read_sentences(before[..., 0].long(), inside, piece)
        from transformers import DynamicCache

        past, place = [], 0
        for layer in self._cache:
            pair = []
            for width in (layer.key_width, layer.value_width):
                kept = before[..., place : place + layer.heads * width].unflatten(-1, (layer.heads, width))
                pair.append(kept.transpose(1, 2).to(self._dtype))  # [n, heads, pieces, width]
                place += layer.heads * width
            past.append(tuple(pair))
        cache: Any = DynamicCache(past if path.shape[1] else None)
        output = self._network(
            input_ids=piece[:, None],
            attention_mask=pad(self._tensor(inside).long(), (0, 1), value=1),
            position_ids=self._tensor(length[:, None]),
            past_key_values=cache,
            use_cache=True,
        )
        told = [part[:, :, -1].flatten(1).float() for layer in cache.layers for part in (layer.keys, layer.values)]
        return torch.cat([*told, self._outputs_of(output)[:, -1]], 1)

    @torch.inference_mode()
    def _slide(self, slots: Ids) -> Ids:
        """Make slots of full windows without their first half."""
        kept = self._longest - self._longest // 2
        piece = self._piece[self._paths(slots)[:, -kept:]]  # [n, kept]
        new = self._slots.take(piece.size).reshape(piece.shape)
        some = max(1, READ_AT_ONCE // kept)
        try:
            for first in range(0, len(slots), some):
                rows = self._rows(self._tensor(piece[first : first + some]))  # [some · kept, row]
                self._states.index_copy_(0, self._tensor(new[first : first + some].reshape(-1)), rows)
        except BaseException:  # memory may run out here, and a smaller batch be tried
            self._slots.give_back(new.reshape(-1))
            raise
        self._piece[new] = piece
        self._parent[new] = np.concatenate((np.full((len(slots), 1), -1), new[:, :-1]), 1)
        self._depth[new] = np.arange(kept)
        self._references[new] = 1  # the next piece's, or of the last the caller's
        self._normaliser[new] = np.nan
        return new[:, -1].copy()

    def _rows(self, piece: torch.Tensor) -> torch.Tensor:
        """Read texts of equal length, [n, pieces], anew: the rows of their histories, [n · pieces, row]."""
        if self._cache is None:
            return torch.cat((piece[..., None].float(), self._plain(piece)), 2).flatten(0, 1)
        output = self._network(input_ids=piece, use_cache=True)
        told = [
            part.transpose(1, 2).flatten(2).float()  # [n, pieces, heads · width]
            for layer in output.past_key_values.layers
            for part in (layer.keys, layer.values)
        ]
        return torch.cat([*told, self._outputs_of(output)], 2).flatten(0, 1)

    def _outputs_of(self, output: Any) -> torch.Tensor:
        """Return what a row keeps of a network's answer, float32 [n, pieces, embedding]."""
        found: torch.Tensor = output.last_hidden_state.float()
        return found

    def _read_sentences(self, before: torch.Tensor, inside: npt.NDArray[np.bool_], piece: torch.Tensor) -> torch.Tensor:
        length = self._tensor(inside.sum(1))  # [n]
        place = torch.arange(inside.shape[1] + 1, device=self._device) - (inside.shape[1] - length)[:, None]
        sentence = torch.full_like(place, self.bos or 0)
        every = torch.cat((before, piece[:, None]), 1)  # [n, pieces + 1], the ends aligned; now the starts
        row, column = torch.nonzero(place >= 0, as_tuple=True)
        sentence[row, place[row, column]] = every[row, column]
        output = self._plain(sentence)
        last = output[torch.arange(len(piece), device=self._device), length]  # [n, embedding]
        return torch.cat((piece[:, None].float(), last), 1)

    def _read_blocks(self, word: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self._block_nodes is None:  # a sentence each, with padding behind it that no word of it sees
            return self._plain(word)
        hidden = torch.zeros(mask.shape, dtype=self._dtype, device=mask.device)
        hidden = hidden.masked_fill_(~mask, torch.finfo(self._dtype).min)
        output = self._network(
            input_ids=word,
            attention_mask=hidden[:, None],
            position_ids=position,
            use_cache=False,
        )
        return self._outputs_of(output)

    def _plain(self, sentence: torch.Tensor) -> torch.Tensor:
        """Read sentences: [sentences, pieces] → [sentences, pieces, embedding]."""
        return self._outputs_of(self._network(input_ids=sentence, **self._uncached))

    def _grow(self, capacity: int) -> None:
        more = np.zeros(capacity - len(self._piece), np.int64)
        super()._grow(capacity)
        self._piece = np.concatenate((self._piece, more))


class LogitsLM(PieceLM):
    """A network of which only logits are taken: one with its own way to them, quantised, or inside another module.

    A row keeps the natural-log probability of every piece, four bytes each: more memory than `PieceLM` by the ratio of
    the number of pieces to the width of the network.
    """

    def __init__(
        self, model: Any, num_pieces: int, bos: int, cache: list[_CacheLayer] | None, options: LoadOptions
    ) -> None:
        """Take over a module that lies on its device, and answers with ``logits``."""
        self._normalizes = options.normalized
        # Scores are normalised when they are read: there is no embedding to do it with later.
        plain = replace(options, normalize=False)
        super().__init__(model, model, (torch.empty(0, num_pieces), None), bos, cache, plain)
        self.state_size = None  # there are logits only

    @property
    def normalized(self) -> bool:
        """True if scores are normalised exactly."""
        return self._normalizes

    @property
    def num_pieces(self) -> int:
        """Number of pieces that have scores."""
        return self._embedding.shape[1]

    def _outputs_of(self, output: Any) -> torch.Tensor:
        logits: torch.Tensor = output.logits.float()
        return logits.log_softmax(-1) if self._normalizes else logits

    def _products(self, output: torch.Tensor, words: np.ndarray) -> np.ndarray:
        return output.gather(1, self._tensor(words.astype(np.int64))[:, None])[:, 0].cpu().numpy()


@torch.inference_mode()
def open_pieces(model: Any, bos: int, options: LoadOptions, path: str | None = None) -> PieceLM:
    """Put a causal network behind the protocol, with the abilities that give its scores.

    Raises:
        ModelError: It gives no logits for pieces.
    """
    device = device_of_module(model)
    options = replace(options, device=str(device))
    sentence = torch.tensor([[bos, 0, 1, 2]], device=device)
    try:
        logits = model(input_ids=sentence).logits
    except UNFIT as error:
        message = f"{type(model).__name__} gives no logits for input_ids ({reason(error)}); Ninja cannot run it"
        raise ModelError(message, path) from error
    num_pieces = logits.shape[-1]

    def make(cache: list[_CacheLayer] | None) -> PieceLM:
        for plain in (model, *_inside(model)):
            if _is_product(plain, sentence, logits):
                head = plain.get_output_embeddings()
                bias = getattr(head, "bias", None)
                parts = head.weight.detach().float(), None if bias is None else bias.detach().float()
                return PieceLM(plain, plain.base_model, parts, bos, cache, options)
        return LogitsLM(model, num_pieces, bos, cache, options)

    without = make(None)
    without.reads_tries(False)
    # A small trie of pieces from all over the vocabulary, with branches at several depths and a leaf to each.
    parent = np.array([-1, -1, 0, 0, 2, 2, 4, 3, 1, 8], np.int32)
    piece = np.linspace(0, num_pieces - 1, len(parent)).astype(np.int32)
    expected = without.score_trie(parent, piece)
    without.reads_tries(True)
    able = _agree(without, lambda: without.score_trie(parent, piece), expected)
    without.reads_tries(able)
    layers = _cache_layers(without)
    if layers is None:
        return without
    lm = make(layers)
    lm.reads_tries(able)
    return lm if _agree(lm, lambda: score_by_levels(lm, parent, piece), expected) else without


def device_of_module(model: Any) -> torch.device:
    """Return the device that a module computes on."""
    found = next(itertools.chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if found is None else found.device


def dtype_of(model: Any) -> torch.dtype:
    """Return the type that a module computes in."""
    kinds = (weight.dtype for weight in model.parameters() if weight.dtype.is_floating_point)
    return next(kinds, torch.float32)


def _inside(model: Any) -> list[Any]:
    """Return the transformers model inside a module of the PEFT library."""
    inner = getattr(model, "get_base_model", None)
    return [] if inner is None else [inner()]


def _takes(network: Any, name: str) -> bool:
    """Tell whether a network is called with an argument of this name."""
    parameters = inspect.signature(network.forward).parameters.values()
    return any(each.name == name or each.kind == each.VAR_KEYWORD for each in parameters)


def _is_product(model: Any, sentence: torch.Tensor, logits: torch.Tensor) -> bool:
    """Tell whether logits are a network's output times its output embedding."""
    try:
        head = model.get_output_embeddings()
        output = model.base_model(input_ids=sentence, use_cache=False).last_hidden_state
        bias = getattr(head, "bias", None)
        product = linear(output.float(), head.weight.float(), None if bias is None else bias.float())
    except UNFIT:  # of another shape, such as a quantised embedding
        return False
    close = 1e-4 if dtype_of(model) is torch.float32 else 5e-2
    return product.shape == logits.shape and bool(torch.allclose(logits.float(), product, close, close))


def _agree(lm: PieceLM, scores: Callable[[], npt.NDArray[np.float32]], expected: npt.NDArray[np.float32]) -> bool:
    tolerance = TOLERANCE if lm.computes_exactly else ROUGH_TOLERANCE
    try:
        return bool(np.abs(scores() - expected).max() < tolerance)
    except UNFIT:
        return False


def _cache_layers(lm: PieceLM) -> list[_CacheLayer] | None:
    """Return the shapes of the keys and values that a network keeps of a piece; None if it keeps none."""
    try:
        output = lm._network(input_ids=torch.tensor([[lm.bos]], device=lm._device), use_cache=True)
        layers = []
        for layer in output.past_key_values.layers:
            (_, heads, _, key_width), value_width = layer.keys.shape, layer.values.shape[-1]
            layers.append(_CacheLayer(heads, key_width, value_width))
        return layers or None
    except UNFIT:
        return None
