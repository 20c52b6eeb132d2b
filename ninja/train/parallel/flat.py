"""Conversion of the tensors of a network and its optimiser to one vector, to send them in one message."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Copy tensors into one vector on the first tensor's device, in float64 if any tensor is float64, else float32."""
    kind = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    return torch.cat([tensor.detach().reshape(-1).to(tensors[0].device, kind) for tensor in tensors])


@torch.no_grad()
def unflatten(vector: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy a vector into tensors in place."""
    pieces = vector.split([tensor.numel() for tensor in tensors])
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.copy_(piece.view_as(tensor))


def prepare(optimizer: torch.optim.Adam) -> None:
    """Initialise the state of an Adam optimiser, so that the state can be overwritten before the first step."""
    for weight in parameters(optimizer):
        optimizer.state[weight] = {
            "step": torch.zeros((), dtype=torch.float32, device=weight.device),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
        }


def parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the weights that an optimiser updates."""
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def float_buffers(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return the floating-point buffers, such as the running means of batch normalisation.

    Call this again after each step, because a module may assign a new tensor to a buffer.
    """
    return [buffer for buffer in module.buffers() if buffer.is_floating_point()]


def moments(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the floating-point tensors in an optimiser's state, such as running means of gradients."""
    return [
        tensor
        for weight in parameters(optimizer)
        for name, tensor in sorted(optimizer.state.get(weight, {}).items())
        if name != "step" and isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
    ]


def steps(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the step counts of an optimiser, one per weight tensor; only counts stored as tensors are returned."""
    states = [optimizer.state.get(weight, {}) for weight in parameters(optimizer)]
    return [state["step"] for state in states if isinstance(state.get("step"), torch.Tensor)]
