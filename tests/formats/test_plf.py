"""Moses' lattices: reading agrees with Python's own parser, and written files are read back bit for bit."""

from __future__ import annotations

import ast
import gzip
import math
import re

import numpy as np
import pytest
import reference_slf as slow
from hypothesis import given
from reference_graph import SHARED
from strategies_text import PLF, any_lattices, lattice_of

from ninja.errors import FormatError, LatticeError, OptionError, SymbolError
from ninja.formats.plf import PlfOptions, PlfWriteOptions, read_plf, read_plfs, write_plf
from ninja.lattice import check
from ninja.lattice.symbols import SymbolTable

FILES = SHARED / "data" / "formats" / "plf_fisher_callhome"
# The data are not part of the project; in CI, conftest.py turns this skip into a failure.
needs_files = pytest.mark.skipif(not FILES.is_dir(), reason="the real files are not part of the project")


def test_an_arc_spans_its_number_of_states():
    lattice = read_plf(PLF, "k")
    check(lattice)
    assert (lattice.num_states, lattice.num_arcs) == (4, 4)
    assert lattice.dst.tolist() == [1, 2, 2, 3]
    assert lattice.graph.tolist() == [1.5, 0.5, 2, 0]
    assert lattice.words.spell(lattice.word) == ["a", "b", "c", "d"]
    assert lattice.time is None


def test_words_can_have_single_or_double_quotes_and_escapes():
    line = b"""((("l'eau", -1, 1), ('d\\'or', -1, 1), ('\\\\', -1, 1), ('"', -1, 1), ('\xc3\xa9', -1, 1)),)"""
    lattice = read_plf(line, "k")
    assert lattice.words.spell(lattice.word) == ["l'eau", "d'or", "\\", '"', "é"]
    assert ast.literal_eval(line.decode())[0][1][0] == "d'or"
    assert [arc[0] for arc in ast.literal_eval(write_plf(lattice).decode())[0]] == lattice.words.spell(lattice.word)
    assert read_plf(write_plf(lattice), "k", words=lattice.words).identical(lattice)


@pytest.mark.parametrize("line", [b"()", b"", b"\n", b" ( ) \r\n"])
def test_a_lattice_without_columns_is_the_empty_sentence(line):
    lattice = read_plf(line, "k")
    assert (lattice.num_states, lattice.num_arcs, lattice.is_final.tolist()) == (1, 0, [True])
    assert write_plf(lattice) == b"()\n"


def test_options_select_the_kind_and_fields_of_scores():
    line = b"((('a', 0.25, 0.5, 1),),)"
    with pytest.raises(FormatError, match=r"^f:7, key 'k': a score is positive"):
        read_plf(line, "k", "f", line=7)
    lattice = read_plf(line, "k", options=PlfOptions("probability", graph=0, acoustic=1))
    assert (lattice.graph[0], lattice.acoustic[0]) == (np.float32(math.log(4)), np.float32(math.log(2)))
    lattice = read_plf(line, "k", options=PlfOptions("score", graph=1))
    assert (lattice.graph[0], lattice.acoustic[0]) == (-0.5, 0)
    with pytest.raises(FormatError, match="score 2 was selected, but arcs have 2"):
        read_plf(line, "k", options=PlfOptions("score", graph=2))
    with pytest.raises(FormatError, match="a score is not a probability above 0"):
        read_plf(PLF, "k", options=PlfOptions("probability"))
    for options in ({"scores": "x"}, {"graph": -1}, {"acoustic": 0}, {"graph": 1, "acoustic": 1}):
        with pytest.raises(OptionError):
            PlfOptions(**options)


# From Moses' manual, "Word lattices".
MOSES = b"""((('einen',1.0,1),),(('wettbewerbsbedingten',0.5,2),('wettbewerbs',0.25,1), ('wettbewerb',0.25, 1),),\
(('bedingten',1.0,1),),(('preissturz',0.5,2), ('preis',0.5,1),),(('sturz',1.0,1),),)"""


def test_probabilities_are_detected_from_the_line():
    lattice = read_plf(MOSES, "k")
    assert lattice.num_arcs == 8
    np.testing.assert_allclose(lattice.graph, -np.log([1, 0.5, 0.25, 0.25, 1, 0.5, 0.5, 1]), rtol=1e-6, atol=0)
    assert lattice.identical(read_plf(MOSES, "k", options=PlfOptions("probability")))
    assert read_plf(b"((('a', 1, 1),('b', 1, 1),),(('c', 1.0, 1),),)", "k").graph.tolist() == [0, 0, 0]
    assert read_plf(b"((('a', 0, 1),('b', -1.5, 1),),)", "k").graph.tolist() == [0, 1.5]
    assert read_plf(b"((('a', 0.00005, 1),),)", "k").graph[0] == np.float32(-0.00005)  # rounded logarithms
    lattice = read_plf(b"((('a', 0.5, -3, 1),('b', 0.5, 0, 1),),)", "k", options=PlfOptions(graph=0, acoustic=1))
    assert (lattice.graph[0], lattice.acoustic[0]) == (np.float32(math.log(2)), 3)
    for line in (b"((('a', 0.5, 1),),)", b"((('a', 0.5, 1),('b', 0.5, 1),),(('c', -1, 1),),)", b"((('a', 2, 1),),)"):
        with pytest.raises(FormatError, match="set the kind of scores"):
            read_plf(line, "k")
    with pytest.raises(FormatError, match="a score is positive"):
        read_plf(MOSES, "k", options=PlfOptions("log"))


def test_commas_after_a_single_item_are_optional():
    # A line of Joshua.
    line = b"((('einen', 0, 1)), (('wettbewerbs', -0.2, 1), ('wettbewerb', -1.5, 1)), (('sturz', -1.0, 1)))"
    lattice = read_plf(line, "k")
    assert lattice.dst.tolist() == [1, 2, 2, 3]
    np.testing.assert_allclose(slow.lattice_fingerprint(lattice), slow.fingerprint(slow.read_plf(line)), rtol=1e-6)
    assert read_plf(b"((('a', -1, 1)))", "k").identical(read_plf(b"((('a', -1, 1),),)", "k"))


BAD = {
    b"(": "the lattice ends within its parentheses",
    b"x": "expected '(', found 'x'",
    b"((('a', -1, 1),),) x": "the line continues after the lattice: 'x'",
    b"((('a', -1, 1) ('b', -1, 1)),)": "expected ',' or ')'",
    b"((('a', -1, 2),),)": "an arc leads to state 2, but the last one is 1",
    b"((('a', -1, 0),),)": "the last number of an arc must be its distance",
    b"((('a', -1, 1.5),),)": "the last number of an arc must be its distance",
    b"((('a', -1, 1e9),),)": "an arc leads to state 1000000000",
    b"((('a', -1, -1),),)": "the last number of an arc must be its distance",
    b"((('a', nan, 1),),)": "expected a finite number, found 'nan,'",
    b"((('a', -1e999, 1),),)": "expected a finite number",
    b"((('a',),),)": "an arc needs a word, scores and a distance",
    b"((('a', 1),),)": "score 0 was selected, but arcs have 0",
    b"((('a', -1, 1),('b', -1, -1, 1)),)": "an arc has 2 scores, the others 1",
    b"((('a, -1, 1),),)": "the word has no closing quote",
    b"((('', -1, 1),),)": "the word is empty",
    b"((('a\\n', -1, 1),),)": "a backslash must be followed by a quote or a backslash",
    b"(((a, -1, 1),),)": "expected a word in quotes",
    b"()\n()": "more than one line",
    b"((('\xff', -1, 1),),)": "not UTF-8",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_lines_are_refused_with_their_number(line):
    with pytest.raises(FormatError) as caught:
        read_plf(line, "k", "bad.plf", line=3)
    assert re.match(r"bad\.plf:[34], key 'k': ", str(caught.value))
    assert BAD[line] in str(caught.value)


def test_unreachable_final_states_and_unknown_words_are_refused():
    with pytest.raises(LatticeError, match=r"no path leads from the first state \(0\) to the last \(2\)"):
        read_plf(b"((('a', -1, 1),),(),)", "k")
    with pytest.raises(SymbolError, match=r"^f:1, key 'k': word 'd' is not in the symbol table"):
        read_plf(PLF, "k", "f", SymbolTable.from_words(["<eps>", "a", "b", "c"]))


def test_a_truncated_line_is_refused():
    for cut in range(1, len(PLF) - 1):
        with pytest.raises(FormatError):
            read_plf(PLF[:cut], "k")


def test_an_invalid_line_does_not_affect_other_lines():
    items = list(read_plfs(PLF + b"broken\n" + PLF, "f.plf"))
    assert [getattr(item, "key", None) for item in items] == ["1", "2", "3"]
    assert str(items[1]) == "f.plf:2, key '2': expected '(', found 'broken'"


@given(any_lattices(unit=0.37))
def test_plf_is_unchanged_after_write_and_read(lattice):
    content = write_plf(lattice, options=PlfWriteOptions(scores="both"))
    back = read_plf(content, "k", words=lattice.words, options=PlfOptions("score", graph=0, acoustic=1))
    np.testing.assert_allclose(slow.lattice_fingerprint(back), slow.lattice_fingerprint(lattice), rtol=1e-5)
    assert back.identical(lattice)
    total = read_plf(
        write_plf(lattice, options=PlfWriteOptions(acoustic_scale=0.5)),
        "k",
        words=lattice.words,
        options=PlfOptions("score"),
    )
    np.testing.assert_array_equal(
        total.graph, (lattice.graph + 0.5 * lattice.acoustic.astype(float)).astype(np.float32)
    )
    assert len(ast.literal_eval(content.decode())) in (lattice.num_states, lattice.num_states - 1)


def test_plf_refuses_words_that_it_cannot_store():
    lattice = lattice_of([(0, 1, 1, 1.0, 2.0)], {1: (0, 0)})
    with pytest.raises(OptionError, match="costs is 'x'"):
        write_plf(lattice, options=PlfWriteOptions(scores="x"))
    with pytest.raises(SymbolError, match="name of epsilon"):
        write_plf(lattice, SymbolTable.from_words(["<eps>", "*EPS*"]))
    with pytest.raises(SymbolError, match="cannot be written"):
        write_plf(lattice, SymbolTable.from_words(["<eps>", "a\nb"]))


@needs_files
@pytest.mark.parametrize("name", ["callhome_evltest", "fisher_dev"])
def test_real_lattices_agree_with_the_python_parser(name):
    lines = gzip.decompress((FILES / f"{name}.plf.gz").read_bytes()).split(b"\n")[:-1]
    for line, lattice in list(zip(lines, read_plfs(b"\n".join(lines)), strict=True))[::13]:
        np.testing.assert_allclose(slow.lattice_fingerprint(lattice), slow.fingerprint(slow.read_plf(line)), rtol=1e-5)
