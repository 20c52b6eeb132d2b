"""Convert models: those of other toolkits to Ninja checkpoints, and Ninja's LSTM to other formats."""

from __future__ import annotations

import os

from ninja.errors import ModelError
from ninja.lm import checkpoint
from ninja.lm.imported.export import to_caffe2, to_onnx
from ninja.lm.kaldi import rnnlm
from ninja.lm.load import CHECKPOINT, KALDI_RNNLM, detect_format


def convert(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Convert a model to another format, with the same scores.

    Args:
        source: A Kaldi RNNLM, its directory or its network (``final.raw``), or a checkpoint of Ninja's LSTM.
        target: For a Kaldi RNNLM the checkpoint to write; for an LSTM an ONNX model (``.onnx``), or the directory of
            two Caffe2 nets (ending in ``/``, or already there).

    Raises:
        ModelError: The source cannot be converted, or a piece of it is missing, damaged or not supported.
        FormatError: A piece is damaged or not supported.
    """
    name, wanted = os.fspath(source), os.fspath(target)
    kind = detect_format(name).name
    if kind == CHECKPOINT and wanted.endswith(".onnx"):
        to_onnx(checkpoint.read(name), wanted)
    elif kind == CHECKPOINT and (wanted.endswith(os.sep) or os.path.isdir(wanted)):
        to_caffe2(checkpoint.read(name), wanted)
    elif kind == KALDI_RNNLM:
        model = rnnlm.read(name)
        checkpoint.save(checkpoint.Checkpoint(model, model.words, {"source": "Kaldi RNNLM"}), target)
    else:
        message = f"{kind} cannot be written as {wanted!r}; a Kaldi RNNLM can be as a checkpoint, Ninja's LSTM as"
        raise ModelError(f"{message} .onnx or, for Caffe2, as a directory with / at its end", name)
