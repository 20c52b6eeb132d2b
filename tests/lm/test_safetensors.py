"""Safetensors files: they are read and written as by the library; errors give the position."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ninja.errors import FormatError
from ninja.lm.network_image import image
from ninja.lm.stored_network import CHECKSUM, MAX_HEADER, is_safetensors, read_safetensors

library = pytest.importorskip("safetensors.numpy")
DTYPES = ["<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "i1", "u1"]
NAMES = st.text(st.characters(codec="utf-8"), max_size=5).filter(lambda name: name != "__metadata__")
ARRAYS = st.dictionaries(
    NAMES,
    st.sampled_from(DTYPES).flatmap(lambda dtype: arrays(dtype, st.lists(st.integers(0, 3), max_size=3).map(tuple))),
    max_size=4,
)
METADATA = st.dictionaries(NAMES.filter(lambda name: name != CHECKSUM), st.text(max_size=5), max_size=3)
SMALL = {"a": np.float32([[1, 2], [3, 4]]), "b": np.int8([5, 6, 7])}


def file_bytes(content: dict[str, Any], metadata: dict[str, str]) -> bytes:
    return b"".join(image(content, metadata))


def raw_file(header: object, payload: bytes = b"", size: int | None = None) -> bytes:
    """Return a file with a header, which is JSON or raw bytes."""
    header_bytes = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(header_bytes) if size is None else size).to_bytes(8, "little") + header_bytes + payload


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def assert_equal_arrays(tensors: dict[str, Any], expected: dict[str, Any]) -> None:
    assert set(tensors) == set(expected)
    for name, array in expected.items():
        assert tensors[name].dtype == array.dtype
        assert tensors[name].shape == array.shape
        assert tensors[name].tobytes() == array.tobytes()  # compares NaN, too


@given(ARRAYS, METADATA)
def test_files_of_ninja_and_of_safetensors_are_read_identically(content: Any, metadata: Any) -> None:
    image_content = file_bytes(content, metadata)
    assert_equal_arrays(dict(library.load(image_content)), content)
    for file_content in (image_content, library.save(content, metadata or None)):
        assert is_safetensors(file_content[:16])
        file = read_safetensors(file_content)
        assert_equal_arrays(file.arrays, content)
        assert file.metadata == metadata
        assert all(array.flags.aligned and not array.flags.writeable for array in file.arrays.values())
    assert file_bytes(content, metadata) == image_content


def test_bfloat16_is_read_as_float32() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1.5, -2.25, float("inf")], dtype=torch.bfloat16)
    content = __import__("safetensors.torch").torch.save({"x": tensor})
    assert read_safetensors(content).arrays["x"].tolist() == [1.5, -2.25, float("inf")]


def test_unaligned_arrays_are_read_and_aligned_arrays_not_copied() -> None:
    numbers = np.arange(100_000, dtype=np.float32)
    header = {"a": entry("U8", [1], [0, 1]), "b": entry("F32", [100_000], [1, 400_001])}
    assert (read_safetensors(raw_file(header, b"\1" + numbers.tobytes())).arrays["b"] == numbers).all()
    content = file_bytes({"b": numbers}, {})
    tracemalloc.start()
    try:
        assert (read_safetensors(content).arrays["b"][-3:] == numbers[-3:]).all()
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_truncated_and_extended_files_are_refused() -> None:
    content = file_bytes(SMALL, {"kind": "lstm"})
    for length in range(len(content)):
        with pytest.raises(FormatError):
            read_safetensors(content[:length])
    with pytest.raises(FormatError, match="some bytes do not belong to any array"):
        read_safetensors(content + b"\0")


def test_every_flipped_bit_is_detected() -> None:
    content = file_bytes(SMALL, {"kind": "lstm", "words": "a\nb"})
    for place in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            try:
                file = read_safetensors(bytes(damaged))
            except FormatError:
                continue
            # A flipped bit in the name of the checksum turns it into ordinary metadata; one in a space has no effect.
            if CHECKSUM.encode() in damaged:
                assert file.metadata == {"kind": "lstm", "words": "a\nb"}
            assert_equal_arrays(file.arrays, SMALL)


def test_a_file_without_a_checksum_is_read() -> None:
    file = read_safetensors(library.save(SMALL, {"kind": "lstm"}))
    assert_equal_arrays(file.arrays, SMALL)
    assert file.metadata == {"kind": "lstm"}


@pytest.mark.parametrize(
    ("content", "byte", "message"),
    [
        (b"", 0, "the file has 0 bytes, but the header length alone takes 8"),
        (
            raw_file(b"{}", size=3),
            0,
            "the header should have 3 bytes, but the file has only 2 more; the file is truncated",
        ),
        (
            raw_file(b"{}", size=MAX_HEADER + 1),
            0,
            f"the header has {MAX_HEADER + 1} bytes, but at most {MAX_HEADER} are",
        ),
        (raw_file(b"{}", size=2**64 - 1), 0, "at most"),
        (raw_file(b'{"a":'), 13, "the header is not JSON: Expecting value"),
        (raw_file('{"ça" 1}'.encode()), 15, "the header is not JSON: Expecting ':' delimiter"),
        (raw_file(b'{"\xff'), 10, "the header is not UTF-8"),
        (raw_file(b"[]"), 8, "the header is not a JSON object"),
        (raw_file(b'{"a":' * 100_000), 8, "invalid safetensors header: it is nested too deeply"),
        (raw_file(b'{"a":1,"a":1}'), 8, "the name 'a' occurs twice"),
        (raw_file(b'{"a":1' + b"0" * 5000 + b"}"), 8, "a number has 5001 digits"),
        (raw_file(b'{"a":NaN}'), 8, "NaN is not a valid number"),
        (
            raw_file({"__metadata__": {"a": 1}}),
            8,
            "the value of __metadata__ in the header is not a dictionary of strings",
        ),
        (raw_file({"__metadata__": []}), 8, "the value of __metadata__ in the header is not a dictionary of strings"),
        (raw_file({"a": 1}), 8, "array 'a': expected data_offsets, dtype, shape and nothing else"),
        (raw_file({"a": entry() | {"strides": 1}}), 8, "and nothing else"),
        (raw_file({"a": entry(offsets=[8, 0])}), 8, "array 'a': expected two increasing offsets"),
        (raw_file({"a": entry(offsets=[0, 8.0])}), 8, "expected two increasing offsets"),
        (raw_file({"a": entry(offsets=[0, True])}), 8, "expected two increasing offsets"),
        (raw_file({"a": entry(offsets=[4, 12])}, bytes(12)), None, "begins at byte 4 of the arrays, but the previous"),
        (
            raw_file({"a": entry(), "b": entry(offsets=[4, 12])}, bytes(12)),
            None,
            "array 'b' begins at byte 4 of the arrays, but the previous array ends at 8",
        ),
        (raw_file({"a": entry(dtype="F33")}, bytes(8)), None, "array 'a' is of type 'F33', not one of F64"),
        (raw_file({"a": entry(dtype=["F32"])}, bytes(8)), None, "not one of F64"),
        (raw_file({"a": entry(shape=[-2])}, bytes(8)), None, "expected at most 8 sizes"),
        (raw_file({"a": entry(shape=[1] * 9)}, bytes(8)), None, "expected at most 8 sizes"),
        (raw_file({"a": entry(shape=[0, 10**18 - 1], offsets=[0, 0])}), None, "expected at most 8 sizes"),
        (raw_file({"a": entry(shape=[3])}, bytes(8)), None, r"has 8 bytes, but its type F32 and shape \[3\] need 12"),
        (
            raw_file({"a": entry(shape=[2**57], offsets=[0, 2**59])}, bytes(8)),
            None,
            f"has {2**59} bytes, but only 8 are",
        ),
        (
            raw_file({"a": entry()}, bytes(9)),
            None,
            "the arrays have 9 bytes, but the header describes 8; some bytes do not belong",
        ),
    ],
)
def test_an_invalid_file_is_refused_with_its_byte(content: bytes, byte: int | None, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        read_safetensors(content)
    size = int.from_bytes(content[:8], "little")
    assert caught.value.byte is not None
    assert caught.value.byte == byte if byte is not None else caught.value.byte >= 8 + size


def test_unsupported_types_and_headers_are_not_written() -> None:
    with pytest.raises(FormatError, match="array 'x' is of type complex64, which safetensors cannot store"):
        image({"x": np.zeros(2, np.complex64)}, {})
    with pytest.raises(FormatError, match=f"the header has .* bytes, but safetensors allows at most {MAX_HEADER}"):
        image({}, {"words": "a" * MAX_HEADER})
