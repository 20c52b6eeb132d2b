"""The components of nnet3 networks in plain torch: functions that compute one step for a batch of rows.

Source: Kaldi, the documentation of the components in nnet3/nnet-*-component.h and cudamatrix/cu-math.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ninja.models.nnet3 import Component, Library, Operation


def _linear(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    return lambda rows: nn.functional.linear(rows, weight, bias)


def lstm_cell(gates: Tensor, before: Tensor, peephole: Tensor) -> Tensor:
    """Compute the cells and the outputs of one LSTM step.

    Args:
        gates: Pre-activations (input, forget, candidate, output), float32 [n, 4 * cells]; overwritten.
        before: The previous cells, float32 [n, cells].
        peephole: Weights from each cell to its input, forget and output gates, float32 [3, cells].

    Returns:
        The new cells and their outputs, float32 [n, 2 * cells].
    """
    cells = before.shape[1]
    result = gates.new_empty(len(gates), 2 * cells)
    cell, output = result.split(cells, 1)
    gates.view(-1, 4, cells)[:, :2].addcmul_(before[:, None], peephole[:2])
    entry, forget = gates[:, : 2 * cells].sigmoid_().split(cells, 1)
    candidate, leave = gates[:, 2 * cells :].split(cells, 1)
    torch.mul(forget, before, out=cell).addcmul_(entry, candidate.tanh_())
    torch.mul(cell.tanh(), leave.addcmul_(cell, peephole[2]).sigmoid_(), out=output)
    return result


@dataclass(frozen=True, slots=True)
class Kernels:
    """Implementations of the expensive operations, which callers can replace with faster ones."""

    # Function: weight, bias → the function x ↦ x weightᵀ + bias.
    linear: Callable[[Tensor, Tensor | None], Callable[[Tensor], Tensor]] = _linear
    lstm_cell: Callable[[Tensor, Tensor, Tensor], Tensor] = lstm_cell


def concatenate(parts: list[Tensor]) -> Tensor:
    """Concatenate the parts of an input along the columns; each part is float32 [n, width]."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


# Function of a component, the kernels, and whether each part of the input may be overwritten.
Maker = Callable[[Component, Kernels, list[bool]], Operation]


def _affine(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
    product = kernels.linear(component.arrays["weight"], component.arrays.get("bias"))
    return lambda parts: product(concatenate(parts))


def _elementwise(function: Callable[[Tensor], Tensor], in_place: Callable[[Tensor], Tensor]) -> Maker:
    def make(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
        chosen = in_place if writable == [True] else function
        return lambda parts: chosen(concatenate(parts))

    return make


def _scale_offset(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
    scale, offset = component.arrays["scale"], component.arrays["offset"]
    return lambda parts: torch.addcmul(offset, concatenate(parts), scale)


def _normalize(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
    """Scale each block to the target root mean square; optionally append the log of its original root mean square."""
    block, target = int(component.numbers["block_dim"]), component.numbers["target_rms"]
    blocks = component.input_dim // block

    def run(parts: list[Tensor]) -> Tensor:
        value = concatenate(parts).reshape(-1, block)  # [n * blocks, block]
        power = torch.linalg.vecdot(value, value).mul_(1 / (block * target**2)).clamp_(min=2.0**-66)  # [n * blocks]
        scaled = value * power.rsqrt()[:, None]
        if component.numbers["add_log_stddev"]:
            scaled = torch.cat((scaled, (0.5 * power.log() + math.log(target))[:, None]), 1)
        return scaled.view(-1, component.output_dim // blocks * blocks)

    return run


def _lstm(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
    """Compute [cell | output] from [gate inputs | previous cell]."""
    cells = component.output_dim // 2
    peephole = component.arrays["peephole"].contiguous()  # [3, cells]

    def run(parts: list[Tensor]) -> Tensor:
        if len(parts) == 2 and parts[1].shape[1] == cells:
            gates, before = parts
        else:
            gates, before = concatenate(parts).split((4 * cells, cells), 1)
        if not writable[0] or not gates.is_contiguous():
            gates = gates.clone(memory_format=torch.contiguous_format)
        return kernels.lstm_cell(gates, before, peephole)

    return run


def _gru(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
    """Compute a GRU's candidate and cell.

    The input is [update gate | reset gate | input of the candidate | previous cell | its projection, if any], and the
    output is [candidate | cell].
    """
    cells = component.output_dim // 2
    recurrent = component.arrays["weight"].shape[1]
    product = kernels.linear(component.arrays["weight"], None)

    def run(parts: list[Tensor]) -> Tensor:
        value = concatenate(parts)
        update, reset, part, before = value[:, : 3 * cells + recurrent].split((cells, recurrent, cells, cells), 1)
        projected = value[:, value.shape[1] - recurrent :]
        candidate = (part + product(reset * projected)).tanh_()
        return torch.cat((candidate, torch.lerp(candidate, before, update)), 1)

    return run


def _output_gru(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
    """Compute [candidate | cell] from [update gate | input of the candidate | previous cell]."""
    weight = component.arrays["weight"]  # [cells]

    def run(parts: list[Tensor]) -> Tensor:
        update, part, before = concatenate(parts).chunk(3, 1)
        candidate = torch.addcmul(part, before, weight).tanh_()
        return torch.cat((candidate, torch.lerp(candidate, before, update)), 1)

    return run


def _product(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
    def run(parts: list[Tensor]) -> Tensor:
        return concatenate(parts).view(-1, component.input_dim // component.output_dim, component.output_dim).prod(1)

    return run


def _sum_group(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
    sizes = component.arrays["sizes"].tolist()
    return lambda parts: torch.stack([group.sum(1) for group in concatenate(parts).split(sizes, 1)], 1)


def _permute(component: Component, kernels: Kernels, writable: list[bool]) -> Operation:
    columns = component.arrays["columns"]
    return lambda parts: concatenate(parts).index_select(1, columns)


OPERATIONS: dict[str, Maker] = {
    "affine": _affine,
    "relu": _elementwise(torch.relu, torch.relu_),
    "sigmoid": _elementwise(torch.sigmoid, torch.sigmoid_),
    "tanh": _elementwise(torch.tanh, torch.tanh_),
    "softmax": _elementwise(lambda value: value.softmax(1), lambda value: value.softmax(1)),
    "log_softmax": _elementwise(lambda value: value.log_softmax(1), lambda value: value.log_softmax(1)),
    "scale_offset": _scale_offset,
    "normalize": _normalize,
    "lstm": _lstm,
    "gru": _gru,
    "output_gru": _output_gru,
    "product": _product,
    "sum_group": _sum_group,
    "permute": _permute,
}


def library(device: str | torch.device = "cpu", kernels: Kernels | None = None) -> Library:
    """Return the torch operations on a device; `kernels` implement the expensive operations, by default with torch."""

    def operation(component: Component, writable: list[bool]) -> Operation:
        tensors = {name: torch.tensor(array, device=device) for name, array in component.arrays.items()}
        return OPERATIONS[component.kind](replace(component, arrays=tensors), kernels or Kernels(), writable)

    return Library(concatenate, lambda row, width, number: row.new_full((len(row), width), number), operation)
