"""Matrices of Kaldi, NumPy and PyTorch files."""

import io
import random
from contextlib import suppress

import numpy as np
import pytest
from whole_files import torch_bytes

from ninja.decoding.matrices import matrices_in, read_matrices
from ninja.errors import FormatError, InputError, NinjaError
from ninja.files.stream import Stream


def read_content(content, key, path="the matrices"):
    return matrices_in(Stream(io.BytesIO(content), path), key, path)


def test_matrices_are_read_from_every_format(tmp_path):
    kaldiio = pytest.importorskip("kaldiio")
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(20, 5)).astype(np.float32)
    for name, content in matrix_files(matrix, tmp_path, kaldiio, torch).items():
        for key, result in read_content(content, "utt", name):
            assert key == "utt"
            assert result.shape == (20, 5), name
            assert np.abs(result - matrix).max() < (0.05 if "packed" in name else 1e-2 if "half" in name else 1e-5), (
                name
            )
    [(key, result, _)] = read_matrices(f"scp:{tmp_path}/a.scp")
    assert key == "utt"
    assert np.array_equal(result, matrix)


def matrix_files(matrix, tmp_path, kaldiio, torch):
    """Return the content of a file with the matrix in each format."""
    files = {}

    def numpy_bytes(save, **arrays):
        stream = io.BytesIO()
        save(stream, **arrays)
        return stream.getvalue()

    files["npy"] = numpy_bytes(lambda stream: np.save(stream, matrix))
    files["by columns"] = numpy_bytes(lambda stream: np.save(stream, np.asfortranarray(matrix)))
    files["half"] = numpy_bytes(lambda stream: np.save(stream, matrix[None].astype(np.float16)))
    files["npz"] = numpy_bytes(np.savez, utt=matrix)
    files["torch"] = torch_bytes(torch.tensor(matrix))
    files["torch dict"] = torch_bytes({"utt": torch.tensor(matrix).double()})
    files["torch half"] = torch_bytes(torch.tensor(matrix).bfloat16())
    for name, options in [("ark", {}), ("text", {"text": True})] + [
        (f"packed {method}", {"compression_method": method}) for method in (2, 3, 5)
    ]:
        path = tmp_path / "a.ark"
        kaldiio.save_ark(str(path), {"utt": matrix}, scp=str(tmp_path / "b.scp"), **options)
        files[name] = path.read_bytes()
        if name == "ark":
            (tmp_path / "c.ark").write_bytes(files[name])
            (tmp_path / "a.scp").write_text((tmp_path / "b.scp").read_text().replace("a.ark", "c.ark"))
    return files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nonsense", "f, byte 0: expected a key and a value; the format is unknown"),
        (b"utt \0BXM \4", "f, byte 6, key 'utt': expected a vector or a matrix, found 'XM'"),
        (b"utt \0BFM \4\x10\0\0\0\4\x10\0\0\0", "the file declares 256 numbers of 4 bytes, but only 0 bytes remain"),
        (b"utt \0BFM \4\xff\xff\xff\xff\4\x10\0\0\0", "the shape -1 × 16 has a negative dimension"),
        (b"utt [ 1 2\n 3 ]", "the rows of a matrix differ in length"),
        (b"utt [ 1 x ]", "a value in a vector or matrix is not a number"),
        (b"utt [ 1 ", "the file ends within the numbers before ], so it is truncated"),
        (b"\x93NUMPY\1\0", "f, key 'k': the .npy file is damaged"),
        (b"PK\3\4", "f: the zip file is damaged"),
    ],
)
def test_files_without_a_valid_matrix_are_refused(content, message):
    with pytest.raises(FormatError, match=message):
        list(read_content(content, "k", "f"))


def test_torch_files_without_a_matrix_are_refused(tmp_path):
    torch = pytest.importorskip("torch")
    for value, message in [
        (print, "an object of the type __builtin__.print; only floating-point tensors can be read"),
        ([torch.zeros(2, 2)], "expected a tensor, or a dictionary with names as keys"),
        (torch.zeros(2), r"the matrix must have shape \[frames, units\], not \[2\]"),
        (torch.zeros(1).expand(1000, 1000), r"a tensor of shape \[1000, 1000\] is larger than the file"),
        (
            torch.zeros(2, 2, dtype=torch.int64),
            "an object of the type torch.LongStorage; only floating-point tensors can be read",
        ),
    ]:
        with pytest.raises(FormatError, match=message):
            list(read_content(torch_bytes(value), "k"))


def test_an_array_larger_than_its_file_is_refused():
    stream = io.BytesIO()
    np.save(stream, np.zeros((4, 4)))
    content = stream.getvalue().replace(b"(4, 4)", b"(4, 9)")
    with pytest.raises(FormatError, match=r"an array of shape \[4, 9\] needs 288 bytes, but the file contains 128"):
        list(read_content(content, "k"))
    stream = io.BytesIO()
    np.save(stream, np.array([["a"]], object))
    with pytest.raises(FormatError, match="expected a matrix of numbers, found an array of object with 2 axes"):
        list(read_content(stream.getvalue(), "k"))


def test_commands_in_script_files_are_not_run(tmp_path):
    path = tmp_path / "a.scp"
    path.write_text("utt cat a.ark |\n")
    with pytest.raises(
        FormatError, match=r"a.scp:1: expected a key and a file, found .*; commands in script files are not run"
    ):
        list(read_matrices(f"scp:{path}"))
    path.write_text("utt nowhere.ark:4\n")
    with pytest.raises(InputError, match=r"nowhere.ark: cannot be read: No such file"):
        list(read_matrices(f"scp:{path}"))
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    path.write_text(f"utt nowhere.ark:4\na {tmp_path}/a.npy\n")
    assert [key for key, _, _ in read_matrices(f"scp,p:{path}", pytest.fail)] == ["a"]  # p: permissive


def test_damaged_matrices_raise_typed_errors_or_are_read(tmp_path):
    kaldiio = pytest.importorskip("kaldiio")
    torch = pytest.importorskip("torch")
    rng = random.Random(1)
    for content in matrix_files(np.random.default_rng(0).normal(size=(4, 3)), tmp_path, kaldiio, torch).values():
        for _ in range(40):
            damaged_content = bytearray(content)
            for _ in range(rng.randint(1, 4)):
                damaged_content[rng.randrange(len(damaged_content))] = rng.randrange(256)
            with suppress(NinjaError):
                for _, matrix in read_content(
                    bytes(damaged_content[: rng.choice([len(damaged_content), len(damaged_content) // 2])]), "k"
                ):
                    assert matrix.nbytes <= 4 * len(content)
