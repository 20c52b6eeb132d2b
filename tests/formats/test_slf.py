"""HTK's lattices: reading agrees with a strict slow reader, and written files are read back unchanged."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import reference_slf as slow
from hypothesis import given
from hypothesis import strategies as st
from linear_time import assert_linear
from strategies_text import SMALL, SUBLATTICES, check_against_reference, sentences

from ninja.errors import FormatError, LatticeError, OptionError, SymbolError
from ninja.formats.slf import SlfOptions, SlfWriteOptions, read_slf, write_slf
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable


def rounded_sentences(lattice):
    return [(words, round(graph, 4), round(acoustic, 4)) for words, graph, acoustic in sentences(lattice)]


def test_words_on_links_are_read_with_both_costs_and_times():
    lattice = read_slf(SMALL, "k")
    assert (lattice.key, lattice.num_states, lattice.num_arcs, lattice.frame_shift) == ("k", 4, 4, 0.01)
    assert rounded_sentences(lattice) == [("one", 1.5, 15.0), ("two four", 2.25, 17.0)]
    assert lattice.time.tolist() == [0, 10, 11, 30]
    assert dict(lattice.words)["<eps>"] == 0
    check(lattice)


def test_words_on_nodes_move_to_the_links_that_enter_them():
    content = b"N=4 L=4\nI=0 W=<s>\nI=1 W=one a=-3\nI=2 W=two\nI=3 W=end\n"
    content += b"J=0 S=0 E=1 l=-4\nJ=1 S=0 E=2 a=-2 l=-1\nJ=2 S=1 E=3 a=-5 l=0\nJ=3 S=2 E=3 a=0 l=0\n"
    assert rounded_sentences(check_against_reference(content)[1]) == [("one end", 4.0, 8.0), ("two end", 1.0, 2.0)]


def test_words_at_the_begin_of_nodes_move_to_the_links_that_leave_them():
    content = b"dir=b\nN=3 L=2\nI=0 W=one\nI=1 W=two r=-3\nI=2 W=end l=-1\n"
    content += b"J=0 S=0 E=1 a=-1 r=0\nJ=1 S=1 E=2 a=-2\n"
    reference, lattice = check_against_reference(content)
    assert reference.begins
    assert [lattice.words.word(word) for word in lattice.word.tolist()] == ["one", "two", "end"]
    assert lattice.graph.tolist() == [0, 3, 1]
    assert lattice.acoustic.tolist() == [1, 2, 0]
    assert read_slf(content.replace(b"dir=b", b"dir=f"), "k", options=SlfOptions(words_on="begin")).identical(lattice)
    ends = read_slf(content.replace(b" r=0", b""), "k", options=SlfOptions(words_on="end", missing_score=0))
    assert ends.acoustic.tolist() == [0, 1, 2]  # as with `dir=f`, the first word comes before all links


def test_a_score_on_a_link_and_its_node_is_refused():
    content = b"N=2 L=1\nI=0 a=-1\nI=1 W=a r=-2\nJ=0 S=0 E=1 a=-3 l=-4\n"
    assert sentences(check_against_reference(content)[1]) == [("a", 6, 4)]
    with pytest.raises(FormatError, match=r"^f:4, key 'k': the link and its node 1 have the same score"):
        read_slf(content.replace(b"r=-2", b"a=-2"), "k", "f")


def test_a_word_on_the_first_node_gets_its_own_arc():
    lattice = check_against_reference(b"N=2 L=1\nI=0 W=hello t=0.3\nI=1 W=world t=0.5\nJ=0 S=0 E=1 a=-1\n")[1]
    assert rounded_sentences(lattice) == [("hello world", 0.0, 1.0)]
    assert lattice.time.tolist() == [0, 30, 50]


def test_a_word_on_link_and_node_must_be_the_same():
    lattice = read_slf(b"N=2 L=1\nI=0\nI=1 W=a\nJ=0 S=0 E=1 W=a\n", "k")
    assert sentences(lattice) == [("a", 0, 0)]
    with pytest.raises(FormatError, match=r"^k.slf:4, key 'k': the link's word differs from that of node 1"):
        read_slf(b"N=2 L=1\nI=0\nI=1 W=a\nJ=0 S=0 E=1 W=b\n", "k", "k.slf")


@pytest.mark.parametrize("base", [2.0, 10.0, 1.0001, math.e, 1.0])
def test_scores_of_any_base_become_natural_log_costs(base):
    unit = math.log(base) if base != 1 else 1
    content = b"base=%r\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 a=-3 l=2\n" % base
    lattice = read_slf(content, "k")
    assert lattice.acoustic[0] == np.float32(3 * unit)
    assert lattice.graph[0] == np.float32(-2 * unit)


LONG = ["3" * 19, "12345678901234567890123456789", "0." + "0" * 30 + "1", "0.1234567890123456789012345"]


@pytest.mark.parametrize("number", ["-0", "+1.5", ".5", "2.", "1e3", "-1.25E-2", *LONG])
def test_numbers_are_read_to_the_last_digit(number):
    lattice = read_slf(f"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 a={number}\n".encode(), "k")
    assert lattice.acoustic[0] == np.float32(-float(number))


def test_probabilities_become_costs():
    lattice = read_slf(b"base=0\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 a=0.5 l=1\n", "k")
    assert (lattice.acoustic[0], lattice.graph[0]) == (np.float32(math.log(2)), 0)
    with pytest.raises(FormatError, match=r"^p:5, key 'k': base=0 makes a= a probability, but it is '-1'"):
        read_slf(b"base=0\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 a=-1\n", "k", "p")


def test_options_select_the_fields_of_the_costs():
    content = b"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 a=-1 l=-2 r=-4 n=-8 i=-16,-32\n"

    def graph(*names):
        return read_slf(content, "k", options=SlfOptions(graph=names)).graph[0]

    assert read_slf(content, "k").graph[0] == 6  # language model and pronunciation
    assert [graph("l"), graph("n"), graph("l", "n"), graph("i[0]"), graph("i[1]")] == [2, 8, 10, 16, 32]
    assert read_slf(content, "k", options=SlfOptions(acoustic=("a", "r"), graph=("l",))).acoustic[0] == 5
    for name, message in {"x1": "no link has the field 'x1'", "i": "not a finite number", "i[2]": "no item 2"}.items():
        with pytest.raises(FormatError, match=message):
            graph(name)
    with pytest.raises(OptionError, match="not a field with a score"):
        SlfOptions(graph=("W",))
    with pytest.raises(OptionError, match="once"):
        SlfOptions(graph=("l", "l"))
    for options, cost_name in (({"acoustic": ("a", "r")}, "graph"), ({"graph": ("a",)}, "acoustic")):
        with pytest.raises(
            OptionError, match=f"would be part of both costs; set the fields of the {cost_name} cost, too"
        ):
            SlfOptions(**options)  # a default field of the other cost
    lattice = read_slf(content, "k", options=SlfOptions(graph=(), acoustic=("l",)))
    assert (lattice.graph[0], lattice.acoustic[0]) == (0, 2)


@pytest.mark.parametrize(
    ("spelling", "word"),
    [
        (b"plain", "plain"),
        (b"'em", "'em"),
        (b"\\'em", "'em"),
        (b'"a b"', "a b"),
        (b"'a b'", "a b"),
        (b'"say \\"hi\\""', 'say "hi"'),
        (b"d'accord", "d'accord"),
        (b"\\'tis", "'tis"),
        (b'\\"so\\"', '"so"'),
        (b'""', ""),
        (b"a\\040b", "a b"),
        (b"\\303\\251t\\303\\251", "été"),
        ("네".encode(), "네"),
        (b"back\\\\slash", "back\\slash"),
        (b"a=b", "a=b"),
        (b"#1", "#1"),
        (b"new\\ york", "new york"),
        (b"caf\\0303\\0251", "café"),  # an escape of SRILM
        (b"\\0303\\0251\\123", "é123"),
        (b"\\037777777703\\037777777651x", "éx"),
        (b"\\030\\063", "\x183"),
        (b"a\\8", "a8"),
    ],
)
def test_quotes_and_escapes_are_decoded(spelling, word):
    content = b"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=" + spelling + b" a=-1\n"
    lattice = check_against_reference(content)[1]
    assert lattice.words.spell(lattice.word) == [word]
    content_again = write_slf(lattice)
    assert read_slf(content_again, "k", words=lattice.words).identical(lattice)
    check_against_reference(content_again)


def test_fields_and_lines_can_be_in_any_order():
    content = b"""# a comment
      LINKS=2   NODES=3 # another
    J=1 END=2 a=-2 START=1 WORD=b
    \tI=2 time=0.2\r

    J=0 acoustic=-1 v=3 div=:x,0.1:y,0.2: E=1 S=0 W=a
    I=0 time=0
    I=1 time=0.1
    """
    lattice = check_against_reference(content)[1]
    assert rounded_sentences(lattice) == [("a b", 0.0, 3.0)]
    assert lattice.time.tolist() == [0, 10, 20]


def test_the_header_can_continue_after_the_size_and_have_empty_fields():
    content = b"UTTERANCE=\nlmname=\nN=3 L=2\n# where it begins\nstart=2\n\nend=0 base=10\nI=0\nI=1\nI=2\n"
    content += b"J=0 S=2 E=1 W=a l=-1\nJ=1 S=1 E=0 W=b l=0\n"
    assert rounded_sentences(check_against_reference(content)[1]) == [("a b", round(math.log(10), 4), 0.0)]
    lattice = read_slf(content, "", options=SlfOptions(key="utterance"))
    assert lattice.key == ""
    assert read_slf(write_slf(lattice), "").identical(lattice)
    begin = time.process_time()
    assert read_slf(content.replace(b"start=2\n", b"\n" * 300_000 + b"start=2\n"), "").identical(lattice)
    assert time.process_time() - begin < 20


def test_a_duration_is_removed_from_the_utterance():
    content = SMALL.replace(b"UTTERANCE=utt", b"UTTERANCE=utt(duration=2.5)")  # as in SRILM
    assert read_slf(content, "k", options=SlfOptions(key="utterance")).key == "utt"


def test_the_header_after_a_sub_lattice_can_repeat_the_base():
    again = SUBLATTICES.replace(b".\n\n", b".\n\nVERSION=1.0\nbase=10\n")
    assert read_slf(again, "k").identical(check_against_reference(SUBLATTICES)[1])
    scaled = sentences(check_against_reference(SUBLATTICES.replace(b".\n\n", b".\n\nbase=100\n"))[1])
    assert [round(acoustic / math.log(100), 4) for _, _, acoustic in scaled] == [6.0] * 4


def test_nodes_can_be_numbered_backwards_and_omitted():
    lattice = check_against_reference(b"N=3 L=2\nJ=0 S=2 E=1 W=a\nJ=1 S=1 E=0 W=b\n")[1]
    assert rounded_sentences(lattice) == [("a b", 0.0, 0.0)]
    assert lattice.time is None


def test_times_are_rounded_to_frames():
    assert read_slf(SMALL.replace(b"t=0.10", b"t=0.104"), "k").time.tolist() == [0, 10, 11, 30]
    assert read_slf(SMALL, "k", options=SlfOptions(frame_shift=0.005)).time.tolist() == [0, 20, 22, 60]
    assert read_slf(b"tscale=2\n" + SMALL, "k").time.tolist() == [0, 20, 22, 60]
    assert read_slf(SMALL.replace(b" t=0.10", b""), "k").time is None


def test_nodes_that_refer_to_sub_lattices_are_expanded():
    _, lattice = check_against_reference(SUBLATTICES)
    unit = math.log(10)
    expected = {
        (f"{first} {second}", a + b)
        for first, a in (("one", 0.5), ("two", 1.5))
        for second, b in (("one", 0.5), ("two", 1.5))
    }
    assert {(words, round(graph / unit, 4)) for words, graph, _ in sentences(lattice)} == expected
    assert {round(acoustic / unit, 4) for _, _, acoustic in sentences(lattice)} == {6.0}
    assert (lattice.num_states, lattice.num_arcs) == (10, 11)


def test_sub_lattices_can_be_numbered_backwards_with_scores_on_nodes():
    content = b"SUBLAT=x\nN=3 L=2\nI=0 W=three%s\nI=1 W=two a=-5\nI=2 W=one%s\nJ=0 S=2 E=1\nJ=1 S=1 E=0\n.\n"
    content += b"N=2 L=1\nI=0 W=zero\nI=1 L=x r=-7\nJ=0 S=0 E=1 l=-1\n"
    forward, backward = content % (b" a=0", b""), b"dir=b\n" + content % (b"", b" a=0")
    assert sentences(check_against_reference(forward)[1]) == [("zero one two three", 8, 5)]
    assert sentences(check_against_reference(backward)[1]) == [("zero one two three", 8, 5)]


def test_the_size_and_depth_of_nested_sub_lattices_is_limited():
    lines = [b"SUBLAT=s0\nN=2 L=1\nI=0 W=a\nI=1\nJ=0 S=0 E=1\n."]
    for level in range(1, 31):
        nodes = b"".join(b"I=%d L=s%d\n" % (node, level - 1) for node in range(10))
        links = b"".join(b"J=%d S=%d E=%d\n" % (link, link, link + 1) for link in range(9))
        lines.append(b"SUBLAT=s%d\nN=10 L=9\n" % level + nodes + links + b".")
    lines.append(b"N=1 L=0\nI=0 L=s30\n")
    begin = time.process_time()
    with pytest.raises(FormatError, match="the expanded sub-lattices have more than"):
        read_slf(b"\n".join(lines), "k")
    assert time.process_time() - begin < 20
    deep = [b"SUBLAT=s0\nN=1 L=0\nI=0 W=a\n."]
    deep += [b"SUBLAT=s%d\nN=1 L=0\nI=0 L=s%d\n." % (level, level - 1) for level in range(1, 5000)]
    with pytest.raises(FormatError, match="more than 32"):
        read_slf(b"\n".join([*deep, b"N=1 L=0\nI=0 L=s4999\n"]), "k")


def test_links_without_words_to_a_separate_last_node_become_final_costs():
    content = b"N=3 L=3\nJ=0 S=0 E=1 W=a a=-1 l=0\nJ=1 S=0 E=2 W=!NULL a=-7 l=-8\nJ=2 S=1 E=2 W=%s a=-2 l=-3\n"
    lattice = read_slf(content % b"!NULL", "k")
    assert (lattice.num_states, lattice.num_arcs) == (2, 1)
    assert (lattice.final_graph.tolist(), lattice.final_acoustic.tolist()) == ([8, 3], [7, 2])
    for options, word in ((SlfOptions(fold="never"), b"!NULL"), (SlfOptions(), b"</s>"), (SlfOptions(), b"b")):
        lattice_with_end = read_slf(content % word, "k", options=options)
        assert (lattice_with_end.num_states, lattice_with_end.num_arcs) == (3, 3)
    assert read_slf(content % b"</s>", "k", options=SlfOptions(fold="silent")).num_states == 2
    parallel = b"N=2 L=2\n###\nJ=0 S=0 E=1 W=!NULL a=-1\nJ=1 S=0 E=1 W=!NULL a=-2\n"
    assert sentences(check_against_reference(parallel)[1]) == [("", 0, 1), ("", 0, 2)]


def test_the_encoding_option_sets_the_encoding():
    content = SMALL.replace(b"four", "été".encode("latin-1"))
    with pytest.raises(FormatError, match=r"^f:12, key 'k': not UTF-8 .*specify the encoding"):
        read_slf(content, "k", "f")
    lattice = read_slf(content, "k", options=SlfOptions(encoding="latin-1"))
    assert "été" in lattice.words
    assert b"W=\xe9t\xe9" in write_slf(lattice, encoding="latin-1")
    with pytest.raises(SymbolError, match="cannot be written as ASCII"):
        write_slf(lattice, encoding="ascii")
    for encoding, message in {"utf-16": "not a superset of ASCII", "nonsense": "unknown encoding"}.items():
        with pytest.raises(OptionError, match=message):
            SlfOptions(encoding=encoding)


def costs():
    return st.floats(-1e4, 1e4, width=32).map(lambda cost: cost + 0.0)


@st.composite
def lattices(draw):
    num_states = draw(st.integers(1, 7))
    table = SymbolTable.from_words(["<eps>", "a", "b c", "'em", '"', "\\", "네", "#", "d=e", ""])
    arcs = []
    for state in range(num_states - 1):
        for _ in range(draw(st.integers(0 if state else 1, 3))):
            arcs.append(
                (
                    state,
                    draw(st.integers(state + 1, num_states - 1)),
                    draw(st.integers(0, 9)),
                    draw(costs()),
                    draw(costs()),
                )
            )
    begin = np.searchsorted([arc[0] for arc in arcs], range(num_states + 1))
    reachable = {0}
    for arc in arcs:
        reachable |= {arc[1]} if arc[0] in reachable else set()
    finals = draw(st.sets(st.sampled_from(sorted(reachable)), min_size=1))
    zero_final_costs = draw(st.booleans())
    final = [
        [(0.0 if zero_final_costs else draw(costs())) if state in finals else math.inf for state in range(num_states)]
        for _ in range(2)
    ]
    times = np.sort(draw(st.lists(st.integers(0, 10**6), min_size=num_states, max_size=num_states)))
    columns = list(zip(*arcs, strict=True)) or [()] * 5
    return Lattice.from_arrays(
        "key of it", begin, *columns[1:], *final, time=times if draw(st.booleans()) else None, words=table
    )


@given(lattices(), st.sampled_from([None, 1.0, 10.0, 1.0001]))
def test_slf_is_identical_after_write_and_read(lattice, base):
    content = write_slf(lattice, options=SlfWriteOptions(base=base))
    back = read_slf(content, "", words=lattice.words, options=SlfOptions(key="utterance"))
    is_reachable = np.zeros(lattice.num_states, bool)
    is_reachable[0] = True
    for src, dst in zip(lattice.src, lattice.dst, strict=True):
        is_reachable[dst] |= is_reachable[src]
    reference = slow.read_slf(content)
    if is_reachable[lattice.is_final].any():
        assert back.identical(lattice)
        assert (back.time is None) == (lattice.time is None)
    np.testing.assert_allclose(slow.lattice_fingerprint(lattice), slow.fingerprint(reference), rtol=1e-4)
    assert write_slf(back, options=SlfWriteOptions(base=base)) == content


@given(lattices())
def test_probabilities_are_almost_equal_after_write_and_read(lattice):
    large = max(np.abs(lattice.graph).max(initial=0), np.abs(lattice.acoustic).max(initial=0))
    if (
        large > 700
        or max(
            np.abs(lattice.final_graph[lattice.is_final]).max(), np.abs(lattice.final_acoustic[lattice.is_final]).max()
        )
        > 700
    ):
        with pytest.raises(LatticeError, match="too large for a probability"):
            write_slf(lattice, options=SlfWriteOptions(base=0))
        return
    back = read_slf(write_slf(lattice, options=SlfWriteOptions(base=0)), "key of it", words=lattice.words)
    np.testing.assert_allclose(back.graph, lattice.graph, rtol=1e-6, atol=1e-12)


def test_slf_refuses_lattices_that_it_cannot_store():
    lattice = read_slf(SMALL, "k")
    with pytest.raises(OptionError, match="base is -1"):
        write_slf(lattice, options=SlfWriteOptions(base=-1))
    with pytest.raises(OptionError, match="frame_shift is -1"):
        write_slf(lattice, options=SlfWriteOptions(frame_shift=-1))
    with pytest.raises(SymbolError, match="use --words to set a symbol table"):
        write_slf(lattice.with_words(None))
    with pytest.raises(SymbolError, match="name of epsilon"):
        write_slf(lattice, SymbolTable.from_words(["<eps>", "!NULL", "b", "c"]))
    endless = Lattice.from_arrays("k", [0, 0], [], [], [], [], [0.0], words=lattice.words)
    object.__setattr__(endless, "final_graph", np.array([np.inf], np.float32))
    with pytest.raises(LatticeError, match="no state is final"):
        write_slf(endless)
    with pytest.raises(OptionError, match="frame_shift is 0"):
        SlfOptions(frame_shift=0)
    with pytest.raises(OptionError, match="fold is 'x', but must be never, null or silent"):
        SlfOptions(fold="x")


def test_times_of_alignments_are_written():
    lattice = Lattice.from_arrays(
        "k",
        [0, 1, 1],
        [1],
        [0],
        [0],
        [0],
        [np.inf, 0],
        ali_begin=[0, 3],
        ali=[7, 7, 7],
        final_ali_begin=[0, 0, 2],
        final_ali=[8, 8],
    )
    content = write_slf(lattice, SymbolTable.from_words(["<eps>"]), SlfWriteOptions(frame_shift=0.03))
    assert content.splitlines()[5:8] == [
        b"I=0\tt=0.00", b"I=1\tt=0.09", b"I=2\tt=0.15",
    ]  # fmt: skip


@pytest.mark.parametrize(("base", "zero"), [("", "-inf"), ("base=10", "-Infinity"), ("base=0", "0.00")])
@pytest.mark.parametrize("on_node", [False, True])
def test_links_with_zero_probability_are_dropped(base, zero, on_node):
    on = [("", zero), (zero, "")][on_node]
    certain = "1" if base == "base=0" else "0"
    content = (
        f"{base}\nN=4 L=4\nI=0\nI=1 W=a {on[0] and 'a=' + on[0]}\nI=2 W=b {on[0] and 'a=' + certain}\nI=3 W=!NULL\n"
        f"J=0 S=0 E=1 {on[1] and 'a=' + on[1]}\nJ=1 S=0 E=2 {on[1] and 'a=' + certain}\nJ=2 S=1 E=3\nJ=3 S=2 E=3\n"
    ).encode()
    lattice = read_slf(content, "k")
    assert [lattice.words.word(word) for word in lattice.word if word] == ["b"]
    with pytest.raises(LatticeError, match="no path leads from the first node"):
        read_slf(content.replace(b"J=1 S=0 E=2", b"J=1 S=1 E=2"), "k")


def test_zero_probability_is_refused_at_the_ends_and_in_sub_lattices():
    with pytest.raises(FormatError, match="the lattice's first or last word has probability 0"):
        read_slf(b"N=2 L=1\nI=0 W=a a=-inf\nI=1 W=b a=0\nJ=0 S=0 E=1\n", "k")
    sub = b"SUBLAT=x\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=a a=-inf\n.\nN=3 L=2\nI=0\nI=1 L=x\nI=2\n"
    with pytest.raises(FormatError, match="in files with sub-lattices"):
        read_slf(sub + b"J=0 S=0 E=1 W=!NULL a=0\nJ=1 S=1 E=2 W=!NULL a=0\n", "k")


def test_a_second_lattice_and_an_escaped_tab_are_refused():
    lattice = b"VERSION=1.0\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=a a=0\n"
    with pytest.raises(FormatError, match=r":6, key 'k': a second lattice begins here"):
        read_slf(lattice + lattice, "k", "p")
    with pytest.raises(FormatError, match=r":5, key 'k': there is a backslash before a tab"):
        read_slf(lattice.replace(b"W=a a", b"W=a\\\ta"), "k", "p")


@pytest.mark.parametrize("quotes", ['"', "'", "\"'"])
def test_unclosed_quotes_are_read_in_linear_time(quotes):
    def reading(size):
        fields = " ".join(f"x={quotes[number % len(quotes)]}w\\ w" for number in range(size))
        content = f"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=a {fields}\n".encode()
        return lambda: read_slf(content, "k")

    assert_linear(reading, 8_000)


@given(st.lists(st.text("\"'\\ ab", min_size=1, max_size=5), min_size=1, max_size=6))
def test_quotes_agree_with_the_slow_reader(values):
    line = " x=".join(["W=" + values[0], *values[1:]])
    content = f"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 {line}\n".encode()
    try:
        read_slf(content, "k")
    except FormatError:
        with pytest.raises(slow.RuleError):
            slow.read_slf(content)
    else:
        check_against_reference(content)
