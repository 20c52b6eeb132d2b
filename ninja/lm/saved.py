"""Files of ``torch.save`` that hold plain values and tensors, read by `ninja.formats.torch_file` instead of torch.

``torch.load(weights_only=True, mmap=True)`` runs no code either, but allocates what a file asks for: a pickle of 40
bytes with ``bytearray(2**31)`` takes 2 GB. It compares no checksums, and whether it compares the size of a storage, and
the place of a tensor in it, with the bytes of the file depends on its version.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from ninja.errors import FormatError, ModelError
from ninja.formats import torch_file
from ninja.formats.torch_file import PLAIN, STORAGES, Tensor

_NAMES = PLAIN | set(STORAGES)
_ONLY = "holds more than weights; Ninja loads no files that may run code"


def read_saved(path: str | os.PathLike[str], content: bytes | None = None) -> Any:
    """Read a file of ``torch.save``: its tensors (bfloat16 as float32), dictionaries, lists, strings and numbers.

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
