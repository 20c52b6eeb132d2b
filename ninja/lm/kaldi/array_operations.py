"""Components of nnet3 networks on NumPy: functions that compute one step for a batch of rows.

`ninja.models.nnet3_operations` implements the same functions on torch and cites the sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ninja import _networks
from ninja.lm.recurrent.array_lstm import Floats
from ninja.models.nnet3 import Component, Library, Operation

SMALLEST_POWER = 2.0**-66  # smallest power of a block that is normalised
LARGEST_EXPONENT = 87.0


def concatenate(parts: list[Floats]) -> Floats:
    """Concatenate matrices along the columns; each matrix is float32 [n, width]."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, 1)


def _affine(component: Component, writable: list[bool]) -> Operation:
    weight = np.ascontiguousarray(component.arrays["weight"])
    product = _networks.Product(weight, component.arrays.get("bias"))
    return lambda parts: product(concatenate(parts))


def _elementwise(function: Callable[[Floats], Floats]) -> Callable[[Component, list[bool]], Operation]:
    return lambda component, writable: lambda parts: function(concatenate(parts))


def _sigmoid(value: Floats) -> Floats:
    result: Floats = np.reciprocal(np.exp(np.minimum(-value, np.float32(LARGEST_EXPONENT))) + np.float32(1))
    return result


def _log_softmax(value: Floats) -> Floats:
    normaliser = _networks.logsumexp(np.ascontiguousarray(value).reshape(-1), len(value)) if len(value) else value[:, 0]
    result: Floats = value - normaliser[:, None]
    return result


def _scale_offset(component: Component, writable: list[bool]) -> Operation:
    scale, offset = component.arrays["scale"], component.arrays["offset"]
    return lambda parts: concatenate(parts) * scale + offset


def _normalize(component: Component, writable: list[bool]) -> Operation:
    """Scale each block to the target root mean square; optionally append the log of the original root mean square."""
    block, target = int(component.numbers["block_dim"]), component.numbers["target_rms"]
    blocks = component.input_dim // block

    def run(parts: list[Floats]) -> Floats:
        value = concatenate(parts).reshape(-1, block)  # [n * blocks, block]
        square: Floats = np.einsum("ij,ij->i", value, value)  # [n * blocks]
        power = np.maximum(square * np.float32(1 / (block * target**2)), np.float32(SMALLEST_POWER))
        scaled: Floats = value / np.sqrt(power)[:, None]
        if component.numbers["add_log_stddev"]:
            logarithm = np.float32(0.5) * np.log(power) + np.float32(math.log(target))
            scaled = np.concatenate((scaled, logarithm[:, None]), 1)
        return scaled.reshape(-1, component.output_dim // blocks * blocks)

    return run


def _lstm(component: Component, writable: list[bool]) -> Operation:
    """Compute [cell | output] from [gate inputs | previous cell]."""
    cells = component.output_dim // 2
    peephole = np.ascontiguousarray(component.arrays["peephole"])  # [3, cells]

    def run(parts: list[Floats]) -> Floats:
        if len(parts) == 2 and parts[1].shape[1] == cells:
            gates, before = parts
        else:
            value = concatenate(parts)
            gates, before = value[:, : 4 * cells], value[:, 4 * cells :]
        if not writable[0] or not gates.flags.c_contiguous:
            gates = gates.copy()
        return _networks.peephole_cell(gates, before, peephole)

    return run


def _gru(component: Component, writable: list[bool]) -> Operation:
    """Compute [h | c] from [z | r | input part of h | previous c | previous s], where s is c or its projection."""
    cells = component.output_dim // 2
    recurrent = component.arrays["weight"].shape[1]
    product = _networks.Product(np.ascontiguousarray(component.arrays["weight"]), None)
    ends = np.cumsum((cells, recurrent, cells, cells))

    def run(parts: list[Floats]) -> Floats:
        value = concatenate(parts)
        update, reset, part, before, _ = np.split(value, ends, 1)
        projected = value[:, value.shape[1] - recurrent :]
        candidate = np.tanh(part + product(reset * projected))
        return np.concatenate((candidate, candidate + update * (before - candidate)), 1)

    return run


def _output_gru(component: Component, writable: list[bool]) -> Operation:
    """Compute [h | c] from [z | input part of h | previous c]."""
    weight = component.arrays["weight"]  # [cells]

    def run(parts: list[Floats]) -> Floats:
        update, part, before = np.split(concatenate(parts), 3, 1)
        candidate = np.tanh(part + before * weight)
        return np.concatenate((candidate, candidate + update * (before - candidate)), 1)

    return run


def _product(component: Component, writable: list[bool]) -> Operation:
    shape = -1, component.input_dim // component.output_dim, component.output_dim

    def run(parts: list[Floats]) -> Floats:
        result: Floats = concatenate(parts).reshape(shape).prod(1)
        return result

    return run


def _sum_group(component: Component, writable: list[bool]) -> Operation:
    sizes = component.arrays["sizes"]
    begins = np.cumsum(sizes) - sizes
    return lambda parts: np.add.reduceat(concatenate(parts), begins, 1)


def _permute(component: Component, writable: list[bool]) -> Operation:
    columns = component.arrays["columns"]
    return lambda parts: np.take(concatenate(parts), columns, axis=1)  # indexing would return a transposed layout


OPERATIONS: dict[str, Callable[[Component, list[bool]], Operation]] = {
    "affine": _affine,
    "relu": _elementwise(lambda value: np.maximum(value, 0)),
    "sigmoid": _elementwise(_sigmoid),
    "tanh": _elementwise(np.tanh),
    "softmax": _elementwise(lambda value: np.exp(_log_softmax(value))),
    "log_softmax": _elementwise(_log_softmax),
    "scale_offset": _scale_offset,
    "normalize": _normalize,
    "lstm": _lstm,
    "gru": _gru,
    "output_gru": _output_gru,
    "product": _product,
    "sum_group": _sum_group,
    "permute": _permute,
}
LIBRARY = Library(
    concatenate,
    lambda row, width, number: np.full((len(row), width), number, np.float32),
    lambda component, writable: OPERATIONS[component.kind](component, writable),
)
