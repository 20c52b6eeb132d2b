"""Definition, in plain torch, of a word-level Transformer language model with tied embeddings.

    word ──► embedding ──► block ──► … ──► block ──► norm ──► · embedding + bias ──► logits
                             │
        x ──► norm ──► attention to <s> and the words so far ──► + ──► norm ──► hidden layer ──► + ──►
        └────────────────────────────────────────────────────────┘└──────────────────────────────┘

Position embeddings are rotary: queries and keys are rotated by angles that depend on their positions, so attention
depends on relative positions and sentences can have any length. Input and output share one embedding matrix.

`TransformerLanguageModel.forward` runs on batches of sentences. Its parts, `embed`, `turns`, `Block.project` and
`Block.combine`, allow callers to share keys and values among histories in their own attention code.

Source: Vaswani et al., "Attention is all you need", 2017; Xiong et al., "On layer normalization in the Transformer
architecture", 2020 (norms before the layers); Su et al., "RoFormer: enhanced Transformer with rotary position
embedding", 2021; Press, Wolf, "Using the output embedding to improve language models", 2017 (tying).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

SLOWEST_TURN = 10_000.0  # number of words after which the most slowly rotating pair has turned by at least one radian


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes and options of a Transformer language model."""

    vocabulary: int  # number of words, including <s>, </s> and <unk>
    embedding: int = 256  # width of embeddings and of the residual stream
    hidden: int = 768  # width of the hidden layer of a block
    layers: int = 2  # blocks
    heads: int = 4  # number of attention heads; the width of a head, embedding / heads, must be even
    dropout: float = 0.0  # on embeddings, on both residual branches of a block and before the softmax, in training


class Block(nn.Module):
    """Attention and a hidden layer, both with residual connections."""

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
        """Compute queries, keys and values, the part of a block before attention.

        Args:
            below: The block's input, float [..., embedding].
            turn: Rotations of the positions, from `TransformerLanguageModel.turns`, complex64 [..., 1, head width / 2].

        Returns:
            Queries, keys and values, float [..., heads, head width]; queries and keys are rotated by `turn`.
        """
        query, key, value = self.query_key_value(self.attention_norm(below)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, self.head_shape) for part in (query, key, value))
        return rotate(query, turn), rotate(key, turn), value

    def combine(self, below: Tensor, attended: Tensor) -> Tensor:
        """Compute the block's output, float [..., embedding], from its input and the result of attention.

        Args:
            below: The block's input, float [..., embedding].
            attended: Values averaged by attention, float [..., heads, head width].
        """
        middle = below + self.dropout(self.attention_output(attended.flatten(-2)))
        hidden = nn.functional.gelu(self.hidden(self.hidden_norm(middle)))
        return middle + self.dropout(self.hidden_output(hidden))


class TransformerLanguageModel(nn.Module):
    """Transformer that predicts each word of a sentence from the words before it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.embedding)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.dropout = nn.Dropout(config.dropout)

    def initialise(self) -> None:
        """Initialise the weights from torch's global generator."""
        nn.init.normal_(self.embedding.weight, std=self.config.embedding**-0.5)
        nn.init.zeros_(self.bias)
        for block in self.blocks:
            for layer in (block.query_key_value, block.attention_output, block.hidden, block.hidden_output):
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
                nn.init.zeros_(layer.bias)
            for layer in (block.attention_output, block.hidden_output):
                # The residual stream sums 2 · layers branches; this factor gives it the variance of one branch.
                layer.weight.data.mul_((2 * self.config.layers) ** -0.5)

    def forward(self, word: Tensor) -> Tensor:
        """Compute, for each word of a batch of sentences, the output that predicts the word after it.

        Args:
            word: Word ids, int64 [time, batch]; every column is a sentence that begins with ``<s>``.

        Returns:
            Outputs, float [time, batch, embedding]; `logits` converts them to scores.
        """
        flow = self.embed(word.t())  # [batch, time, embedding]
        turn = self.turns(torch.arange(len(word), device=word.device))  # [time, 1, head width / 2]
        for block in self.blocks:
            query, key, value = (part.transpose(1, 2) for part in block.project(flow, turn))  # [batch, heads, time, …]
            attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            flow = block.combine(flow, attended.transpose(1, 2))
        return self.dropout(self.norm(flow)).transpose(0, 1)

    def embed(self, word: Tensor) -> Tensor:
        """Return the input of the first block, float [..., embedding].

        Embeddings are scaled so that the variance of their elements is 1 before training.

        Args:
            word: Word ids, int64 [...].
        """
        return self.dropout(self.embedding(word) * self.config.embedding**0.5)

    def turns(self, position: Tensor) -> Tensor:
        """Return the rotations of a head's element pairs at given positions, complex64 [..., 1, head width / 2].

        Args:
            position: Number of words before each word, including ``<s>``, int64 [...]; 0 for ``<s>`` itself.
        """
        num_pairs = self.config.embedding // self.config.heads // 2
        exponent = torch.arange(num_pairs, device=position.device) / num_pairs
        angle = position[..., None, None] * SLOWEST_TURN**-exponent  # [..., 1, pairs]
        return torch.polar(torch.ones_like(angle), angle)

    def logits(self, output: Tensor) -> Tensor:
        """Return the unnormalised log-probability of every word, float [..., vocabulary], for outputs of `forward`."""
        return nn.functional.linear(output, self.embedding.weight, self.bias)


def rotate(vector: Tensor, turn: Tensor) -> Tensor:
    """Apply rotary position embeddings to each head; elements i and i + head width / 2 form a pair.

    Args:
        vector: Queries or keys, float [..., heads, head width].
        turn: Complex rotation factors from `TransformerLanguageModel.turns`, complex64 [..., 1, head width / 2].
    """
    first, second = vector.chunk(2, -1)
    cosine, sine = turn.real.to(vector.dtype), turn.imag.to(vector.dtype)
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), -1)
