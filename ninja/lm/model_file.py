"""The content of a model file: a dictionary of plain values and arrays, in safetensors or as torch saves it; no code.

A file that ends in ``.safetensors`` is written in that format, see `ninja.formats.safetensors_file`. Arrays under the
key ``state`` have their own names there, those of an inner dictionary (``pointer``) begin with its key and a dot; all
other values are in the metadata: strings as they are, those of `VALUES` as JSON. Files of other names are written as
`torch.save` writes them. Both formats are recognised by their first bytes, and read without torch.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy.typing as npt

from ninja.errors import FormatError, ModelError
from ninja.formats import safetensors_file, torch_file
from ninja.formats.torch_file import PLAIN, STORAGES, Tensor

Array = npt.NDArray[Any]
ENDING = ".safetensors"
VALUES = {"version", "config", "card", "pointer"}  # keys of all but strings
STATE = "state"
AGAIN = "train it again, or copy it again from its source"  # advice for most damage
_NAMES = PLAIN | set(STORAGES)
_ONLY = "holds more than weights; Ninja loads no files that may run code"


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
    image = torch_file.mapped(path) if content is None else memoryview(content)
    try:
        if safetensors_file.recognise(bytes(image[:16])):
            return _unflattened(safetensors_file.read(image))
        saved = torch_file.opened(image)
        return _Arrays(len(image)).convert(torch_file.load(saved, _NAMES, _ONLY), "")
    except FormatError as error:
        raise ModelError(f"{error.message}; {AGAIN}", path, byte=error.byte) from error
    except RecursionError as error:
        raise ModelError("lists in lists too deep to be read", path) from error


def safetensors_image(content: dict[str, Any], path: str | os.PathLike[str]) -> list[bytes | memoryview]:
    """Return the bytes of a file of safetensors; `path` is for error messages.

    Raises:
        ModelError: An array is of a type, or the vocabulary of a size, that safetensors cannot store.
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
    """Return the dictionary from which a file was made."""
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


class _Arrays:
    """Conversion of the tensors of one file of torch, which together have no more bytes than the file."""

    def __init__(self, num_bytes: int) -> None:
        self._left = num_bytes

    def convert(self, value: Any, name: str) -> Any:
        """Return a value with arrays for tensors; `name` is the path of its keys, for messages."""
        if isinstance(value, Tensor):
            self._left -= value.size * value.storage.itemsize
            if value.size > len(value.storage) or self._left < 0:
                raise FormatError(f"{name} repeats its bytes to look larger than it is")
            return value.array()
        if isinstance(value, dict):
            return {key: self.convert(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.convert(inner, name) for inner in value)
        return value
