"""Conversion of the tensors of a network and its optimiser to one vector, to send them in one message."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from ninja.errors import OptionError


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Copy tensors into one vector on the first tensor's device, in float64 if any tensor needs it, else in float32."""
    parts = [_real(tensor) for tensor in tensors]
    kind = torch.float64 if any(part.dtype == torch.float64 for part in parts) else torch.float32
    return torch.cat([part.reshape(-1).to(parts[0].device, kind) for part in parts])


@torch.no_grad()
def unflatten(vector: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy a vector into tensors in place."""
    parts = [_real(tensor) for tensor in tensors]
    pieces = vector.split([part.numel() for part in parts])
    for part, piece in zip(parts, pieces, strict=True):
        part.copy_(piece.view_as(part))


@torch.no_grad()
def copy_first(tensors: Sequence[torch.Tensor], group: dist.ProcessGroup | None) -> None:
    """Copy the tensors of the first worker to all workers; tensors that can be averaged are sent as one vector."""
    first = dist.get_process_group_ranks(group)[0]
    numbers = [tensor for tensor in tensors if is_averaged(tensor)]
    if numbers:
        vector = flat(numbers)
        dist.broadcast(vector, first, group=group)
        unflatten(vector, numbers)
    for tensor in tensors:
        if not is_averaged(tensor):
            content = tensor.detach().reshape(-1).view(torch.uint8)  # gloo cannot send 16-bit integers
            dist.broadcast(content, first, group=group)
            tensor.copy_(content.view(tensor.dtype).view_as(tensor))


def is_averaged(tensor: torch.Tensor) -> bool:
    """Return whether workers average a tensor, that is, whether it contains floating-point or complex numbers."""
    return tensor.is_floating_point() or tensor.is_complex()


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of a tensor in which a pair of real numbers represents each complex number."""
    return torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()


def prepare(optimizer: torch.optim.Adam) -> None:
    """Initialise the state of an Adam optimiser before its first step, so that a saved state can replace it."""
    for weight in parameters(optimizer):
        optimizer.state[weight] = {
            "step": torch.zeros((), dtype=torch.float32, device=weight.device),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
        }


def parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the weights that an optimiser updates."""
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def check_weights(optimizer: torch.optim.Optimizer, weights: Sequence[torch.Tensor]) -> None:
    """Raise `OptionError` if the number of weights that an optimiser updates has changed since it was wrapped."""
    if (count := len(parameters(optimizer))) != len(weights):
        message = f"the optimizer had {len(weights)} weight tensors when the module was wrapped, and now has {count}"
        raise OptionError(f"{message}; add all parameter groups before wrapping the module")


def float_buffers(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return the floating-point buffers, such as the running means of batch normalisation.

    Call this again after each step, because a module may assign a new tensor to a buffer.
    """
    return [buffer for buffer in module.buffers() if is_averaged(buffer)]


def moments(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the floating-point tensors in an optimiser's state, such as running means of gradients."""
    return [
        tensor
        for weight in parameters(optimizer)
        for name, tensor in sorted(optimizer.state.get(weight, {}).items())
        if name != "step" and isinstance(tensor, torch.Tensor) and is_averaged(tensor)
    ]


def steps(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the step counts of an optimiser, one per weight tensor; only counts stored as tensors are returned."""
    states = [optimizer.state.get(weight, {}) for weight in parameters(optimizer)]
    return [state["step"] for state in states if isinstance(state.get("step"), torch.Tensor)]
