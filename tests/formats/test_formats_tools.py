"""Written real lattices are checked with OpenFst's programs and a strict checker of HTK's format."""

from __future__ import annotations

import gzip
import math
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import reference_real as real
from hypothesis import given
from hypothesis import strategies as st
from reference_formats import read_table, unpack
from reference_graph import SHARED
from reference_htk import RuleError, check_htk
from strategies import lattices
from strategies_text import FILES, needs_files, needs_openfst, read_unpacked

from ninja import SymbolTable
from ninja.formats.fst_binary import read_fst, write_fst
from ninja.formats.fst_text import FstTextWriteOptions, read_fst_text, write_fst_text
from ninja.formats.kaldi.fst_archive import fst_entry, read_fst_archive
from ninja.formats.slf import SlfOptions, SlfWriteOptions, read_slf, write_slf

SAMPLE = Path(__file__).parents[1] / "data/english/formats"
GOLDEN = SHARED / "golden/english/lat.ark.gz"
ARC_TYPES = ("standard", "log", "log64")


def tool(*arguments, stdin=None):
    """Run a program of OpenFst and return its output."""
    process = subprocess.run([str(argument) for argument in arguments], input=stdin, check=True, capture_output=True)
    assert not process.stderr, process.stderr
    return process.stdout


@lru_cache
def real_lattices():
    """Return the sample of this repository and all other available lattices, read by a slow reader."""
    return [
        lattice
        for path in (SAMPLE / "lat.ark.gz", GOLDEN)
        if path.is_file()
        for lattice in read_table(gzip.decompress(path.read_bytes()))
    ]


def fstprint_rows(lattice, words=None):
    """Return the expected output of fstprint: the arcs of each state, followed by its final cost."""
    finals, arcs = unpack(lattice)
    rows = []
    for state, (state_arcs, (graph, acoustic, _)) in enumerate(zip(arcs, finals, strict=True)):
        for dst, word, arc_graph, arc_acoustic, _ in state_arcs:
            label = words.word(word) if words else str(word)
            rows.append((str(state), str(dst), label, label, arc_graph + arc_acoustic))
        if graph < math.inf:
            rows.append((str(state), graph + acoustic))
    return rows


def assert_rows_agree(text, expected):
    rows = [line.split("\t") for line in text.decode().splitlines()]
    assert len(rows) == len(expected)
    for row, (*fields, cost) in zip(rows, expected, strict=True):
        assert row[: len(fields)] == fields
        weight = row[len(fields) :]  # a cost of 0 is omitted
        assert float(weight[0] if weight else 0) == pytest.approx(cost, rel=1e-4, abs=1e-3)


@needs_openfst
@pytest.mark.parametrize("arc_type", ARC_TYPES)
def test_openfst_programs_print_and_verify_written_files(arc_type, tmp_path):
    words = SymbolTable.read(SAMPLE / "words.txt")
    path = tmp_path / "a.fst"
    for place, lattice in enumerate([*real_lattices()[:3], *real_lattices()[3::5]]):
        path.write_bytes(write_fst(lattice, arc_type))
        info = dict(line.rsplit(None, 1) for line in tool("fstinfo", path).decode().splitlines() if line.strip())
        assert (info["fst type"], info["arc type"]) == ("vector", arc_type)
        assert info["# of states"] == info["# of accessible states"] == str(lattice.num_states)
        assert info["# of arcs"] == str(lattice.num_arcs)
        assert info["# of final states"] == str(int(lattice.is_final.sum()))
        assert [info[name] for name in ("acceptor", "cyclic", "top sorted")] == ["y", "n", "y"]
        assert_rows_agree(tool("fstprint", "--acceptor=false", path), fstprint_rows(lattice))
        if place < 3:
            table = f"--isymbols={SAMPLE / 'words.txt'}", f"--osymbols={SAMPLE / 'words.txt'}"
            assert_rows_agree(tool("fstprint", "--acceptor=false", *table, path), fstprint_rows(lattice, words))
            # The compiled text with words is the same FST, and symbol tables within a file are read.
            text, compiled = tmp_path / "a.txt", tmp_path / "b.fst"
            text.write_bytes(write_fst_text(lattice, words, options=FstTextWriteOptions(labels="words")))
            options = "--keep_isymbols", "--keep_osymbols", "--keep_state_numbering", f"--arc_type={arc_type}"
            tool("fstcompile", *table, *options, text, compiled)
            tool("fstequal", "--delta=0.001", path, compiled)
            back = read_fst(compiled.read_bytes(), lattice.key)
            assert back.words.spell(back.word) == words.spell(lattice.word)
            assert read_fst_text(text.read_bytes(), "k", words=words).word.tolist() == lattice.word.tolist()


@needs_openfst
@pytest.mark.parametrize("arc_type", ARC_TYPES)
def test_pywrapfst_verifies_written_files(arc_type):
    fst = pytest.importorskip("pywrapfst")
    for lattice in real_lattices():
        assert fst.Fst.read_from_string(write_fst(lattice, arc_type)).verify()


@needs_openfst
@pytest.mark.parametrize("arc_type", ARC_TYPES)
def test_const_files_converted_by_openfst_are_read(arc_type, tmp_path):
    for lattice in real_lattices()[:8]:
        (tmp_path / "a.fst").write_bytes(write_fst(lattice, arc_type))
        for align in ("false", "true"):
            tool("fstconvert", "--fst_type=const", f"--fst_align={align}", tmp_path / "a.fst", tmp_path / "b.fst")
            back = read_fst((tmp_path / "b.fst").read_bytes(), lattice.key)
            assert back.word.tolist() == lattice.word.tolist()
            assert back.dst.tolist() == lattice.dst.tolist()
            np.testing.assert_allclose(back.graph, lattice.graph + lattice.acoustic, rtol=1e-5, atol=1e-3)


@needs_openfst
def test_each_entry_of_an_fst_archive_is_readable_by_openfst():
    sample = real_lattices()[:10]
    content, at = b"".join(map(fst_entry, sample)), 0
    for lattice in sample:
        entry = fst_entry(lattice)
        key, _, image = content[at : at + len(entry)].partition(b" ")  # an entry of Kaldi is a key, a space and an FST
        assert key.decode() == lattice.key
        assert_rows_agree(tool("fstprint", "--acceptor=false", stdin=image), fstprint_rows(lattice))
        at += len(entry)
    assert at == len(content)
    for lattice, (key, back) in zip(sample, read_fst_archive(content), strict=True):
        assert (key, back.word.tolist()) == (lattice.key, lattice.word.tolist())


NAMES = ["<eps>", "a", "b c", "'em", '"', "네", "back\\slash"]


def assert_agrees_with_checker(lattice, content, names, base=1.0):
    """Assert that every word and score, and the end node, agree with the result of the checker."""
    header, nodes, links = check_htk(content)
    unit = math.log(float(header.get("base", math.e)))
    finals = np.flatnonzero(lattice.is_final)
    columns = (getattr(lattice, name).tolist() for name in ("src", "dst", "word", "graph", "acoustic"))
    expected = [
        (src, dst, names[word] if word else "!NULL", *costs) for src, dst, word, *costs in zip(*columns, strict=True)
    ]
    if len(links) > lattice.num_arcs:
        expected += [
            (s, lattice.num_states, "!NULL", lattice.final_graph[s], lattice.final_acoustic[s]) for s in finals
        ]
    assert len(links) == len(expected)
    assert len(nodes) == lattice.num_states + (len(links) > lattice.num_arcs)
    for (src, dst, fields), (expected_src, expected_dst, word, graph, acoustic) in zip(links, expected, strict=True):
        assert (src, dst, fields["W"]) == (expected_src, expected_dst, word)
        assert -unit * float(fields["l"]) == pytest.approx(graph, rel=1e-6)
        assert -unit * float(fields["a"]) == pytest.approx(acoustic, rel=1e-6)
    if base != 1:
        assert float(header["base"]) == base


@given(lattices(max_word=len(NAMES) - 1), st.sampled_from([1.0, 10.0, 1.0001]))
def test_a_strict_checker_accepts_written_files(lattice, base):
    assert_agrees_with_checker(
        lattice, write_slf(lattice, SymbolTable.from_words(NAMES), options=SlfWriteOptions(base=base)), NAMES, base
    )


def test_a_strict_checker_accepts_real_lattices_of_kaldi():
    names = {number: word for word, number in SymbolTable.read(SAMPLE / "words.txt")}
    table = SymbolTable.read(SAMPLE / "words.txt")
    for lattice in real_lattices()[:3]:
        content = write_slf(lattice, table)
        assert_agrees_with_checker(lattice, content, names)
        reference = real.slf(content)
        cost, words = real.best(reference, 0.1)
        assert words
        assert real.cost_of(reference, words, 0.1) == pytest.approx(cost)


@needs_files
def test_a_strict_checker_accepts_rewritten_real_files_of_htk():
    paths = sorted(FILES.glob("*pocketsphinx/*.slf.gz"))[::30]
    for name in ["theanolm/lattice.slf", *(str(path.relative_to(FILES)) for path in paths)]:
        lattice = read_slf(read_unpacked(name), "", options=SlfOptions(key="utterance"))
        check_htk(write_slf(lattice))
        check_htk(write_slf(lattice, options=SlfWriteOptions(base=10.0)))


GOOD = b"""VERSION=1.1
UTTERANCE=u
start=0
end=2
N=3\tL=3
I=0\tt=0.00
I=1\tt=0.10
I=2\tt=0.30
J=0\tS=0\tE=1\tW=a\ta=-1\tl=-2
J=1\tS=0\tE=2\tW=b\\040c\ta=-1\tl=-2
J=2\tS=1\tE=2\tW=!NULL\ta=-1\tl=-2
"""
BROKEN = [
    ("VERSION=1.1\n", ""),
    ("N=3\tL=3", "N=3"),
    ("N=3", "N=4"),
    ("L=3", "L=2"),
    ("start=0", "start=1"),
    ("end=2", "end=1"),
    ("UTTERANCE=u", "UTTERANCE=u v"),
    ("t=0.10", "t=-0.10"),
    ("t=0.10", "t=.1"),
    ("\tt=0.10", ""),
    ("t=0.30", "t=0.05"),
    ("I=1", "I=2"),
    ("J=1", "J=2"),
    ("S=1", "S=3"),
    ("E=1", "E=0"),
    ("W=a", "W="),
    ("\tW=a", ""),
    ("W=!NULL", "word=x"),
    ("\\040", "\\04"),
    ("a=-1", "a=-inf"),
    ("a=-1\tl=-2\nJ=1", "a=-.5\nJ=1"),
    ("l=-2", "l=-2\tl=-3"),
    ("S=0\tE=2", "S=1\tE=0"),
    ("l=-2\n", "l=-2"),
]


@pytest.mark.parametrize(("text", "wrong"), BROKEN)
def test_the_strict_checker_refuses_invalid_files(text, wrong):
    assert [link[2]["W"] for link in check_htk(GOOD)[2]] == ["a", "b c", "!NULL"]
    head, fragment, tail = GOOD.decode().rpartition(text)
    assert fragment
    with pytest.raises(RuleError):
        check_htk((head + wrong + tail).encode())
