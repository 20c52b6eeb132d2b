"""Read and write checkpoints, and run their networks on torch.

`ninja.lm.stored_network` describes the content of the file; the file name extension determines the format.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import os
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from ninja.errors import ModelError
from ninja.files.output import opened
from ninja.lattice.symbols import SymbolTable
from ninja.lm.attention.transformer import TransformerLM
from ninja.lm.kaldi import rnnlm
from ninja.lm.kaldi.rnnlm import KaldiModel
from ninja.lm.network_image import safetensors_image
from ninja.lm.protocol import LoadOptions
from ninja.lm.recurrent.lstm import LstmLM
from ninja.lm.stored_network import (
    ENDING,
    FORMAT,
    KALDI,
    SCALE,
    VERSIONS,
    CardEntry,
    Storage,
    StoredNetwork,
    read_content,
    read_network,
)
from ninja.models import lstm, transformer

LARGEST = 127  # greatest magnitude of int8 weights; −128 is not used, so that the range is symmetric
NETWORKS: dict[str, tuple[Any, Any]] = {  # configuration class and network class of each type, except Kaldi's
    "lstm": (lstm.Config, lstm.LSTMLanguageModel),
    "transformer": (transformer.Config, transformer.TransformerLanguageModel),
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A language model as stored in a checkpoint file."""

    module: Module | KaldiModel  # float32, in evaluation mode
    words: list[str]  # by id
    card: dict[str, CardEntry]  # how the model was trained: data, digest, seed, steps, perplexity, …
    storage: Storage = "half"  # storage format of Ninja's own networks in the file

    @property
    def kind(self) -> str:
        """Type of the network: a key of `NETWORKS`, or "nnet3"."""
        if isinstance(self.module, KaldiModel):
            return KALDI
        return next(kind for kind, (_, network) in NETWORKS.items() if isinstance(self.module, network))


def open_checkpoint(stored: StoredNetwork, options: LoadOptions) -> LstmLM | TransformerLM:
    """Open one of Ninja's own networks as a language model on torch; see `ninja.lm.load`."""
    module = _build(stored)
    model = TransformerLM if isinstance(module, transformer.TransformerLanguageModel) else LstmLM
    return model(
        module,
        SymbolTable.from_words(stored.words, stored.path),
        options,
        stored.unk_words,
    )


def write_atomically(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write tensors and other values to a temporary file, which is renamed to `path` when complete.

    The format is safetensors if the name ends in ``.safetensors`` (see `ninja.lm.stored_network`); otherwise it is the
    format of `torch.save`.
    """
    name = os.fspath(path)
    if name.endswith(ENDING):
        parts = safetensors_image(_as_arrays(content), name)
    else:
        image = io.BytesIO()  # torch's writer would report a full disk as a RuntimeError
        torch.save(content, image)
        parts = [image.getbuffer()]
    with opened(name) as file:
        for part in parts:
            file.write(part)


def _as_arrays(value: Any) -> Any:
    """Convert the tensors of nested dictionaries to arrays."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, dict):
        return {name: _as_arrays(inner) for name, inner in value.items()}
    return value


def as_stored(module: Module, storage: Storage = "half") -> Module:
    """Return a copy of a network with its weights rounded to the precision of a checkpoint."""
    rounded = copy.deepcopy(module)
    state = _packed(module, storage)
    weights = {name: weight.float() for name, weight in state.items() if not name.endswith(SCALE)}
    for name in weights:
        if name + SCALE in state:
            weights[name] *= state[name + SCALE][:, None]
    rounded.load_state_dict(weights)
    return rounded.eval()


def _packed(module: Module, storage: Storage) -> dict[str, torch.Tensor]:
    """Return the weights in their storage format: all in half precision, or matrices as int8 with scales."""
    state: dict[str, torch.Tensor] = {}
    for name, weight in module.state_dict().items():
        exact = weight.detach().cpu().float()
        if storage == "half" or exact.dim() != 2:
            state[name] = exact.half()
            continue
        scale = exact.abs().amax(1) / LARGEST  # [rows]
        unit = torch.where(scale > 0, scale, 1.0)[:, None]  # a row of zeros remains zero
        state[name] = (exact / unit).round().nan_to_num().clamp(-LARGEST, LARGEST).to(torch.int8)
        state[name + SCALE] = scale
    return state


def save(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint.

    Raises:
        ModelError: A weight is NaN, or exceeds the range of the file's precision (±65504 in half precision).
    """
    precision = ""
    version = 1
    if isinstance(checkpoint.module, KaldiModel):
        # Half precision would change scores by up to 0.008; single precision reproduces Kaldi's scores within 1e-4.
        config, arrays = rnnlm.pack(checkpoint.module)
        state = {name: torch.tensor(array) for name, array in arrays.items()}
    else:
        config = dataclasses.asdict(checkpoint.module.config)
        for name in ("normaliser", "projection"):
            if config.get(name) == 0:  # so that older versions of Ninja can read the file
                del config[name]
        state = _packed(checkpoint.module, checkpoint.storage)
        precision = " in half precision" if checkpoint.storage == "half" else ""
        version = VERSIONS[checkpoint.storage]
    for name, weight in state.items():
        if not torch.isfinite(weight).all():
            message = f"weight {name.removesuffix(SCALE)} is not finite{precision}: the training diverged"
            raise ModelError(f"{message}; train with a lower learning rate", path)
    content = {
        "format": FORMAT,
        "version": version,
        "kind": checkpoint.kind,
        "config": config,
        "words": "\n".join(checkpoint.words),
        "state": state,
        "card": checkpoint.card,
    }
    write_atomically(content, path)


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint without running code from it; all sizes are checked against the size of the file.

    Raises:
        ModelError: The file is damaged or is not a Ninja checkpoint.
    """
    stored = read_network(path)
    if stored.kind == KALDI:
        module: Module | KaldiModel = rnnlm.build(stored.config, stored.arrays, stored.words, stored.path)
    else:
        module = _build(stored)
    return Checkpoint(module, stored.words, stored.card, stored.storage)


class SkipInitialisation(TorchFunctionMode):
    """Torch function mode that skips the initialisation of weights.

    On the meta device, the initialisation would spend 1 s importing torch's compiler.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if getattr(function, "__module__", None) == "torch.nn.init":
            return args[0] if args else options["tensor"]
        return function(*args, **options)


def _build(stored: StoredNetwork) -> Module:
    """Build a network from its configuration, check the names and shapes of its weights, and load them."""
    config_class, network_class = NETWORKS[stored.kind]
    with torch.device("meta"), SkipInitialisation():  # has shapes, but allocates no memory
        module: Module = network_class(config_class(**stored.config))
    names = module.state_dict()
    stored.check_shapes({name: tuple(weight.shape) for name, weight in names.items()})
    module.load_state_dict({name: torch.from_numpy(stored.weight(name)) for name in names}, assign=True)
    return module.eval()


def read_saved(path: str | os.PathLike[str], content: bytes | None = None) -> Any:
    """Read a file with `ninja.lm.stored_network.read_content`, and convert its arrays to tensors."""
    return _as_tensors(read_content(path, content))


def _as_tensors(value: Any) -> Any:
    """Convert the arrays of nested dictionaries, lists and tuples to tensors."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, dict):
        return {key: _as_tensors(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_as_tensors(inner) for inner in value)
    return value


Module: TypeAlias = lstm.LSTMLanguageModel | transformer.TransformerLanguageModel  # networks that Ninja trains
