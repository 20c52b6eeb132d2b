"""Run causal transformers networks on subword pieces, with keys and values cached along a trie of histories."""

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
from ninja.lm.attention.network import BLOCK_NODES, AttentionLM, Ids, Root
from ninja.lm.compute import reason
from ninja.lm.protocol import LoadOptions
from ninja.lm.text import LONGEST_SENTENCE
from ninja.lm.trie import below, score_by_levels
from ninja.lm.word_map import Words

NO_LIMIT = 2**31  # maximum number of pieces for a network whose input length is not limited
READ_AT_ONCE = 8192  # maximum number of pieces per pass when full windows are shortened
TOLERANCE = 1e-3  # nats; maximum difference between scores that are computed in two ways
HALF_TOLERANCE = 0.1  # nats; the same for networks in half precision
# Errors that networks raise for unsupported arguments.
UNSUPPORTED = (RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError, AssertionError)


@dataclass(frozen=True, slots=True)
class _CacheLayer:
    """Shape of the keys and values that a layer caches for each word piece."""

    heads: int
    key_width: int
    value_width: int


class PieceLM(AttentionLM):
    """A network from the transformers library as a `LanguageModel` over pieces.

    The logits must be the product of the last layer's output and an output embedding, as in nearly all networks;
    `LogitsLM` runs all other networks. `open_pieces` tests two optional features: continuing from cached keys and
    values, and reading a trie with a custom attention mask.

    When a history fills the network's input length L, its first half is dropped. Therefore the first L pieces are
    predicted from all earlier pieces, and later pieces from the preceding L/2 to L pieces.
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
        """Wrap a network; it stays on its device.

        Args:
            model: The model, which provides the configuration.
            network: The submodule to run.
            head: Output embedding [pieces, width] and bias [pieces].
            bos: Id of the piece that begins a text.
            cache: Shapes of the cached keys and values per layer; None for no cache.
            options: Load options.
        """
        words = Words(SymbolTable([]), bos, bos, None)  # pieces need no symbol table
        # Without a cache, a row contains the id of the piece, which is exact in float32 up to 2**24.
        width = 1 if cache is None else sum(layer.heads * (layer.key_width + layer.value_width) for layer in cache)
        super().__init__(words, *head, width, width, options)
        self._network = network
        self._bos = bos
        self._cache = cache
        self._piece = np.empty(0, np.int64)  # by slot
        self._dtype = dtype_of(model)
        arguments = inspect.signature(network.forward).parameters.values()
        takes_use_cache = any(one.name == "use_cache" or one.kind == one.VAR_KEYWORD for one in arguments)
        self._uncached = {"use_cache": False} if takes_use_cache else {}
        # Custom masks override sliding-window attention, so they must not cover more pieces than its window.
        config = _text_config(model)
        windows = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
        self._window = min((window for window in windows if window), default=None)
        self.longest = longest_input(model)
        self._reads_below = False  # the network reads tries after cached keys and values; set by `open_pieces`
        self._num_parameters = sum(weight.numel() for weight in model.parameters())
        self._begin()

    @property
    def num_pieces(self) -> int:
        """Number of pieces in the output vocabulary."""
        return len(self._embedding)

    def at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        """Return whether each history consists only of ``<s>``, bool [n]."""
        return np.equal(self._depth[slots], 0)

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        slots = super().start(count)
        self._piece[slots] = self._bos
        return slots

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`; the first half of a full window is dropped."""
        full = self._depth[slots] + 1 >= self.longest
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
                self.release(slid)  # longer histories still refer to it
        self._piece[new] = words
        return new

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`; a trie deeper than the network's window is read level by level."""
        if not self._fits(parent, 0):
            return score_by_levels(self, parent, word)
        return super().score_trie(parent, word)

    def score_below(
        self, slot: int, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float32]:
        """Score the pieces of a trie after a history, using its cached states; see `LanguageModel.score_trie`."""
        if not self._reads_below or not self._fits(parent, int(self._depth[slot])):
            return score_by_levels(self, parent, word, root=self.share(slot))
        above = int(self._parent[slot])
        path = np.empty(0, np.int64) if above < 0 else self._paths(np.array([above]))[0]
        root = Root(path, int(self._piece[slot]), self._states[slot : slot + 1])
        return self._score_below(root, parent, word)

    def _fits(self, parent: npt.NDArray[np.int32], num_above: int) -> bool:
        """Return whether a trie below a history of `num_above` pieces fits into the network's window."""
        depth: list[int] = []
        for above in parent.tolist():
            depth.append(1 if above < 0 else depth[above] + 1)
        deepest = num_above + max(depth, default=0)
        if self._block_nodes is None:
            return deepest <= self.longest
        # Custom masks override an attention window. A block has up to `_block_nodes` pieces after their ancestors.
        return deepest <= (self._window or NO_LIMIT) and deepest + self._block_nodes <= self.longest

    def read(self, pieces: npt.NDArray[np.integer]) -> int:
        """Read a text after ``<s>``, in one pass if possible, and return the slot of the resulting history."""
        if len(pieces) >= (self._window or NO_LIMIT):  # one pass would cache only the keys in the window
            slot = self.start(1)
            for piece in pieces:
                try:
                    longer = self.advance(slot, np.array([piece]))
                finally:
                    self.release(slot)
                slot = longer
            return int(slot[0])
        return int(self._read_texts(np.concatenate(([self._bos], pieces))[None].astype(np.int64))[0])

    def share(self, slot: int) -> Ids:
        """Return another reference to a slot, int64 [1]; the slot must be released once per reference."""
        self._references[slot] += 1
        return np.array([slot])

    def enable_tries(self, enabled: bool) -> None:
        """Enable or disable reading a trie in one pass with a custom mask; if disabled, read its sentences one by one.

        One pass is never used if the network has an attention window of fewer than `LONGEST_SENTENCE` pieces.
        """
        wide = self._window is None or self._window >= LONGEST_SENTENCE
        self._block_nodes = min(BLOCK_NODES, max(1, self.longest // 2)) if enabled and wide else None

    def _read(self, path: Ids, words: npt.NDArray[np.integer]) -> torch.Tensor:
        inside = path >= 0
        length = inside.sum(1)  # number of earlier pieces, [n]
        path = np.where(inside, path, path[:, -1:])  # the attention mask excludes padding
        before = self._rows_before(path)
        piece = self._tensor(words.astype(np.int64))
        if self._cache is None:
            return self._read_sentences(before[..., 0].long(), inside, piece)
        cache = self._past(before)
        output = self._network(
            input_ids=piece[:, None],
            attention_mask=pad(self._tensor(inside).long(), (0, 1), value=1),
            position_ids=self._tensor(length[:, None]),
            past_key_values=cache,
            use_cache=True,
        )
        new = [part[:, :, -1].flatten(1).float() for layer in cache.layers for part in (layer.keys, layer.values)]
        return torch.cat([*new, self._outputs_of(output)[:, -1]], 1)

    def _rows_before(self, path: Ids) -> torch.Tensor:
        """Return the cached data of the pieces of each history, float32 [n, pieces, width].

        The data are the keys and values, or the piece id if the network has no cache.
        """
        rows = self._states[:, : self._output].index_select(0, self._tensor(path.reshape(-1)))  # [n · pieces, width]
        return rows.view(*path.shape, self._output)

    def _past(self, before: torch.Tensor) -> Any:
        """Return cached keys and values (see `_rows_before`) as a cache object of transformers."""
        from transformers import DynamicCache

        assert self._cache is not None
        past, place = [], 0
        for layer in self._cache:
            pair = []
            for width in (layer.key_width, layer.value_width):
                cached = before[..., place : place + layer.heads * width].unflatten(-1, (layer.heads, width))
                pair.append(cached.transpose(1, 2).to(self._dtype))  # [n, heads, pieces, width]
                place += layer.heads * width
            past.append(tuple(pair))
        return DynamicCache(past if before.shape[1] else None)

    @torch.inference_mode()
    def _slide(self, slots: Ids) -> Ids:
        """Create a history from the second half of each full window; return the slots of the new histories."""
        length = self.longest - self.longest // 2
        return self._read_texts(self._piece[self._paths(slots)[:, -length:]])

    @torch.inference_mode()
    def _read_texts(self, piece: Ids) -> Ids:
        """Create a history from the pieces of each text, int64 [n, length], and return the slots of the histories."""
        length = piece.shape[1]
        new = self._slots.take(piece.size).reshape(piece.shape)
        step = max(1, READ_AT_ONCE // length)
        try:
            for first in range(0, len(piece), step):
                rows = self._rows(self._tensor(piece[first : first + step]))  # [step · length, row]
                self._states.index_copy_(0, self._tensor(new[first : first + step].reshape(-1)), rows)
        except BaseException:  # callers retry with a smaller batch if memory runs out
            self._slots.give_back(new.reshape(-1))
            raise
        self._piece[new] = piece
        self._parent[new] = np.concatenate((np.full((len(piece), 1), -1), new[:, :-1]), 1)
        self._depth[new] = np.arange(length)
        self._references[new] = 1  # held by the next piece, and for the last piece by the caller
        self._normaliser[new] = np.nan
        return new[:, -1].copy()

    def _rows(self, piece: torch.Tensor) -> torch.Tensor:
        """Read texts of equal length, [n, pieces]; return the pool rows of all their prefixes, [n · pieces, row]."""
        if self._cache is None:
            return torch.cat((piece[..., None].float(), self._plain(piece)), 2).flatten(0, 1)
        output = self._network(input_ids=piece, use_cache=True)
        cached = [
            part.transpose(1, 2).flatten(2).float()  # [n, pieces, heads · width]
            for layer in output.past_key_values.layers
            for part in (layer.keys, layer.values)
        ]
        return torch.cat([*cached, self._outputs_of(output)], 2).flatten(0, 1)

    def _outputs_of(self, output: Any) -> torch.Tensor:
        """Return the part of a network's output that the state pool stores, float32 [n, pieces, embedding]."""
        hidden: torch.Tensor = output.last_hidden_state.float()
        return hidden

    def _read_sentences(self, before: torch.Tensor, inside: npt.NDArray[np.bool_], piece: torch.Tensor) -> torch.Tensor:
        length = self._tensor(inside.sum(1))  # [n]
        place = torch.arange(inside.shape[1] + 1, device=self._device) - (inside.shape[1] - length)[:, None]
        sentence = torch.full_like(place, self.bos or 0)
        aligned = torch.cat((before, piece[:, None]), 1)  # [n, pieces + 1], right-aligned; `sentence` is left-aligned
        row, column = torch.nonzero(place >= 0, as_tuple=True)
        sentence[row, place[row, column]] = aligned[row, column]
        output = self._plain(sentence)
        last = output[torch.arange(len(piece), device=self._device), length]  # [n, embedding]
        return torch.cat((piece[:, None].float(), last), 1)

    def _read_blocks(self, path: Ids, word: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self._block_nodes is None:  # rows are sentences; causal attention ignores the padding after them
            return self._plain(word)
        cache: dict[str, Any] = {"use_cache": False}
        if len(path):  # all blocks read the same keys and values
            before = self._rows_before(path[None]).expand(len(word), -1, -1)
            cache = {"use_cache": True, "past_key_values": self._past(before)}
            mask = pad(mask, (len(path), 0), value=True)
        hidden = torch.zeros(mask.shape, dtype=self._dtype, device=mask.device)
        hidden = hidden.masked_fill_(~mask, torch.finfo(self._dtype).min)
        output = self._network(
            input_ids=word,
            attention_mask=hidden[:, None],
            position_ids=position,
            **cache,
        )
        return self._outputs_of(output)

    def _plain(self, sentence: torch.Tensor) -> torch.Tensor:
        """Run the network without a cache on sentences, [n, pieces]; return its outputs, [n, pieces, embedding]."""
        return self._outputs_of(self._network(input_ids=sentence, **self._uncached))

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        self._piece = np.pad(self._piece, (0, capacity - len(self._piece)))


class LogitsLM(PieceLM):
    """A network whose logits are used directly, because it is quantised or wrapped, or has a nonstandard output layer.

    The state pool stores the natural-log probabilities of all pieces for each history (the logits, if scores are not
    normalised), so it takes more memory than the pool of a `PieceLM`.
    """

    def __init__(
        self, model: Any, num_pieces: int, bos: int, cache: list[_CacheLayer] | None, options: LoadOptions
    ) -> None:
        """Wrap a module that returns ``logits``; it stays on its device."""
        self._normalizes = options.normalized
        # Logits are normalised when they are computed, because there is no output embedding to do it later.
        plain = replace(options, normalize=False)
        super().__init__(model, model, (torch.empty(0, num_pieces), None), bos, cache, plain)
        self.state_size = None  # hidden states are unknown

    @property
    def normalized(self) -> bool:
        """Whether scores are normalised exactly."""
        return self._normalizes

    @property
    def num_pieces(self) -> int:
        """Number of pieces in the output vocabulary."""
        return self._embedding.shape[1]

    def _outputs_of(self, output: Any) -> torch.Tensor:
        logits: torch.Tensor = output.logits.float()
        return logits.log_softmax(-1) if self._normalizes else logits

    def _products(self, output: torch.Tensor, words: np.ndarray) -> np.ndarray:
        return output.gather(1, self._tensor(words.astype(np.int64))[:, None])[:, 0].cpu().numpy()


@torch.inference_mode()
def open_pieces(model: Any, bos: int, options: LoadOptions, path: str | None = None) -> PieceLM:
    """Wrap a causal network as a `LanguageModel` over pieces.

    Caching and tries are used only if they reproduce the network's scores in a test.

    Args:
        model: The network.
        bos: Id of the piece that begins a text.
        options: Load options; their device is ignored, because the network stays on its device.
        path: Path of the model, for messages.

    Raises:
        ModelError: The module returns no logits, or they depend on later pieces or on the length of the input.
    """
    device = device_of_module(model)
    options = replace(options, device=str(device))
    sentence, other = torch.tensor([[[bos, 0, 1, 2]], [[bos, 0, 0, 0]]], device=device)
    try:
        logits, other_logits, prefix_logits = (
            model(input_ids=pieces).logits for pieces in (sentence, other, sentence[:, :2])
        )
    except UNSUPPORTED as error:
        message = f"{type(model).__name__} returns no logits for input_ids ({reason(error)}), so Ninja cannot run it"
        raise ModelError(message, path) from error
    if not _equal_scores(logits[:, :2], prefix_logits):
        if _equal_scores(logits[:, :2], other_logits[:, :2]):
            problem = (
                "its scores depend on the length of the input, so it cannot score piece by piece; use another model"
            )
        else:
            problem = (
                "it is not causal, because its scores depend on later pieces; if it was trained as a decoder, set "
                "is_decoder to true in its configuration, else save it as MaskedLM"
            )
        raise ModelError(f"Ninja cannot run {type(model).__name__}: {problem}", path)
    num_pieces = logits.shape[-1]

    inner = getattr(model, "get_base_model", None)  # exists if the model is a PEFT module
    networks = (model,) if inner is None else (model, inner())
    candidates = ((plain, _output_layer(plain, sentence, logits)) for plain in networks)
    plain, layer = next((pair for pair in candidates if pair[1] is not None), (model, None))

    def make(cache: list[_CacheLayer] | None) -> PieceLM:
        if layer is None:
            return LogitsLM(model, num_pieces, bos, cache, options)
        return PieceLM(plain, plain.base_model, layer, bos, cache, options)

    uncached = make(None)
    uncached.enable_tries(False)
    # A small trie of pieces from the whole vocabulary, with branches and leaves at several depths.
    parent = np.array([-1, -1, 0, 0, 2, 2, 4, 3, 1, 8], np.int32)
    piece = np.linspace(0, num_pieces - 1, len(parent)).astype(np.int32)
    expected = uncached.score_trie(parent, piece)
    uncached.enable_tries(True)
    reads_tries = _agree(uncached, lambda: uncached.score_trie(parent, piece), expected)
    uncached.enable_tries(reads_tries)
    layers = _cache_layers(uncached)
    if layers is None:
        return uncached
    try:
        lm = make(layers)
    except UNSUPPORTED:  # raised if the network needs another type of cache
        return uncached
    lm.enable_tries(reads_tries)
    if not _agree(lm, lambda: score_by_levels(lm, parent, piece), expected) or not _agree(
        lm, lambda: _scores_of_unequal_lengths(lm, piece), expected[[4, 8]]
    ):
        return uncached
    [(_, inside, parent_below), _] = below(parent, np.array([0]))
    slot = lm.read(piece[:1])
    lm._reads_below = reads_tries
    if reads_tries:
        lm._reads_below = _agree(lm, lambda: lm.score_below(slot, parent_below, piece[inside]), expected[inside])
    lm.release(np.array([slot]))
    return lm


def device_of_module(model: Any) -> torch.device:
    """Return the device of a module."""
    tensor = next(itertools.chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


def longest_input(model: Any) -> int:
    """Return the maximum number of pieces per input; `NO_LIMIT` if the configuration of the network does not limit it.

    The positions of RoBERTa and similar networks begin after the id of the padding piece.
    """
    longest = getattr(_text_config(model), "max_position_embeddings", None) or NO_LIMIT
    embeddings = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
    padding = [number for module in embeddings if (number := getattr(module, "padding_idx", None)) is not None]
    return max(longest - max(padding, default=-1) - 1, 2)


def _text_config(model: Any) -> Any:
    """Return a network's configuration, or its text configuration if it also reads images; None if there is none."""
    config = getattr(model, "config", None)
    text_config = getattr(config, "get_text_config", None)
    return config if text_config is None else text_config()


def dtype_of(model: Any) -> torch.dtype:
    """Return the floating-point type of a module's weights."""
    dtypes = (weight.dtype for weight in model.parameters() if weight.dtype.is_floating_point)
    return next(dtypes, torch.float32)


def _output_layer(
    model: Any, sentence: torch.Tensor, logits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None] | None:
    """Return the output embedding and bias if they map the network's output to the logits, else None."""
    try:
        head = model.get_output_embeddings()
        output = model.base_model(input_ids=sentence, use_cache=False).last_hidden_state
        bias = getattr(head, "bias", None)
        layer = head.weight.detach().float(), None if bias is None else bias.detach().float()
        product = linear(output.float(), *layer)
    except UNSUPPORTED:  # raised, for example, if a quantised embedding has another shape
        return None
    close = 1e-4 if dtype_of(model) is torch.float32 else 5e-2
    is_product = product.shape == logits.shape and bool(torch.allclose(logits.float(), product, close, close))
    return layer if is_product else None


def _agree(lm: PieceLM, scores: Callable[[], npt.NDArray[np.float32]], expected: npt.NDArray[np.float32]) -> bool:
    tolerance = TOLERANCE if lm._dtype is torch.float32 else HALF_TOLERANCE
    try:
        return bool(np.abs(scores() - expected).max() < tolerance)
    except UNSUPPORTED:
        return False


def _scores_of_unequal_lengths(lm: PieceLM, piece: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    """Score pieces 4 and 8 of the trie in `open_pieces` in one batch, after histories of two pieces and one piece."""
    start = lm.start(1)
    first = lm.advance(start, piece[:1])
    histories = np.concatenate((first, start))
    longer = lm.advance(histories, piece[[2, 1]])  # the shorter history is padded
    scores = lm.logprob(longer, piece[[4, 8]])
    lm.release(np.concatenate((histories, longer)))
    return scores


def _equal_scores(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether the root-mean-square difference between the scores of all pieces is within the tolerance."""
    difference = one.float().log_softmax(-1) - other.float().log_softmax(-1)
    return bool(difference.square().mean().sqrt() <= HALF_TOLERANCE)


def _cache_layers(lm: PieceLM) -> list[_CacheLayer] | None:
    """Return the shapes of a network's cached keys and values per piece; None if it has no cache."""
    try:
        output = lm._network(input_ids=torch.tensor([[lm.bos]], device=lm._device), use_cache=True)
        layers = []
        for layer in output.past_key_values.layers:
            (_, heads, _, key_width), value_width = layer.keys.shape, layer.values.shape[-1]
            layers.append(_CacheLayer(heads, key_width, value_width))
        return layers or None
    except UNSUPPORTED:
        return None
