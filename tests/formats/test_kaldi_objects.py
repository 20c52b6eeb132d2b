"""Kaldi's vectors and matrices, binary, text and compressed; and files that are neither."""

import gzip
import io
import struct

import nnet3_writer as writer
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.errors import FormatError, InputError
from ninja.files.stream import Stream
from ninja.formats.kaldi.objects import ObjectReader


def read_matrix(path):
    reader = ObjectReader.open(path)
    matrix = reader.array()
    if matrix.ndim != 2:
        reader.fail("expected a matrix, found a vector", 0)
    if not reader.at_end():
        reader.fail("more follows after the matrix")
    return matrix


SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 5))


@st.composite
def matrices(draw):
    value = np.random.default_rng(draw(st.integers(0, 99))).normal(size=draw(SHAPES))
    return value.astype(draw(st.sampled_from(["<f4", "<f8"])))


@given(matrices(), st.booleans(), st.booleans())
def test_matrices_are_unchanged_after_write_and_read(tmp_path_factory, value, binary, compressed):
    path = tmp_path_factory.mktemp("m") / "m.mat"
    content = writer.matrix(value, binary)
    path.write_bytes(gzip.compress(content) if compressed else content)
    result = read_matrix(path)
    assert result.dtype == (value.dtype if binary else np.float64)
    assert np.array_equal(result.astype(np.float32), value.astype(np.float32))


@pytest.mark.parametrize("binary", [True, False])
def test_consecutive_values_of_all_types_are_read(binary):
    vector, matrix = np.float32([1.5, -2.25]), np.float32([[1], [2]])
    values = [vector, True, 7, np.float64(0.1), False, matrix, np.float64([3.0]), -0.5]
    if binary:
        content = b"\0B" + b"".join(map(writer.binary_value, values))
    else:
        content = "".join(map(writer.text_value, values)).encode()
    reader = ObjectReader(Stream(io.BytesIO(content), "x"))
    reader.begin_object()
    for value in values:
        result = reader.value()
        if isinstance(value, np.ndarray):
            assert np.array_equal(result, value)
        elif isinstance(value, bool):
            assert result is value
        elif isinstance(value, int):
            assert result.integer() == value
        else:
            assert result.real() == pytest.approx(value, rel=1e-7)
    assert reader.at_end()


def decode(mark, lowest, span, columns, header, byte):
    """Decode column by column, as Kaldi's CompressedMatrix does, with Python floats."""
    rows = []
    for column in range(columns):
        values = []
        for row in range(len(byte) // columns):
            if mark == "CM":
                p0, p25, p75, p100 = (lowest + span / 65535 * level for level in header[4 * column : 4 * column + 4])
                code = byte[column * (len(byte) // columns) + row]
                if code <= 64:
                    values.append(p0 + (p25 - p0) * code / 64)
                elif code <= 192:
                    values.append(p25 + (p75 - p25) * (code - 64) / 128)
                else:
                    values.append(p75 + (p100 - p75) * (code - 192) / 63)
            else:
                values.append(lowest + span / (65535 if mark == "CM2" else 255) * byte[row * columns + column])
        rows.append(values)
    return np.array(rows).T


@pytest.mark.parametrize("mark", ["CM", "CM2", "CM3"])
def test_compressed_matrices_are_unpacked(tmp_path, mark):
    random = np.random.default_rng(3)
    num_rows, columns, lowest, span = 9, 4, -1.5, 3.25
    header = np.sort(random.integers(0, 65536, (columns, 4)), 1).astype("<u2") if mark == "CM" else np.empty(0, "<u2")
    largest, kind = (65535, "<u2") if mark == "CM2" else (255, "u1")
    code = random.integers(0, largest + 1, num_rows * columns).astype(kind)
    if mark == "CM":
        code[:6] = [0, 64, 65, 192, 193, 255]
    sizes = struct.pack("<ffii", lowest, span, num_rows, columns)
    (tmp_path / "m").write_bytes(b"\0B" + mark.encode() + b" " + sizes + header.tobytes() + code.tobytes())
    expected = decode(mark, lowest, span, columns, header.reshape(-1).tolist(), code.tolist())
    assert read_matrix(tmp_path / "m") == pytest.approx(expected, abs=1e-5)


def test_an_empty_compressed_matrix_has_no_header_of_columns(tmp_path):
    (tmp_path / "m").write_bytes(b"\0BCM " + struct.pack("<ffii", 0, 0, 0, 0))
    assert read_matrix(tmp_path / "m").shape == (0, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"\0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f",
            "the file declares 4611686014132420609 numbers of 4 bytes, but only 0",
        ),
        (b"\0BFM \4\xff\xff\xff\xff\4\1\0\0\0", "byte 2: the shape -1 × 1 has a negative dimension"),
        (b"\0BCM " + struct.pack("<ffii", 0, 1, 2**31 - 1, 2**31 - 1), "bytes, but only 0 bytes remain"),
        (b"\0BCM2 " + struct.pack("<ffii", 0, 1, -1, 1), "has a negative dimension"),
        (b"\0BFV \4\2\0\0\0" + bytes(8), "expected a matrix, found a vector"),
        (b"\0BXX \4\2\0\0\0", "expected a vector or a matrix, found 'XX'"),
        (b"\0BFM \5\2\0\0\0", "byte 5: expected a number, found the byte 0x05"),
        (b"\0B\xff\xfe", "expected a token, found the bytes"),
        (b"\0BFM \4\1\0\0\0\4\1\0\0\0\0\0\0\0more", "more follows after the matrix"),
        (b" [\n 1 2\n 3 ]\n", r"m:1, byte \d+: the rows of a matrix differ in length"),
        (b"\n [\n 1 2\n", "m:4, byte 9: the file ends within the numbers before ]"),
        (b" [\n 1 two ]\n", "a value in a vector or matrix is not a number"),
        (b"once upon a time", "expected numbers in brackets"),
        (b"", "expected numbers in brackets"),
        (b"\x1f\x8b\x08\x00" + bytes(range(1, 60)), "the gzip stream"),
    ],
)
def test_malformed_matrices_raise_format_error_with_their_position(tmp_path, content, message):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        read_matrix(tmp_path / "m")
    assert str(caught.value).startswith(str(tmp_path / "m"))


def test_a_missing_file_raises_input_error(tmp_path):
    with pytest.raises(InputError, match="m: cannot be read: No such file"):
        read_matrix(tmp_path / "m")
