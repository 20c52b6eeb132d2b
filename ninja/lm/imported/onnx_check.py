"""Check an ONNX model before onnxruntime reads it: its operators, and the size of every tensor.

A model can make onnxruntime read other files (``EPContext``), use memory addresses as weights, or loop forever.
Therefore only the standard operators in `OPERATORS` are allowed; subgraphs, functions and sparse tensors are not.
Einsum and OneHot are excluded, because onnxruntime 1.31 reads out of bounds if their arguments are empty.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from typing import Any

from ninja.errors import ModelError
from ninja.libraries import needed_for

_VARIADIC = ("Concat", "Max", "Mean", "Min", "Sum")
DOMAINS = ("", "ai.onnx")
_LIST = """
    Abs Add And Cast CastLike Ceil Clip Cos Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid
    HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal
    Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Sub Sum Swish Tanh Where Xor
    CumSum Dropout GRU Gemm LSTM LayerNormalization LogSoftmax MatMul RMSNormalization RNN
    Softmax
    DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearMatMul QuantizeLinear
    Concat Constant ConstantOfShape Expand Flatten Gather GatherElements Identity Pad Range Reshape Shape Size
    Slice Split Squeeze Tile Transpose Trilu Unsqueeze
    ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare TopK
"""
OPERATORS = frozenset(_LIST.split())
_ATTRIBUTE = {"name", "doc_string", "type", "f", "i", "s", "t", "floats", "ints", "strings"}  # allowed fields
# Size of a value in bytes, and the field of TensorProto that contains the values if raw_data does not.
_TYPES = {
    "FLOAT": (4, "float_data"), "DOUBLE": (8, "double_data"), "INT64": (8, "int64_data"), "INT32": (4, "int32_data"),
    "FLOAT16": (2, "int32_data"), "BFLOAT16": (2, "int32_data"), "BOOL": (1, "int32_data"), "INT8": (1, "int32_data"),
    "UINT8": (1, "int32_data"),
}  # fmt: skip
_NUMBER = re.compile("[0-9]{1,19}")
_EXTERNAL = {"location", "offset", "length", "checksum"}


def check(path: str) -> None:
    """Check that onnxruntime can safely read a model.

    Raises:
        ModelError: The file is damaged, contains unsupported content such as an operator that is not in `OPERATORS`, or
            refers to weights outside its directory.
    """
    with needed_for("an ONNX model", path):
        import onnx
        from google.protobuf.message import DecodeError
    with open(path, "rb") as file:
        content = file.read()
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        raise ModelError(f"the ONNX file is damaged or truncated ({error}); copy it again", path) from error
    if not model.HasField("graph"):
        raise ModelError("the ONNX file has no graph, so it is damaged or truncated; copy it again", path)
    if model.functions:
        message = f"the model defines the function {model.functions[0].name!r}; inline functions with onnx.inliner"
        raise ModelError(message, path)
    if model.training_info:
        raise ModelError("the model contains training information; export it for inference", path)
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise ModelError(f"the weight {name!r} is sparse; store it as a dense tensor", path)
    for tensor in (*model.graph.initializer, *_constants(model.graph.node, path)):
        _check_tensor(tensor, onnx.TensorProto.DataType.Name, path)


def _constants(nodes: Any, path: str) -> Iterator[Any]:
    """Check the nodes of an ONNX graph and yield the tensors in their attributes."""
    for number, node in enumerate(nodes, 1):
        place = f"node {number} {node.name!r}, {f'{node.domain}.' if node.domain else ''}{node.op_type}"
        if node.domain not in DOMAINS or node.op_type not in OPERATORS:
            message = f"{place}: Ninja does not run this operator; docs/networks.md lists the supported operators"
            raise ModelError(message, path)
        counts = [attribute.i for attribute in node.attribute if attribute.name == "num_outputs"]
        split_twice = counts and (len(node.input) > 1 or counts != [len(node.output)])
        if (node.op_type in _VARIADIC and "" in node.input) or split_twice:
            message = f"{place}: an input is missing, or the number of outputs is wrong; export the model again"
            raise ModelError(message, path)
        for attribute in node.attribute:
            others = {field.name for field, _ in attribute.ListFields()} - _ATTRIBUTE
            if others:
                message = f"{place}: the attribute {attribute.name!r} contains {min(others)}; only numbers, text and"
                raise ModelError(f"{message} tensors are allowed", path)
            if attribute.HasField("t"):
                yield attribute.t


def _check_tensor(tensor: Any, name_of: Any, path: str) -> None:
    """Check that a tensor has exactly as many bytes as its shape and type require."""
    try:
        kind = name_of(tensor.data_type)
    except ValueError:
        kind = str(tensor.data_type)
    weight = f"the weight {tensor.name!r}"
    if kind not in _TYPES:
        raise ModelError(f"{weight} has the unsupported type {kind}; supported types: {', '.join(_TYPES)}", path)
    size, field = _TYPES[kind]
    if any(length < 0 for length in tensor.dims):
        raise ModelError(f"{weight} has the shape {list(tensor.dims)}; the file is damaged", path)
    needed = size * math.prod(tensor.dims)
    if tensor.data_location == tensor.EXTERNAL or tensor.external_data:
        _check_external(tensor, weight, needed, path)
        return
    num_bytes = len(tensor.raw_data) if tensor.HasField("raw_data") else size * len(getattr(tensor, field))
    if num_bytes != needed:
        raise ModelError(f"{weight} has {num_bytes} bytes, but its shape needs {needed}; the file is damaged", path)


def _check_external(tensor: Any, weight: str, needed: int, path: str) -> None:
    """Check that the file with a tensor's external data contains all of it and lies in the model's directory."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    numbers = [entries.get("offset", "0"), entries.get("length", str(needed))]
    location = entries.get("location", "")
    if not set(entries) <= _EXTERNAL or not all(map(_NUMBER.fullmatch, numbers)):
        raise ModelError(f"{weight} has invalid external data {entries}; expected a location, offset and length", path)
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    file = "" if "\0" in location else os.path.realpath(os.path.join(folder, location))
    if not location or not file or os.path.commonpath((folder, file)) != folder:
        message = f"{weight} is stored in {location!r}, outside the model's directory"
        raise ModelError(f"{message}; save the model and its weights in one directory", path)
    if not os.path.isfile(file):
        message = f"{weight} is stored in {location!r}, which is missing from the model's directory"
        raise ModelError(f"{message}; copy this file to the directory", path)
    offset, length = map(int, numbers)
    if length != needed or offset + length > os.path.getsize(file):
        span = f"bytes {offset} to {offset + length} of {location!r}, which has {os.path.getsize(file)} bytes"
        raise ModelError(f"{weight} needs {needed} bytes, but is stored in {span}; copy the files again", path)
