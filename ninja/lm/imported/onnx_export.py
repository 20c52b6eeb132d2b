"""Write an LSTM as an ONNX model with a state, see `ninja.lm.imported.onnx`; nothing but this package is needed for it.

Source: onnx/onnx.proto (messages ModelProto, GraphProto, NodeProto, TensorProto) and the operators of version 13.
"""

from __future__ import annotations

import os

import torch

from ninja.errors import ModelError
from ninja.files.output import opened
from ninja.lm.checkpoint import Checkpoint
from ninja.lm.imported.lstm_weights import lstm_weights
from ninja.lm.imported.protobuf import field

IR_VERSION, OPERATORS_VERSION = 7, 13
FLOAT, INT64 = 1, 7  # TensorProto.DataType
_INTEGER = 2  # AttributeProto.INT
_LARGEST = 2**31 - 1  # bytes of a protocol buffer


def export(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write an LSTM with its vocabulary as an ONNX model.

    Args:
        checkpoint: The model; its weights are written in single precision.
        path: File to write.

    Raises:
        ModelError: The model has more than 2 GB, which one such file cannot hold.
        OutputError: The file cannot be written.
    """
    content = to_onnx(checkpoint)
    if len(content) > _LARGEST:
        raise ModelError(f"{len(content)} bytes are more than an ONNX file can hold, {_LARGEST}", path)
    with opened(os.fspath(path)) as file:
        file.write(content)


def to_onnx(checkpoint: Checkpoint) -> bytes:
    """Write an LSTM as a ModelProto."""
    lstm = lstm_weights(checkpoint)
    weights = {"embedding": lstm.embedding, "bias": lstm.bias}
    nodes = [_node("Gather", ("embedding", "word"), ("read_0",))]
    states = []
    for layer, matrices in enumerate(lstm.layers):
        weights |= {f"gates_w_{layer}": matrices.gates, f"gates_b_{layer}": matrices.bias}
        weights[f"project_{layer}"] = matrices.project
        hidden, cell = f"state_hidden_{layer}", f"state_cell_{layer}"
        states += [(hidden, matrices.project.shape[0]), (cell, matrices.project.shape[1])]
        gates = tuple(f"{name}_{layer}" for name in ("entry", "forget", "candidate", "leave"))  # torch's order
        opened_gates = tuple(f"open_{name}" for name in gates)
        entry, forget, candidate, leave = opened_gates
        nodes += [
            _node("Concat", (f"read_{layer}", hidden), (f"both_{layer}",), axis=1),
            _node("Gemm", (f"both_{layer}", f"gates_w_{layer}", f"gates_b_{layer}"), (f"gates_{layer}",), transB=1),
            _node("Split", (f"gates_{layer}",), gates, axis=1),
            *(
                _node("Tanh" if "candidate" in gate else "Sigmoid", (gate,), (after,))
                for gate, after in zip(gates, opened_gates, strict=True)
            ),
            _node("Mul", (forget, cell), (f"kept_{layer}",)),
            _node("Mul", (entry, candidate), (f"taken_{layer}",)),
            _node("Add", (f"kept_{layer}", f"taken_{layer}"), (f"new_{cell}",)),
            _node("Tanh", (f"new_{cell}",), (f"squashed_{layer}",)),
            _node("Mul", (leave, f"squashed_{layer}"), (f"output_{layer}",)),
            _node("Gemm", (f"output_{layer}", f"project_{layer}"), (f"new_{hidden}",), transB=1),
            _node("Identity", (f"new_{hidden}",), (f"read_{layer + 1}",)),
        ]
    nodes.append(_node("Gemm", (f"read_{len(lstm.layers)}", "embedding", "bias"), ("logits",), transB=1))
    inputs = [_value("word", INT64), *(_value(name, FLOAT, width) for name, width in states)]
    outputs = [_value("logits", FLOAT, len(lstm.bias)), *(_value(f"new_{n}", FLOAT, w) for n, w in states)]
    graph = b"".join(
        (
            *(field(1, node) for node in nodes),
            field(2, "ninja"),
            *(field(5, _tensor(name, weight)) for name, weight in weights.items()),
            *(field(11, value) for value in inputs),
            *(field(12, value) for value in outputs),
        )
    )
    metadata = {"words": "\n".join(checkpoint.words)}
    if checkpoint.card.get("unk_words"):
        metadata["unk_words"] = str(checkpoint.card["unk_words"])
    properties = b"".join(field(14, field(1, key) + field(2, value)) for key, value in metadata.items())
    version = field(8, field(1, "") + field(2, OPERATORS_VERSION))
    return b"".join((field(1, IR_VERSION), field(2, "ninja"), field(7, graph), version, properties))


def _node(kind: str, inputs: tuple[str, ...], outputs: tuple[str, ...], **attributes: int) -> bytes:
    parts = [*(field(1, name) for name in inputs), *(field(2, name) for name in outputs), field(4, kind)]
    parts += [field(5, field(1, name) + field(3, value) + field(20, _INTEGER)) for name, value in attributes.items()]
    return b"".join(parts)


def _tensor(name: str, weight: torch.Tensor) -> bytes:
    values = weight.numpy().astype("<f4").tobytes()
    return field(1, tuple(weight.shape)) + field(2, FLOAT) + field(8, name) + field(9, values)


def _value(name: str, kind: int, *sizes: int) -> bytes:
    """Declare an input or output [batch, …]."""
    dimensions = field(1, field(2, "batch")) + b"".join(field(1, field(1, size)) for size in sizes)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dimensions)))
