r"""Ninja's own checkpoint: weights, configuration and vocabulary of a model in one file, without code.

A zip as `torch.save` writes it, holding one dictionary of plain values and tensors:

    format   "ninja-lm"                     version  1, or 2 with matrices of int8
    kind     "lstm", see `NETWORKS`          config   {"vocabulary": 32700, "embedding": 256, …}
    words    "<s>\n</s>\n<unk>\nthe\n…"    by id    state    {"embedding.weight": float16 tensor, …}
    card     {"perplexity": 100.5, "seed": 1, "train_sha256": "…", …}: how the model was made

Ninja's own networks are stored in half precision, or ("int8") with matrices of a byte a weight: a matrix of int8 is
multiplied, row by row, by "NAME.scale", float32 [rows]. Networks of others are stored as they are.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import os
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch.overrides import TorchFunctionMode

from ninja.errors import FormatError, ModelError
from ninja.files.output import opened
from ninja.formats import torch_file
from ninja.formats.torch_file import PLAIN, STORAGES, Tensor
from ninja.lattice.symbols import SymbolTable
from ninja.lm.attention.transformer import TransformerLM
from ninja.lm.kaldi import rnnlm
from ninja.lm.kaldi.rnnlm import KaldiModel, KaldiRnnlm
from ninja.lm.protocol import LoadOptions
from ninja.lm.recurrent.lstm import LstmLM
from ninja.lm.word_map import BOS, EOS
from ninja.models import lstm, transformer

_NAMES = PLAIN | set(STORAGES)
_ONLY = "holds more than weights; Ninja loads no files that may run code"
FORMAT = "ninja-lm"
VERSIONS: dict[Storage, int] = {"half": 1, "int8": 2}  # older versions of Ninja read the first only
SCALE = ".scale"  # end of the names of what matrices of int8 are multiplied by
LARGEST = 127  # number of int8 in use: rows are symmetric around 0
KALDI = "nnet3"  # kind of Kaldi's RNNLMs
NETWORKS: dict[str, tuple[Any, Any]] = {  # configuration and network of the other kinds
    "lstm": (lstm.Config, lstm.LSTMLanguageModel),
    "transformer": (transformer.Config, transformer.TransformerLanguageModel),
}
RETRAIN = "train it again, or copy it again from its source"  # advice for most damage

CardEntry = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A language model in a file."""

    module: Module | KaldiModel  # float32, in evaluation mode
    words: list[str]  # by id
    card: dict[str, CardEntry]  # how it was made: data, digest, seed, steps, perplexity, …
    storage: Storage = "half"  # of Ninja's own networks in the file

    @property
    def kind(self) -> str:
        """A key of `NETWORKS`, or "nnet3"."""
        if isinstance(self.module, KaldiModel):
            return KALDI
        return next(kind for kind, (_, network) in NETWORKS.items() if isinstance(self.module, network))


def open_checkpoint(path: str, options: LoadOptions) -> LstmLM | TransformerLM | KaldiRnnlm:
    """Open a checkpoint as a language model, see `read` and `ninja.lm.load`."""
    stored = read(path)
    if isinstance(stored.module, KaldiModel):
        return KaldiRnnlm(stored.module, options, path)
    unk_words = stored.card.get("unk_words")
    model = TransformerLM if isinstance(stored.module, transformer.TransformerLanguageModel) else LstmLM
    return model(
        stored.module,
        SymbolTable(((word, number) for number, word in enumerate(stored.words)), path),
        options,
        unk_words if type(unk_words) is int and unk_words > 0 else None,
    )


def write_atomically(content: object, path: str | os.PathLike[str]) -> None:
    """Save tensors and plain values with torch, under a temporary name that is renamed to `path` when complete."""
    image = io.BytesIO()  # torch's writer would report a full disk as a RuntimeError
    torch.save(content, image)
    with opened(os.fspath(path)) as file:
        file.write(image.getbuffer())


def as_stored(module: Module, storage: Storage = "half") -> Module:
    """Copy a model with its weights rounded to the precision in which they are stored."""
    rounded = copy.deepcopy(module)
    rounded.load_state_dict(_unpacked(_packed(module, storage)))
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
        unit = torch.where(scale > 0, scale, 1.0)[:, None]  # a row of zeros stays one
        state[name] = (exact / unit).round().nan_to_num().clamp(-LARGEST, LARGEST).to(torch.int8)
        state[name + SCALE] = scale
    return state


def _unpacked(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return stored weights in float32; matrices without a fitting scale stay int8."""
    scales = {name + SCALE for name, weight in state.items() if weight.dtype == torch.int8}
    result: dict[str, torch.Tensor] = {}
    for name, weight in state.items():
        scale = state.get(name + SCALE)
        if name in scales:
            continue
        if weight.is_floating_point():
            weight = weight.float()
        elif name + SCALE in scales and scale is not None and scale.shape == weight.shape[:1] and weight.dim() == 2:
            weight = weight.float() * scale.float()[:, None]
        result[name] = weight
    return result


def save(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint.

    Raises:
        ModelError: A weight is not finite in the precision it is stored in (half: beyond ±65504, or NaN).
    """
    precision = ""
    version = 1
    if isinstance(checkpoint.module, KaldiModel):
        # Half precision would change scores by up to 0.008, where Kaldi's own are met within 1e-4.
        config, state = rnnlm.pack(checkpoint.module)
    else:
        config = dataclasses.asdict(checkpoint.module.config)
        for name in ("normaliser", "projection"):
            if config.get(name) == 0:  # then older versions of Ninja read it, too
                del config[name]
        state = _packed(checkpoint.module, checkpoint.storage)
        precision = " in half precision" if checkpoint.storage == "half" else ""
        version = VERSIONS[checkpoint.storage]
    for name, weight in state.items():
        if not torch.isfinite(weight).all():
            message = f"weight {name.removesuffix(SCALE)} is not finite{precision}; the training diverged"
            raise ModelError(message, path)
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
    """Read a checkpoint; no code of the file runs, and every size is compared with that of the file.

    Raises:
        ModelError: The file is damaged, or no checkpoint of this format.
    """
    content = read_saved(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError("a torch file, but not a Ninja checkpoint; `ninja train` makes those", path)
    storage = next((storage for storage, version in VERSIONS.items() if version == content.get("version")), None)
    if storage is None:
        known = " and ".join(map(str, VERSIONS.values()))
        message = f"checkpoint version {content.get('version')!r}; this Ninja reads versions {known}, upgrade it"
        raise ModelError(message, path)
    if content.get("kind") not in (*NETWORKS, KALDI):
        known = " and ".join(map(repr, (*NETWORKS, KALDI)))
        raise ModelError(f"a model of kind {content.get('kind')!r}; this Ninja knows {known}, upgrade it", path)
    for key, kind in (("config", dict), ("words", str), ("state", dict), ("card", dict)):
        if not isinstance(content.get(key), kind):
            raise ModelError(f"{key!r} is missing or of the wrong type; {RETRAIN}", path)
    words, size = content["words"].split("\n"), content["config"].get("vocabulary")
    if len(words) != size:
        raise ModelError(f"{len(words)} words, but a vocabulary of {size!r} in its configuration; {RETRAIN}", path)
    if len(set(words)) != len(words) or "" in words:
        raise ModelError(f"a word is empty or occurs twice in the vocabulary; {RETRAIN}", path)
    _check_tensors(content["state"], path)
    parts = content["config"], content["state"], words, os.fspath(path)
    module = rnnlm.build(*parts) if content["kind"] == KALDI else _build(content["kind"], *parts)
    return Checkpoint(module, words, content["card"], storage)


def _check_tensors(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Refuse weights that are no tensors, or are not finite."""
    for name, weight in state.items():
        if not isinstance(name, str) or not isinstance(weight, torch.Tensor):
            raise ModelError(f"{name} is not a tensor of numbers; {RETRAIN}", path)
        if not torch.isfinite(weight).all():
            raise ModelError(f"{name} holds NaN or infinity: the training diverged; train with a lower rate", path)


class Undrawn(TorchFunctionMode):
    """Skips the initialisation of weights, which on the meta device imports torch's compiler for a second."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if getattr(function, "__module__", None) == "torch.nn.init":
            return args[0] if args else options["tensor"]
        return function(*args, **options)


def _build(kind: str, config: dict[str, Any], state: dict[str, Any], words: list[str], path: str) -> Module:
    """Make the network that a configuration describes, if the weights are exactly its weights."""
    for needed in (BOS, EOS):
        if needed not in words:
            raise ModelError(f"the vocabulary lacks {needed}; train on whole sentences, one a line", path)
    config_class, network_class = NETWORKS[kind]
    entries = {field.name for field in dataclasses.fields(config_class)}
    if kind == "lstm":
        config = {"normaliser": 0, "projection": 0, **config}
    if set(config) != entries:
        raise ModelError(f"its configuration has the entries {sorted(map(str, config))}; {RETRAIN}", path)
    for name in sorted(entries - {"dropout"}):
        # A layer has more than one byte and so has a cell: larger numbers are damage, found before memory is allocated.
        least = 0 if name in ("normaliser", "projection") else 1
        if type(config[name]) is not int or not least <= config[name] <= os.path.getsize(path):
            raise ModelError(f"an absurd {name} of {config[name]!r} in its configuration; {RETRAIN}", path)
    if kind == "lstm":
        odd = config["projection"] >= min(config["embedding"], config["hidden"])
    else:
        odd = config["embedding"] % (2 * config["heads"]) > 0
    if config["layers"] > 64 or odd:
        raise ModelError(f"an absurd shape in its configuration, {config}; {RETRAIN}", path)
    if type(config["dropout"]) is not float or not 0 <= config["dropout"] < 1:
        raise ModelError(f"an absurd dropout of {config['dropout']!r} in its configuration; {RETRAIN}", path)
    with torch.device("meta"), Undrawn():  # shapes only: no memory
        module = network_class(config_class(**config))
    expected = module.state_dict()
    state = _unpacked(state)
    if set(state) != set(expected):
        names = sorted(map(str, set(state) ^ set(expected)))
        raise ModelError(f"weights missing or not expected: {', '.join(names)[:200]}; {RETRAIN}", path)
    for name, weight in state.items():
        if not weight.is_floating_point():
            raise ModelError(f"{name} is not a tensor of numbers; {RETRAIN}", path)
        if weight.shape != expected[name].shape:
            message = f"{name} is {list(weight.shape)}, its configuration needs {list(expected[name].shape)}; {RETRAIN}"
            raise ModelError(message, path)
    module.load_state_dict(state, assign=True)
    return module.eval()


def read_saved(path: str | os.PathLike[str], content: bytes | None = None) -> Any:
    """Read a file of ``torch.save``: its tensors (bfloat16 as float32), dictionaries, lists, strings and numbers.

    ``torch.load(weights_only=True, mmap=True)`` runs no code either, but allocates as many bytes as a file requests: a
    pickle of 40 bytes with ``bytearray(2**31)`` takes 2 GB. It compares no checksums, and whether it compares the size
    of a storage, and the place of a tensor in it, with the bytes of the file depends on its version.

    Args:
        path: The file.
        content: Its bytes, if they are known.

    Raises:
        ModelError: The file is damaged, holds something else, or a tensor that its bytes do not fill.
        InputError: The file cannot be read.
    """
    image = torch_file.mapped(path) if content is None else memoryview(content)
    try:
        saved = torch_file.opened(image)
        return _Tensors(len(image)).convert(torch_file.load(saved, _NAMES, _ONLY), "")
    except FormatError as error:
        raise ModelError(f"{error.message}; train it again, or copy it again from where it came", path) from error
    except RecursionError as error:
        raise ModelError("lists in lists too deep to be read", path) from error


class _Tensors:
    """Conversion of the tensors of one file, which together have no more bytes than the file."""

    def __init__(self, num_bytes: int) -> None:
        self._left = num_bytes

    def convert(self, value: Any, name: str) -> Any:
        """Return a value with tensors of torch; `name` is the path of its keys, for messages."""
        if isinstance(value, Tensor):
            self._left -= value.size * value.storage.itemsize
            if value.size > len(value.storage) or self._left < 0:
                raise FormatError(f"{name} repeats its bytes to look larger than it is")
            return torch.from_numpy(value.array().copy())
        if isinstance(value, dict):
            return {key: self.convert(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.convert(inner, name) for inner in value)
        return value


Module: TypeAlias = lstm.LSTMLanguageModel | transformer.TransformerLanguageModel  # networks that Ninja trains

Storage: TypeAlias = Literal["half", "int8"]
