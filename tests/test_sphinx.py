"""Lattices of Sphinx: equal to their twins in SLF, written so that they read back as they were."""

from __future__ import annotations

import gzip
import random
import re

import numpy as np
import pytest
import reference_slf as slow
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies_text import FILES, accepts, any_lattices, lattice_of, needs_files

from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats.slf import read_slf, write_slf
from ninja.formats.sphinx import SphinxOptions, read_sphinx, read_sphinx_whole, write_sphinx
from ninja.lattice import Lattice, check
from ninja.symbols import SymbolTable

PAIRS = sorted(FILES.glob("*pocketsphinx/*.slf.gz"), key=lambda path: path.stat().st_size) if FILES.is_dir() else []

SMALL = b"""# getcwd: /somewhere
# -logbase 1.000100e+00
#
Frames 30
#
Nodes 5 (NODEID WORD STARTFRAME FIRST-ENDFRAME LAST-ENDFRAME)
0 </s> 20 29 29 ; 0
1 to(2) 10 19 19 ; 0
2 two 11 19 19 ; 0
3 [NOISE] 5 9 10 ; 0
4 <s> 0 4 4 ; 0
#
Initial 4
Final 0
#
BestSegAscr 0 (NODEID ENDFRAME ASCORE)
#
Edges (FROM-NODEID TO-NODEID ASCORE)
4 3 -10000
3 1 -20000
3 2 -30000
1 0 -40000
2 0 -50000
End
"""
UNIT = np.log(1.0001)


def test_words_are_on_the_edges_that_leave_their_nodes():
    whole = read_sphinx_whole(SMALL, "k")
    lattice = whole.lattice
    check(lattice)
    assert (lattice.num_states, lattice.num_arcs, lattice.frame_shift) == (5, 5, 0.01)
    spelled = [lattice.words.word(word) for word in lattice.word.tolist()]
    assert sorted(spelled) == ["<eps>", "<eps>", "<eps>", "to", "two"]
    np.testing.assert_allclose(sorted(lattice.acoustic), np.arange(1, 6) * 1e4 * UNIT, rtol=1e-6)
    assert lattice.graph.tolist() == [0] * 5
    assert sorted(lattice.time.tolist()) == [0, 5, 10, 11, 20]
    assert (whole.frames, whole.base) == (30, 1.0001)
    assert sorted(whole.variant.tolist()) == [1, 1, 1, 1, 2]
    assert whole.lost == ("1 times the filler '</s>': read as epsilon", "1 times the filler '<s>': read as epsilon")


def test_fillers_can_be_kept_as_words():
    lattice = read_sphinx(SMALL, "k", options=SphinxOptions(silent=frozenset(), bracketed=False))
    assert {"[NOISE]", "<s>", "</s>"} <= {word for word, _ in lattice.words}
    assert lattice.num_states == 6  # </s> is over at the last frame
    assert lattice.time.max() == 30


BAD = {
    "Frames 30": ("Frame 30", "expected 'Frames', found 'Frame'"),
    "Nodes 5": ("Nodes 999999999", "Nodes 999999999 is out of range"),
    "Nodes 5 ": ("Nodes 6 ", "the node is no integer: '#'"),
    "0 </s> 20": ("1 </s> 20", "node 1 is described twice"),
    "0 </s> 20 29": ("0 </s> -20 29", "the first frame -20 is out of range"),
    "Initial 4": ("Initial 5", "Initial 5 is out of range: 0 to 4"),
    "BestSegAscr 0": ("BestSegAscr 99", "the file ends within BestSegAscr"),
    "4 3 -10000": ("4 9 -10000", "the second node 9 is out of range"),
    "4 3 -10000\n": ("4 3 nan\n", "the score is no integer of 32 bits: 'nan'"),
    "3 1 -20000": ("3 1 -20000 5", "more than two nodes and a score: '5'"),
    "End\n": ("", "the file ends within the edges: 'End' is missing"),
    "# -logbase 1.000100e+00": ("#", "no line '# -logbase' says what the scores are"),
    "# -logbase 1.000100": ("# -logbase 0.5", "the base of logarithms must be greater than 1"),
    "End": ("End\nmore", "more behind 'End': 'more'"),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files_are_refused_with_their_line(text):
    wrong, message = BAD[text]
    assert text.encode() in SMALL
    with pytest.raises(FormatError) as caught:
        read_sphinx(SMALL.replace(text.encode(), wrong.encode(), 1), "k", "bad.lat")
    assert re.match(r"bad\.lat:\d+, key 'k': ", str(caught.value))
    assert message in str(caught.value)


def test_a_base_can_be_given_where_the_file_has_none():
    content = SMALL.replace(b"# -logbase 1.000100e+00", b"#")
    assert read_sphinx(content, "k", options=SphinxOptions(base=1.0001)).identical(read_sphinx(SMALL, "k"))
    with pytest.raises(FormatError, match="a second base"):
        read_sphinx(SMALL.replace(b"\n#\n", b"\n# -logbase 2\n", 1), "k")
    with pytest.raises(OptionError, match="greater than 1"):
        SphinxOptions(base=1.0)


def test_cycles_and_unknown_words_are_refused():
    with pytest.raises(LatticeError, match="a cycle: nodes"):
        read_sphinx(SMALL.replace(b"End\n", b"1 3 -5\nEnd\n"), "k")
    with pytest.raises(SymbolError, match=r"^f:9, key 'k': word 'two' is not in the symbol table"):
        read_sphinx(SMALL, "k", "f", SymbolTable.from_words(["<eps>", "to"]))


def test_a_file_cut_anywhere_is_refused():
    for cut in range(len(SMALL) - len("\n") - 1):
        with pytest.raises(FormatError):
            read_sphinx(SMALL[:cut], "k")


@needs_files
@pytest.mark.parametrize("path", [path for each, path in enumerate(PAIRS) if each % 3 == 0], ids=lambda path: path.name)
def test_one_utterance_is_the_same_in_slf_and_sphinx(path):
    slf = read_slf(gzip.decompress(path.read_bytes()), "k")
    content = gzip.decompress((path.parent / path.name.replace(".slf.", ".lat.")).read_bytes())
    lattice = read_sphinx(content, "k")
    for name in ("arc_begin", "dst", "word", "time", "final_graph", "final_acoustic"):
        np.testing.assert_array_equal(getattr(lattice, name), getattr(slf, name), name)
    assert lattice.words == slf.words
    np.testing.assert_allclose(lattice.acoustic, slf.acoustic, rtol=1e-6, atol=1e-6)  # SLF has 6 decimals
    assert read_sphinx(write_sphinx(lattice), "k", words=lattice.words).identical(lattice)
    assert read_slf(write_slf(slf), "k", words=slf.words).identical(slf)


@needs_files
@pytest.mark.parametrize("path", PAIRS[::12], ids=lambda path: path.name)
def test_real_files_are_read_as_the_slow_reader_reads_them(path):
    content = gzip.decompress((path.parent / path.name.replace(".slf.", ".lat.")).read_bytes())
    lattice, made = read_sphinx(content, "k"), slow.read_sphinx(content)
    assert (lattice.num_states, lattice.num_arcs) == (made.nodes, len(made.links))
    total = slow.fingerprint(made)
    np.testing.assert_allclose(slow.lattice_fingerprint(lattice), total, rtol=1e-5)
    slf = slow.read_slf(gzip.decompress(path.read_bytes()))
    np.testing.assert_allclose(slow.fingerprint(slf), total, rtol=1e-5)


@needs_files
def test_every_first_best_of_an4_is_a_path_of_its_lattice():
    folder = FILES / "an4_pocketsphinx"
    hypotheses = [line.split() for line in (folder / "hyp").read_text().splitlines()]
    assert len(hypotheses) == 84
    for key, *sentence in hypotheses[::4]:
        lattice = read_slf(gzip.decompress((folder / f"{key}.slf.gz").read_bytes()), key)
        assert accepts(lattice, [word.lower() for word in sentence]), key
        assert not accepts(lattice, [*(word.lower() for word in sentence), "never"])


def fingerprint_without_graph(lattice):
    zero = np.zeros_like(lattice.graph)
    finals = np.where(lattice.is_final, 0, np.inf).astype(np.float32)
    plain = Lattice.from_arrays(
        "k",
        lattice.arc_begin,
        lattice.dst,
        lattice.word,
        zero,
        lattice.acoustic,
        finals,
        lattice.final_acoustic,
        words=lattice.words,
    )
    return slow.lattice_fingerprint(plain)


@given(any_lattices())
def test_any_lattice_is_written_with_its_sentences_and_acoustic_scores(lattice):
    content = write_sphinx(lattice)
    again = read_sphinx(content, "k", words=lattice.words)
    np.testing.assert_allclose(slow.lattice_fingerprint(again), fingerprint_without_graph(lattice), rtol=1e-5)
    np.testing.assert_allclose(
        slow.fingerprint(slow.read_sphinx(content)), fingerprint_without_graph(lattice), rtol=1e-5
    )
    once_more = read_sphinx(write_sphinx(again), "k", words=lattice.words)
    np.testing.assert_allclose(slow.lattice_fingerprint(once_more), slow.lattice_fingerprint(again), rtol=1e-6)


def test_what_cannot_be_written_is_refused():
    lattice = lattice_of([(0, 1, 1, 0, 1)], {1: (0, 0)})
    with pytest.raises(OptionError, match="base is 1"):
        write_sphinx(lattice, base=1.0)
    with pytest.raises(SymbolError, match="'a b' cannot be written without quotes"):
        write_sphinx(lattice, SymbolTable.from_words(["<eps>", "a b"]))
    with pytest.raises(LatticeError, match="beyond 32 bits"):
        write_sphinx(lattice_of([(0, 1, 1, 0, 1e6)], {1: (0, 0)}))
    names = ["<eps>", *(f"w{number}" for number in range(400))]
    arcs = [(0, 1, word, 0, 0) for word in range(1, 401)] + [(1, 2, word, 0, 0) for word in range(1, 401)]
    with pytest.raises(LatticeError, match="words on nodes would need 160"):
        write_sphinx(lattice_of(arcs, {2: (0, 0)}, names))


@settings(max_examples=80)
@given(st.integers(0, 2**32))
def test_damaged_files_are_refused_or_read_as_the_slow_reader_reads_them(seed):
    random_ = random.Random(seed)
    damaged = bytearray(SMALL)
    for _ in range(random_.randrange(1, 4)):
        at = random_.randrange(len(damaged))
        damaged[at : at + random_.randrange(3)] = random_.choice(
            [b"", b"-1", b"999999999", b"nan", b"\n", b" ", b"\xff", b"7"]
        )
    try:
        lattice = read_sphinx(bytes(damaged), "k")
    except NinjaError:
        return
    check(lattice)
    np.testing.assert_allclose(
        slow.lattice_fingerprint(lattice), slow.fingerprint(slow.read_sphinx(bytes(damaged))), rtol=1e-4
    )
