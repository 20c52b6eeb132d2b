"""Slow computation of Transformers: loops over numbers, and one sentence at a time."""

import math

import numpy as np
import torch

from ninja.lm import LanguageModel
from ninja.lm.trie import score_trie


def attend_by_loops(module, sentence):
    """Compute the outputs of ninja.models.transformer in float64, word by word and pair by pair, [words, embedding]."""
    state = {name: weight.double().numpy() for name, weight in module.state_dict().items()}
    config = module.config
    width = config.embedding // config.heads

    def norm(vector, name):
        centred = vector - vector.mean()
        return centred / np.sqrt((centred**2).mean() + 1e-5) * state[f"{name}.weight"] + state[f"{name}.bias"]

    def layer(vector, name):
        return state[f"{name}.weight"] @ vector + state[f"{name}.bias"]

    def turn(vector, position):
        turned = vector.copy()
        for pair in range(width // 2):
            angle = position * 10_000 ** (-pair / (width // 2))
            pull = complex(math.cos(angle), math.sin(angle)) * complex(vector[pair], vector[pair + width // 2])
            turned[pair], turned[pair + width // 2] = pull.real, pull.imag
        return turned

    flow = [state["embedding.weight"][word] * math.sqrt(config.embedding) for word in sentence]
    for number in range(config.layers):
        name = f"blocks.{number}"
        parts = [layer(norm(vector, f"{name}.attention_norm"), f"{name}.query_key_value") for vector in flow]
        after = []
        for place, vector in enumerate(flow):
            attended = []
            for head in range(config.heads):
                head_slice = slice(head * width, (head + 1) * width)
                query = turn(parts[place][: config.embedding][head_slice], place)
                positions = range(place + 1)
                keys = [
                    turn(parts[position][config.embedding : 2 * config.embedding][head_slice], position)
                    for position in positions
                ]
                weight = np.array([math.exp(query @ key / math.sqrt(width)) for key in keys])
                values = np.array([parts[position][2 * config.embedding :][head_slice] for position in positions])
                attended.append(weight / weight.sum() @ values)
            middle = vector + layer(np.concatenate(attended), f"{name}.attention_output")
            hidden = layer(norm(middle, f"{name}.hidden_norm"), f"{name}.hidden")
            active = np.array([x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in hidden])
            after.append(middle + layer(active, f"{name}.hidden_output"))
        flow = after
    return np.array([norm(vector, "norm") for vector in flow])


@torch.no_grad()
def score_by_sentences(module, parent, word):
    """Score each node of a trie by running the network over its whole sentence, float64 [nodes]."""
    score = []
    for node in range(len(parent)):
        sentence = [int(word[node])]
        above = int(parent[node])
        while above >= 0:
            sentence.insert(0, int(word[above]))
            above = int(parent[above])
        output = module(torch.tensor([0, *sentence[:-1]])[:, None])[-1, 0]
        score.append(float(module.logits(output).double().log_softmax(-1)[sentence[-1]]))
    return np.array(score)


class Stepwise(LanguageModel):
    """A language model that exposes the methods of the protocol only."""

    def __init__(self, lm):
        self.start, self.advance, self.logprob, self.release = lm.start, lm.advance, lm.logprob, lm.release
        self.vocabulary = lm.vocabulary


def stepwise(lm, parent, word):
    """Score a trie through start, advance, logprob and release."""
    return score_trie(Stepwise(lm), parent, word, max_histories=5)
