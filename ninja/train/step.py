"""Compute the gradient of a batch and update the weights."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import torch

from ninja.errors import ModelError
from ninja.lm import compute
from ninja.lm.checkpoint import Module
from ninja.lm.text import pad
from ninja.lm.word_map import SPECIAL
from ninja.train.objective import Sampler, backward
from ninja.train.order import Order
from ninja.train.recipe import TrainOptions

warnings.filterwarnings("ignore", "TF32 acceleration on top of oneDNN")  # which switching oneDNN off and on makes


def uses_bfloat16(options: TrainOptions) -> bool:
    """Tell whether products are in bfloat16, with float32 weights and sums.

    They are faster than in float32 if the processor or the GPU has instructions for them, and slower otherwise.
    """
    if options.precision != "auto":
        return options.precision == "bfloat16"
    device = torch.device(options.device)
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type != "cpu" or compute.computes_in_half()


def make_sampler(order: Order, vocabulary: int, samples: int) -> Sampler:
    """Make the sampler of a softmax over a vocabulary, by the words of the text."""
    count = np.zeros(vocabulary, np.int64)
    for first in range(0, len(order.sentences.word), 1 << 24):  # the text may be larger than the memory
        count += np.bincount(order.sentences.word[first : first + (1 << 24)], minlength=vocabulary)
    # <s> is never a target, so as a sure sample its probability falls to 0.
    count[: len(SPECIAL)] = len(order.sentences)
    return Sampler.of_counts(count, samples)


def learning_rate(options: TrainOptions, step: int, progress: float) -> float:
    """Rise linearly in the warm-up, and fall linearly to 0 at the end of the training."""
    return options.learning_rate * min(1.0, (step + 1) / (options.warmup + 1)) * max(0.0, 1.0 - progress)


def gradient(
    module: Module,
    order: Order,
    number: int,
    sampler: Sampler,
    options: TrainOptions,
    *,
    together: range | None = None,
    forward: torch.nn.Module | None = None,
) -> float:
    """Compute the gradient of a batch, as the weights' `grad`, and return its loss in nats per token.

    Args:
        number: Number of the batch; with the seed it determines dropout and sampled words, so that a batch draws the
            same on any worker, however often the training is interrupted.
        together: Numbers of the batches whose gradients will be averaged. Default: this batch alone.
        forward: Computes the outputs instead of `module`, with the same weights.
    """
    torch.manual_seed(int(np.random.SeedSequence((options.seed, number)).generate_state(1, np.uint64)[0]) >> 1)
    module.train()
    module.zero_grad(set_to_none=True)
    arrays = pad(order.sentences, order.batch(number))
    source, target = (torch.from_numpy(array).to(options.device) for array in arrays)
    real = target >= 0  # [time, batch]
    # Means over workers are means over tokens only if each divides by the mean number of tokens.
    tokens = None if together is None else order.num_tokens(together) / len(together)
    half, kind = uses_bfloat16(options), torch.device(options.device).type
    # oneDNN has an LSTM in bfloat16 only for processors with the instructions, torch itself for all.
    native = half and kind == "cpu" and not compute.computes_in_half()
    with (
        torch.backends.mkldnn.flags(enabled=False, allow_tf32=False) if native else nullcontext(),
        torch.autocast(kind, torch.bfloat16, enabled=half),
    ):
        output = (forward or module)(source)[real]  # [tokens, embedding]
        return backward(module, output, target[real], sampler, options.self_normalize, tokens)


def update(module: Module, optimizer: torch.optim.Optimizer, rate: float, options: TrainOptions, step: int) -> None:
    """Clip the gradient and update the weights.

    Args:
        rate: Learning rate.
        step: Number of the step, for the error message.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate
    norm = torch.nn.utils.clip_grad_norm_(module.parameters(), options.clip)
    if not torch.isfinite(norm):
        raise ModelError(f"the training diverged at step {step}; lower the learning rate, {options.learning_rate}")
    optimizer.step()
