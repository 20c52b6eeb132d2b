"""Kaldi archives of FSTs: output of Kaldi, archives of Ninja read by OpenFst, and damaged archives."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_formats import read_table
from reference_graph import SHARED
from reference_k2 import equals_with_total_costs
from strategies import lattices

import ninja
from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats.fst_binary import write_fst
from ninja.formats.kaldi.fst_archive import FstArchiveWriteOptions, fst_entry, read_fst_archive
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable

GOLDEN = SHARED / "golden" / "korean" / "fst.txt.gz"
KEYS = st.text("abc01-_é", min_size=1, max_size=6)


def small(key: str = "utt") -> Lattice:
    return Lattice.from_arrays(key, [0, 1, 2, 2], [1, 2], [1, 2], [1, 2], [0, 0], [np.inf, np.inf, 0])


@given(st.lists(lattices(connected=False, keys=KEYS), max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_fst_archives_are_unchanged_after_write_and_read(drawn_lattices: list[Lattice], text: list[bool]) -> None:
    entries = [
        fst_entry(lattice, options=FstArchiveWriteOptions(text=flag))
        for lattice, flag in zip(drawn_lattices, text, strict=False)
    ]
    results = list(read_fst_archive(b"".join(entries)))
    assert [key for key, _ in results] == [lattice.key for lattice in drawn_lattices]
    for lattice, (_, back) in zip(drawn_lattices, results, strict=True):
        assert isinstance(back, Lattice)
        assert equals_with_total_costs(lattice, back)


@settings(max_examples=10)
@given(lattices(), st.sampled_from(["standard", "log", "log64"]))
def test_openfst_reads_the_image_after_a_key(lattice: Lattice, arc_type: Any) -> None:
    fst = pytest.importorskip("pywrapfst")
    entry = fst_entry(lattice.with_key("utt"), options=FstArchiveWriteOptions(arc_type=arc_type))
    machine = fst.VectorFst.read_from_string(entry.removeprefix(b"utt "))
    assert machine.verify()
    assert machine.num_states() == lattice.num_states


# The data are not part of the project; in CI, conftest.py turns this skip into a failure.
@pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden files are absent")
def test_an_archive_of_kaldi_is_read() -> None:
    content = gzip.decompress(GOLDEN.read_bytes())
    originals = {
        original.key: original for original in read_table(gzip.decompress((GOLDEN.parent / "lat.ark.gz").read_bytes()))
    }
    archive = dict(read_fst_archive(content))
    assert len(archive) == content.count(b"\n\n")
    for key, lattice in archive.items():
        assert isinstance(lattice, Lattice)
        assert lattice.num_states == originals[key].num_states
        assert np.array_equal(lattice.word, originals[key].word)
        assert np.allclose(lattice.graph, originals[key].graph + originals[key].acoustic, atol=1e-2, rtol=1e-5)


def test_an_invalid_fst_does_not_affect_other_entries() -> None:
    loop = bytearray(write_fst(small()))
    loop[118:122] = bytes(4)  # the target of the second arc
    content = (
        fst_entry(small("a"))
        + b"b "
        + loop
        + b"c \n0 1 2 x\n1\n\nd \n\n"
        + fst_entry(small("e"), options=FstArchiveWriteOptions(text=True))
    )
    entries = list(read_fst_archive(content, "x.ark"))
    assert [key for key, _ in entries] == ["a", "b", "c", "d", "e"]
    assert [type(entry) for _, entry in entries] == [Lattice, LatticeError, FormatError, LatticeError, Lattice]
    assert "lies on a cycle" in str(entries[1][1])
    assert "'x' is not a label" in str(entries[2][1])


def test_text_errors_contain_their_line() -> None:
    content = fst_entry(small("a"), options=FstArchiveWriteOptions(text=True)) + b"b \n0 1 1 1\n0 1 2\n\n"
    entries = list(read_fst_archive(content, "x.ark"))
    assert str(entries[1][1]).startswith("x.ark:8, key 'b': the line has 3 fields")


CUT: list[tuple[bytes, str]] = [
    (b" x", "x.ark, byte 0: an entry has no key"),
    (b"abc", "x.ark, byte 0: an entry has no key"),
    (b"abc ", "x.ark, byte 4, key 'abc': the key is followed by neither a binary nor a text FST"),
    (b"abc def", "the key is followed by neither a binary nor a text FST; the rest"),
    (b"abc   0 1\n", "text follows the key on its line"),
    (b"abc \n0 1 2 3\n1\n", "the archive ends inside this FST, so it is truncated; copy it again"),
    (b"abc \xd6\xfd\xb2\x7e\1", "byte 8, key 'abc': the image ends within the header"),
    (b"a" * 5000 + b" ", "an unterminated key"),
]


@pytest.mark.parametrize(("content", "message"), CUT)
def test_damage_ends_reading_with_an_error_at_its_byte(content: bytes, message: str) -> None:
    if content == b"abc":
        message = "an unterminated key"
    ((_, error),) = read_fst_archive(content, "x.ark")
    assert isinstance(error, FormatError)
    assert message in str(error)


def test_a_truncated_image_raises_format_error_with_its_byte() -> None:
    content = fst_entry(small("a")) + fst_entry(small("b"))[:-5]
    entries = list(read_fst_archive(content))
    assert isinstance(entries[0][1], Lattice)
    assert isinstance(entries[1][1], FormatError)
    assert entries[1][1].byte is not None
    assert entries[1][1].byte > len(fst_entry(small("a")))


def test_a_table_is_attached_and_missing_ids_raise_symbol_error(tmp_path: Path) -> None:
    path = tmp_path / "x.fsts"
    path.write_bytes(fst_entry(small()))
    words = SymbolTable.from_words(["<eps>", "one", "two"])
    ((_, lattice),) = ninja.read(path, words=words)
    assert lattice.words is words
    with pytest.raises(
        SymbolError, match="key 'utt': word id 2 is not in the symbol table; check that it is the right table"
    ):
        list(ninja.read(path, words=SymbolTable.from_words(["<eps>", "one"])))


def test_keys_with_whitespace_are_refused() -> None:
    with pytest.raises(
        OptionError, match="a key in an archive must not be empty, contain whitespace or exceed 4096 bytes"
    ):
        fst_entry(small("a b"))


@settings(max_examples=40)
@given(st.lists(lattices(max_states=4), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_damaged_archives_give_ninja_errors_or_valid_lattices(
    drawn_lattices: list[Lattice], rng: random.Random
) -> None:
    content = bytearray(
        b"".join(
            fst_entry(lattice.with_key(str(at)), options=FstArchiveWriteOptions(text=rng.random() < 0.5))
            for at, lattice in enumerate(drawn_lattices)
        )
    )
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(content) or 1)
        if rng.randrange(3):
            content[at : at + 1] = bytes([rng.choice([*b"0 9\n\t-.", 0, 127, 128, 255])])
        else:
            del content[at : at + rng.randrange(1, 9)]
    for _, result in read_fst_archive(bytes(content)):
        if isinstance(result, Lattice):
            check(result)
        else:
            assert isinstance(result, NinjaError)
