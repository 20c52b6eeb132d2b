"""Incomplete HTK lattices: no word or score is invented, and no path beyond the ends is lost."""

from __future__ import annotations

import pytest
import reference_slf as slow
from strategies_text import SMALL, check_against_reference, sentences

from ninja.errors import FormatError, LatticeError, OptionError
from ninja.formats.pfsg import read_pfsg, read_pfsgs
from ninja.formats.slf import SlfOptions, read_slf
from ninja.io import read

ON_NODES = b"""N=4 L=4
I=0 W=!NULL
I=1 W=one
I=2 W=two
I=3 W=!NULL
J=0 S=0 E=1 a=-1 l=-5
J=1 S=0 E=2 a=-2 l=-6
J=2 S=1 E=3 a=-3 l=-7
J=3 S=2 E=3 a=-4 l=-8
"""
LACKS = "but others have; specify a value for missing ones: --from slf:missing_score=0"


def assert_refused(content: bytes, message: str, options: SlfOptions | None = None) -> None:
    with pytest.raises(FormatError) as caught:
        read_slf(content, "k", "f.slf", options=options or SlfOptions())
    assert str(caught.value) == f"f.slf:{message}"
    if options is None:
        with pytest.raises(slow.RuleError):
            slow.read_slf(content)


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        (SMALL, b" a=-11", f"10, key 'k': the link has no score a=, {LACKS}"),
        (SMALL, b" l=-1", f"9, key 'k': the link has no score l=, {LACKS}"),
        (SMALL, b" a=-6 l=-0.25", f"12, key 'k': the link has no score l=, {LACKS}"),
        (ON_NODES, b" a=-2", f"7, key 'k': the link has no score a=, {LACKS}"),
        (b"dir=b\n" + ON_NODES, b" a=-4", f"10, key 'k': the link has no score a=, {LACKS}"),
        (SMALL.replace(b" a=", b" acoustic="), b" acoustic=-6", f"12, key 'k': the link has no score a=, {LACKS}"),
        (
            b"N=2 L=2\n#..\nJ=0 S=0 E=1 a=-1\nJ=1 S=0 E=1 a=-2\n",
            b" a=-2",
            f"4, key 'k': the link has no score a=, {LACKS}",
        ),
        (SMALL, b" W=two", "10, key 'k': the link has no word (W=), but others have; write W=!NULL for no word"),
        (
            SMALL,
            b" W=!NULL",
            "11, key 'k': the link has no word (W=), but others have; write W=!NULL for no word",
        ),
        (
            ON_NODES,
            b" W=two",
            "7, key 'k': the link gets the word of node 2, which has none (W=), but others have; write "
            "W=!NULL for no word",
        ),
    ],
)
def test_a_link_with_a_missing_field_is_refused_with_its_line(content: bytes, field: bytes, message: str) -> None:
    check_against_reference(content)
    assert_refused(content.replace(field, b"", 1), message)


def test_fields_that_are_no_part_of_a_cost_can_be_missing() -> None:
    content = SMALL.replace(b" a=-11", b" a=-11 n=-3 v=2 x1=4")
    assert read_slf(content, "k").identical(read_slf(SMALL, "k"))
    message = f"9, key 'k': the link has no score n=, {LACKS}"
    assert_refused(content, message, SlfOptions(graph=("n",)))
    lists = SMALL.replace(b" l=", b" i=-1,")
    assert sentences(read_slf(lists, "k", options=SlfOptions(graph=("i[1]",))))[0] == ("one", 1.5, 15.0)
    message = f"10, key 'k': the link has no score i= (item 1), {LACKS}"
    assert_refused(lists.replace(b" i=-1,-2", b""), message, SlfOptions(graph=("i[1]",)))


def test_links_without_a_word_can_lack_scores_as_in_srilm() -> None:
    content = b"N=4 L=4 start=0 end=3\nI=0\nI=1\nI=2\nI=3\nJ=0 S=0 E=1 W=!NULL\nJ=1 S=1 E=2 W=one a=-3 l=-1\n"
    content += b"J=2 S=1 E=2 W=two a=-4 l=-2\nJ=3 S=2 E=3 W=%s\n"
    for word in (b"!NULL", b"</s>", b"!SENT_END"):
        assert sentences(check_against_reference(content % word)[1]) == [("one", 1, 3), ("two", 2, 4)]
    assert_refused(content % b"three", f"9, key 'k': the link has no score l=, {LACKS}")


def test_the_last_node_needs_no_word() -> None:
    for direction, node in ((b"", b"I=3 W=!NULL"), (b"dir=b\n", b"I=0 W=!NULL")):
        content = direction + ON_NODES
        expected = sentences(read_slf(content, "k"))
        assert sentences(check_against_reference(content.replace(node, node[:3]))[1]) == expected


def test_the_missing_score_option_replaces_missing_scores() -> None:
    content = SMALL.replace(b" a=-11", b"").replace(b" l=-1\n", b"\n")
    lattice = read_slf(content, "k", options=SlfOptions(missing_score=0))
    assert sentences(lattice) == [("one", 0.5, 15.0), ("two four", 2.25, 6.0)]
    lattice = read_slf(b"base=10\n" + content, "k", options=SlfOptions(missing_score=-2.5))
    assert sentences(read_slf(content, "k", options=SlfOptions(missing_score=-2.5))) == [
        ("one", 3.0, 15.0),
        ("two four", 2.25, 8.5),
    ]
    assert lattice.graph[0] == 2.5  # a natural logarithm for any base
    with pytest.raises(OptionError, match="missing_score is nan"):
        SlfOptions(missing_score=float("nan"))


def test_the_missing_score_option_can_be_part_of_the_format_name(tmp_path) -> None:
    path = tmp_path / "utt.slf"
    path.write_bytes(SMALL.replace(b" a=-11", b""))
    with pytest.raises(FormatError, match="missing_score=0"):
        list(read(path))
    ((key, lattice),) = read(path, format="slf:missing_score=0")
    assert (key, lattice.num_arcs) == ("utt", 4)


def test_two_names_of_a_score_on_a_line_are_refused() -> None:
    assert_refused(
        SMALL.replace(b" a=-11", b" a=-11 acoustic=-3"), "10, key 'k': field 'acoustic' occurs twice on this line"
    )


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (
            b"J=2 S=3 E=2",
            "6, key 'k': the link leaves node 3, which is the last node of the lattice; correct the link or the node",
        ),
        (
            b"J=2 S=1 E=0",
            "6, key 'k': the link enters node 0, which is the first node of the lattice; correct the link or the node",
        ),
        (
            b"J=2 S=0 E=0",
            "6, key 'k': the link enters node 0, which is the first node of the lattice; correct the link or the node",
        ),
    ],
)
def test_links_past_the_ends_are_refused_with_their_line(link: bytes, message: str) -> None:
    content = b"start=0 end=3\nN=4 L=4\n# ........\nJ=0 S=0 E=1 W=a\nJ=1 S=1 E=2 W=b\n%s W=c\nJ=3 S=1 E=3 W=d\n" % link
    assert_refused(content, message)


def test_an_ambiguous_last_node_is_refused_and_dead_ends_are_kept() -> None:
    content = b"%sN=4 L=3\n# ........\nJ=0 S=0 E=1 W=a\nJ=1 S=1 E=2 W=b\nJ=2 S=1 E=3 W=c\n"
    assert_refused(content % b"", "6, key 'k': nodes 2 and 3 have no links out of them; which one is last? Add end=")
    lattice = check_against_reference(content % b"end=3\n")[1]
    assert (lattice.num_states, lattice.num_arcs) == (4, 3)
    assert [words for words, *_ in sentences(lattice)] == ["a c"]


PFSG = b"name one\nnodes 4 NULL a b NULL\ninitial 0\nfinal 3\ntransitions 3\n0 1 -10\n1 2 -20\n%s -30\n"


def test_pfsg_transitions_past_the_ends_invalidate_only_their_lattice() -> None:
    good = PFSG % b"2 3"
    assert read_pfsg(good, "k").num_arcs == 2
    for transition, reason in (
        (b"3 2", "leaves node 3, which is the last"),
        (b"2 0", "enters node 0, which is the first"),
    ):
        with pytest.raises(LatticeError, match=f"^f.pfsg:8, key 'k': the transition {reason} node of the lattice"):
            read_pfsg(PFSG % transition, "k", "f.pfsg")
        entries = list(read_pfsgs(PFSG % transition + b"\n" + good.replace(b"one", b"two"), "f.pfsg"))
        assert [type(entry) for entry in entries] == [LatticeError, type(read_pfsg(good, "k"))]
        assert [entry.key for entry in entries] == ["one", "two"]
