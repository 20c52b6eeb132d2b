"""Export Ninja's LSTM as an ONNX model or a pair of Caffe2 nets, with the same scores."""

from __future__ import annotations

import os
from typing import Any

import torch

from ninja.errors import ModelError, OutputError
from ninja.files.output import opened
from ninja.libraries import needed_for
from ninja.lm.checkpoint import Checkpoint
from ninja.lm.imported.caffe2_net import INIT, PREDICT, Argument, Net, Operator, encode
from ninja.lm.word_map import WORDS_FILE
from ninja.models.lstm import LSTMLanguageModel

LARGEST = 2**31 - 1  # bytes of a protocol buffer
ONNX_LAYER = """
both_# = Concat <axis = 1> (read_#, state_hidden_#)
gates_# = Gemm <transB = 1> (both_#, gates_w_#, gates_b_#)
entry_#, forget_#, candidate_#, leave_# = Split <axis = 1> (gates_#)
open_entry_# = Sigmoid (entry_#)
open_forget_# = Sigmoid (forget_#)
squashed_candidate_# = Tanh (candidate_#)
open_leave_# = Sigmoid (leave_#)
kept_# = Mul (open_forget_#, state_cell_#)
taken_# = Mul (open_entry_#, squashed_candidate_#)
new_state_cell_# = Add (kept_#, taken_#)
squashed_# = Tanh (new_state_cell_#)
output_# = Mul (open_leave_#, squashed_#)
new_state_hidden_# = Gemm <transB = 1> (output_#, project_#)
"""


def to_onnx(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write an LSTM and its vocabulary as a single-precision ONNX model that reads a state and returns the new state.

    Raises:
        ModelError: The model is not an LSTM, or exceeds 2 GB, the size limit of ONNX files.
    """
    module = _lstm(checkpoint)
    if (size := 4 * sum(weight.numel() for weight in module.parameters())) > LARGEST:
        raise ModelError(f"the model is {size} bytes long, but an ONNX file is limited to {LARGEST} bytes", path)
    with needed_for("an ONNX model", path):
        from onnx import TensorProto, helper, parser

    weights = {"embedding": module.embedding.weight, "bias": module.bias}
    nodes = ["read_0 = Gather (embedding, word)"]
    inputs, outputs = ["int64[batch] word"], [f"float[batch, {len(module.bias)}] logits"]
    for number in range(module.config.layers):
        gates_w, gates_b, project = module.layer(number)
        weights |= {f"gates_w_{number}": gates_w, f"gates_b_{number}": gates_b, f"project_{number}": project}
        nodes += [ONNX_LAYER.replace("#", str(number)), f"read_{number + 1} = Identity (new_state_hidden_{number})"]
        for name, width in zip(("state_hidden", "state_cell"), project.shape, strict=True):
            inputs.append(f"float[batch, {width}] {name}_{number}")
            outputs.append(f"float[batch, {width}] new_{name}_{number}")
    nodes.append(f"logits = Gemm <transB = 1> (read_{module.config.layers}, embedding, bias)")
    head = f'<ir_version: 7, opset_import: ["" : 13], producer_name: "ninja">ninja ({", ".join(inputs)})'
    model = parser.parse_model("\n".join((f"{head} => ({', '.join(outputs)}) {{", *nodes, "}")))
    model.graph.initializer.extend(
        helper.make_tensor(name, TensorProto.FLOAT, weight.shape, _values(weight).tobytes(), raw=True)
        for name, weight in weights.items()
    )
    metadata = {"words": "\n".join(checkpoint.words)}
    if checkpoint.card.get("unk_words"):
        metadata["unk_words"] = str(checkpoint.card["unk_words"])
    helper.set_model_props(model, metadata)
    with opened(os.fspath(path)) as file:
        file.write(model.SerializeToString())


def to_caffe2(checkpoint: Checkpoint, folder: str | os.PathLike[str]) -> None:
    """Write an LSTM to a directory: a pair of single-precision Caffe2 nets, and the vocabulary in ``words.txt``.

    Raises:
        ModelError: The model is not an LSTM.
        OutputError: The directory or a file cannot be created.
    """
    init, predict = (encode(net) for net in _nets(checkpoint))
    folder = os.fspath(folder)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create this directory: {error.strerror}", folder) from error
    lines = "".join(f"{word} {number}\n" for number, word in enumerate(checkpoint.words))
    for name, content in ((INIT, init), (PREDICT, predict), (WORDS_FILE, lines.encode())):
        with opened(os.path.join(folder, name)) as file:
            file.write(content)


def _nets(checkpoint: Checkpoint) -> tuple[Net, Net]:
    """Convert an LSTM to an init net and a predict net.

    FC operators compute gates, projections and output; LSTMUnit operators compute the cells.
    """
    module = _lstm(checkpoint)
    weights = {"embedding": module.embedding.weight, "bias": module.bias}
    operators = [Operator("Gather", ("embedding", "word"), ("read_0",), {})]
    states: list[tuple[str, tuple[int, ...]]] = []
    for number in range(module.config.layers):
        gates_w, gates_b, project = module.layer(number)
        hidden, cell, gates, unit, both, flat = (
            f"{name}_{number}" for name in ("hidden", "cell", "gates", "unit", "both", "flat")
        )
        width, cells = project.shape
        # Caffe2's gates are ordered input, forget, output, candidate.
        entry, forget, candidate, leave = torch.arange(4 * cells).chunk(4)
        order = torch.cat((entry, forget, leave, candidate))
        weights |= {f"{gates}_w": gates_w[order], f"{gates}_b": gates_b[order]}
        weights |= {f"{hidden}_w": project, f"{hidden}_b": torch.zeros(width)}
        # LSTMUnit uses the old hidden state only for sequences that have ended; none has, so any tensor can be passed.
        unit_inputs = (f"{cell}_prev", f"{cell}_prev", f"{gates}_t", "seq_lengths", "timestep")
        operators += [
            Operator("Concat", (f"read_{number}", f"{hidden}_prev"), (both, f"{both}_sizes"), {"axis": 1}),
            Operator("FC", (both, f"{gates}_w", f"{gates}_b"), (gates,), {}),
            Operator("ExpandDims", (gates,), (f"{gates}_t",), {"dims": (0,)}),
            Operator("LSTMUnit", unit_inputs, (unit, cell), {}),
            Operator("Squeeze", (unit,), (flat,), {"dims": (0,)}),
            Operator("FC", (flat, f"{hidden}_w", f"{hidden}_b"), (hidden,), {}),
            Operator("Copy", (hidden,), (f"read_{number + 1}",), {}),
        ]
        states += [(hidden, (1, width)), (cell, (1, 1, cells))]
    operators.append(Operator("FC", (f"read_{module.config.layers}", "embedding", "bias"), ("logits",), {}))
    before = tuple(f"{name}_prev" for name, _ in states)
    fills = [_fill(name, weight) for name, weight in weights.items()]
    for name, (_, shape) in zip(before, states, strict=True):
        fills.append(Operator("ConstantFill", (), (name,), {"shape": shape}))
    inputs = ("word", "seq_lengths", "timestep", *before, *weights)
    unk_words = checkpoint.card.get("unk_words")
    arguments: dict[str, Argument] = {"unk_words": unk_words} if isinstance(unk_words, int) else {}
    outputs = ("logits", *(name for name, _ in states))
    predict = Net("predict", tuple(operators), inputs, outputs, arguments)
    return Net("init", tuple(fills), (), (*weights, *before)), predict


def _fill(name: str, weight: torch.Tensor) -> Operator:
    arguments = {"shape": tuple(weight.shape), "values": _values(weight).ravel()}
    return Operator("GivenTensorFill", (), (name,), arguments)


def _values(weight: torch.Tensor) -> Any:
    return weight.detach().cpu().numpy().astype("<f4")


def _lstm(checkpoint: Checkpoint) -> LSTMLanguageModel:
    if not isinstance(checkpoint.module, LSTMLanguageModel):
        kind = type(checkpoint.module).__name__
        raise ModelError(f"a {kind} cannot be exported; only Ninja's LSTM can be exported")
    return checkpoint.module
