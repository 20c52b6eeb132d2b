r"""Read model files, and the network of a Ninja checkpoint, without torch.

A model file is a dictionary of arrays and other values, in safetensors or as torch saves it; it contains no code. A
file whose name ends in ``.safetensors`` is written in that format, see `ninja.formats.safetensors_file`. The arrays of
the dictionary ``state`` are stored under their names; the names of arrays in an inner dictionary (``pointer``) begin
with its key and a dot. All other values are stored in the metadata: strings unchanged, the values of `VALUES` as JSON.
Other files are written by `torch.save`. Both formats are detected by their first bytes, and read without torch.

The content of a checkpoint:

    format   "ninja-lm"                     version  1, or 2 with matrices of int8
    kind     "lstm", see `KINDS`            config   {"vocabulary": 32700, "embedding": 256, …}
    words    "<s>\n</s>\n<unk>\nthe\n…"    by id    state    {"embedding.weight": float16 array, …}
    card     {"perplexity": 100.5, "seed": 1, "train_sha256": "…", …}: how the model was trained

Ninja's own networks are stored in half precision, or with int8 matrices: row r of an int8 matrix NAME is multiplied by
``NAME.scale[r]``, float32. The weights of networks of other toolkits are stored unchanged.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, ModelError
from ninja.files.stream import mapped
from ninja.formats import safetensors_file
from ninja.lm.word_map import BOS, EOS

Array = npt.NDArray[Any]
CardEntry = str | int | float | bool | None
Storage: TypeAlias = Literal["half", "int8"]

FORMAT = "ninja-lm"
VERSIONS: dict[Storage, int] = {"half": 1, "int8": 2}  # older versions of Ninja can read only the first
SCALE = ".scale"  # suffix of the names of the scales of int8 matrices
LSTM, TRANSFORMER, KALDI = "lstm", "transformer", "nnet3"
KINDS = (LSTM, TRANSFORMER, KALDI)
# Sizes in the configuration of Ninja's own networks, with the smallest value of each; the other entry is `dropout`.
SIZES = {
    LSTM: {"vocabulary": 1, "embedding": 1, "hidden": 1, "layers": 1, "normaliser": 0, "projection": 0},
    TRANSFORMER: {"vocabulary": 1, "embedding": 1, "hidden": 1, "layers": 1, "heads": 1},
}
MAX_LAYERS = 64
ENDING = ".safetensors"
VALUES = {"version", "config", "card", "pointer"}  # keys of values that are not strings
STATE = "state"
AGAIN = "train it again, or copy it again from its source"  # advice in most messages about damage
_ONLY = "Ninja loads only files of weights, as it does not load files that may run code"


@dataclass(frozen=True, slots=True)
class StoredNetwork:
    """A network as stored in a file, with plausible sizes and finite arrays; `check_shapes` checks their shapes."""

    kind: str  # one of `KINDS`
    config: dict[str, Any]  # for Ninja's own networks, complete and within range
    words: list[str]  # by id
    card: dict[str, CardEntry]  # how the model was trained: data, digest, seed, steps, perplexity, …
    arrays: dict[str, Array]  # read-only: float16, float32 or, with NAME.scale, int8; views of a mapped file
    storage: Storage
    path: str  # for messages

    @property
    def unk_words(self) -> int | None:
        """Number of distinct training words mapped to ``<unk>``, if known."""
        number = self.card.get("unk_words")
        return number if type(number) is int and number > 0 else None

    def check_shapes(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Check the names and shapes of the arrays; every int8 matrix also needs a scale.

        Raises:
            ModelError: An array is missing or unexpected, has another shape or type, or lacks its scale.
        """
        names = set(self.arrays) - {f"{name}{SCALE}" for name in self.arrays if self.is_scaled(name)}
        if names != set(shapes):
            different = ", ".join(sorted(names ^ set(shapes)))
            raise ModelError(f"missing or unexpected weights: {different[:200]}; {AGAIN}", self.path)
        for name, shape in shapes.items():
            array = self.arrays[name]
            if not (array.dtype.kind == "f" or self.is_scaled(name)):
                raise ModelError(f"{name} is not a tensor of numbers; {AGAIN}", self.path)
            if array.shape != shape:
                message = f"{name} has shape {list(array.shape)}, but the configuration needs {list(shape)}; {AGAIN}"
                raise ModelError(message, self.path)

    def is_scaled(self, name: str) -> bool:
        """Return whether an array is an int8 matrix with a scale for each row."""
        array, scale = self.arrays[name], self.arrays.get(f"{name}{SCALE}")
        is_matrix = array.dtype == np.int8 and array.ndim == 2
        return is_matrix and scale is not None and scale.dtype == np.float32 and scale.shape == array.shape[:1]

    def weight(self, name: str) -> npt.NDArray[np.float32]:
        """Return an array in single precision, multiplied by its scale if it has one."""
        weight = self.arrays[name].astype(np.float32)
        if self.is_scaled(name):
            weight *= self.arrays[f"{name}{SCALE}"][:, None]
        return weight


def read_network(path: str | os.PathLike[str]) -> StoredNetwork:
    """Read a checkpoint without running code from it; all sizes are checked against the size of the file.

    Raises:
        ModelError: The file is damaged or is not a Ninja checkpoint.
        InputError: The file cannot be read.
    """
    content = read_content(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        message = (
            "not a Ninja checkpoint; give a file written by `ninja train`, or the directory of a Hugging Face model"
        )
        raise ModelError(message, path)
    storage = next((storage for storage, version in VERSIONS.items() if version == content.get("version")), None)
    if storage is None:
        known = " and ".join(map(str, VERSIONS.values()))
        message = (
            f"unsupported checkpoint version {content.get('version')!r}; upgrade Ninja, which reads versions {known}"
        )
        raise ModelError(message, path)
    kind = content.get("kind")
    if kind not in KINDS:
        known = " and ".join(map(repr, KINDS))
        raise ModelError(f"unsupported model kind {kind!r}; upgrade Ninja, which supports {known}", path)
    for key, expected in (("config", dict), ("words", str), ("state", dict), ("card", dict)):
        if not isinstance(content.get(key), expected):
            raise ModelError(f"{key!r} is missing or of the wrong type; {AGAIN}", path)
    words, config = content["words"].split("\n"), content["config"]
    if len(words) != config.get("vocabulary"):
        size = config.get("vocabulary")
        raise ModelError(f"the vocabulary has {len(words)} words, but {size!r} in the configuration; {AGAIN}", path)
    if len(set(words)) != len(words) or "" in words:
        raise ModelError(f"a word is empty or occurs twice in the vocabulary; {AGAIN}", path)
    if kind != KALDI:
        config = _own_config(kind, config, words, os.path.getsize(path), path)
    _check_arrays(content["state"], path)
    return StoredNetwork(kind, config, words, content["card"], content["state"], storage, os.fspath(path))


def _check_arrays(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Reject weights that are not arrays or not finite."""
    for name, weight in state.items():
        if not isinstance(name, str) or not isinstance(weight, np.ndarray):
            raise ModelError(f"{name} is not a tensor of numbers; {AGAIN}", path)
        if weight.dtype.kind == "f" and not np.isfinite(weight).all():
            raise ModelError(
                f"{name} contains NaN or infinity: the training diverged; train with a lower learning rate", path
            )


def _own_config(
    kind: str, config: dict[str, Any], words: list[str], num_bytes: int, path: str | os.PathLike[str]
) -> dict[str, Any]:
    """Return the complete configuration of one of Ninja's own networks after checking that its sizes are plausible."""
    for token in (BOS, EOS):
        if token not in words:
            raise ModelError(f"the vocabulary lacks {token}; train on whole sentences, one per line", path)
    if kind == LSTM:
        config = {"normaliser": 0, "projection": 0, **config}
    if set(config) != {*SIZES[kind], "dropout"}:
        raise ModelError(
            f"unexpected or missing entries in the configuration, {sorted(map(str, config))}; {AGAIN}", path
        )
    for name, least in sorted(SIZES[kind].items()):
        # Layers and cells need more than one byte each, so larger numbers are damage; memory is not allocated for them.
        if type(config[name]) is not int or not least <= config[name] <= num_bytes:
            raise ModelError(f"implausible {name} {config[name]!r} in the configuration; {AGAIN}", path)
    if kind == LSTM:
        has_invalid_size = config["projection"] >= min(config["embedding"], config["hidden"])
    else:
        has_invalid_size = config["embedding"] % (2 * config["heads"]) > 0
    if config["layers"] > MAX_LAYERS or has_invalid_size:
        raise ModelError(f"implausible sizes in the configuration, {config}; {AGAIN}", path)
    if type(config["dropout"]) is not float or not 0 <= config["dropout"] < 1:
        raise ModelError(f"implausible dropout {config['dropout']!r} in the configuration; {AGAIN}", path)
    return config


def lstm_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the arrays of an LSTM; see `ninja.models.lstm` for the network."""
    embedding, cells = config["embedding"], config["hidden"]
    width = min(config["projection"] or embedding, cells)
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.weight": (config["vocabulary"], embedding),
        "bias": (config["vocabulary"],),
    }
    for layer in range(config["layers"]):
        shapes |= {f"lstm.{kind}_l{layer}": (4 * cells, width) for kind in ("weight_ih", "weight_hh")}
        shapes |= {f"lstm.{kind}_l{layer}": (4 * cells,) for kind in ("bias_ih", "bias_hh")}
        if width < cells:
            shapes[f"lstm.weight_hr_l{layer}"] = (width, cells)
    if width < embedding:
        shapes["more.weight"] = (embedding - width, cells)
    if estimate := config["normaliser"]:
        for number, shape in ((0, (estimate, embedding)), (2, (estimate, estimate)), (4, (1, estimate))):
            shapes |= {f"normaliser.{number}.weight": shape, f"normaliser.{number}.bias": shape[:1]}
    return shapes


def read_content(path: str | os.PathLike[str], content: bytes | None = None) -> Any:
    """Read a file: its arrays (bfloat16 as float32), dictionaries, lists, strings and numbers.

    This function never runs code from the file. ``torch.load(weights_only=True, mmap=True)`` does not either, but it
    allocates as many bytes as the file requests: a pickle of 40 bytes with ``bytearray(2**31)`` takes 2 GB. It does not
    verify checksums, and only some versions check that storage sizes and tensor offsets lie within the file.

    Args:
        path: The file.
        content: Its bytes, if they are known.

    Returns:
        The content; arrays of safetensors are views of the mapped file.

    Raises:
        ModelError: The file is damaged, contains other types, or declares an array larger than its data.
        InputError: The file cannot be read.
    """
    image = mapped(path) if content is None else memoryview(content)
    try:
        if safetensors_file.recognise(bytes(image[:16])):
            return _unflattened(safetensors_file.read(image))
        from ninja.formats import torch_file

        return torch_file.load_arrays(image, _ONLY)
    except FormatError as error:
        raise ModelError(f"{error.message}; {AGAIN}", path, byte=error.byte) from error
    except RecursionError as error:
        raise ModelError("lists are nested too deeply", path) from error


def safetensors_image(content: dict[str, Any], path: str | os.PathLike[str]) -> list[bytes | memoryview]:
    """Return the content of a safetensors file in pieces; `path` is used in error messages.

    Raises:
        ModelError: Safetensors cannot store the type of an array, or a vocabulary of this size.
    """
    arrays = dict(content[STATE])
    metadata: dict[str, str] = {}
    for key, value in content.items():
        if key == STATE:
            continue
        if isinstance(value, dict) and STATE in value:
            arrays |= {f"{key}.{name}": array for name, array in value[STATE].items()}
            value = {name: inner for name, inner in value.items() if name != STATE}
        metadata[key] = json.dumps(value) if key in VALUES else value
    try:
        return safetensors_file.image(arrays, metadata)
    except FormatError as error:
        raise ModelError(error.message, path) from error


def _unflattened(content: safetensors_file.Content) -> dict[str, Any]:
    """Restore the dictionary that a safetensors file was written from."""
    result: dict[str, Any] = {STATE: dict(content.arrays)}
    for key, text in content.metadata.items():
        try:
            result[key] = json.loads(text) if key in VALUES else text
        except ValueError as error:
            raise FormatError(f"the metadata {key[:60]!r} is not JSON: {str(error)[:100]}") from error
    for key in VALUES & result.keys():
        names = [name for name in result[STATE] if name.startswith(f"{key}.")]
        if names and isinstance(value := result[key], dict):
            value[STATE] = {name.removeprefix(f"{key}."): result[STATE].pop(name) for name in names}
    return result
