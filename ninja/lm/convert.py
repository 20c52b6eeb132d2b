"""Convert models: those of other toolkits to Ninja checkpoints, and Ninja's LSTM to other formats."""

from __future__ import annotations

import os

from ninja.errors import ModelError
from ninja.lm import checkpoint
from ninja.lm.imported.export import to_caffe2, to_onnx
from ninja.lm.kaldi import rnnlm
from ninja.lm.load import CHECKPOINT, KALDI_RNNLM, detect_format
from ninja.lm.model_file import ENDING
from ninja.lm.stored_network import read_network


def convert(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Convert a model to another format, with the same scores.

    Args:
        source: A Kaldi RNNLM, its directory or its network (``final.raw``), or a checkpoint.
        target: For a Kaldi RNNLM the checkpoint to write; for a checkpoint ``.pt`` one of ``.safetensors``, and the
            other way round; for a checkpoint of Ninja's LSTM an ONNX model (``.onnx``), or the directory of two Caffe2
            nets (ending in ``/``, or already there).

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
    elif kind == CHECKPOINT and wanted.endswith((ENDING, ".pt")) and name.endswith(ENDING) != wanted.endswith(ENDING):
        read_network(name)  # refuses a damaged one
        checkpoint.write_atomically(checkpoint.read_saved(name), wanted)
    elif kind == KALDI_RNNLM:
        model = rnnlm.read(name)
        checkpoint.save(checkpoint.Checkpoint(model, model.words, {"source": "Kaldi RNNLM"}), target)
    else:
        message = f"{kind} cannot be written as {wanted!r}; a Kaldi RNNLM can be as a checkpoint, a checkpoint as"
        others = f"{ENDING} or .pt, Ninja's LSTM as .onnx or, for Caffe2, as a directory with / at its end"
        raise ModelError(f"{message} {others}", name)
