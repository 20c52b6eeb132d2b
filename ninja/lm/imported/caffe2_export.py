"""Write an LSTM as a pair of Caffe2 nets, see `ninja.lm.imported.caffe2`; Caffe2 is not needed for it."""

from __future__ import annotations

import os

import torch

from ninja.errors import OutputError
from ninja.files.output import opened
from ninja.lm.checkpoint import Checkpoint
from ninja.lm.imported.caffe2_net import Argument, Net, Operator, encode
from ninja.lm.imported.lstm_weights import lstm_weights
from ninja.lm.imported.recognise import CAFFE2_INIT, CAFFE2_PREDICT
from ninja.lm.imported.vocabulary import BESIDE


def export(checkpoint: Checkpoint, folder: str | os.PathLike[str]) -> None:
    """Write an LSTM as a directory of two Caffe2 nets and ``words.txt``.

    Args:
        checkpoint: The model; its weights are written in single precision.
        folder: Directory to write into; made when it is not there.

    Raises:
        ModelError: The model is no LSTM.
        OutputError: The directory or a file cannot be made.
    """
    init, predict = to_nets(checkpoint)
    folder = os.fspath(folder)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make this directory: {error.strerror}", folder) from error
    lines = "".join(f"{word} {number}\n" for number, word in enumerate(checkpoint.words))
    for name, content in ((CAFFE2_INIT, encode(init)), (CAFFE2_PREDICT, encode(predict)), (BESIDE, lines.encode())):
        with opened(os.path.join(folder, name)) as file:
            file.write(content)


def to_nets(checkpoint: Checkpoint) -> tuple[Net, Net]:
    """Write an LSTM as nets: FC for gates, projection and output, LSTMUnit for the cells."""
    lstm = lstm_weights(checkpoint)
    weights = {"embedding": lstm.embedding, "bias": lstm.bias}
    operators = [Operator("Gather", ("embedding", "word"), ("read_0",), {})]
    states: list[tuple[str, tuple[int, ...]]] = []
    for layer, matrices in enumerate(lstm.layers):
        hidden, cell, gates, unit, both, flat = (
            f"{name}_{layer}" for name in ("hidden", "cell", "gates", "unit", "both", "flat")
        )
        width, cells = matrices.project.shape
        order = _caffe2_order(cells)
        weights |= {f"{gates}_w": matrices.gates[order], f"{gates}_b": matrices.bias[order]}
        weights |= {f"{hidden}_w": matrices.project, f"{hidden}_b": torch.zeros(width)}
        # LSTMUnit looks at the last hidden state where a sequence has ended only, and none has: any tensor will do.
        unit_inputs = (f"{cell}_prev", f"{cell}_prev", f"{gates}_t", "seq_lengths", "timestep")
        operators += [
            Operator("Concat", (f"read_{layer}", f"{hidden}_prev"), (both, f"{both}_sizes"), {"axis": Argument(i=1)}),
            Operator("FC", (both, f"{gates}_w", f"{gates}_b"), (gates,), {}),
            Operator("ExpandDims", (gates,), (f"{gates}_t",), {"dims": Argument(ints=(0,))}),
            Operator("LSTMUnit", unit_inputs, (unit, cell), {}),
            Operator("Squeeze", (unit,), (flat,), {"dims": Argument(ints=(0,))}),
            Operator("FC", (flat, f"{hidden}_w", f"{hidden}_b"), (hidden,), {}),
            Operator("Copy", (hidden,), (f"read_{layer + 1}",), {}),
        ]
        states += [(hidden, (1, width)), (cell, (1, 1, cells))]
    operators.append(Operator("FC", (f"read_{len(lstm.layers)}", "embedding", "bias"), ("logits",), {}))
    before = tuple(f"{name}_prev" for name, _ in states)
    fills = [_fill(name, weight) for name, weight in weights.items()]
    for name, (_, shape) in zip(before, states, strict=True):
        fills.append(Operator("ConstantFill", (), (name,), {"shape": Argument(ints=shape)}))
    inputs = ("word", "seq_lengths", "timestep", *before, *weights)
    init = Net("init", tuple(fills), (), (*weights, *before))
    outputs = ("logits", *(name for name, _ in states))
    unk_words = checkpoint.card.get("unk_words")
    arguments = {"unk_words": Argument(i=unk_words)} if isinstance(unk_words, int) else {}
    return init, Net("predict", tuple(operators), inputs, outputs, arguments)


def _caffe2_order(cells: int) -> torch.Tensor:
    """Return where Caffe2's gates, input, forget, output, candidate, stand among torch's."""
    entry, forget, candidate, leave = torch.arange(4 * cells).chunk(4)
    return torch.cat((entry, forget, leave, candidate))


def _fill(name: str, weight: torch.Tensor) -> Operator:
    values = weight.numpy()
    arguments = {"shape": Argument(ints=values.shape), "values": Argument(floats=values.ravel())}
    return Operator("GivenTensorFill", (), (name,), arguments)
