"""A tiny LSTM with random weights, its scores computed by torch, and checks for its other forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM, symbols
from reference_rescore import path_costs, rescored_path_costs
from rescoring_cases import EXACT
from strategies import lattices

from ninja.lm import LanguageModel, sentence_logprobs
from ninja.lm.checkpoint import Checkpoint
from ninja.rescoring import rescore

torch = pytest.importorskip("torch")

from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402

Tensor = torch.Tensor
VOCABULARY = FakeLM().vocabulary  # <s> </s> <unk> w1 … w8
WORDS = [VOCABULARY.word(number) for number in range(len(VOCABULARY))]
NUM_WORDS = len(WORDS)
WORDS_TXT = "".join(f"{word} {number}\n" for number, word in enumerate(WORDS))
SENTENCES = [[5, 3, 2, 10, 5, 5], [], [7], [3, 4] * 9, [5, 3, 2], [5, 3]]
EMBEDDING, HIDDEN, LAYERS = 6, 10, 2


def make_module(projection: int = 0, hidden: int = HIDDEN) -> LSTMLanguageModel:
    torch.manual_seed(7)
    config = Config(NUM_WORDS, embedding=EMBEDDING, hidden=hidden, layers=LAYERS, projection=projection)
    module = LSTMLanguageModel(config)
    module.initialise()
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(3.0)  # large weights, so that a wrong gate changes scores
        module.bias.normal_()
    return module.eval()


MODULE = make_module()
CHECKPOINT = Checkpoint(MODULE, WORDS, {})
SHAPES = {  # outputs that are not as wide as embeddings, with and without projection
    "narrow outputs": Checkpoint(make_module(projection=4), WORDS, {}),
    "as many cells": Checkpoint(make_module(hidden=EMBEDDING), WORDS, {}),
    "few cells": Checkpoint(make_module(hidden=EMBEDDING - 2), WORDS, {}),
    "few cells, narrower outputs": Checkpoint(make_module(projection=3, hidden=EMBEDDING - 2), WORDS, {}),
}


@torch.inference_mode()
def sentence_score(sentence: list[int] | tuple[int, ...], last: int = 1, module=MODULE) -> float:
    """Return the log-probability of a sentence and its end, computed by torch's LSTM and softmax."""
    logprob = module.logits(module(torch.tensor([[0], *([word] for word in sentence)]))[:, 0]).log_softmax(-1)
    return float(sum(logprob[time, word] for time, word in enumerate([*sentence, last])))


def check_sentence_scores(lm: LanguageModel, module=MODULE) -> None:
    """Check the scores of whole sentences, and that all states are released."""
    expected = [sentence_score(sentence, module=module) for sentence in SENTENCES]
    assert sentence_logprobs(lm, SENTENCES) == pytest.approx(expected, abs=1e-4)
    assert lm.num_slots == 0  # type: ignore[attr-defined]


class ReferenceLM(FakeLM):
    """The network for the slow implementation of rescoring, which requests scores by history."""

    def __init__(self) -> None:
        super().__init__()
        self.logprobs: dict[tuple[int, ...], np.ndarray] = {}

    @torch.inference_mode()
    def score(self, history: tuple[int, ...], word: int) -> float:
        if history not in self.logprobs:
            row = MODULE(torch.tensor([[0], *([word_id] for word_id in history)]))[-1, 0]
            self.logprobs[history] = MODULE.logits(row).log_softmax(-1).numpy()
        return float(self.logprobs[history][word])


REFERENCE_LM = ReferenceLM()
LATTICES = lattices(max_states=6, max_word=8)


def check_path_scores(lm: LanguageModel, lattice) -> None:
    """Check that rescoring a lattice without limits equals scoring each path as a sentence."""
    lattice = replace(lattice, words=symbols())
    [(_, output)] = rescore([(lattice.key, lattice)], lm, EXACT)
    rescored, expected = path_costs(output), rescored_path_costs(lattice, REFERENCE_LM, EXACT)
    assert [cost.words for cost in rescored] == [cost.words for cost in expected]
    for ours, theirs in zip(rescored, expected, strict=True):
        assert ours[1:3] == pytest.approx(theirs[1:3], abs=1e-4)


class StepModule(torch.nn.Module):
    """The LSTM with a state as in nn.LSTM: two tensors, layers first."""

    def __init__(self):
        super().__init__()
        self.module = MODULE

    def initial_state(self, batch: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(2, batch, 6), torch.zeros(2, batch, 10)

    def step(self, word: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, state = self.module.lstm(self.module.embedding(word)[None], state)
        return self.module.logits(output[0]), state

    def forward(self, words: Tensor) -> Tensor:
        return self.module.logits(self.module(words.t())).transpose(0, 1)


class SentenceModule(torch.nn.Module):
    """The LSTM without a state."""

    def __init__(self):
        super().__init__()
        self.module = MODULE

    def forward(self, words: Tensor) -> Tensor:
        return self.module.logits(self.module(words.t())).transpose(0, 1)
