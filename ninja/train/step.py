"""Computation of the gradient on a batch, and update of the weights."""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext

import numpy as np
import torch

from ninja.errors import ModelError, OptionError
from ninja.lm import compute
from ninja.lm.checkpoint import Module
from ninja.lm.text import pad
from ninja.lm.word_map import SPECIAL
from ninja.train.objective import Sampler, backward
from ninja.train.order import Order
from ninja.train.recipe import TrainOptions

BYTES_PER_WEIGHT = 16  # memory for a weight, its gradient and Adam's two moments in single precision

# torch issues this warning whenever oneDNN is enabled or disabled.
warnings.filterwarnings("ignore", "TF32 acceleration on top of oneDNN")


def check_memory(num_weights: int, device: str = "cpu") -> None:
    """Check that a device has enough memory for the weights of a network and for their gradients and moments.

    Raises:
        OptionError: The device has too little memory.
    """
    needed, memory = BYTES_PER_WEIGHT * num_weights, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if torch.device(device).type == "cuda":
        memory = torch.cuda.mem_get_info(device)[1]
    if needed > memory:
        raise OptionError(
            f"training a network with {num_weights:.3g} weights requires at least {needed / 2**30:,.0f} GiB of memory, "
            f"but the device {device} has {memory / 2**30:,.0f} GiB; use smaller sizes"
        )


def uses_bfloat16(options: TrainOptions) -> bool:
    """Return whether matrix products are computed in bfloat16, with float32 weights and sums.

    This is faster than float32 if the processor or the GPU has bfloat16 instructions, and slower otherwise.
    """
    if options.precision != "auto":
        return options.precision == "bfloat16"
    device = torch.device(options.device)
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type != "cpu" or compute.computes_in_half()


def make_sampler(order: Order, vocabulary: int, samples: int) -> Sampler:
    """Create a sampler with probabilities that depend on the word counts in the text; see `Sampler.of_counts`."""
    count = np.zeros(vocabulary, np.int64)
    for first in range(0, len(order.sentences.word), 1 << 24):  # in blocks, because the text may not fit into memory
        count += np.bincount(order.sentences.word[first : first + (1 << 24)], minlength=vocabulary)
    # <s> is never a target; it is always sampled, so that its probability approaches 0.
    count[: len(SPECIAL)] = len(order.sentences)
    return Sampler.of_counts(count, samples)


def learning_rate(options: TrainOptions, step: int, progress: float) -> float:
    """Return the learning rate, which increases linearly during the warm-up and decreases linearly to 0.

    Args:
        options: Training options.
        step: 0-based number of the step.
        progress: Completed fraction of the training, 0 to 1.
    """
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
    """Compute the gradient on a batch, store it in the weights' `grad`, and return the loss in nats per token.

    Args:
        module: The network.
        order: The batches of the text.
        number: Number of the batch. Together with the seed, it determines the dropout and the sampled words, which
            therefore do not depend on the worker or on interruptions.
        sampler: Samples the words of the softmax.
        options: Training options.
        together: Numbers of the batches whose gradients will be averaged.  [default: only this batch]
        forward: Module that computes the outputs with the weights of `module`.  [default: `module`]
    """
    torch.manual_seed(int(np.random.SeedSequence((options.seed, number)).generate_state(1, np.uint64)[0]) >> 1)
    module.train()
    module.zero_grad(set_to_none=True)
    arrays = pad(order.sentences, order.batch(number))
    source, target = (torch.from_numpy(array).to(options.device) for array in arrays)
    real = target >= 0  # [time, batch]
    # The mean of the workers' gradients is a mean over tokens only if every worker divides by the same number.
    tokens = None if together is None else order.num_tokens(together) / len(together)
    half, kind = uses_bfloat16(options), torch.device(options.device).type
    # oneDNN supports bfloat16 LSTMs only on processors with bfloat16 instructions; torch's own LSTM works on all.
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
        module: The network.
        optimizer: The optimiser for the network.
        rate: Learning rate.
        options: Training options.
        step: Number of the step, for the error message.

    Raises:
        ModelError: The gradient is not finite.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate
    clip_gradient(module, options.clip, step, options.learning_rate)
    optimizer.step()


def clip_gradient(module: torch.nn.Module, largest: float, step: int, learning_rate: float) -> None:
    """Scale the gradient of a network if its norm exceeds a maximum.

    Args:
        module: The network.
        largest: Maximum norm of the gradient, > 0.
        step: Number of the step, for the error message.
        learning_rate: Maximum learning rate of the training run, for the error message.

    Raises:
        ModelError: The gradient is not finite.
    """
    norm = torch.nn.utils.clip_grad_norm_(module.parameters(), largest)
    if not torch.isfinite(norm):
        raise ModelError(f"training diverged at step {step}; use a learning rate below {learning_rate}")
