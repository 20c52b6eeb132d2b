"""Read and write safetensors files, which contain named arrays and named strings.

    uint64               length of the header, in bytes; little-endian, as all numbers
    JSON                 {"__metadata__": {"NAME": "STRING", …}, "NAME": {"dtype": "F16", "shape": [2, 3],
                         "data_offsets": [0, 12]}, …}; spaces at the end
    bytes                of the arrays, without gaps; offsets count from here

Arrays are views of the mapped file. Unlike the library ``safetensors``, which copies each array, this module reports
where a file is damaged, and writes equal bytes for equal content. The format has no checksum: `image` adds one to the
metadata (``crc32``, over names, strings and arrays), and `read` verifies it if it is present.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from ninja.errors import FormatError

Array = npt.NDArray[Any]
DTYPES = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"},
    **{"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"},
}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items() if name != "BF16"}
LENGTH = 8  # number of bytes of the header length, and alignment of the arrays
MAX_HEADER = 100_000_000  # maximum number of bytes of the header, as in the library
MAX_DIMENSIONS = 8
MAX_DIGITS = 18  # maximum number of digits of a number in the header
METADATA = "__metadata__"
CHECKSUM = "crc32"
ENTRY = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a safetensors file."""

    arrays: dict[str, Array]  # read-only; bfloat16 as float32
    metadata: dict[str, str]  # without the checksum


def recognise(head: bytes) -> bool:
    """Return whether a file begins like a safetensors file, with the length of the header and a brace."""
    return len(head) > LENGTH and head[4:8] == b"\0\0\0\0" and head[8:9] == b"{"


def read(content: bytes | memoryview | mmap.mmap) -> Content:
    """Parse the bytes of a file, after checking that the arrays lie within them and do not overlap.

    Raises:
        FormatError: The file is truncated, damaged or inconsistent; the message contains the byte offset or the name
            of the array.
    """
    whole = memoryview(content)
    header, begin = _header(whole)
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(type(value) is str for value in metadata.values()):
        raise FormatError(f"the header's {METADATA} is not a dictionary of strings", byte=LENGTH)
    part = whole[begin:]
    arrays = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: _offsets(*item)):
        first, last = _offsets(name, entry)
        if first != end:
            message = f"array {name[:60]!r} begins at byte {first} of the arrays, but the one before it ends at {end}"
            raise FormatError(message, byte=begin + end)
        end = last
        arrays[name] = _array(name, entry, part[first:last], begin + first)
    if end != len(part):
        reason = "the file is truncated" if end > len(part) else "some bytes belong to no array"
        raise FormatError(f"the arrays have {len(part)} bytes, but the header describes {end}; {reason}", byte=begin)
    arrays = {name: arrays[name] for name in header}
    checksum = metadata.pop(CHECKSUM, None)
    parts = {name: part[slice(*entry["data_offsets"])] for name, entry in header.items()}
    if checksum is not None and checksum != _checksum(header, parts, metadata):
        raise FormatError(
            f"the checksum differs from the metadata {CHECKSUM!r}; the file is damaged, or was changed by another "
            "program"
        )
    return Content({name: _plain(array, header[name]["dtype"]) for name, array in arrays.items()}, metadata)


def _header(whole: memoryview) -> tuple[dict[str, Any], int]:
    """Return the parsed header, and the byte offset of its end."""
    if len(whole) < LENGTH:
        raise FormatError(f"the file has {len(whole)} bytes, fewer than the {LENGTH} of the header length", byte=0)
    size = int.from_bytes(whole[:LENGTH], "little")
    if size > MAX_HEADER:
        raise FormatError(f"the header has {size} bytes, but at most {MAX_HEADER} are allowed", byte=0)
    end = LENGTH + size
    if end > len(whole):
        raise FormatError(
            f"the header has {size} bytes, but {len(whole) - LENGTH} follow; the file is truncated", byte=0
        )
    try:
        text = bytes(whole[LENGTH:end]).decode("utf-8", "surrogatepass")
        header = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise FormatError("the header is not UTF-8", byte=LENGTH + error.start) from error
    except json.JSONDecodeError as error:
        place = LENGTH + len(text[: error.pos].encode("utf-8", "surrogatepass"))
        raise FormatError(f"the header is not JSON: {error.msg}", byte=place) from error
    # a duplicate name, a number of thousands of digits, or too deep nesting
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
    """Return the start and end of the bytes of an array, relative to the start of the first array."""
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
    """Return the array in these bytes, which begin at the byte offset `place` of the file."""
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
    """Return an aligned, read-only array, with bfloat16 as float32."""
    if dtype == "BF16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    array = np.require(array, requirements=["C", "A"])
    array.flags.writeable = False
    return array


def _checksum(header: Mapping[str, Any], parts: Mapping[str, memoryview], metadata: Mapping[str, str]) -> str:
    """Return the hexadecimal CRC-32 of the strings, entries and array bytes, in the order of names."""
    crc = 0
    for name, value in sorted(metadata.items()):
        crc = isal_zlib.crc32(f"{name}\0{value}\0".encode("utf-8", "surrogatepass"), crc)
    for name, entry in sorted(header.items()):
        described = f"{name}\0{entry['dtype']}\0{entry['shape']}\0"
        crc = isal_zlib.crc32(parts[name], isal_zlib.crc32(described.encode("utf-8", "surrogatepass"), crc))
    return f"{crc:08x}"


def image(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """Encode arrays and strings as a file; return its bytes in parts.

    Arrays of wide types are written first, so that each array is aligned. All `DTYPES` except bfloat16 can be written.

    Raises:
        FormatError: An array is of another type, or the header has more than `MAX_HEADER` bytes.
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
    checksum = _checksum(header, parts, metadata)
    content = {METADATA: {**metadata, CHECKSUM: checksum}, **header}
    packed = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    packed += b" " * (-len(packed) % LENGTH)
    if len(packed) > MAX_HEADER:
        raise FormatError(f"the header has {len(packed)} bytes, but safetensors allows at most {MAX_HEADER}")
    return [len(packed).to_bytes(LENGTH, "little"), packed, *parts.values()]
