"""A word-level Transformer language model with tied embeddings: the definition, in plain torch.

    word ──► embedding ──► block ──► … ──► block ──► norm ──► · embedding + bias ──► logits
                             │
        x ──► norm ──► attention to <s> and the words so far ──► + ──► norm ──► hidden layer ──► + ──►
        └────────────────────────────────────────────────────────┘└──────────────────────────────┘

Positions are turned into queries and keys (rotary), so there is no table of them and no longest sentence: what
attention sees of two words is only how far apart they are. Input and output share one embedding matrix.

`TransformerLanguageModel.forward` is the plain form, whole sentences side by side. Its parts, `embed`, `turns`,
`Block.project` and `Block.combine`, leave the attention between them to whoever shares keys and values among histories.

Source: Vaswani et al., "Attention is all you need", 2017; Xiong et al., "On layer normalization in the Transformer
architecture", 2020 (norms before the layers); Su et al., "RoFormer: enhanced Transformer with rotary position
embedding", 2021; Press, Wolf, "Using the output embedding to improve language models", 2017 (tying).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

SLOWEST_TURN = 10_000.0  # words in which the slowest pair of a head turns by one radian


@dataclass(frozen=True, slots=True)
class Config:
    """The shape of a Transformer language model."""

    vocabulary: int  # number of words, <s>, </s> and <unk> included
    embedding: int = 256  # width of embeddings and of what flows between blocks
    hidden: int = 768  # width of the hidden layer of a block
    layers: int = 2  # blocks
    heads: int = 4  # of attention; each has embedding / heads numbers, an even count
    dropout: float = 0.0  # on embeddings, on what each half of a block adds, before the softmax; in training only


class Block(nn.Module):
    """Attention and a hidden layer; each adds to what flows through."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.embedding
        self.head_shape = (config.heads, width // config.heads)
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_output = nn.Linear(width, width)
        self.hidden_norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, config.hidden)
        self.hidden_output = nn.Linear(config.hidden, width)
        self.dropout = nn.Dropout(config.dropout)

    def project(self, below: Tensor, turn: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what each word asks for, answers to, and tells: the half of a block before its attention.

        Args:
            below: What flows in, float [..., embedding].
            turn: Of `TransformerLanguageModel.turns`, for the words' positions, complex64 [..., 1, head width / 2].

        Returns:
            Queries, keys and values, float [..., heads, head width]; queries and keys are turned by their positions.
        """
        query, key, value = self.query_key_value(self.attention_norm(below)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, self.head_shape) for part in (query, key, value))
        return rotate(query, turn), rotate(key, turn), value

    def combine(self, below: Tensor, attended: Tensor) -> Tensor:
        """Return what flows out, float [..., embedding]: the half of a block after its attention.

        Args:
            below: What flowed in, float [..., embedding].
            attended: Values averaged by attention, float [..., heads, head width].
        """
        middle = below + self.dropout(self.attention_output(attended.flatten(-2)))
        hidden = nn.functional.gelu(self.hidden(self.hidden_norm(middle)))
        return middle + self.dropout(self.hidden_output(hidden))


class TransformerLanguageModel(nn.Module):
    """Predict each word of a sentence from the words before it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.embedding)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.dropout = nn.Dropout(config.dropout)

    def initialise(self) -> None:
        """Draw fresh weights from torch's global generator."""
        nn.init.normal_(self.embedding.weight, std=self.config.embedding**-0.5)
        nn.init.zeros_(self.bias)
        for block in self.blocks:
            for layer in (block.query_key_value, block.attention_output, block.hidden, block.hidden_output):
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
                nn.init.zeros_(layer.bias)
            for layer in (block.attention_output, block.hidden_output):
                # 2 · layers such terms are summed: together they then weigh as much as one would.
                layer.weight.data.mul_((2 * self.config.layers) ** -0.5)

    def forward(self, word: Tensor) -> Tensor:
        """Compute what predicts the next word, after each word of a batch of sentences.

        Args:
            word: Word ids, int64 [time, batch]; every column starts a sentence, so with ``<s>``.

        Returns:
            Outputs, float [time, batch, embedding]; `logits` turns them into scores.
        """
        flow = self.embed(word.t())  # [batch, time, embedding]
        turn = self.turns(torch.arange(len(word), device=word.device))  # [time, 1, head width / 2]
        for block in self.blocks:
            query, key, value = (part.transpose(1, 2) for part in block.project(flow, turn))  # [batch, heads, time, …]
            attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            flow = block.combine(flow, attended.transpose(1, 2))
        return self.dropout(self.norm(flow)).transpose(0, 1)

    def embed(self, word: Tensor) -> Tensor:
        """Return what flows into the first block, float [..., embedding]; its numbers are of the size of 1."""
        return self.dropout(self.embedding(word) * self.config.embedding**0.5)

    def turns(self, position: Tensor) -> Tensor:
        """Return by what each pair of a head is turned at some positions, complex64 [..., 1, head width / 2].

        Args:
            position: Words before the word, ``<s>`` included, int64 [...]; ``<s>`` itself is at 0.
        """
        num_pairs = self.config.embedding // self.config.heads // 2
        exponent = torch.arange(num_pairs, device=position.device) / num_pairs
        angle = position[..., None, None] * SLOWEST_TURN**-exponent  # [..., 1, pairs]
        return torch.polar(torch.ones_like(angle), angle)

    def logits(self, output: Tensor) -> Tensor:
        """Return the unnormalised log-probability of every word, float [..., vocabulary]."""
        return nn.functional.linear(output, self.embedding.weight, self.bias)


def rotate(vector: Tensor, turn: Tensor) -> Tensor:
    """Turn each head's pairs of numbers, float [..., heads, head width]; the first of a pair is in the first half."""
    first, second = vector.chunk(2, -1)
    cosine, sine = turn.real.to(vector.dtype), turn.imag.to(vector.dtype)
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), -1)
