"""The training objective (sampled cross-entropy), and exact perplexity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ninja import _networks
from ninja.lm.text import Sentences, batches, pad

if TYPE_CHECKING:
    from ninja.lm.checkpoint import Module

ROWS = 1024  # number of tokens whose logits are in memory; 1024 × 34,000 words in float32 take 140 MB


@dataclass(frozen=True, slots=True)
class Sampler:
    """Sampler that draws the words over which a softmax is computed in training.

    Each word is drawn independently with probability π (Poisson sampling). Then Σ_{w in sample} exp(s_w) / π_w is an
    unbiased estimate of the normaliser Σ_w exp(s_w). Frequent words, with π = 1, add no variance to this estimate.

    Source: Horvitz, Thompson, "A generalization of sampling without replacement from a finite universe", 1952.
    """

    inclusion: torch.Tensor  # π in (0, 1], float32 [vocabulary]

    @classmethod
    def of_counts(cls, count: np.ndarray, samples: int) -> Sampler:
        """Create a sampler with π proportional to ``count ** 0.75``, but at most 1.

        Args:
            count: Number of occurrences of each word, [vocabulary].
            samples: Mean number of words per sample; 0 to always use all words.
        """
        if samples == 0 or samples >= len(count):
            return cls(torch.ones(len(count)))
        mass = np.maximum(count, 1).astype(np.float64) ** 0.75
        inclusion = np.zeros_like(mass)
        for _ in range(50):  # distributes the excess of π above 1 to the other words; takes few iterations
            free = inclusion < 1
            inclusion[free] = np.minimum(1, mass[free] * (samples - (~free).sum()) / mass[free].sum())
        return cls(torch.from_numpy(inclusion.astype(np.float32)))

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw a sample with torch's global generator; return ``(word ids, −ln π)``, int64 and float32 [sample]."""
        word = (torch.rand(len(self.inclusion)) < self.inclusion).nonzero()[:, 0]
        return word, -self.inclusion[word].log()


@torch.no_grad()
def backward(
    module: Module,
    output: torch.Tensor,
    target: torch.Tensor,
    sampler: Sampler,
    self_normalize: float = 0.0,
    divisor: float | None = None,
) -> float:
    """Add the gradients of the mean sampled cross-entropy to the parameters; return this mean in nats per token.

    With scores s, the estimated log-normaliser z = ln Σ exp(s) and the penalty λ z², the derivative with respect to a
    score is (1 + 2 λ z) exp(s − z), minus 1 for the target. It is computed explicitly for slices of rows, because
    autograd would store the logits of every slice and create a gradient of the size of the vocabulary for each.

    Args:
        module: The network.
        output: Output of the network's `forward` for the tokens, with its autograd graph, float [tokens, embedding].
        target: Word ids, int64 [tokens].
        sampler: Samples the words of the softmax.
        self_normalize: λ, the weight of the mean squared log-normaliser, which drives Σ exp(s) towards 1.
        divisor: Divisor for the sum of gradients over tokens.  [default: the number of tokens]
    """
    divisor = len(target) if divisor is None else divisor
    word, correction = (tensor.to(target.device) for tensor in sampler.draw())
    index = target.new_full((len(sampler.inclusion),), -1)  # index of each word in the sample
    index[word] = torch.arange(len(word), device=target.device)
    with torch.enable_grad():
        picked = module.embedding(torch.cat((word, target))).to(output.dtype)  # [sample + tokens, embedding]
        offset = module.bias[torch.cat((word, target))]  # [sample + tokens]
    weight, target_weight = picked.detach().split((len(word), len(target)))
    bias, target_bias = offset.detach().split((len(word), len(target)))
    output_slope = torch.empty_like(output)
    picked_slope, offset_slope = torch.zeros_like(picked), torch.zeros_like(offset)
    total = 0.0
    for first in range(0, len(target), ROWS):
        rows = slice(first, first + ROWS)
        vector = output[rows].detach()  # [rows, embedding]
        score = (vector * target_weight[rows]).sum(-1, dtype=torch.float32) + target_bias[rows]  # [rows]
        others = vector @ weight.t()  # [rows, sample]
        slopes = compiled_slopes if others.is_cpu and others.dtype == torch.bfloat16 else plain_slopes
        scores = others, bias + correction, score, index[target[rows]]
        normaliser, slope, target_slope = slopes(*scores, divisor, self_normalize, offset_slope[: len(word)])
        total += float((normaliser - score).sum(dtype=torch.float64))
        offset_slope[len(word) :][rows] = target_slope
        slope, target_slope = slope.to(output.dtype), target_slope.to(output.dtype)[:, None]  # [rows, 1]
        output_slope[rows] = torch.addmm(target_slope * target_weight[rows], slope, weight)
        picked_slope[: len(word)].addmm_(slope.t(), vector)
        picked_slope[len(word) :][rows] = target_slope * vector
    torch.autograd.backward([output, picked, offset], [output_slope, picked_slope, offset_slope])
    return total / len(target)


def plain_slopes(
    others: torch.Tensor,
    offset: torch.Tensor,
    score: torch.Tensor,
    hit: torch.Tensor,
    divisor: float,
    self_normalize: float,
    offset_slope: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the log-normalisers and gradients of a sampled softmax.

    Args:
        others: Scores of the sampled words without `offset`, float [rows, sample].
        offset: Added to the scores of the sampled words, float32 [sample].
        score: Scores of the targets, float32 [rows].
        hit: Index of each target in the sample, or -1, int64 [rows]; a target in the sample is counted only once.
        divisor: Divisor for the gradients.
        self_normalize: Weight of the mean squared log-normaliser.
        offset_slope: Tensor to which the gradients of the sampled scores, summed over rows, are added, float32
            [sample].

    Returns:
        Log-normalisers, float32 [rows]; gradients of the sampled scores, like `others`; and gradients of the scores of
        the targets.
    """
    full = others.float() + offset
    struck = (hit >= 0).nonzero()[:, 0]
    full[struck, hit[struck]] = -math.inf
    normaliser = torch.logaddexp(full.logsumexp(-1), score)  # [rows]
    share = (1 + 2 * self_normalize * normaliser) / divisor  # [rows]
    slope = full.sub_(normaliser[:, None]).exp_().mul_(share[:, None])  # [rows, sample]
    offset_slope += slope.sum(0)
    return normaliser, slope.to(others.dtype), share * (score - normaliser).exp() - 1 / divisor


def compiled_slopes(
    others: torch.Tensor,
    offset: torch.Tensor,
    score: torch.Tensor,
    hit: torch.Tensor,
    divisor: float,
    self_normalize: float,
    offset_slope: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the same results as `plain_slopes` from bfloat16 scores on a CPU, in one pass, and overwrite `others`."""
    arrays = others.view(torch.uint16).numpy(), offset.numpy(), score.numpy(), hit.numpy()
    normaliser, slope = _networks.sampled_softmax(*arrays, 1 / divisor, self_normalize, offset_slope.numpy())
    return torch.from_numpy(normaliser), others, torch.from_numpy(slope)


def perplexity(module: Module, sentences: Sentences, device: str = "cpu", max_tokens: int = 4096) -> float:
    """Compute the exact perplexity of independent sentences, in float32; ``</s>`` counts as a token."""
    total, tokens = negative_logprob(module, sentences, device, max_tokens)
    return math.exp(total / tokens)


@torch.inference_mode()
def negative_logprob(
    module: Module, sentences: Sentences, device: str = "cpu", max_tokens: int = 4096, part: slice = slice(None)
) -> tuple[float, int]:
    """Return ``(sum of the negative log-probabilities of sentences in nats, number of tokens)``.

    Args:
        module: The network.
        sentences: The sentences.
        device: Torch device.
        max_tokens: Maximum number of tokens per batch.
        part: Slice of the list of batches; only these batches are scored.  [default: all]
    """
    module.eval()
    total = 0.0
    tokens = 0
    for members in batches(sentences, max_tokens)[part]:
        source, target = (torch.from_numpy(array).to(device) for array in pad(sentences, members))
        real = target >= 0  # [time, batch]
        output = module(source)[real]  # [tokens, embedding]
        for vector, word in zip(output.split(ROWS), target[real].split(ROWS), strict=True):
            logits = module.logits(vector)  # [rows, vocabulary]
            score = logits.gather(-1, word[:, None])[:, 0]
            total += float((logits.logsumexp(-1) - score).double().sum())
            tokens += len(word)
    return total, tokens
