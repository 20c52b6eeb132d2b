"""Run Ninja's Transformer language models."""

from __future__ import annotations

import copy

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import scaled_dot_product_attention

from ninja.lattice.symbols import SymbolTable
from ninja.lm.attention.network import AttentionLM, Ids
from ninja.lm.compute import linear
from ninja.lm.protocol import DEFAULTS, LoadOptions
from ninja.lm.word_map import Words
from ninja.models.transformer import TransformerLanguageModel


class TransformerLM(AttentionLM):
    """A Transformer as a `LanguageModel`.

    The state pool has one row per slot, with the keys and values of the history's last word in every Transformer block,
    followed by the network's output.
    """

    def __init__(
        self,
        module: TransformerLanguageModel,
        vocabulary: SymbolTable,
        options: LoadOptions = DEFAULTS,
        unk_words: int | None = None,
    ) -> None:
        """Create a language model from a trained network; for the arguments, see `ninja.lm.recurrent.lstm.LstmLM`."""
        config = module.config
        words = Words.of(vocabulary, unk_words=unk_words).fit(config.vocabulary)
        self.config = config
        width = 2 * config.embedding  # keys and values of one block
        super().__init__(words, module.embedding.weight, module.bias, config.layers * width, width, options)
        self._module = copy.deepcopy(module).eval().to(self._device)
        for block in self._module.blocks:
            for name in ("query_key_value", "attention_output", "hidden", "hidden_output"):
                layer = getattr(block, name)
                layer.forward = linear(layer.weight.detach(), layer.bias.detach())
        self._num_parameters = sum(weight.numel() for weight in module.parameters())
        self._begin()

    def _read(self, path: Ids, words: npt.NDArray[np.integer]) -> torch.Tensor:
        words_before = torch.from_numpy((path >= 0).sum(1)).to(self._device)
        turn = self._module.turns(words_before)  # [n, 1, pairs]
        visible = torch.from_numpy(np.pad(path >= 0, ((0, 0), (0, 1)), constant_values=True)).to(self._device)
        past = self._tensor(np.maximum(path, 0).reshape(-1))  # `visible` masks the padding
        flow = self._module.embed(self._tensor(words))  # [n, embedding]
        row = torch.empty(len(words), self._states.shape[1], device=self._device)
        width = 2 * self.config.embedding
        for layer, block in enumerate(self._module.blocks):
            query, key, value = block.project(flow, turn)  # [n, heads, head width]
            row[:, layer * width : (layer + 1) * width] = torch.cat((key.flatten(1), value.flatten(1)), 1)
            before = self._states.narrow(1, layer * width, width).index_select(0, past)
            before = before.view(*path.shape, 2, *block.head_shape)  # [n, words, key or value, heads, head width]
            keys, values = (
                torch.cat((before[:, :, half], last[:, None]), 1).transpose(1, 2)  # [n, heads, words + 1, head width]
                for half, last in enumerate((key, value))
            )
            attended = scaled_dot_product_attention(query[:, :, None], keys, values, visible[:, None, None])
            flow = block.combine(flow, attended[:, :, 0])
        row[:, self._output :] = self._module.norm(flow)
        return row

    def _read_blocks(self, path: Ids, word: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        assert not len(path), "the trie must begin after <s>"
        flow = self._module.embed(word)  # [blocks, tokens, embedding]
        turn = self._module.turns(position)  # [blocks, tokens, 1, pairs]
        for block in self._module.blocks:
            query, key, value = (part.transpose(1, 2) for part in block.project(flow, turn))
            attended = scaled_dot_product_attention(query, key, value, mask[:, None])  # [blocks, heads, tokens, …]
            flow = block.combine(flow, attended.transpose(1, 2))
        normalised: torch.Tensor = self._module.norm(flow)
        return normalised
