"""SRILM's PFSGs: reading agrees with a slow reader, and written files are read back unchanged."""

from __future__ import annotations

import re

import numpy as np
import pytest
import reference_slf as slow
from hypothesis import given
from linear_time import assert_linear
from strategies_text import PFSG, any_lattices, lattice_of, with_one_cost

from ninja.errors import FormatError, LatticeError, OptionError, SymbolError
from ninja.formats.pfsg import PfsgOptions, read_pfsg, read_pfsgs, write_pfsg
from ninja.formats.textual import OneCost
from ninja.lattice import check
from ninja.lattice.symbols import SymbolTable


def test_words_are_on_the_transitions_that_enter_their_nodes():
    lattice = read_pfsg(PFSG, "k")
    check(lattice)
    assert (lattice.num_states, lattice.num_arcs) == (4, 4)  # the transition to the final NULL becomes a final cost
    assert [lattice.words.word(word) for word in lattice.word.tolist()] == ["a", "b", "c", "c"]
    np.testing.assert_allclose(lattice.graph, np.array([1e4, 2e4, 3e4, 0]) / 10000.5, rtol=1e-6)
    np.testing.assert_allclose(lattice.final_graph[3], 5e3 / 10000.5, rtol=1e-6)
    assert lattice.time is None
    np.testing.assert_allclose(slow.lattice_fingerprint(lattice), slow.fingerprint(slow.read_pfsg(PFSG)), rtol=1e-6)
    lattice = read_pfsg(PFSG, "k", options=PfsgOptions(fold="never"))
    assert (lattice.num_states, lattice.num_arcs) == (5, 5)


def test_several_lattices_of_a_file_have_names_as_keys():
    lattices = list(read_pfsgs(PFSG + PFSG.replace(b"utt1", b"utt2")))
    assert [lattice.key for lattice in lattices] == ["utt1", "utt2"]
    with pytest.raises(FormatError, match=r"^f:12, key 'k': the file continues after the lattice"):
        read_pfsg(PFSG + PFSG, "k", "f")
    entries = read_pfsgs(PFSG + PFSG.replace(b"final 4", b"final 9"), "f")
    assert next(entries).key == "utt1"
    with pytest.raises(FormatError, match=r"^f:15: the final node 9 is out of range"):
        next(entries)


def test_sentence_tags_and_durations_are_dropped():
    content = PFSG.replace(b"utt1", b"utt1(duration=2.5)").replace(b"NULL a b c NULL", b"<s> a b c </s>")
    [lattice] = read_pfsgs(content)
    assert lattice.key == "utt1"
    assert lattice.identical(read_pfsg(PFSG, "utt1"))
    lattice = read_pfsg(content, "k", options=PfsgOptions(silent=frozenset()))
    assert {"<s>", "</s>"} <= {word for word, _ in lattice.words}


BAD = {
    "name utt1": ("nome utt1", "expected 'name', found 'nome'"),
    "nodes 5": ("nodes 999999", "the number of nodes is 999999, but"),
    "nodes 5 NULL a b c NULL": ("nodes 0", "the lattice is empty: it has no nodes"),
    "nodes 5 NULL": ("nodes 6 NULL", "expected 'initial', found '0'"),
    "initial 0": ("initial 5", "the initial node 5 is out of range: 0 to 4"),
    "final 4": ("final -4", "the final node -4 is out of range"),
    "transitions 5": ("transitions 99999", "the number of transitions is 99999, but"),
    "transitions 5\n": ("transitions 6\n", "the first node is not an integer: ''"),
    "1 3 -30000": ("1 7 -30000", "the second node 7 is out of range"),
    "2 3 0": ("2 3 nan", "the cost is not a finite number: 'nan'"),
    "3 4 -5000": ("3 4 -5000 extra", "the file continues after the lattice"),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files_are_refused_with_their_line(text):
    wrong, message = BAD[text]
    assert text.encode() in PFSG
    with pytest.raises(FormatError) as caught:
        read_pfsg(PFSG.replace(text.encode(), wrong.encode(), 1), "k", "bad.pfsg")
    assert re.match(r"bad\.pfsg:\d+, key 'k': ", str(caught.value))
    assert message in str(caught.value)


def test_a_truncated_file_is_refused():
    for cut in range(len(PFSG.rstrip()) + 1):
        with pytest.raises(FormatError):
            read_pfsg(PFSG[:cut], "k")


def test_cycles_and_unknown_words_are_refused():
    with pytest.raises(LatticeError, match=r"^f:9, key 'k': there is a cycle: nodes"):
        read_pfsg(PFSG.replace(b"transitions 5", b"transitions 6").replace(b"2 3 0", b"2 3 0\n3 2 0"), "k", "f")
    with pytest.raises(SymbolError, match=r"^f:2, key 'k': word 'c' is not in the symbol table"):
        read_pfsg(PFSG, "k", "f", SymbolTable.from_words(["<eps>", "a", "b"]))
    with pytest.raises(FormatError, match="not UTF-8"):
        read_pfsg(PFSG.replace(b" c ", b" \xff "), "k")
    assert "\xff" in read_pfsg(PFSG.replace(b" c ", b" \xff "), "k", options=PfsgOptions(encoding="latin-1")).words


@given(any_lattices(unit=1 / 10000.5))
def test_any_lattice_is_written_with_its_sentences_and_total_costs(lattice):
    content = write_pfsg(lattice, options=OneCost(acoustic_scale=2.0))
    back = read_pfsg(content, "k", words=lattice.words)
    expected = slow.lattice_fingerprint(with_one_cost(lattice, 2.0))
    np.testing.assert_allclose(slow.lattice_fingerprint(back), expected, rtol=1e-5)
    reference = slow.read_pfsg(content)
    assert not {reference.start, reference.end} & reference.words.keys()
    np.testing.assert_allclose(slow.fingerprint(reference), expected, rtol=1e-5)
    rewritten = read_pfsg(write_pfsg(back), "k", words=lattice.words)
    assert rewritten.identical(back)


def test_the_costs_option_selects_the_written_cost():
    lattice = lattice_of([(0, 1, 1, 1.0, 2.0)], {1: (0, 0)})
    assert [write_pfsg(lattice, None, OneCost(costs)).split()[-4] for costs in ("graph", "acoustic", "total")] == [
        b"-10000", b"-20001", b"-30002",
    ]  # fmt: skip


def test_the_first_and_the_last_node_have_no_word():
    # SRILM's reader replaces them by <s> and </s>.
    lattice = lattice_of([(0, 1, 1, 1.0, 0.0)], {1: (0, 0)})
    content = write_pfsg(lattice)
    assert content == b"name k\nnodes 3 NULL a NULL\ninitial 0\nfinal 2\ntransitions 2\n0 1 -10000\n1 2 0\n\n"
    assert read_pfsg(content, "k", words=lattice.words).word.tolist() == [1]


def test_pfsg_refuses_lattices_that_it_cannot_store():
    lattice = lattice_of([(0, 1, 1, 1.0, 2.0)], {1: (0, 0)})
    with pytest.raises(OptionError, match="costs is 'x'"):
        write_pfsg(lattice, options=OneCost(costs="x"))
    with pytest.raises(SymbolError, match="without quotes"):
        write_pfsg(lattice, SymbolTable.from_words(["<eps>", "a b"]))
    with pytest.raises(SymbolError, match="name of epsilon"):
        write_pfsg(lattice, SymbolTable.from_words(["<eps>", "NULL"]))
    with pytest.raises(LatticeError, match="exceeds the range of a PFSG"):
        write_pfsg(lattice_of([(0, 1, 1, 1e6, 2.0)], {1: (0, 0)}))


def test_empty_lines_after_an_invalid_lattice_are_read_in_linear_time():
    def reading(size):
        faulty = b"name a\nnodes 2 a b\ninitial 0\nfinal 1\ntransitions 2\n0 1 0\n1 1 0\n"
        content = faulty + b"\n" * size + b"x\n" + PFSG

        def run():
            fault, whole = read_pfsgs(content)
            assert isinstance(fault, LatticeError)
            assert whole.num_arcs > 0

        return run

    assert_linear(reading, 10_000)
