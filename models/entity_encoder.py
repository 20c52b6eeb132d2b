"""Definition, in plain torch, of a phrase encoder, which reads letters and phones.

    letters ──► embedding ──► forward and backward GRU ──► pooling ─┐
    phones  ──► embedding ──► forward and backward GRU ──► pooling ─┴─► bottleneck ──► vector, of length 1
                                                                          └──► decoders of letters and of phones

Unless the decoders use attention, they read only the bottleneck, which must therefore contain all information
needed to spell and pronounce a phrase. If a phrase has no pronunciation, a network with both inputs uses
only the letters of the phrase. The vectors are trained on phonetic distances, so phrases that recognisers confuse are
close to each other.

Source: based on Chen, Jain, Wang, Seltzer, Fuegen, "Joint grapheme and phoneme embeddings for contextual end-to-end
ASR", 2019 (abstract and slides; sizes and losses are ours); Jeon, "Acoustic neighbor embeddings", 2020 (the distances).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Extractor = Literal["boundary", "last", "average", "attention", "attention-boundary", "s2s-last", "nnlm-last"]
Inputs = Literal["letters", "phones", "both"]
Outputs = Literal["letters", "phones", "concat", "joint"]

PADDING, END = 0, 1  # symbols that are neither letters nor phones
FIRST = 2  # id of the first letter or phone


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes and options of an `EntityEncoder`."""

    num_letters: int  # number of letters, plus 2 for PADDING and END
    num_phones: int  # number of phones, plus 2 for PADDING and END
    inputs: Inputs = "both"
    outputs: Outputs = "joint"  # concat: one decoder writes letters, then phones; joint: one decoder for each
    # "boundary" pools the first and last states, "last" only the last, and "average" all states. "attention" and
    # "attention-boundary" pool like "average" and "boundary", but decoders also attend to the states in training.
    # "s2s-last" is "last" without decoders. "nnlm-last" is "last" with a forward GRU that predicts the next symbol.
    extractor: Extractor = "boundary"
    embedding: int = 32  # width of the embedding of a letter or phone
    hidden: int = 64  # state size of the GRU in each direction
    bottleneck: int = 128  # width of the bottleneck, from which vectors and decoder inputs are computed
    vector: int = 64  # width of a phrase's vector
    decoder: int = 96  # state size of the decoders


class Strings(nn.Module):
    """Encoder of strings of letters or phones; padding does not change the results."""

    def __init__(self, num_symbols: int, config: Config) -> None:
        super().__init__()
        self.extractor = config.extractor
        self.embedding = nn.Embedding(num_symbols, config.embedding, padding_idx=PADDING)
        self.forwards = nn.GRU(config.embedding, config.hidden)
        self.backwards = nn.GRU(config.embedding, config.hidden) if config.extractor != "nnlm-last" else None
        self.absent = nn.Parameter(torch.zeros(self.width(config)))  # learned pooled vector of an empty string

    @staticmethod
    def width(config: Config) -> int:
        """Return the width of the pooled vector."""
        return config.hidden * {"boundary": 4, "attention-boundary": 4, "nnlm-last": 1}.get(config.extractor, 2)

    def forward(self, symbol: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pooled vectors [batch, width] and the states [time, batch, …] of strings, int64 [time, batch]."""
        time, batch = symbol.shape
        length = (symbol != PADDING).sum(0)  # [batch]
        last = (length - 1).clamp(min=0)
        place = torch.arange(time, device=symbol.device)[:, None]  # [time, 1]
        state = self.forwards(self.embedding(symbol))[0]  # [time, batch, hidden]
        if self.backwards is not None:
            reverse = (last - place).clamp(min=0)  # [time, batch]; this permutation is its own inverse
            back = self.backwards(self.embedding(symbol.gather(0, reverse)))[0]
            back = back.gather(0, reverse[..., None].expand_as(back))
            state = torch.cat([state, back], -1)  # [time, batch, 2 · hidden]
        final = state[last, torch.arange(batch, device=symbol.device)]
        if self.extractor in ("boundary", "attention-boundary"):
            pooled = torch.cat([state[0], final], -1)
        elif self.extractor in ("average", "attention"):
            valid = (place < length)[..., None]
            pooled = state.masked_fill(~valid, 0.0).sum(0) / length.clamp(min=1)[:, None]
        else:
            pooled = final
        return torch.where((length > 0)[:, None], pooled, self.absent), state


class Decoder(nn.Module):
    """Decoder that predicts the symbols of a phrase; the phrase's bottleneck is an input to each step."""

    def __init__(self, num_symbols: int, config: Config) -> None:
        super().__init__()
        attends = config.extractor.startswith("attention")
        self.embedding = nn.Embedding(num_symbols, config.embedding)
        self.gru = nn.GRU(config.embedding + config.bottleneck, config.decoder)
        self.query = nn.Linear(config.decoder, 2 * config.hidden, bias=False) if attends else None
        self.output = nn.Linear(config.decoder + (2 * config.hidden if attends else 0), num_symbols)

    def forward(
        self, pooled: Tensor, symbol: Tensor, state: Tensor | None = None, valid: Tensor | None = None
    ) -> Tensor:
        """Return the mean cross-entropy of predicting the symbols of each phrase and the END after them.

        Args:
            pooled: The bottleneck of each phrase, float [batch, bottleneck].
            symbol: The symbols, int64 [time, batch].
            state: States to attend to, float [states, batch, 2 * hidden]; only for decoders with attention.
            valid: True for states that are not padding, bool [states, batch].
        """
        end = torch.full_like(symbol[:1], END)
        previous = torch.cat([end, symbol])  # [time + 1, batch]
        target = torch.cat([symbol, torch.zeros_like(end)])
        target = target.scatter(0, (symbol != PADDING).sum(0, keepdim=True), END)
        value = torch.cat([self.embedding(previous), pooled.expand(len(previous), *pooled.shape)], -1)
        output = self.gru(value)[0]  # [time + 1, batch, decoder]
        if self.query is not None:
            assert state is not None
            assert valid is not None
            fit = torch.einsum("tbh,sbh->tbs", self.query(output), state)  # [time + 1, batch, states]
            # With -inf, the softmax would be NaN for a phrase without symbols.
            share = fit.masked_fill(~valid.T, torch.finfo(fit.dtype).min).softmax(-1)
            output = torch.cat([output, torch.einsum("tbs,sbh->tbh", share, state)], -1)
        logits = self.output(output)
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PADDING)


class EntityEncoder(nn.Module):
    """Network that maps phrases to vectors; phrases that sound alike have similar vectors."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        kinds = {"letters": config.num_letters, "phones": config.num_phones}
        self.strings = nn.ModuleDict(
            {kind: Strings(count, config) for kind, count in kinds.items() if config.inputs in (kind, "both")}
        )
        width = Strings.width(config) * len(self.strings)
        self.bottleneck = nn.Sequential(nn.Linear(width, config.bottleneck), nn.LayerNorm(config.bottleneck))
        self.vector = nn.Linear(config.bottleneck, config.vector, bias=False)
        self.sharpness = nn.Parameter(torch.tensor(2.5))  # log of the similarities' inverse temperature in training
        if config.extractor in ("s2s-last", "nnlm-last"):
            kinds = {}
        elif config.outputs == "concat":  # the ids of phones follow the ids of letters
            kinds = {"concat": config.num_letters + config.num_phones - FIRST}
        elif config.outputs != "joint":
            kinds = {config.outputs: kinds[config.outputs]}
        self.decoders = nn.ModuleDict({kind: Decoder(count, config) for kind, count in kinds.items()})
        nnlm = config.extractor == "nnlm-last"
        self.next = nn.ModuleDict(
            {kind: nn.Linear(config.hidden, strings.embedding.num_embeddings) for kind, strings in self.strings.items()}
            if nnlm
            else {}
        )

    def forward(self, letters: Tensor, phones: Tensor) -> Tensor:
        """Return the vector of each phrase, normalised to length 1, float [batch, vector].

        Args:
            letters: Letters of the phrases, int64 [time, batch], padded with PADDING.
            phones: Phones of the phrases, int64 [time, batch], padded with PADDING; only PADDING if a pronunciation
                is unknown.
        """
        return functional.normalize(self.vector(self._pooled(letters, phones)[0]), dim=-1)

    def losses(self, letters: Tensor, phones: Tensor, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the vectors of phrases, and the loss of predicting their letters and phones.

        Args:
            letters: The letters to predict, int64 [time, batch].
            phones: The phones to predict, int64 [time, batch].
            inputs: The letters and the phones that the encoder reads, each int64 [time, batch].
        """
        pooled, states = self._pooled(*inputs)
        loss = pooled.new_zeros(())
        for kind, decoder in self.decoders.items():
            target = {"letters": letters, "phones": phones}.get(kind)
            loss = loss + decoder(pooled, joined(letters, phones, self.config) if target is None else target, *states)
        for kind, output in self.next.items():
            symbol = inputs[kind == "phones"]
            state = self.strings[kind](symbol)[1][:-1]  # [time - 1, batch, hidden]
            loss = loss + functional.cross_entropy(
                output(state).flatten(0, 1), symbol[1:].flatten(), ignore_index=PADDING
            )
        return functional.normalize(self.vector(pooled), dim=-1), loss

    def _pooled(self, letters: Tensor, phones: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the bottleneck of each phrase, float [batch, bottleneck], and the states that the decoders attend to.

        The second item is ``(state, valid)``, as in `Decoder.forward`; it is empty if the decoders have no attention.
        """
        symbols = {"letters": letters, "phones": phones}
        encoded = [encoder(symbols[kind]) for kind, encoder in self.strings.items()]
        pooled = self.bottleneck(torch.cat([vector for vector, _ in encoded], -1))
        if not self.config.extractor.startswith("attention"):
            return pooled, ()
        valid = torch.cat([symbols[kind] != PADDING for kind in self.strings])
        return pooled, (torch.cat([state for _, state in encoded]), valid)


def joined(letters: Tensor, phones: Tensor, config: Config) -> Tensor:
    """Return the letters of each phrase, followed by its phones, as one string, int64 [time, batch].

    An offset is added to phone ids, so that they follow the letter ids.
    """
    shifted = torch.where(phones == PADDING, PADDING, phones + config.num_letters - FIRST)
    both = torch.cat([letters, shifted])
    order = (both == PADDING).to(torch.int8).argsort(dim=0, stable=True)
    return both.gather(0, order)
