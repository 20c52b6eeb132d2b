"""Convert the tensors of a network and its optimiser to one vector, which is sent in one message."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Copy tensors into one float32 vector."""
    return torch.cat([tensor.detach().reshape(-1).float() for tensor in tensors])


@torch.no_grad()
def unflatten(vector: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy a vector into the tensors in place."""
    pieces = vector.split([tensor.numel() for tensor in tensors])
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.copy_(piece.view_as(tensor))


def prepare(optimizer: torch.optim.Adam) -> None:
    """Initialise the state of an Adam optimiser, so that it can be overwritten before the first step."""
    for weight in parameters(optimizer):
        optimizer.state[weight] = {
            "step": torch.zeros((), dtype=torch.float32, device=weight.device),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
        }


def parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the weights that an optimiser updates."""
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def moments(optimizer: torch.optim.Adam) -> list[torch.Tensor]:
    """Return Adam's running means of gradients and of squared gradients."""
    states = [optimizer.state[weight] for weight in parameters(optimizer)]
    return [state[name] for name in ("exp_avg", "exp_avg_sq") for state in states]


def steps(optimizer: torch.optim.Adam) -> list[torch.Tensor]:
    """Return Adam's step counts, one per weight tensor."""
    return [optimizer.state[weight]["step"] for weight in parameters(optimizer)]
