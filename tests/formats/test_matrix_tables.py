"""Matrices of archives, lists and folders are read one at a time, each with its own error."""

import random
from contextlib import suppress

import numpy as np
import pytest

from ninja.decoding.matrices import read_matrices
from ninja.errors import FormatError, InputError, NinjaError

kaldiio = pytest.importorskip("kaldiio")


def collect(source):
    failures = []
    matrices = [(key, matrix.tolist()) for key, matrix, _ in read_matrices(str(source), failures.append)]
    return matrices, [str(failure) for failure in failures]


def test_an_invalid_matrix_in_a_text_archive_does_not_affect_later_ones(tmp_path):
    path = tmp_path / "a"
    path.write_text("one  [\n 1 2 ]\ntwo [ 1 x ]\nthree [\n  1\n  2 3 ]\n\nfour [ 3 4 ]\n")
    matrices, failures = collect(path)
    assert matrices == [("one", [[1, 2]]), ("four", [[3, 4]])]
    assert failures == [
        f"{path}, byte 18, key 'two': a value in a vector or matrix is not a number: "
        "could not convert string to float: b'x'",
        f"{path}, byte 32, key 'three': the rows of a matrix differ in length",
    ]
    with pytest.raises(FormatError, match="byte 18, key 'two'"):
        list(read_matrices(path))


def test_matrices_before_the_damage_of_an_archive_are_read(tmp_path):
    matrices = {f"utt{number}": np.full((300, 200), number, np.float32) for number in range(4)}  # 240 kB each
    path = tmp_path / "a.ark"
    kaldiio.save_ark(str(path), matrices)
    assert [(key, matrix[0][0]) for key, matrix in collect(path)[0]] == [(f"utt{n}", n) for n in range(4)]
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    results, failures = collect(path)
    begin = len(content) - 240000
    assert [key for key, _ in results] == ["utt0", "utt1", "utt2"]
    [failure] = failures
    reason = "the file declares 60000 numbers of 4 bytes, but only 239991 bytes remain"
    assert failure.startswith(f"{path}, byte {begin}, key 'utt3': {reason}")


def test_an_invalid_line_of_a_list_does_not_affect_the_others(tmp_path):
    kaldiio.save_ark(str(tmp_path / "a.ark"), {"one": np.ones((2, 2)), "two": np.zeros((2, 2))})
    np.save(tmp_path / "b.npy", np.ones((1, 1)))
    rows = [
        f"first\t{tmp_path / 'a.ark'}:4",
        f"second {tmp_path / 'a.ark'}:5",
        f"third {tmp_path / 'none.ark'}:4",
        "fourth",
        f"fifth {tmp_path / 'b.npy'}",
        f"sixth {tmp_path / 'a.ark'}:4[0:1]",
    ]
    path = tmp_path / "list"
    path.write_text("\n".join(rows) + "\n")
    matrices, failures = collect(path)
    assert matrices == [("first", [[1, 1], [1, 1]]), ("fifth", [[1]])]
    assert [failure.partition(str(tmp_path))[2] for failure in failures] == [
        "/a.ark, byte 0, key 'second': expected numbers in brackets [ ]",
        "/none.ark: cannot be read: No such file or directory",
        "/list:4: expected a key and a file, found 'fourth'; commands in script files are not run",
        f"/list:6: expected a key and a file, found {rows[5][:60]!r}; commands in script files are not run",
    ]


def test_a_single_matrix_without_a_key_has_the_name_of_its_file(tmp_path):
    kaldiio.save_mat(str(tmp_path / "utt.mat"), np.ones((1, 2), np.float32))
    (tmp_path / "text.txt").write_text(" [\n  3 4 ]\n")
    assert collect(tmp_path / "utt.mat") == ([("utt", [[1, 1]])], [])
    assert collect(tmp_path / "text.txt") == ([("text", [[3, 4]])], [])


def test_a_folder_must_contain_matrices(tmp_path):
    (tmp_path / "README").write_text("nothing to see\n")
    with pytest.raises(FormatError, match="this directory contains no matrices"):
        collect(tmp_path)
    for name in ("b", "a"):
        np.save(tmp_path / f"{name}.npy", np.ones((1, 1)))
    assert [key for key, _ in collect(tmp_path)[0]] == ["a", "b"]
    with pytest.raises(InputError, match="no file matches this pattern"):
        collect(tmp_path / "*.gz")


def test_damaged_archives_and_lists_raise_ninja_error_or_are_bounded(tmp_path):
    rng = random.Random(0)
    matrices = {"one": np.ones((3, 2), np.float32), "two": np.zeros((2, 2), np.float32)}
    kaldiio.save_ark(str(tmp_path / "a.ark"), matrices, scp=str(tmp_path / "a.scp"))
    kaldiio.save_ark(str(tmp_path / "b.ark"), matrices, text=True)
    for name in ("a.ark", "b.ark", "a.scp"):
        content = (tmp_path / name).read_bytes()
        for number in range(150):
            damaged = bytearray(content)
            for _ in range(rng.randint(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.choice([0, 10, 32, 93, rng.randrange(256)])
            path = tmp_path / f"damaged{name[1:]}"
            path.write_bytes(damaged[: rng.choice([len(damaged), len(damaged) // 2])])
            with suppress(NinjaError):
                for _, matrix, _ in read_matrices(path, None if number % 2 else lambda failure: None):
                    assert matrix.nbytes <= 8 * len(content)
