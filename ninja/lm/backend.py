"""Open checkpoints and Kaldi RNNLMs with NumPy or with torch."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from ninja.errors import OptionError
from ninja.libraries import needed_for
from ninja.lm.protocol import DRIVER, ON_CPU, LanguageModel, LoadOptions
from ninja.lm.stored_network import KALDI, LSTM, read_network

if TYPE_CHECKING:
    from ninja.lm.kaldi.rnnlm import KaldiModel


def open_network(path: str, options: LoadOptions) -> LanguageModel:
    """Open a checkpoint as a language model, see `ninja.lm.load`."""
    network = read_network(path)
    if network.kind == KALDI:
        from ninja.lm.kaldi import rnnlm

        model = rnnlm.build(network.config, network.arrays, network.words, network.path)
        return _open_kaldi(model, path, options)
    if choose_backend(options, network.kind, on_numpy=network.kind == LSTM) == "numpy":
        from ninja.lm.recurrent.array_lstm import ArrayLstm

        return ArrayLstm(network, options)
    with needed_for(f"a network of {network.kind}", path):
        from ninja.lm.checkpoint import open_checkpoint
    return open_checkpoint(network, options)


def open_rnnlm(path: str, options: LoadOptions) -> LanguageModel:
    """Open a Kaldi RNNLM as a language model, see `ninja.lm.kaldi.rnnlm.read` and `ninja.lm.load`."""
    from ninja.lm.kaldi import rnnlm

    return _open_kaldi(rnnlm.read(path), path, options)


def _open_kaldi(model: KaldiModel, path: str, options: LoadOptions) -> LanguageModel:
    if choose_backend(options, KALDI, on_numpy=True) == "numpy":
        from ninja.lm.kaldi.array_rnnlm import ArrayRnnlm

        return ArrayRnnlm(model, options, path)
    with needed_for("a Kaldi RNNLM on torch", path):
        from ninja.lm.kaldi.torch_rnnlm import KaldiRnnlm
    return KaldiRnnlm(model, options, path)


def choose_backend(options: LoadOptions, kind: str, *, on_numpy: bool) -> Literal["numpy", "torch"]:
    """Return the library that computes a network.

    Args:
        options: The backend and the device.
        kind: Kind of the network, for messages.
        on_numpy: Whether there is an implementation on NumPy.

    Raises:
        OptionError: The backend is numpy, and the network needs torch.
    """
    if options.backend == "numpy" and not on_numpy:
        raise OptionError(f"a network of kind {kind!r} needs torch; use the backend torch or auto")
    if options.backend != "auto":
        return options.backend
    if not on_numpy or options.device not in ON_CPU:
        return "torch"
    if options.device == "auto" and os.path.exists(DRIVER) and find_spec("torch") is not None:
        return "torch"  # there is a GPU
    return "numpy"
