"""Definition, in plain torch, of a pointer from a language model's hidden state to a list of phrases.

    hidden state ──► hidden layer ──► query ─────────────┐
                 └─► hidden layer ──► score of no phrase │      softmax over no phrase and all phrases
    phrase's vector, first word's ──► hidden layer ──► key ─► products with the query ─┘

The score of "no phrase" is increased by ``offset · ln N`` for N phrases; otherwise, each added phrase would lower the
probability of "no phrase".

Source: based on Sun, Zhang, Woodland, "Tree-constrained pointer generator for end-to-end contextual speech
recognition", 2021 (a pointer in addition to a frozen network), and Zhou et al., "CopyNE", 2023 (whole phrases). Sizes
and inputs are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

ENTITY_RATE = 0.09  # probability that a phrase begins at a word, before training


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of the layers of a `PhrasePointer`."""

    state: int  # width of the language model's hidden state and word vectors
    vector: int  # width of a phrase's vector
    width: int = 64  # width of queries and keys
    hidden: int = 128  # width of the hidden layers


class PhrasePointer(nn.Module):
    """Network that predicts which phrase of a list, if any, begins after a history."""

    state_scale: Tensor  # normalises the magnitude of states to 1
    word_scale: Tensor  # normalises the magnitude of word vectors to 1

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        hidden = config.hidden
        # The last element of a query is 1, so the last element of a key is a bias for its phrase.
        self.query = nn.Sequential(nn.Linear(config.state, hidden), nn.SiLU(), nn.Linear(hidden, config.width - 1))
        score, key = nn.Linear(hidden // 2, 1), nn.Linear(hidden, config.width)
        self.no_phrase = nn.Sequential(nn.Linear(config.state, hidden // 2), nn.SiLU(), score)
        self.key = nn.Sequential(nn.Linear(config.vector + config.state + 2, hidden), nn.SiLU(), key)
        self.offset = nn.Parameter(torch.ones(()))
        self.register_buffer("state_scale", torch.ones(()))
        self.register_buffer("word_scale", torch.ones(()))
        with torch.no_grad():
            score.bias.fill_(math.log(1 / ENTITY_RATE - 1))
            score.weight.zero_()
            key.weight.mul_(0.1)

    def queries(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the query, float [n, width], and the score of "no phrase", float [n], for each state.

        The scores do not include the offset, which depends on the number of phrases.

        Args:
            state: Hidden states of the language model, float [n, state].
        """
        scaled = state * self.state_scale
        query = self.query(scaled)
        return torch.cat([query, torch.ones_like(query[:, :1])], 1), self.no_phrase(scaled)[:, 0]

    def keys(self, vector: Tensor, first_word: Tensor, num_words: Tensor) -> Tensor:
        """Return the key of each phrase, float [n, width].

        Args:
            vector: The vector of each phrase, float [n, vector].
            first_word: The language model's vector of the first word of each phrase, float [n, state]; all elements
                are 0 if the word is unknown.
            num_words: The number of words in each phrase, float [n].
        """
        mask = (first_word != 0).any(1).to(vector.dtype)
        return self.key(torch.cat([vector, first_word * self.word_scale, mask[:, None], num_words.log()[:, None]], 1))
