r"""Read model files, and the network in a Ninja checkpoint, without torch.

A model file is a dictionary of arrays and other values in safetensors or torch format; it contains no code. A file
whose name ends in ``.safetensors`` is written in that format; see `ninja.lm.network_image`. The arrays of the
dictionary ``state`` are stored under their names; the names of arrays in an inner dictionary (``pointer``) begin with
its key and a dot. All other values are stored in the metadata: strings unchanged, the values of `VALUES` as JSON. Other
files are written by `torch.save`. Both formats are detected by their first bytes, and read without torch.

The content of a checkpoint:

    format   "ninja-lm"                     version  1, or 2 with int8 matrices
    kind     "lstm", see `KINDS`            config   {"vocabulary": 32700, "embedding": 256, …}
    words    "<s>\n</s>\n<unk>\nthe\n…"    by id    state    {"embedding.weight": float16 array, …}
    card     {"perplexity": 100.5, "seed": 1, "train_sha256": "…", …}: how the model was trained

Ninja's own networks are stored in half precision, or with int8 matrices: row r of an int8 matrix NAME is multiplied by
``NAME.scale[r]``, float32. The weights of networks from other toolkits are stored unchanged.

The safetensors format:

    uint64               length of the header, in bytes; little-endian, like all numbers
    JSON                 {"__metadata__": {"NAME": "STRING", …}, "NAME": {"dtype": "F16", "shape": [2, 3],
                         "data_offsets": [0, 12]}, …}; spaces at the end
    bytes                of the arrays, without gaps; offsets count from here

Arrays are views of the mapped file, whereas the library ``safetensors`` copies each array. This module also reports
where a file is damaged. The format has no checksum: Ninja adds one to the metadata (``crc32``, over names, strings and
arrays), and verifies it if it is present.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from ninja.errors import FormatError, ModelError
from ninja.files.stream import mapped
from ninja.lm.word_map import BOS, EOS

Array = npt.NDArray[Any]
CardEntry = str | int | float | bool | None
Storage: TypeAlias = Literal["half", "int8"]

FORMAT = "ninja-lm"
VERSIONS: dict[Storage, int] = {"half": 1, "int8": 2}  # older versions of Ninja can read only version 1
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
AGAIN = "train the model again, or copy it again from its source"  # advice in most messages about damaged files
_ONLY = "Ninja loads only files of weights, because other files may run code"
# NumPy types by safetensors type; a bfloat16 is read as the upper half of a float32.
DTYPES = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"},
    **{"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"},
}
LENGTH = 8  # number of bytes of the header length field, and alignment of the arrays
MAX_HEADER = 100_000_000  # maximum number of bytes of the header, as in the library
MAX_DIMENSIONS = 8
MAX_DIGITS = 18  # maximum number of digits of a number in the header
METADATA = "__metadata__"
CHECKSUM = "crc32"
ENTRY = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, slots=True)
class StoredNetwork:
    """A network as stored in a file, with plausible sizes and finite arrays; `check_shapes` checks the shapes."""

    kind: str  # one of `KINDS`
    config: dict[str, Any]  # complete and within range for Ninja's own networks
    words: list[str]  # the vocabulary, in the order of ids
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
            ModelError: An array is missing or unexpected, has the wrong shape or type, or has no scale.
        """
        names = set(self.arrays) - {f"{name}{SCALE}" for name in self.arrays if self.is_scaled(name)}
        if names != set(shapes):
            different = ", ".join(sorted(names ^ set(shapes)))
            raise ModelError(f"weights are missing or unexpected: {different[:200]}; {AGAIN}", self.path)
        for name, shape in shapes.items():
            array = self.arrays[name]
            if not (array.dtype.kind == "f" or self.is_scaled(name)):
                raise ModelError(
                    f"{name} is of type {array.dtype}, but must be a floating-point array, or an int8 matrix with "
                    f"scales; {AGAIN}",
                    self.path,
                )
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
            "not a Ninja checkpoint; specify a file written by `ninja train`, or the directory of a Hugging Face model"
        )
        raise ModelError(message, path)
    storage = next((storage for storage, version in VERSIONS.items() if version == content.get("version")), None)
    if storage is None:
        versions = " and ".join(map(str, VERSIONS.values()))
        message = f"unsupported checkpoint version {content.get('version')!r}"
        raise ModelError(f"{message}; upgrade Ninja, because this release reads only versions {versions}", path)
    kind = content.get("kind")
    if kind not in KINDS:
        message = f"unsupported network type {kind!r}"
        kinds = ", ".join(map(repr, KINDS))
        raise ModelError(f"{message}; upgrade Ninja, because this release supports only {kinds}", path)
    for key, expected in (("config", dict), ("words", str), ("state", dict), ("card", dict)):
        if not isinstance(content.get(key), expected):
            raise ModelError(f"{key!r} is missing or of the wrong type; {AGAIN}", path)
    words, config = content["words"].split("\n"), content["config"]
    if len(words) != config.get("vocabulary"):
        size = config.get("vocabulary")
        raise ModelError(
            f"the vocabulary has {len(words)} words, but the configuration specifies {size!r}; {AGAIN}", path
        )
    if len(set(words)) != len(words) or "" in words:
        raise ModelError(f"a word is empty or occurs twice in the vocabulary; {AGAIN}", path)
    if kind != KALDI:
        config = _own_config(kind, config, words, os.path.getsize(path), path)
    _check_arrays(content["state"], path)
    return StoredNetwork(kind, config, words, content["card"], content["state"], storage, os.fspath(path))


def _check_arrays(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Reject weights that are not arrays, or that contain NaN or infinity."""
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
    """Return the complete configuration of a network that Ninja trains, after checking that its sizes are plausible."""
    for token in (BOS, EOS):
        if token not in words:
            raise ModelError(f"the vocabulary does not contain {token}; {AGAIN}", path)
    if kind == LSTM:
        config = {"normaliser": 0, "projection": 0, **config}
    if set(config) != {*SIZES[kind], "dropout"}:
        raise ModelError(
            f"the configuration has missing or unexpected entries: {sorted(map(str, config))}; {AGAIN}", path
        )
    for name, least in sorted(SIZES[kind].items()):
        # Each layer or cell needs more than one byte, so a larger number means that the file is damaged.
        if type(config[name]) is not int or not least <= config[name] <= num_bytes:
            raise ModelError(f"{name} in the configuration is {config[name]!r}, which is implausible; {AGAIN}", path)
    if kind == LSTM:
        has_invalid_size = config["projection"] >= min(config["embedding"], config["hidden"])
    else:
        has_invalid_size = config["embedding"] % (2 * config["heads"]) > 0
    if config["layers"] > MAX_LAYERS or has_invalid_size:
        raise ModelError(f"the sizes in the configuration are implausible: {config}; {AGAIN}", path)
    if type(config["dropout"]) is not float or not 0 <= config["dropout"] < 1:
        raise ModelError(f"dropout in the configuration is {config['dropout']!r}, but must be in [0, 1); {AGAIN}", path)
    return config


def lstm_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of an LSTM's arrays; see `ninja.models.lstm` for the network."""
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
    """Read the arrays (bfloat16 as float32), dictionaries, lists, strings and numbers in a model file.

    This function never runs code from the file. ``torch.load(weights_only=True, mmap=True)`` does not either, but it
    allocates as many bytes as the file requests: a pickle of 40 bytes with ``bytearray(2**31)`` takes 2 GB. It does not
    verify checksums, and only some versions check that storage sizes and tensor offsets lie within the file.

    Args:
        path: The file.
        content: The bytes of the file, if they have already been read.

    Returns:
        The content; arrays from a safetensors file are views of the mapped file.

    Raises:
        ModelError: The file is damaged, contains other types, or declares an array larger than its data.
        InputError: The file cannot be read.
    """
    image = mapped(path) if content is None else memoryview(content)
    try:
        if is_safetensors(bytes(image[:16])):
            return _unflattened(read_safetensors(image))
        from ninja.formats import torch_file

        return torch_file.load_arrays(image, _ONLY)
    except FormatError as error:
        raise ModelError(f"{error.message}; {AGAIN}", path, byte=error.byte) from error
    except RecursionError as error:
        raise ModelError(f"lists are nested too deeply; {AGAIN}", path) from error


def _unflattened(content: Safetensors) -> dict[str, Any]:
    """Restore the dictionary from which a safetensors file was written."""
    result: dict[str, Any] = {STATE: dict(content.arrays)}
    for key, text in content.metadata.items():
        try:
            result[key] = json.loads(text) if key in VALUES else text
        except ValueError as error:
            raise FormatError(f"the value of the metadata key {key[:60]!r} is not JSON: {str(error)[:100]}") from error
    for key in VALUES & result.keys():
        names = [name for name in result[STATE] if name.startswith(f"{key}.")]
        if names and isinstance(value := result[key], dict):
            value[STATE] = {name.removeprefix(f"{key}."): result[STATE].pop(name) for name in names}
    return result


@dataclass(frozen=True, slots=True)
class Safetensors:
    """The content of a safetensors file."""

    arrays: dict[str, Array]  # read-only; bfloat16 as float32
    metadata: dict[str, str]  # all metadata except the checksum


def is_safetensors(head: bytes) -> bool:
    """Return whether a file begins like a safetensors file, with the length of the header and a brace."""
    return len(head) > LENGTH and head[4:8] == b"\0\0\0\0" and head[8:9] == b"{"


def read_safetensors(content: bytes | memoryview | mmap.mmap) -> Safetensors:
    """Parse the bytes of a safetensors file, after checking that the arrays lie within the file and do not overlap.

    Raises:
        FormatError: The file is truncated, damaged or inconsistent; the message contains the byte offset or the name
            of the array.
    """
    whole = memoryview(content)
    header, begin = _header(whole)
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(type(value) is str for value in metadata.values()):
        raise FormatError(f"the value of {METADATA} in the header is not a dictionary of strings", byte=LENGTH)
    part = whole[begin:]
    arrays = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: _offsets(*item)):
        first, last = _offsets(name, entry)
        if first != end:
            message = f"array {name[:60]!r} begins at byte {first} of the arrays, but the previous array ends at {end}"
            raise FormatError(message, byte=begin + end)
        end = last
        arrays[name] = _array(name, entry, part[first:last], begin + first)
    if end != len(part):
        reason = "the file is truncated" if end > len(part) else "some bytes do not belong to any array"
        raise FormatError(f"the arrays have {len(part)} bytes, but the header describes {end}; {reason}", byte=begin)
    arrays = {name: arrays[name] for name in header}
    checksum = metadata.pop(CHECKSUM, None)
    parts = {name: part[slice(*entry["data_offsets"])] for name, entry in header.items()}
    if checksum is not None and checksum != checksum_of(header, parts, metadata):
        raise FormatError(
            f"the checksum differs from the value of the metadata key {CHECKSUM!r}; the file is damaged, or was "
            "changed by another program"
        )
    return Safetensors({name: _plain(array, header[name]["dtype"]) for name, array in arrays.items()}, metadata)


def _header(whole: memoryview) -> tuple[dict[str, Any], int]:
    """Return the parsed header, and the byte offset of its end."""
    if len(whole) < LENGTH:
        raise FormatError(f"the file has {len(whole)} bytes, but the header length alone takes {LENGTH}", byte=0)
    size = int.from_bytes(whole[:LENGTH], "little")
    if size > MAX_HEADER:
        raise FormatError(f"the header has {size} bytes, but at most {MAX_HEADER} are allowed", byte=0)
    end = LENGTH + size
    if end > len(whole):
        message = f"the header should have {size} bytes, but the file has only {len(whole) - LENGTH} more"
        raise FormatError(f"{message}; the file is truncated", byte=0)
    try:
        text = bytes(whole[LENGTH:end]).decode("utf-8", "surrogatepass")
        header = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise FormatError("the header is not UTF-8", byte=LENGTH + error.start) from error
    except json.JSONDecodeError as error:
        place = LENGTH + len(text[: error.pos].encode("utf-8", "surrogatepass"))
        raise FormatError(f"the header is not JSON: {error.msg}", byte=place) from error
    # Raised for a duplicate name, a number with thousands of digits, or nesting that is too deep.
    except (ValueError, RecursionError) as error:
        message = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise FormatError(f"invalid safetensors header: {message}", byte=LENGTH) from error
    if not isinstance(header, dict):
        raise FormatError("the header is not a JSON object", byte=LENGTH)
    return header, end


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"the name {name[:60]!r} occurs twice")
        result[name] = value
    return result


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a valid number")


def _offsets(name: str, entry: Any) -> tuple[int, int]:
    """Return the byte offsets of an array's start and end, relative to the start of the first array."""
    if not isinstance(entry, dict) or set(entry) != ENTRY:
        raise FormatError(f"array {name[:60]!r}: expected {', '.join(sorted(ENTRY))} and nothing else", byte=LENGTH)
    offsets = entry["data_offsets"]
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        message = f"array {name[:60]!r}: expected two increasing offsets, found {str(offsets)[:60]}"
        raise FormatError(message, byte=LENGTH)
    return offsets[0], offsets[1]


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)


def _array(name: str, entry: dict[str, Any], part: memoryview, place: int) -> Array:
    """Return the array whose bytes are `part`; `place` is the byte offset of `part` in the file, for messages."""
    dtype, shape = entry["dtype"], entry["shape"]
    if type(dtype) is not str or dtype not in DTYPES:
        raise FormatError(
            f"array {name[:60]!r} is of type {str(dtype)[:20]!r}, not one of {', '.join(DTYPES)}", byte=place
        )
    if not _are_sizes(shape) or len(shape) > MAX_DIMENSIONS or math.prod(size or 1 for size in shape) > 2**59:
        message = f"array {name[:60]!r}: expected at most {MAX_DIMENSIONS} sizes, found {str(shape)[:60]}"
        raise FormatError(message, byte=place)
    kind = np.dtype(DTYPES[dtype])
    first, last = entry["data_offsets"]
    if math.prod(shape) * kind.itemsize != last - first:
        message = f"array {name[:60]!r} has {last - first} bytes, but its type {dtype} and shape {shape} need "
        raise FormatError(f"{message}{math.prod(shape) * kind.itemsize}", byte=place)
    if len(part) != last - first:
        message = (
            f"array {name[:60]!r} has {last - first} bytes, but only {len(part)} are present; the file is truncated"
        )
        raise FormatError(message, byte=place)
    return np.frombuffer(part, kind).reshape(shape) if len(part) else np.empty(shape, kind)


def _plain(array: Array, dtype: str) -> Array:
    """Return a contiguous, aligned, read-only array; bfloat16 values are converted to float32."""
    if dtype == "BF16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    array = np.require(array, requirements=["C", "A"])
    array.flags.writeable = False
    return array


def checksum_of(header: Mapping[str, Any], parts: Mapping[str, memoryview], metadata: Mapping[str, str]) -> str:
    """Return the hexadecimal CRC-32 of the content of a safetensors file.

    The checksum covers the names and values of the metadata, then the name, type, shape and bytes of each array.
    Metadata and arrays are each sorted by name.
    """
    crc = 0
    for name, value in sorted(metadata.items()):
        crc = isal_zlib.crc32(f"{name}\0{value}\0".encode("utf-8", "surrogatepass"), crc)
    for name, entry in sorted(header.items()):
        described = f"{name}\0{entry['dtype']}\0{entry['shape']}\0"
        crc = isal_zlib.crc32(parts[name], isal_zlib.crc32(described.encode("utf-8", "surrogatepass"), crc))
    return f"{crc:08x}"
