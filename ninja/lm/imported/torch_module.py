"""Modules of torch as language models; docs/networks.md lists the methods they need."""

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
        module: It has `step` and `initial_state`, or `forward` on whole histories; see docs/networks.md. It is
            put into evaluation mode, in its place.
        words: Its vocabulary: as many words, ids from 0, as it has scores.
        batch_dim: Which dimension of the state's tensors is the batch, for all or for each; 1 for `nn.LSTM`.
        bos: The word that begins a sentence.
        eos: The word that ends one; the same word may do both.
        unk: The word for unknown words, if there is one.
        unk_words: How many distinct words of the training text it stood for, where known.
        device: Where to compute; the module is moved there.
        normalize: Make the scores log-probabilities; without, they are taken as they are.
        max_batch: Largest number of histories in one call of the module. Default: unlimited.

    Raises:
        ModelError: The module has not these methods, gives other shapes, or has not as many scores as there are words.
        OptionError: `max_batch` is below 1, or torch has no such device.
    """
    known = Words.of(words, bos=bos, eos=eos, unk=unk, unk_words=unk_words)
    place = device_of(device)
    module = module.to(place).eval()
    network = _steps(module, batch_dim, place) if hasattr(module, "step") else HistoryNetwork(module)
    return language_model(network, known, LoadOptions(device, normalize, max_batch))


def _steps(module: Any, batch_dim: int | Sequence[int], device: torch.device) -> StepNetwork:
    """Return a module with `step` and `initial_state` as a network."""
    if not hasattr(module, "initial_state"):
        raise ModelError(f"{type(module).__name__} has step but no initial_state(batch), which begins a sentence")
    with torch.inference_mode():
        state = module.initial_state(1)
    single = isinstance(state, torch.Tensor)
    parts = _parts(state)
    axes = [batch_dim] * len(parts) if isinstance(batch_dim, int) else list(batch_dim)
    if len(axes) != len(parts):
        raise ModelError(f"{len(parts)} parts of the state, but {len(axes)} batch dimensions")
    for part, axis in zip(parts, axes, strict=True):
        if not -part.dim() <= axis < part.dim() or part.shape[axis] != 1:
            shape = list(part.shape)
            raise ModelError(f"initial_state(1) gives {shape}: dimension {axis} is no batch of 1; set batch_dim")

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
        raise ModelError(f"the state is {type(state).__name__}, not a tensor or a tuple of tensors")
    return tuple(parts)
