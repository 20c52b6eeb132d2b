"""Run a left-to-right network of the transformers library on pieces: keys and values along the trie of histories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import pad

from ninja.errors import ModelError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.attention.network import AttentionLM, Ids
from ninja.lm.protocol import LoadOptions
from ninja.lm.text import LONGEST_SENTENCE
from ninja.lm.trie import score_by_levels
from ninja.lm.word_map import Words

LONGEST_HISTORY = 2**31  # pieces, of a network that knows no limit
TOLERANCE = 1e-3  # nats between two ways to one score


@dataclass(frozen=True, slots=True)
class _CacheLayer:
    """Keys and values that a layer keeps of each piece."""

    heads: int
    key_width: int
    value_width: int


class PieceLM(AttentionLM):
    """A network of the transformers library behind the protocol of `LanguageModel`, over pieces.

    It must be what nearly all are: a network whose last layer's output, multiplied with an output embedding, is its
    logits. Two more things most of them can are tried when one is opened (`open_pieces`), and gone without otherwise:
    to go on from keys and values that are given to them, and to read a trie with a mask of who sees whom.

    What follows a history of more pieces than the network can read scores NaN, so that its lattice is given up and not
    the run.
    """

    def __init__(self, model: Any, bos: int, cache: list[_CacheLayer] | None, options: LoadOptions) -> None:
        """Take over a network that lies on its device; `cache` describes its layers' state of a piece, None = none."""
        head = model.get_output_embeddings()
        words = Words(SymbolTable([]), bos, bos, None)  # pieces have only numbers
        # Without keys and values a row keeps the piece itself, which is exact in float32 up to 2**24.
        kept = 1 if cache is None else sum(layer.heads * (layer.key_width + layer.value_width) for layer in cache)
        super().__init__(words, head.weight.detach(), getattr(head, "bias", None), kept, kept, options)
        self._model = model
        self._network = model.base_model
        self._cache = cache
        # A layer may see only so many pieces back. A mask of ours would undo that, so it must not be long enough to.
        windows = [getattr(model.config, name, None) for name in ("sliding_window", "attention_chunk_size")]
        self._window = min((window for window in windows if window), default=None)
        self._longest = getattr(model.config, "max_position_embeddings", None) or LONGEST_HISTORY
        self._num_parameters = int(model.num_parameters())
        self._begin()

    def at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        """Tell which histories are ``<s>`` alone, [n]."""
        return self._depth[slots] == 0

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
                pair.append(kept.transpose(1, 2))  # [n, heads, pieces, width]
                place += layer.heads * width
            past.append(tuple(pair))
        cache: Any = DynamicCache(past if path.shape[1] else None)
        output = self._network(
            input_ids=piece[:, None],
            attention_mask=pad(self._tensor(inside).long(), (0, 1), value=1),
            position_ids=self._tensor(np.minimum(length, self._longest - 1)[:, None]),
            past_key_values=cache,
            use_cache=True,
        )
        told = [part[:, :, -1].flatten(1) for layer in cache.layers for part in (layer.keys, layer.values)]
        last = self._unless_too_long(output.last_hidden_state[:, -1], self._tensor(length))
        return torch.cat([*told, last], 1)

    def _read_sentences(self, before: torch.Tensor, inside: npt.NDArray[np.bool_], piece: torch.Tensor) -> torch.Tensor:
        length = self._tensor(inside.sum(1))  # [n]
        place = torch.arange(inside.shape[1] + 1, device=self._device) - (inside.shape[1] - length)[:, None]
        sentence = torch.full_like(place, self.bos or 0)
        every = torch.cat((before, piece[:, None]), 1)  # [n, pieces + 1], the ends aligned; now the starts
        row, column = torch.nonzero(place >= 0, as_tuple=True)
        sentence[row, place[row, column]] = every[row, column]
        output = self._plain(sentence)
        last = output[torch.arange(len(piece), device=self._device), length.clamp(max=output.shape[1] - 1)]
        last = self._unless_too_long(last, length)  # [n, embedding]
        return torch.cat((piece[:, None].float(), last), 1)

    def _read_blocks(self, word: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self._block_nodes is None:  # a sentence each, with padding behind it that no word of it sees
            output = self._plain(word)
            output = pad(output, (0, 0, 0, word.shape[1] - output.shape[1]))
            return self._unless_too_long(output, position)
        hidden = torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, torch.finfo(torch.float32).min)
        output = self._network(
            input_ids=word,
            attention_mask=hidden[:, None],
            position_ids=position.clamp(max=self._longest - 1),
            use_cache=False,
        )
        return self._unless_too_long(output.last_hidden_state, position, self._window)

    def _plain(self, sentence: torch.Tensor) -> torch.Tensor:
        """Read sentences as far as the network can: [sentences, pieces] → [.., .., embedding]."""
        return self._network(sentence[:, : self._longest], use_cache=False).last_hidden_state

    def _unless_too_long(self, output: torch.Tensor, position: torch.Tensor, window: int | None = None) -> torch.Tensor:
        """Return outputs, [..., embedding], those at positions that the network cannot have, [...], as NaN."""
        longest = min(self._longest, window or self._longest)
        return output.masked_fill((position >= longest)[..., None], torch.nan)


@torch.inference_mode()
def open_pieces(model: Any, bos: int, options: LoadOptions, path: str | None = None) -> PieceLM:
    """Put a causal network of the transformers library behind the protocol, with the abilities that give its scores.

    Raises:
        ModelError: Its logits are not the product of its output with an output embedding.
    """
    unfit = f"the logits of {type(model).__name__} are not its output times its output embedding; Ninja cannot run it"
    if model.get_output_embeddings() is None:
        raise ModelError(unfit, path)
    lm = PieceLM(model, bos, _cache_layers(model, bos), options)
    # A small trie of pieces from all over the vocabulary, with branches at several depths and a leaf to each.
    parent = np.array([-1, -1, 0, 0, 2, 2, 4, 3, 1, 8], np.int32)
    piece = np.linspace(0, model.get_input_embeddings().weight.shape[0] - 1, len(parent)).astype(np.int32)
    sentence = torch.tensor([[bos, *piece[[0, 2, 4, 6]].tolist()]], device=lm._device)
    logits = model(sentence, use_cache=False).logits
    product = model.get_output_embeddings()(model.base_model(sentence, use_cache=False).last_hidden_state)
    if not torch.allclose(logits, product, 1e-4, 1e-4):
        raise ModelError(unfit, path)
    lm.reads_tries(False)
    expected = lm.score_trie(parent, piece)
    lm.reads_tries(True)
    lm.reads_tries(_agree(lambda: lm.score_trie(parent, piece), expected))
    if lm._cache is not None and not _agree(lambda: score_by_levels(lm, parent, piece), expected):
        without = PieceLM(model, bos, None, options)
        without.reads_tries(lm._block_nodes is not None)
        return without
    return lm


def _agree(scores: Callable[[], npt.NDArray[np.float32]], expected: npt.NDArray[np.float32]) -> bool:
    try:
        return bool(np.abs(scores() - expected).max() < TOLERANCE)
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError, NotImplementedError):
        return False  # whatever an architecture says to arguments it does not know


def _cache_layers(model: Any, bos: int) -> list[_CacheLayer] | None:
    """Return the shapes of the keys and values that a network keeps of a piece; None if it keeps none."""
    try:
        output = model.base_model(torch.tensor([[bos]], device=model.device), use_cache=True)
        layers = []
        for layer in output.past_key_values.layers:
            (_, heads, _, key_width), value_width = layer.keys.shape, layer.values.shape[-1]
            layers.append(_CacheLayer(heads, key_width, value_width))
        return layers or None
    except (AttributeError, TypeError, ValueError):
        return None
