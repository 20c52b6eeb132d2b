"""Encode model files in the safetensors format; `ninja.lm.stored_network` describes and reads such files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ninja.errors import FormatError, ModelError
from ninja.lm.stored_network import (
    CHECKSUM,
    DTYPES,
    LENGTH,
    MAX_HEADER,
    METADATA,
    STATE,
    VALUES,
    Array,
    checksum_of,
)

NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items() if name != "BF16"}


def safetensors_image(content: dict[str, Any], path: str | os.PathLike[str]) -> list[bytes | memoryview]:
    """Encode the content of a model file as safetensors and return the bytes in chunks; `path` is for messages.

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
        return image(arrays, metadata)
    except FormatError as error:
        raise ModelError(error.message, path) from error


def image(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """Encode arrays and strings as safetensors and return the bytes in chunks.

    Arrays of wide types are written first to align every array. All `DTYPES` except bfloat16 can be written.

    Raises:
        FormatError: An array has an unsupported type, or the header has more than `MAX_HEADER` bytes.
    """
    rows = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    header: dict[str, Any] = {}
    place = 0
    for name in sorted(rows, key=lambda name: (-rows[name].dtype.itemsize, name)):
        array = rows[name]
        dtype = NAMES.get(array.dtype)
        if dtype is None:
            raise FormatError(f"array {name[:60]!r} is of type {array.dtype}, which safetensors cannot store")
        offsets = [place, place + array.nbytes]
        header[name] = {"dtype": dtype, "shape": [*array.shape], "data_offsets": offsets}
        place += array.nbytes
    parts = {name: rows[name].reshape(-1).view(np.uint8).data for name in header}
    checksum = checksum_of(header, parts, metadata)
    content = {METADATA: {**metadata, CHECKSUM: checksum}, **header}
    packed = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    packed += b" " * (-len(packed) % LENGTH)
    if len(packed) > MAX_HEADER:
        raise FormatError(f"the header has {len(packed)} bytes, but safetensors allows at most {MAX_HEADER}")
    return [len(packed).to_bytes(LENGTH, "little"), packed, *parts.values()]
