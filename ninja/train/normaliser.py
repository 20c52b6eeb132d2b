"""Training of the layers that estimate the log-normaliser of a network, on the network's outputs for a text."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
import torch

from ninja.lm.compute import linear, logsumexp
from ninja.lm.text import Sentences, batches, pad
from ninja.models.lstm import LSTMLanguageModel

BATCH_TOKENS = 4096  # maximum number of tokens per batch when outputs are computed
# Fraction of words replaced with other words of the text, because histories in lattices contain errors.
WRONG_WORDS = 0.1
PASSES = 6  # number of passes over the outputs; increased if there would be fewer than `FEWEST_STEPS` steps
FEWEST_STEPS = 1000
ROWS = 512  # number of outputs per step
LEARNING_RATE = 2e-3
WARMUP = 100  # number of steps during which the learning rate increases
MAX_OUTPUTS = 1_000_000  # maximum number of outputs to train new layers on
MAX_OUTPUTS_FURTHER = 250_000  # maximum number of outputs to train existing layers on
LOGIT_WORDS = 4096  # number of words per matrix product when normalisers are computed


@torch.random.fork_rng(devices=[])
def with_normaliser(
    module: LSTMLanguageModel,
    sentences: Sentences,
    width: int,
    *,
    start: dict[str, torch.Tensor] | None = None,
    max_outputs: int | None = None,
    seed: int = 1,
    device: str = "cpu",
) -> LSTMLanguageModel:
    """Return a copy of a trained network with added layers that estimate its log-normaliser.

    Args:
        module: The network, with its weights rounded as in a file; see `ninja.lm.checkpoint.as_stored`.
        sentences: Training text, as word ids of the network.
        width: Size of the two hidden layers.
        start: Initial weights of the layers, by name, from layers of the same width that were trained for a similar
            network.  [default: random weights]
        max_outputs: Maximum number of histories to train on; each history requires a softmax.  [default:
            `MAX_OUTPUTS`, or `MAX_OUTPUTS_FURTHER` with `start`]
        seed: Random seed.
        device: Torch device.
    """
    torch.manual_seed(seed)
    module = copy.deepcopy(module).to(device).eval()
    if max_outputs is None:
        max_outputs = MAX_OUTPUTS if start is None else MAX_OUTPUTS_FURTHER
    output, target = _outputs_and_normalisers(module, _with_wrong_words(sentences, seed), max_outputs, seed, device)
    module.add_normaliser(width)
    estimate = module.normaliser.to(device)
    if start is not None:
        estimate.load_state_dict(start)
    else:
        with torch.no_grad():
            estimate[-1].weight.zero_()
            estimate[-1].bias.fill_(target.mean())
    rows = min(ROWS, len(target))
    num_steps = max(PASSES * (len(target) // rows), FEWEST_STEPS)
    optimizer = torch.optim.Adam(estimate.parameters())
    for step, some in enumerate(_shuffled(len(target), rows, num_steps)):
        rate = LEARNING_RATE * min(1.0, (step + 1) / WARMUP) * (1 - step / num_steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.enable_grad():
            loss = (estimate(output[some].float())[:, 0] - target[some]).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return module


def normaliser_error(module: LSTMLanguageModel, sentences: Sentences, device: str = "cpu") -> tuple[float, float]:
    """Return ``(mean, root mean square)`` of the error of the estimated log-normaliser on a text, in nats."""
    output, exact = _outputs_and_normalisers(
        module.to(device).eval(), sentences, len(sentences.word) + len(sentences), 1, device
    )
    with torch.inference_mode():
        error = (module.normaliser(output.float())[:, 0] - exact).double()
    return float(error.mean()), float(error.square().mean().sqrt())


def _with_wrong_words(sentences: Sentences, seed: int) -> Sentences:
    random = np.random.default_rng(seed)
    wrong = random.random(len(sentences.word)) < WRONG_WORDS
    other = sentences.word[random.integers(len(sentences.word), size=len(sentences.word))]
    return Sentences(np.where(wrong, other, sentences.word), sentences.begin, sentences.num_unknown)


@torch.no_grad()
def _outputs_and_normalisers(
    module: LSTMLanguageModel, sentences: Sentences, most: int, seed: int, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``(outputs, log-normalisers)`` after words in a text: float16 [n, embedding] and float32 [n]."""
    weight, bias = module.embedding.weight.detach(), module.bias.detach()
    blocks = zip(weight.split(LOGIT_WORDS), bias.split(LOGIT_WORDS), strict=True)
    logits = [linear(*block) for block in blocks]
    outputs, normalisers, count = list[torch.Tensor](), list[torch.Tensor](), 0
    for members in batches(sentences, BATCH_TOKENS, (seed, 0)):
        source, target = (torch.from_numpy(array).to(device) for array in pad(sentences, members))
        output = module(source)[target >= 0]  # [tokens, embedding]
        for some in output.split(ROWS):
            parts = np.stack([logsumexp(block(some)) for block in logits], 1)  # [rows, blocks]
            normalisers.append(torch.from_numpy(parts).logsumexp(-1).to(device))
        outputs.append(output.half())  # float16 to save memory
        count += len(output)
        if count >= most:
            break
    return torch.cat(outputs)[:most], torch.cat(normalisers)[:most]


def _shuffled(count: int, rows: int, num_steps: int) -> Iterator[torch.Tensor]:
    """Yield batches of `rows` indices, in a new random order for each pass."""
    orders = iter(lambda: torch.randperm(count)[: count // rows * rows].split(rows), None)
    yield from islice(chain.from_iterable(orders), num_steps)
