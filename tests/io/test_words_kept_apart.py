"""Word ids of one source are never mapped to words of another, and outputs never overwrite inputs."""

from __future__ import annotations

import numpy as np
import pytest
from lattice_files import write_all

import ninja as package
from ninja.errors import OptionError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

HELLO = b"VERSION=1.0\nN=3 L=2\nI=0\nI=1\nI=2\nJ=0 S=0 E=1 W=hello a=-1 l=-2\nJ=1 S=1 E=2 W=world a=-1 l=-2\n"
BARE = b"k1 \n0 1 2\n1 0,0,\n\n"  # a word id without costs, which Kaldi omits if they are 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.slf").write_bytes(HELLO)
    (tmp_path / "b.slf").write_bytes(HELLO.replace(b"hello", b"good"))
    return tmp_path


def test_word_ids_are_not_mapped_to_words_of_another_source(ninja, folder):
    (folder / "bare.txt").write_bytes(BARE)
    code, output, errors = ninja("best", "a.slf", "bare.txt")
    assert (code, output) == (2, "a hello world\n")  # printed before the word ids are read
    assert "bare.txt contains word ids, but another source contains words" in errors
    table = package.vocabulary("a.slf")
    with pytest.raises(OptionError, match=r"bare.txt contains word ids, but another source contains words"):
        list(package.read("bare.txt", words=table))
    # An archive whose format cannot be detected beforehand, because the first listed file is missing.
    (folder / "list.scp").write_text("nope nowhere\nk1 bare.ark:3\n")
    write_all("bare.ark", [next(lattice for _, lattice in package.read("bare.txt"))])
    code, output, errors = ninja("best", "a.slf", "scp:list.scp")
    assert (code, output) == (2, "a hello world\n")
    assert "list.scp contains word ids, but another source contains words" in errors


def test_a_symbol_table_argument_maps_ids_to_words(folder):
    (folder / "bare.txt").write_bytes(BARE)
    table = SymbolTable([("<eps>", 0), ("hello", 1), ("world", 2)])
    assert [lattice.words.spell(lattice.word) for _, lattice in package.read(["a.slf", "bare.txt"], words=table)] == [
        ["hello", "world"],
        ["world"],
    ]


@pytest.mark.parametrize("name", ["two.pt", "two.ark"])
def test_a_symbol_table_argument_applies_to_lattices_without_words(folder, name):
    words = SymbolTable.from_words(["<eps>", "one"])
    with_word = package.graph.from_arcs("a", [0], [1], [1], [0.5], finals={1: 0.0}, words=words)
    without_words = package.graph.from_arcs("b", [0], [1], [0], [0.5], finals={1: 0.0}, words=words)
    write_all(folder / name, [with_word, without_words], to="k2" if name.endswith("pt") else "fst-ark")
    lattices = [lattice for _, lattice in package.read(folder / name, words=words)]
    assert [lattice.words is words for lattice in lattices] == [True, True]
    write_all(folder / "again.ark", lattices)


def test_symbol_tables_of_two_archives_must_agree(ninja, folder):
    assert ninja("convert", "a.slf", "-o", "a.ark")[0] == 0
    assert ninja("convert", "b.slf", "-o", "b.ark")[0] == 0
    code, _, errors = ninja("lmrescore", "a.ark", "b.ark", "--lm", "missing.arpa", "-o", "x.ark")
    assert code != 0
    code, _, errors = ninja("rescore", "a.ark", "b.ark", "-o", "x.ark")
    assert code == 2
    assert "the symbol tables a.ark.words.txt and b.ark.words.txt differ; choose one with --words" in errors


def test_resuming_requires_the_symbol_table_of_the_output(ninja, folder):
    code, _, errors = ninja("convert", "a.slf", "b.slf", "-o", "x.ark", "--resume")
    assert code == 2
    assert "--resume requires --words" in errors


def test_the_symbol_table_of_a_previous_output_is_replaced_or_refused(ninja, folder):
    assert ninja("convert", "a.slf", "-o", "x.ark")[0] == 0
    (folder / "w.txt").write_text("<eps> 0\nworld 7\ngood 8\nhello 9\n")
    assert ninja("convert", "b.slf", "--words", "w.txt", "-o", "x.ark")[0] == 0
    assert (folder / "x.ark.words.txt").read_text() == (folder / "w.txt").read_text()
    (folder / "bare.txt").write_bytes(BARE)
    code, _, errors = ninja("convert", "bare.txt", "-o", "x.ark")
    assert code == 2
    assert "x.ark.words.txt already exists and would become the symbol table of the output; move it" in errors


def test_a_folder_with_a_different_symbol_table_is_refused(ninja, folder):
    assert ninja("convert", "a.slf", "--to", "openfst", "-o", "fsts")[0] == 0
    code, _, errors = ninja("convert", "b.slf", "--to", "openfst", "-o", "fsts")
    assert code == 2
    assert "fsts/words.txt differs from the symbol table of the lattices" in errors
    assert sorted(path.name for path in (folder / "fsts").iterdir()) == ["a.fst", "words.txt"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "ark,scp:z.ark,a.slf"), "a.slf is an input and would be overwritten"),
        (("-o", "z.ark", "--words-out", "a.slf"), "a.slf is an input and would be overwritten"),
        (("-o", "z.ark", "--words-out", "z.ark"), "z.ark: two outputs would be written to this file"),
        (("-o", "ark,scp:z.ark,z.scp", "--words-out", "z.scp"), "z.scp: two outputs would be written to this file"),
    ],
)
def test_outputs_do_not_overwrite_inputs_or_each_other(ninja, folder, options, message):
    code, _, errors = ninja("convert", "a.slf", *options)
    assert code == 2
    assert message in errors
    assert (folder / "a.slf").read_bytes() == HELLO
    assert sorted(path.name for path in folder.iterdir()) == ["a.slf", "b.slf"]


def test_duplicate_keys_are_noted(ninja, folder):
    code, _, errors = ninja("convert", "a.slf", "a.slf", "-o", "x.ark")
    assert code == 0
    assert "ninja: 1 key occurs more than once: a" in errors


def test_words_with_whitespace_are_refused(ninja, folder):
    write_all(
        "x.arrow",
        [Lattice.from_arrays("k", [0, 1, 1], [1], [1], [0], [0], [np.inf, 0])],
        words=SymbolTable.from_words(["<eps>", "two words"]),
    )
    code, _, errors = ninja("convert", "x.arrow", "-o", "x.ark")
    assert code == 1
    assert "failed: key 'k': the word 'two words' contains whitespace, so a symbol table cannot store it" in errors
    assert not (folder / "x.ark").exists()


def test_reading_a_script_file_continues_after_bad_lines(ninja, folder):
    (folder / "bare.txt").write_bytes(BARE)
    with package.write("ark,scp:bare.ark,bare.scp") as output:
        for key in ("k1", "k2"):
            for _, lattice in package.read("bare.txt"):
                output.write(lattice, key=key)
    first, second = (folder / "bare.scp").read_text().splitlines()
    (folder / "utf16").write_bytes(HELLO.decode().encode("utf-16"))
    lines = [first, "bad utf16", "none x\0y", "far bare.ark:99999999999999999999", second]
    (folder / "list.scp").write_text("\n".join(lines) + "\n")
    code, output, errors = ninja("best", "list.scp")
    assert (code, output) == (1, "k1 2\nk2 2\n")
    assert [line.partition("key ")[2][:6] for line in errors.splitlines() if "failed: " in line and "key" in line] == [
        "'bad':",
        "'none'",
        "'far':",
    ]


def test_a_byte_order_mark_is_not_part_of_the_first_key(ninja, folder):
    (folder / "bom.txt").write_bytes(b"\xef\xbb\xbf" + BARE)
    assert ninja("best", "bom.txt")[1] == "k1 2\n"
