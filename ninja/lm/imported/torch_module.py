"""Torch modules as language models; docs/networks.md lists the methods that they must define."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ninja.errors import ModelError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.compute import device_of
from ninja.lm.imported.lazy import HistoryLM, StepLM, language_model
from ninja.lm.imported.network import HistoryNetwork, State, StatePart, StepNetwork
from ninja.lm.protocol import LoadOptions
from ninja.lm.word_map import BOS, EOS, UNK, Words


def from_module(
    module: torch.nn.Module,
    words: SymbolTable,
    *,
    batch_dim: int | Sequence[int] = 0,
    bos: str = BOS,
    eos: str = EOS,
    unk: str = UNK,
    unk_words: int | None = None,
    device: str = "cpu",
    normalize: bool = True,
    max_batch: int | None = None,
) -> StepLM | HistoryLM:
    """Use a torch module as a language model.

    Args:
        module: A module with `step` and `initial_state`, or with a `forward` that reads whole histories; see
            docs/networks.md. It is set to evaluation mode and moved to `device` in place.
        words: The vocabulary, with ids from 0 to the number of scores minus 1.
        batch_dim: Batch dimension of the state tensors: one value for all tensors, or one per tensor; 1 for `nn.LSTM`.
        bos: The word that begins a sentence.
        eos: The word that ends a sentence; can be the same as `bos`.
        unk: The word for unknown words, if the vocabulary has one.
        unk_words: Number of distinct words that `unk` replaced in the training text, if known.
        device: Torch device.
        normalize: Normalise the scores; set to False if the module already returns log-probabilities.
        max_batch: Maximum number of histories per module call.  [default: no limit]

    Raises:
        ModelError: The module does not define the required methods, returns tensors with wrong shapes, or does not
            return one score per word.
        OptionError: `max_batch` is below 1, or torch cannot use the device.
    """
    model_words = Words.of(words, bos=bos, eos=eos, unk=unk, unk_words=unk_words)
    place = device_of(device)
    module = module.to(place).eval()
    network = _steps(module, batch_dim, place) if hasattr(module, "step") else HistoryNetwork(module)
    return language_model(network, model_words, LoadOptions(device, normalize, max_batch))


def _steps(module: Any, batch_dim: int | Sequence[int], device: torch.device) -> StepNetwork:
    """Return the network of a module that defines `step` and `initial_state`."""
    if not hasattr(module, "initial_state"):
        raise ModelError(f"{type(module).__name__} defines step but not initial_state(batch); add this method")
    with torch.inference_mode():
        state = module.initial_state(1)
    single = isinstance(state, torch.Tensor)
    parts = _parts(state)
    axes = [batch_dim] * len(parts) if isinstance(batch_dim, int) else list(batch_dim)
    if len(axes) != len(parts):
        raise ModelError(f"the state has {len(parts)} tensors, but batch_dim lists {len(axes)} dimensions")
    for part, axis in zip(parts, axes, strict=True):
        if not -part.dim() <= axis < part.dim() or part.shape[axis] != 1:
            shape = list(part.shape)
            raise ModelError(
                f"initial_state(1) returns shape {shape}, in which dimension {axis} is not 1; set batch_dim"
            )

    def run(words: torch.Tensor, before: State) -> tuple[torch.Tensor, State]:
        score, after = module.step(words, before[0] if single else before)
        return score, _parts(after)

    named = [
        StatePart(str(number), part.select(axis, 0).to(device), axis)
        for number, (part, axis) in enumerate(zip(parts, axes, strict=True))
    ]
    return StepNetwork(run, named)


def _parts(state: Any) -> State:
    parts = (state,) if isinstance(state, torch.Tensor) else state
    if not isinstance(parts, tuple | list) or not all(isinstance(part, torch.Tensor) for part in parts):
        raise ModelError(f"the state must be a tensor or a tuple of tensors, not {type(state).__name__}")
    return tuple(parts)
