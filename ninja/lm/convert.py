"""Convert models from other toolkits to Ninja checkpoints, and Ninja's LSTM to other formats."""

from __future__ import annotations

import os

from ninja.errors import ModelError
from ninja.lm import checkpoint
from ninja.lm.imported.export import to_caffe2, to_onnx
from ninja.lm.kaldi import rnnlm
from ninja.lm.load import CHECKPOINT, KALDI_RNNLM, detect_format, place_of
from ninja.lm.stored_network import ENDING, read_network


def convert(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Convert a model to another format without changing its scores.

    Args:
        source: A checkpoint, the shipped model ``english``, or a Kaldi RNNLM (its directory or its network file
            ``final.raw``).
        target: The file or directory to write. A Kaldi RNNLM is converted to a checkpoint. A ``.pt`` checkpoint is
            converted to a ``.safetensors`` file, or vice versa. A checkpoint of Ninja's LSTM can also be converted to
            an ONNX file (``.onnx``), or to a pair of Caffe2 nets in a directory. The directory must exist, or its name
            must end in ``/``.

    Raises:
        ModelError: The source cannot be converted to the target's format, or is incomplete, damaged or not supported.
        FormatError: A source file is damaged or not supported.
    """
    name, output = place_of(source), os.fspath(target)
    kind = detect_format(name).name
    if kind == CHECKPOINT and output.endswith(".onnx"):
        to_onnx(checkpoint.read(name), output)
    elif kind == CHECKPOINT and (output.endswith(os.sep) or os.path.isdir(output)):
        to_caffe2(checkpoint.read(name), output)
    elif kind == CHECKPOINT and output.endswith((ENDING, ".pt")) and name.endswith(ENDING) != output.endswith(ENDING):
        read_network(name)  # raises an error if the checkpoint is damaged
        checkpoint.write_atomically(checkpoint.read_saved(name), output)
    elif kind == KALDI_RNNLM:
        model = rnnlm.read(name)
        checkpoint.save(checkpoint.Checkpoint(model, model.words, {"source": "Kaldi RNNLM"}), target)
    else:
        message = f"{kind} cannot be converted to {output!r}; supported: a Kaldi RNNLM to a checkpoint, a checkpoint"
        others = f"to {ENDING} or .pt, and Ninja's LSTM to .onnx, or to Caffe2 nets in a directory (DIR/)"
        raise ModelError(f"{message} {others}", name)
