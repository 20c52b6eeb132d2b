"""Files of torch read without torch: comparison with torch, damaged and forged files."""

from __future__ import annotations

import collections
import io
import pickle
import struct
import subprocess
import sys
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_files import torch_bytes

from ninja.errors import FormatError, InputError
from ninja.files.stream import mapped
from ninja.formats.torch_file import PLAIN, STORAGES, Instance, Tensor, load, opened

torch = pytest.importorskip("torch")
NAMES = PLAIN | set(STORAGES)
DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8", "uint8", "bool"]


def read(content: bytes, names: Any = NAMES) -> Any:
    return load(opened(content), names, "only these are read")


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    """Draw tensors that are plain, transposed, sliced, repeated, empty or scalars."""
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    size = int(np.prod(shape, dtype=int))
    values = torch.arange(size).remainder(2 if draw(st.booleans()) else 120)
    tensor = values.reshape(shape).to(getattr(torch, draw(st.sampled_from(DTYPES))))
    if shape and draw(st.booleans()):
        tensor = tensor.transpose(0, -1)
    if shape and draw(st.booleans()):
        tensor = tensor[draw(st.integers(0, shape[0])) :: draw(st.integers(1, 3))]
    if draw(st.booleans()):
        tensor = tensor.unsqueeze(0).expand(draw(st.integers(1, 3)), *tensor.shape)
    return torch.nn.Parameter(tensor) if tensor.is_floating_point() and draw(st.booleans()) else tensor


VALUES = st.recursive(
    st.one_of(tensors(), st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner, inner, inner),
        st.tuples(inner),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers(0, 5)), inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=2).map(collections.OrderedDict),
    ),
    max_leaves=6,
)


def agrees(result: Any, expected: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        plain = expected.detach().float() if expected.dtype == torch.bfloat16 else expected.detach()
        array = result.array()
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert result.size == expected.numel()
        assert result.is_plain == expected.is_contiguous()
        return array.dtype == plain.numpy().dtype and np.array_equal(array, plain.numpy())
    if isinstance(expected, dict):
        return list(result) == list(expected) and all(agrees(result[key], value) for key, value in expected.items())
    if isinstance(expected, list | tuple):
        return len(result) == len(expected) and all(
            agrees(result_item, expected_item) for result_item, expected_item in zip(result, expected, strict=True)
        )
    if isinstance(expected, float):
        return struct.pack("d", result) == struct.pack("d", expected)
    return type(result) is type(expected) and bool(result == expected)


@given(VALUES)
def test_files_agree_with_torch_load(value: Any) -> None:
    content = torch_bytes(value)
    assert agrees(read(content), torch.load(io.BytesIO(content), weights_only=True))


def test_tensors_that_share_a_storage_are_read() -> None:
    numbers = torch.arange(6, dtype=torch.float32)
    result = read(
        torch_bytes({"a": numbers[1:4], "b": numbers.reshape(2, 3), "size": torch.Size([2, 3]), "c": b"\xff"})
    )
    assert result["a"].array().tolist() == [1, 2, 3]
    assert result["b"].array().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert result["a"].storage is result["b"].storage
    assert result["size"] == (2, 3)
    assert result["c"] == b"\xff"


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_read(dtype: str) -> None:
    tensor = torch.tensor([[0.0, 1.0, 3.0], [7.0, 100.0, 1.5]]).to(getattr(torch, dtype))
    for view in (tensor, tensor.T, tensor[1]):
        assert agrees(read(torch_bytes(view)), view)


def test_every_flipped_bit_of_the_value_is_detected() -> None:
    value = {"arcs": torch.arange(8, dtype=torch.int32), "name": "utt", "score": 1.5}
    content = torch_bytes(value)
    for place in range(0, len(content), 3):
        for bit in (place % 8, (place + 3) % 8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            try:
                result = read(bytes(damaged))
            except FormatError:
                continue
            assert agrees(result, value)


def test_reading_imports_no_torch() -> None:
    code = "import sys; import ninja.formats.k2, ninja.decoding.matrices; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_file_is_mapped(tmp_path: Any) -> None:
    (tmp_path / "a.pt").write_bytes(torch_bytes(torch.arange(3)))
    assert load(opened(mapped(tmp_path / "a.pt")), NAMES, "").array().tolist() == [0, 1, 2]
    (tmp_path / "empty").touch()
    with pytest.raises(FormatError, match="the file was not saved by torch, or is damaged: File is not a zip file"):
        opened(mapped(tmp_path / "empty"))
    with pytest.raises(InputError, match=r"none\.pt: cannot be read: No such file"):
        mapped(tmp_path / "none.pt")


class Storage:
    def __init__(self, kind: Any = None, key: object = "0", count: object = 4) -> None:
        self.identity = ("storage", kind or torch.FloatStorage, key, "cpu", count)


class Forged:
    """A tensor that declares arbitrary properties."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def __reduce__(self) -> Any:
        return torch._utils._rebuild_tensor_v2, (*self.arguments, False, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        return value.identity if isinstance(value, Storage) else None


def forge(value: object = None, *, pickled: bytes | None = None, **more: bytes) -> bytes:
    """Return a file with valid checksums around a pickle and 16 bytes of numbers."""
    steps = io.BytesIO()
    Pickler(steps, 2).dump(value)
    parts = {"data.pkl": steps.getvalue() if pickled is None else pickled, "data/0": bytes(16), **more}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(f"archive/{name}", content)
    return buffer.getvalue()


def deep(levels: int) -> bytes:
    """Return a dictionary whose key is a tuple in a tuple in a tuple …"""
    return b"\x80\x02}(" + b")" + b"\x85" * levels + b"Nu."


FORGED: list[tuple[bytes, str]] = [
    (forge(Forged(Storage(), 1, (4,), (1,))), "a tensor extends beyond its storage"),
    (forge(Forged(Storage(), 0, (2, 2), (3, 1))), "a tensor extends beyond its storage"),
    (forge(Forged(Storage(), -1, (2,), (1,))), "the shape, strides or offset of a tensor contain an invalid number"),
    (forge(Forged(Storage(), 0, (2,), (-1,))), "the shape, strides or offset of a tensor contain an invalid number"),
    (forge(Forged(Storage(), 0, (2.5,), (1,))), "the shape, strides or offset of a tensor contain an invalid number"),
    (forge(Forged(Storage(), 0, (2**63,), (0,))), "the shape, strides or offset of a tensor contain an invalid number"),
    (forge(Forged(Storage(), 0, (2**30, 2**30), (0, 0))), "a tensor has too many elements"),
    (forge(Forged(Storage(), 0, (2,), (1, 1))), "a tensor has over 16 axes, or does not have one stride per axis"),
    (
        forge(Forged(Storage(), 0, (1,) * 17, (1,) * 17)),
        "a tensor has over 16 axes, or does not have one stride per axis",
    ),
    (forge(Forged(None, 0, (2,), (1,))), "a tensor is invalid"),
    (forge(Forged(Storage(count=5), 0, (2,), (1,))), "data/0 declares 5 numbers, but has 16 bytes"),
    (forge(Forged(Storage(count=-1), 0, (2,), (1,))), "data/0 declares -1 numbers, but has 16 bytes"),
    (forge(Forged(Storage(key="7"), 0, (2,), (1,))), "the zip file has no data/7"),
    (forge(Forged(Storage(key=7), 0, (2,), (1,))), "a storage is invalid"),
    (forge(Forged(Storage(kind="float"), 0, (2,), (1,))), "a storage is invalid"),
    (forge(print), r"an object of the type __builtin__\.print; only these are read"),
    (forge(pickled=pickle.dumps([1], 4)), "the pickle contains FRAME, which torch does not write"),
    (forge(pickled=b"\x80\x02ctorch\nSize\nK\x05R."), "a call refers to an object that is not a function"),
    (forge(pickled=b"\x80\x02ctorch\nFloatStorage\n)R."), "torch.FloatStorage is called with unexpected arguments"),
    (forge(pickled=b"\x80\x02ctorch\nFloatStorage\n)\x81."), "an instance refers to an object that is not a class"),
    (
        forge(pickled=b"\x80\x02K\x05K\x06b."),
        "an object of this type cannot have a state, but a state is stored for it",
    ),
    (forge(pickled=b"\x80\x02]K\x05K\x06s."), "an entry is added to an object that is not a dictionary"),
    (forge(pickled=b"\x80\x02}(K\x05u."), "damaged"),
    (forge(pickled=b"\x80\x02}K\x05a."), "an element is appended to an object that is not a list"),
    (forge(pickled=b"\x80\x02u."), "damaged"),
    (forge(pickled=b"\x80\x02h\x05."), "damaged"),
    (forge(pickled=b"\x80\x02N"), "damaged"),
    (forge(pickled=b"\x80\x02X\xff\xff\xff\x7fabc."), "damaged"),
    (forge(pickled=deep(150_000)), "its key is neither a string nor an integer"),
    (forge(1, byteorder=b"big"), "the byte order of numbers is not little-endian"),
    (forge(1, **{"more/data.pkl": b""}), r"it must contain exactly one data\.pkl"),
]


@pytest.mark.parametrize(("content", "message"), FORGED, ids=[message for _, message in FORGED])
def test_forged_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(content)


def test_an_expanded_tensor_is_not_plain() -> None:
    tensor = read(forge(Forged(Storage(), 0, (1000, 1000), (0, 0))))
    assert isinstance(tensor, Tensor)
    assert tensor.size == 10**6
    assert not tensor.is_plain


def test_allowed_classes_are_read_as_instances_with_their_state() -> None:
    content = forge(pickled=b"\x80\x02ck2\nTable\n)\x81}X\1\0\0\0aK\5sb.")
    result = read(content, {*NAMES, "k2.Table"})
    assert isinstance(result, Instance)
    assert (result.name, result.state) == ("k2.Table", {"a": 5})
    with pytest.raises(FormatError, match=r"an object of the type k2\.Table; only these are read"):
        read(content)


def test_inconsistent_entries_of_the_zip_file_are_refused() -> None:
    content = forge([1, 2])
    with pytest.raises(FormatError, match=r"data\.pkl does not begin at its offset in the zip file"):
        read(b"XX" + content[2:])
    with pytest.raises(FormatError, match=r"data\.pkl is damaged: its checksum differs"):
        read(content.replace(b"K\1K\2e", b"K\1K\3e"))
    with pytest.raises(FormatError, match=r"data\.pkl extends beyond the end of the file"):
        read(content[:26] + b"\xff\xff" + content[28:])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"x" * 1000)
    with pytest.raises(FormatError, match="the zip file has a compressed entry"):
        read(buffer.getvalue())
    with zipfile.ZipFile(io.BytesIO(content)) as names:
        place = names.start_dir + 24  # the offset of the size of the first entry
    with pytest.raises(FormatError, match="declare more bytes than the file contains"):
        read(content[:place] + b"\xff\xff\xff\x7f" + content[place + 4 :])
    with pytest.raises(FormatError, match="two entries with the same name"):
        read(forge(1, **{"data/1": b""}).replace(b"data/1", b"data/0"))
