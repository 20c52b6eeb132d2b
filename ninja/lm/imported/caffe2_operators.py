"""Torch implementations of the Caffe2 operators that recurrent language models use.

Each function takes an operator (including its arguments) and its input tensors, and returns its output tensors.
`OPERATORS` lists the supported operators. Gradients, data readers, convolutions and RecurrentNetwork are not supported;
to run a model that uses RecurrentNetwork, use its step net.

Source: caffe2/operators/*.h and the documentation in *.cc, PyTorch 1.x.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from ninja.lm.compute import linear
from ninja.lm.imported.caffe2_net import Operator

Tensors = Sequence[torch.Tensor]
Product = Callable[[torch.Tensor], torch.Tensor]
MAX_FILL = 2**22  # maximum number of values of a constant; a small file could specify any number
DTYPES = {1: torch.float32, 2: torch.int32, 5: torch.bool, 10: torch.int64, 12: torch.float16, 13: torch.float64}


def _axis(operator: Operator, tensor: torch.Tensor, default: int) -> int:
    axis = operator.integer("axis", default)
    if not -tensor.dim() <= axis < max(tensor.dim(), 1):
        raise operator.error(f"axis {axis} is out of range for a tensor with {tensor.dim()} dimensions")
    return axis % max(tensor.dim(), 1)


def _given_tensor_fill(operator: Operator, inputs: Tensors) -> Tensors:
    """Run GivenTensorFill or an integer variant, which fill a tensor with values from the file."""
    shape = operator.integers("shape")
    dtype = {"GivenTensorFill": torch.float32, "GivenTensorIntFill": torch.int32}.get(operator.type, torch.int64)
    argument = operator.arguments.get("values", ())
    values = argument if isinstance(argument, np.ndarray if dtype == torch.float32 else tuple) else ()
    if any(size < 0 for size in shape) or len(values) != math.prod(shape):
        raise operator.error(f"{len(values)} values do not fit the shape {list(shape)}; the file is damaged")
    return [torch.tensor(values).to(dtype).reshape(shape)]


def _constant(operator: Operator, inputs: Tensors) -> Tensors:
    """Run ConstantFill, which fills a tensor with one value.

    Without an input, the argument `shape` is the shape of the tensor. With an input, the shape is the input's value if
    `input_as_shape` is set, else the input's shape; in both cases, the argument `extra_shape` is appended.
    """
    shape = list(operator.integers("shape"))
    if inputs:
        shape = inputs[0].tolist() if operator.integer("input_as_shape", 0) else list(inputs[0].shape)
        shape += operator.integers("extra_shape")
    if any(size < 0 for size in shape) or math.prod(shape) > MAX_FILL:
        raise operator.error(f"the shape {shape} has more than {MAX_FILL} values, or a negative size")
    argument = operator.arguments.get("value")
    value = argument if isinstance(argument, int | float) else 0.0
    dtype = DTYPES.get(operator.integer("dtype", 10 if isinstance(value, int) else 1))
    if dtype is None:
        raise operator.error(f"dtype {operator.integer('dtype', 1)} is not supported")
    return [torch.full(shape, value, dtype=dtype, device=inputs[0].device if inputs else None)]


def _linear(operator: Operator, inputs: Tensors) -> Tensors:
    """Run FC or FCTransposed: flatten the dimensions before `axis` into rows, multiply by the weight, add the bias."""
    matrix = _matrix(operator, inputs[1])
    return _rows(operator, inputs[0], matrix, lambda rows: torch.nn.functional.linear(rows, matrix, inputs[2]))


def _matrix(operator: Operator, weight: torch.Tensor) -> torch.Tensor:
    """Return a weight as [outputs, inputs]; in FCTransposed it is stored as [inputs, outputs]."""
    matrix = weight.reshape(weight.shape[: operator.integer("axis_w", 1)].numel(), -1)
    return matrix.t() if operator.type == "FCTransposed" else matrix


def _rows(operator: Operator, tensor: torch.Tensor, matrix: torch.Tensor, product: Product) -> Tensors:
    axis = _axis(operator, tensor, 1)
    flat = tensor.reshape(tensor.shape[:axis].numel(), -1)
    if flat.shape[1] != matrix.shape[1]:
        raise operator.error(
            f"the weight has {matrix.shape[1]} inputs, but the input {list(tensor.shape)}, flattened from "
            f"axis {axis}, has {flat.shape[1]}"
        )
    return [product(flat).reshape(*tensor.shape[:axis], len(matrix))]


def runner(operator: Operator, weights: Mapping[str, torch.Tensor]) -> Callable[[Operator, Tensors], Tensors]:
    """Return the function that runs an operator; the weight of FC is packed in advance if `weights` contains it."""
    weight, bias = (weights.get(name) for name in (*operator.inputs, "", "", "")[1:3])
    plain = OPERATORS[operator.type]
    if plain is not _linear or weight is None or bias is None or weight.dtype != torch.float32 or not weight.numel():
        return plain
    matrix = _matrix(operator, weight)
    if bias.shape != (len(matrix),) or bias.dtype != torch.float32:
        raise operator.error(
            f"the bias has shape {list(bias.shape)} and type {bias.dtype}, but must have shape {[len(matrix)]} and "
            "type torch.float32"
        )
    product = linear(matrix, bias)
    return lambda operator, inputs: _rows(operator, inputs[0], matrix, product)


def _matmul(operator: Operator, inputs: Tensors) -> Tensors:
    """Run MatMul, which flattens its inputs into matrices, or BatchMatMul."""
    left, right = inputs
    if operator.type == "MatMul":
        left, right = (
            tensor.reshape(tensor.shape[: operator.integer(f"axis_{name}", 1)].numel(), -1)
            for tensor, name in zip(inputs, "ab", strict=True)
        )
    left = left.mT if operator.integer("trans_a", 0) else left
    return [left @ (right.mT if operator.integer("trans_b", 0) else right)]


def _binary(compute: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[Operator, Tensors], Tensors]:
    def run(operator: Operator, inputs: Tensors) -> Tensors:
        left, right = inputs
        if operator.integer("broadcast", 0) and right.numel() > 1:
            # Caffe2's legacy broadcasting aligns the second input with the dimensions of the first from `axis` on.
            axis = operator.integer("axis", -1)
            after = left.dim() - right.dim() - axis if axis != -1 else 0
            right = right.reshape(*right.shape, *[1] * max(after, 0))
        return [compute(left, right)]

    return run


def _unary(compute: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Operator, Tensors], Tensors]:
    return lambda _, inputs: [compute(inputs[0])]


def _softmax(operator: Operator, inputs: Tensors) -> Tensors:
    """Run Softmax over the dimension `axis` and all later dimensions, flattened into one dimension."""
    axis = _axis(operator, inputs[0], 1)
    return [inputs[0].flatten(axis).softmax(-1).reshape(inputs[0].shape)]


def _gather(operator: Operator, inputs: Tensors) -> Tensors:
    rows, where = inputs
    axis = _axis(operator, rows, 0)
    selected = rows.index_select(axis, where.reshape(-1))
    return [selected.reshape(*rows.shape[:axis], *where.shape, *rows.shape[axis + 1 :])]


def _channel(operator: Operator, tensor: torch.Tensor) -> int:
    """Return the axis of Concat or Split; the channel axis is the default."""
    return _axis(operator, tensor, 3 if operator.arguments.get("order") == "NHWC" else 1)


def _concat(operator: Operator, inputs: Tensors) -> Tensors:
    if operator.integer("add_axis", 0):
        axis = operator.integer("axis", 1)
        inputs = [tensor.unsqueeze(axis) for tensor in inputs]
    axis = _channel(operator, inputs[0])
    sizes = torch.tensor([tensor.shape[axis] for tensor in inputs], dtype=torch.int32)
    return [torch.cat(list(inputs), axis), sizes]


def _split(operator: Operator, inputs: Tensors) -> Tensors:
    axis = _channel(operator, inputs[0])
    size = inputs[0].shape[axis]
    count = len(operator.outputs)
    sizes = inputs[1].tolist() if len(inputs) > 1 else operator.integers("split") or [size // count] * count
    if len(sizes) != count or sum(sizes) != size:
        raise operator.error(f"cannot split a dimension of size {size} into {count} outputs of sizes {list(sizes)}")
    return list(inputs[0].split(list(sizes), axis))


def _slice(operator: Operator, inputs: Tensors) -> Tensors:
    """Run Slice; a negative bound b means size + 1 + b, so −1 is the end of the dimension."""
    tensor = inputs[0]
    starts = inputs[1].tolist() if len(inputs) > 1 else operator.integers("starts")
    ends = inputs[2].tolist() if len(inputs) > 1 else operator.integers("ends")
    if len(starts) != len(ends) or len(starts) > tensor.dim():
        raise operator.error(
            f"{len(starts)} starts and {len(ends)} ends do not fit a tensor of shape {list(tensor.shape)}"
        )
    for axis, bounds in enumerate(zip(starts, ends, strict=True)):
        size = tensor.shape[axis]
        start, end = (min(size, bound if bound >= 0 else size + 1 + bound) for bound in bounds)
        if not 0 <= start <= end:
            raise operator.error(f"cannot slice from {bounds[0]} to {bounds[1]} in a dimension of size {size}")
        tensor = tensor.narrow(axis, start, end - start)
    return [tensor]


def _reshape(operator: Operator, inputs: Tensors) -> Tensors:
    """Run Reshape; a size of 0 is copied from the input, and a size of −1 is inferred."""
    old = inputs[0].shape
    sizes = inputs[1].tolist() if len(inputs) > 1 else operator.integers("shape")
    if any(size == 0 and axis >= len(old) for axis, size in enumerate(sizes)):
        raise operator.error(
            f"the shape {list(sizes)} copies a dimension that the input of shape {list(old)} does not have"
        )
    shape = [size or old[axis] for axis, size in enumerate(sizes)]
    return [inputs[0].reshape(shape), torch.tensor(old, dtype=torch.int64)]


def _expand(operator: Operator, inputs: Tensors) -> Tensors:
    tensor = inputs[0]
    for axis in sorted(operator.integers("dims")):
        tensor = tensor.unsqueeze(axis)
    return [tensor]


def _transpose(operator: Operator, inputs: Tensors) -> Tensors:
    axes = operator.integers("axes") or tuple(range(inputs[0].dim()))[::-1]
    return [inputs[0].permute(axes)]


def _cast(operator: Operator, inputs: Tensors) -> Tensors:
    data_type = operator.arguments.get("to")
    names = {"FLOAT": 1, "INT32": 2, "BOOL": 5, "INT64": 10, "FLOAT16": 12, "DOUBLE": 13}
    number = names.get(data_type.upper()) if isinstance(data_type, str) else operator.integer("to", 0)
    if number not in DTYPES:
        problem = f"cannot cast to the unsupported type {data_type}" if data_type else "the target type is missing"
        raise operator.error(problem)
    return [inputs[0].to(DTYPES[number])]


def _dropout(operator: Operator, inputs: Tensors) -> Tensors:
    if not operator.integer("is_test", 0):
        raise operator.error("is_test is not set; export the net for inference")
    return [inputs[0], torch.ones_like(inputs[0], dtype=torch.bool)]


def _lstm(operator: Operator, inputs: Tensors) -> Tensors:
    """Run LSTMUnit: compute hidden and cell states, [1, n, cells], from previous states and gates, [1, n, 4 cells].

    The gates are ordered input, forget, output, candidate. The state of a sequence that has ended does not change, or
    is set to 0 if the argument `drop_states` is set.
    """
    with_lengths = operator.integer("sequence_lengths", 1)
    if len(inputs) != 4 + bool(with_lengths):
        raise operator.error(f"expected {4 + bool(with_lengths)} inputs, found {len(inputs)}")
    hidden, cell, gates = inputs[:3]
    if gates.shape[-1] != 4 * cell.shape[-1]:
        raise operator.error(f"gates of shape {list(gates.shape)} do not fit cells of shape {list(cell.shape)}")
    bias = operator.arguments.get("forget_bias")
    entry, forget, leave, candidate = gates.chunk(4, -1)
    forget = forget + bias if isinstance(bias, float) else forget
    new = forget.sigmoid() * cell + entry.sigmoid() * candidate.tanh()
    output = leave.sigmoid() * new.tanh()
    if not with_lengths:
        return [output, new]
    running = (inputs[4].reshape(-1)[0] < inputs[3].reshape(-1))[:, None]  # [n, 1]
    state_factor = 0 if operator.integer("drop_states", 0) else 1
    return [torch.where(running, output, hidden * state_factor), torch.where(running, new, cell * state_factor)]


OPERATORS: dict[str, Callable[[Operator, Tensors], Tensors]] = {
    "GivenTensorFill": _given_tensor_fill,
    "GivenTensorIntFill": _given_tensor_fill,
    "GivenTensorInt64Fill": _given_tensor_fill,
    "ConstantFill": _constant,
    "FC": _linear,
    "FCTransposed": _linear,
    "MatMul": _matmul,
    "BatchMatMul": _matmul,
    "Add": _binary(torch.add),
    "Sub": _binary(torch.sub),
    "Mul": _binary(torch.mul),
    "Div": _binary(torch.div),
    "Sum": lambda _, inputs: [functools.reduce(torch.add, inputs)],
    "Sigmoid": _unary(torch.sigmoid),
    "Tanh": _unary(torch.tanh),
    "Relu": _unary(torch.relu),
    "Exp": _unary(torch.exp),
    "Log": _unary(torch.log),
    "Negative": _unary(torch.neg),
    "Softmax": _softmax,
    "Gather": _gather,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Reshape": _reshape,
    "Squeeze": lambda operator, inputs: [inputs[0].squeeze(operator.integers("dims"))],
    "ExpandDims": _expand,
    "Transpose": _transpose,
    "Cast": _cast,
    "Copy": _unary(lambda tensor: tensor),
    "Alias": _unary(lambda tensor: tensor),
    "StopGradient": _unary(lambda tensor: tensor),
    "Shape": _unary(lambda tensor: torch.tensor(tensor.shape, dtype=torch.int64)),
    "Dropout": _dropout,
    "LSTMUnit": _lstm,
}
