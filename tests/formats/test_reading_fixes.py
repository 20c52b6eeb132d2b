"""Errors that reading must report: damaged files, missing files, unexpected fields, invalid keys."""

from __future__ import annotations

import gzip
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from lattice_files import write_all
from whole_files import write_k2s

from ninja.cli.main import main
from ninja.errors import FormatError, InputError, OptionError, TableError
from ninja.files.stream import Place, open_stream
from ninja.formats import content
from ninja.formats.content import Content
from ninja.formats.k2 import read_k2s
from ninja.formats.mesh import read_mesh_lattices
from ninja.formats.nbest.srilm import read_srilm
from ninja.formats.plf import write_plf
from ninja.formats.slf import write_slf
from ninja.io.detection import COMPANIONS
from ninja.io.reader import read
from ninja.io.sources import tables
from ninja.io.vocabulary import vocabulary
from ninja.io.writing import write
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

WORDS = SymbolTable([("<eps>", 0), ("a", 1), ("b", 2)])


def small(key="utt"):
    zero, end = np.zeros(2, np.float32), np.array([np.inf, np.inf, 0], np.float32)
    return Lattice.from_arrays(key, [0, 1, 2, 2], [1, 2], [1, 2], zero + 1, zero + 2, end, end, words=WORDS)


def keys_and_errors(source, **options):
    """Return the keys of a source and the messages of its errors."""
    errors = []
    return [key for key, _ in read(source, on_error=errors.append, **options)], [str(error) for error in errors]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("good.slf").write_bytes(write_slf(small()))
    return tmp_path


# Damaged files in a folder


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("lat.2.gz", gzip.compress(b"utt \n" + b"0 1 1 1,2,\n" * 99)[:-20], "truncated"),
        ("lat.3.gz", b"", "empty"),
        ("text.slf", "VERSION=1.0\n".encode("utf-16"), "UTF-16"),
        ("notes", "utt \n0 1 1\n".encode("utf-16"), "UTF-16"),
        ("cut.slf", b"VERS", "the last line has no newline"),
        ("cut.ark", b"utt \n0 1", "ends inside"),
        ("cut.lat.gz", gzip.compress(b"# Latt"), "no lattice follows"),
        *((f"empty{end}", b"", "empty") for end in (".slf", ".lat", ".pfsg", ".plf", ".fst", ".pt", ".arrow", ".FST")),
        ("empty.slf.gz", gzip.compress(b""), "empty"),
        ("blank.slf", b"\n \n", "empty"),
    ],
)
def test_damaged_files_in_a_folder_are_reported(folder, name, damage, message):
    Path(name).write_bytes(damage)
    keys, errors = keys_and_errors(".")
    assert keys == ["good"]
    assert len(errors) == 1
    assert name in errors[0]
    assert message in errors[0]
    Path("good.slf").unlink()
    assert len(keys_and_errors(".")[1]) == 1  # also if it is the only file


def test_files_that_cannot_be_opened_are_reported(folder, monkeypatch):
    Path("closed").write_bytes(b"")

    def refuse_closed(place, **options):
        if place.path.endswith("closed"):
            raise InputError("cannot be read: Permission denied", place.path)
        return open_stream(place, **options)

    monkeypatch.setattr("ninja.io.sources.open_stream", refuse_closed)
    keys, errors = keys_and_errors(".")
    assert keys == ["good"]
    assert errors == ["./closed: cannot be read: Permission denied"]


@pytest.mark.parametrize(
    ("name", "content_bytes"),
    [
        ("words.txt", b"<eps> 0\na 1\n"),
        ("README", "hallo".encode("utf-16")),
        ("text", b"utt a b\n"),
        ("empty", b""),
        ("empty.txt", b""),
        ("LICENSE.gz", b"\x1f\x8b\x08"),
        ("post.ark", b"utt \0BFM \4\0\0\0\0"),
        ("data.json", b'{"a": 1}'),
        ("empty.ark", b""),  # a valid archive without lattices
    ],
)
def test_other_files_in_a_folder_are_ignored(folder, name, content_bytes):
    Path(name).write_bytes(content_bytes)
    assert keys_and_errors(".") == (["good"], [])


# The format option


def test_the_format_option_applies_to_every_file_of_a_folder(folder):
    for name in ("words.txt", "char.words.txt", "words.txt.gz", "README.md", "LICENSE", ".hidden", "a.notes", "b"):
        Path(name).write_bytes(b"")
    Path("below").mkdir()
    keys, errors = keys_and_errors(".", format="slf")
    assert keys == ["good"]
    assert [error.partition(":")[0].partition(",")[0] for error in errors] == ["./a.notes", "./b"]
    assert keys_and_errors(".") == (["good"], [])


# Keys


@pytest.mark.parametrize("keys", [["1", "2"], ["2", "1"], ["x", "2"]])
def test_keys_that_look_like_numbers_are_unchanged_in_k2(folder, keys):
    Path("x.pt").write_bytes(write_k2s([small(key) for key in keys]))
    assert keys_and_errors("x.pt") == (keys, [])


def test_files_without_keys_are_numbered(folder):
    Path("x.pt").write_bytes(write_k2s([small("a"), small("b")], extras=False))
    assert keys_and_errors("x.pt") == (["x-1", "x-2"], [])
    Path("y.plf").write_bytes(write_plf(small()) + b"broken\n" + write_plf(small()))
    keys, errors = keys_and_errors("y.plf")
    assert keys == ["y-1", "y-3"]
    assert "'y-2'" in errors[0]
    lattices = read_k2s(Path("x.pt").read_bytes(), key_of=lambda number: f"number {number}")
    assert [lattice.key for lattice in lattices] == ["number 1", "number 2"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_duplicate_keys_are_reported(folder, capfd, jobs):
    for name in ("one", "two"):
        Path(name).mkdir()
        for key in ("a", "b", name):
            Path(name, f"{key}.slf").write_bytes(write_slf(small()))
    Path("c.slf").write_bytes(write_slf(small()))
    message = "duplicate keys"
    assert main(["best", "one", "two", "one/a.slf", "--jobs", str(jobs), "--lmwt", "1"]) == 0
    output = capfd.readouterr()
    assert len(output.out.splitlines()) == 7
    assert output.err.splitlines() == [f"ninja: 3 {message}: a, b, a"]
    assert main(["info", "one", "c.slf", "--jobs", str(jobs)]) == 0
    assert message not in capfd.readouterr().err
    # Commands that write lattices report the duplicate keys of their output instead.
    assert main(["convert", "one", "two", "-o", "both.ark", "--jobs", str(jobs)]) == 0
    errors = capfd.readouterr().err
    assert message not in errors
    assert "2 keys occur more than once: a, b" in errors
    assert main(["merge", "one", "two", "-o", "merged.ark", "--jobs", str(jobs)]) == 0
    errors = capfd.readouterr().err
    assert message not in errors
    assert "2 keys occur more than once; their first lattices were written: a, b" in errors


@pytest.mark.parametrize("key", ["utt", "several words"])
def test_a_byte_order_mark_is_removed_from_a_key(folder, key):
    Path("x").write_bytes(b"\xef\xbb\xbf" + key.encode() + b" \n0 1 1 1,2,3_4\n1 0,0,\n\n")
    assert keys_and_errors("x") == ([key], [])


# Words


@pytest.mark.parametrize(
    ("name", "content_bytes", "form"),
    [
        ("x.att", b"0 1 1 1 0.5\n1\n", None),
        ("several words", b"two keys\n0 1 1 1,2,3_4\n1 0,0,\n\n", None),
        ("x.ark", b"utt-1 \n0 1 1 1,2,3_4\n1 0,0,\n\n", "nbest-kaldi"),
    ],
)
def test_ids_in_text_are_not_combined_with_words_of_other_files(folder, name, content_bytes, form):
    Path(name).write_bytes(content_bytes)
    assert len(keys_and_errors(name, format=form)[0]) == 1
    with pytest.raises(OptionError, match="contains word ids, but another source contains words"):
        keys_and_errors(name, words=vocabulary("good.slf"), format=form)


def test_errors_contain_the_file_of_the_lattice_instead_of_the_words(folder):
    Path("x.att").write_bytes(b"0 1 7 7 0.5\n1\n")
    write_all("x.ark", [small("u").with_words(None)])
    table = SymbolTable([("<eps>", 0), ("a", 1)])
    for name, key in (("x.att", "x"), ("x.ark", "u")):
        with pytest.raises(TableError, match=f"^{name}.*key {key!r}: word"):  # the table is wrong for all lattices
            keys_and_errors(name, words=table)
        with pytest.raises(OptionError, match=f"{name} contains word ids, but another source contains words"):
            keys_and_errors(name, words=vocabulary("good.slf"))


def test_words_in_text_get_the_ids_of_a_shared_vocabulary(folder):
    Path("x.att").write_bytes(b"0 1 b b 0.5\n1\n")
    words = vocabulary("good.slf")
    ((_, lattice),) = read("x.att", words=words)
    assert lattice.words is words
    assert words.spell(lattice.word) == ["b"]


# Lists of files


def test_a_missing_file_of_a_list_does_not_affect_the_others(folder):
    Path("other.slf").write_bytes(write_slf(small()))
    Path("list").write_text("good.slf\nmissing.slf\nother.slf\n")
    keys, errors = keys_and_errors("list")
    assert keys == ["good", "other"]
    assert errors == ["missing.slf: cannot be read: No such file or directory"]


def test_a_file_with_mostly_missing_names_is_not_a_list(folder):
    Path("list").write_text("good.slf\nmissing.slf\nmissing too\n")
    assert [table.place.path for table in tables("list")] == ["list"]


# Memory


def open_content(path):
    return Content(open_stream(Place(str(path))), str(path))


def test_reading_a_whole_file_keeps_one_copy_in_memory(tmp_path):
    size = 24 << 20
    (tmp_path / "plain").write_bytes(b"\xef\xbb\xbf" + b"x" * size)
    for path in (tmp_path / "plain", tmp_path / "packed.gz"):
        if path.suffix:
            path.write_bytes(gzip.compress((tmp_path / "plain").read_bytes(), 1))
        file = open_content(path)
        tracemalloc.start()
        try:
            assert len(file.whole()) == size
            assert tracemalloc.get_traced_memory()[1] < 1.2 * size + (3 << 20)
        finally:
            tracemalloc.stop()


def test_a_gzip_file_with_an_extreme_ratio_is_refused(tmp_path, monkeypatch):
    (tmp_path / "bomb.slf.gz").write_bytes(gzip.compress(b"VERSION=1.0\n" + b" " * (8 << 20)))
    monkeypatch.setattr(content, "LARGEST_PACKED", 4 << 20)
    with pytest.raises(
        FormatError, match=r"bomb\.slf\.gz: the file decompresses to more than 4 MB and 100 times its size"
    ):
        open_content(tmp_path / "bomb.slf.gz").whole()
    (tmp_path / "blank.slf").write_bytes(b" " * (8 << 20))
    assert len(open_content(tmp_path / "blank.slf").whole()) == 8 << 20
    monkeypatch.setattr(content, "LARGEST_RATIO", 2000)
    assert len(open_content(tmp_path / "bomb.slf.gz").whole()) == (8 << 20) + 12


def test_companion_files_are_recognised_by_name():
    for name in ("words.txt", "char.words.txt", "words.txt.gz", "README", "README.md", "LICENSE.txt"):
        assert re.fullmatch(COMPANIONS, name)
    for name in ("swords.txt", "words.txt.slf", "a.README", "utt.txt"):
        assert not re.fullmatch(COMPANIONS, name)


def test_an_archive_without_lattices_is_valid(folder):
    with write("empty.ark"):
        pass
    assert keys_and_errors("empty.ark") == ([], [])


def test_an_srilm_line_with_fewer_words_than_declared_is_refused():
    with pytest.raises(FormatError, match="f:1, key 'u': the number of words is 3, but 2 follow"):
        read_srilm(b"-1.5 -2.5 3 a b\n", "u", "f")
    assert read_srilm(b"-1.5 -2.5 1 a b\n", "u", "f").hypotheses[0].words == (
        "a",
        "b",
    )  # fewer are valid, as the count can exclude words


def test_a_posterior_above_one_is_refused():
    mesh = b"name m\nnumaligns 1\nposterior 1\nalign 0 word 99999\n"
    (error,) = read_mesh_lattices(mesh, "m", "f")
    assert "f:4, key 'm': the posterior of 'word' is 99999, but must not be above 1" in str(error)
