"""Lattices of Kaldi: reading and writing agree with slow implementations and with Kaldi's files."""

import gzip
import itertools
import struct
from pathlib import Path

import numpy as np
import pytest
import reference_formats as slow
import reference_graph
from hypothesis import given
from hypothesis import strategies as st
from kaldi_tables import entries_of, parse, without_properties, write_tables
from reference_graph import costs_of, labels_of, words_of
from strategies import lattices

from ninja._tables import TableReader
from ninja.errors import LatticeError
from ninja.io import read, write
from ninja.lattice import Lattice

SAMPLE = Path(__file__).parents[1] / "data/english/formats"


def paths(lattice):
    """Return every path as (words, alignment, graph cost, acoustic cost)."""
    return sorted(
        (words_of(lattice, path), tuple(labels_of(lattice, path)), *costs_of(lattice, path))
        for path in reference_graph.paths(lattice)
    )


@given(st.lists(lattices(connected=False), max_size=4))
def test_binary_archives_are_unchanged_after_write_and_read(given_lattices):
    results = parse(write_tables(*given_lattices))
    assert len(results) == len(given_lattices)
    assert all(result.identical(lattice) for result, lattice in zip(results, given_lattices, strict=True))


@given(st.lists(lattices(connected=False), max_size=4))
def test_text_archives_are_rounded_only_once(given_lattices):
    content = write_tables(*given_lattices, text=True)
    results = parse(content)
    assert len(results) == len(given_lattices)
    for result, expected in zip(results, given_lattices, strict=True):
        np.testing.assert_allclose(result.graph, expected.graph, rtol=1e-5)
        np.testing.assert_allclose(result.final_acoustic, expected.final_acoustic, rtol=1e-5)
        for name in ("arc_begin", "dst", "word", "ali_begin", "ali", "final_ali_begin", "final_ali"):
            assert np.array_equal(getattr(result, name), getattr(expected, name)), name
        if result.num_arcs:
            assert result.kind == expected.kind
    if all(lattice.num_arcs for lattice in given_lattices):  # a single state "0" does not determine the kind
        assert write_tables(*results, text=True) == content


@given(lattices(connected=False))
def test_writers_equal_the_slow_twin(lattice):
    finals, arcs = slow.unpack(lattice)
    arc_type = "compactlattice44" if lattice.kind == "compact" else "lattice4"
    assert write_tables(lattice) == slow.write_binary(lattice.key, 0, finals, arcs, arc_type)
    assert write_tables(lattice, text=True).decode() == slow.write_text(lattice)


@given(lattices(connected=False), st.sampled_from(sorted(slow.ARC_TYPES)), st.randoms(use_true_random=False))
def test_readers_sort_states_like_the_slow_twin(lattice, arc_type, random):
    if slow.ARC_TYPES[arc_type][0] != (lattice.kind == "compact"):
        arc_type = arc_type[len("compact") :] if arc_type.startswith("compact") else f"compact{arc_type}4"
        arc_type = {"lattice44": "lattice4", "lattice84": "lattice8"}.get(arc_type, arc_type)
    place = list(range(lattice.num_states))
    random.shuffle(place)
    finals, arcs = slow.unpack(lattice)
    finals = [finals[place.index(state)] for state in range(len(place))]
    arcs = [[(place[arc[0]], *arc[1:]) for arc in arcs[place.index(state)]] for state in range(len(place))]
    content = slow.write_binary(lattice.key, place[0], finals, arcs, arc_type)
    result = parse(content)[0]
    if isinstance(result, LatticeError):  # sorting drops unreachable states, here all final states
        assert result.message == "no state is final"
        return
    assert result.identical(next(slow.read_table(content)))
    assert paths(result) == paths(lattice)


@given(lattices(), st.randoms(use_true_random=False))
def test_text_lines_can_be_in_any_order(lattice, random):
    lines = write_tables(lattice, text=True).decode().splitlines()[1:-1]
    first, other_lines = lines[0], lines[1:]
    random.shuffle(other_lines)
    content = "\n".join([f"{lattice.key} ", first, *other_lines, "", ""]).encode()
    result = parse(content)[0]
    assert result.identical(next(slow.read_table(content)))
    assert [path[0] for path in paths(result)] == [path[0] for path in paths(lattice)]


@given(lattices(kind="compact"))
def test_a_compact_lattice_written_as_raw_keeps_its_paths(lattice):
    raw = parse(write_tables(lattice, kind="raw"))[0]
    assert raw.kind == "raw"
    assert np.diff(raw.ali_begin).max(initial=0) <= 1
    assert paths(raw) == paths(lattice)
    again = parse(write_tables(raw, kind="compact"))[0]
    assert again.kind == "compact"
    assert paths(again) == paths(lattice)


def test_archives_of_kaldi_are_unchanged_after_read_and_write(tmp_path):
    binary = gzip.decompress((SAMPLE / "lat.ark.gz").read_bytes())
    text = gzip.decompress((SAMPLE / "lat.txt.gz").read_bytes())
    from_binary = [lattice for _, lattice in read(SAMPLE / "lat.ark.gz")]
    from_text = [lattice for _, lattice in read(SAMPLE / "lat.txt.gz")]
    assert without_properties(write_tables(*from_binary)) == without_properties(binary)
    assert write_tables(*from_binary, text=True) == text
    assert write_tables(*parse(write_tables(*from_text)), text=True) == text
    assert [lattice.key for lattice in from_text] == [lattice.key for lattice in from_binary]
    for lattice, twin in zip(from_binary, slow.read_table(binary), strict=True):
        assert lattice.identical(twin)
    for lattice, twin in zip(from_text, slow.read_table(text), strict=True):
        assert lattice.identical(twin)


COSTS = [0.0001, 0.00099999994, 9.9999e-05, 1e-30, 1e-45, 3.4028235e38, 999999.4, 999999.5, 1e6, 12345678, 0.1, 1 / 3]


@given(st.one_of(st.sampled_from(COSTS), st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_costs_are_printed_as_by_printf(cost):
    cost = float(np.float32(cost))
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [7], [cost], [-cost], [np.inf, 0], [np.inf, 0], ali_begin=[0, 0])
    expected = f"k \n0\t1\t7\t{cost:.6g},{-cost:.6g},\n1\n\n" if cost else "k \n0\t1\t7\n1\n\n"
    assert write_tables(lattice, text=True).decode() == expected


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from(["{!r}", "{:.3e}", "{:.20f}", "+{!r}"])
)
def test_costs_are_parsed_as_by_strtod(cost, form):
    spelled = form.format(abs(cost))
    result = parse(f"k\n0 1 7 {spelled},1e2,\n1\n\n".encode())[0]
    with np.errstate(over="ignore"):
        expected = np.float32(float(spelled))
    assert isinstance(result, LatticeError) if np.isinf(expected) else result.graph[0] == expected


@pytest.mark.parametrize(
    ("lines", "words", "graph", "kind"),
    [
        (["0 1 7", "1"], [7], [0], "compact"),
        (["0 1 7 1.5,2,", "1 0,0,4_5"], [7], [1.5], "compact"),
        (["0 1 9 7", "1"], [7], [0], "raw"),
        (["0 1 9 7 1.5,2", "1 3,4"], [7], [1.5], "raw"),
        (["  0\t1  7 \r", "1\r"], [7], [0], "compact"),
        (["0 1 7 1.5,2,1_2", "1", "0 1 8 2,2,3"], [7, 8], [1.5, 2], "compact"),
        (["0 2 7", "2 Infinity,Infinity,", "0 1 8", "1"], [7, 8], [0, 0], "compact"),
    ],
)
def test_text_columns_determine_the_kind(lines, words, graph, kind):
    lattice = parse("\n".join(["key", *lines, "", ""]).encode())[0]
    assert (lattice.key, lattice.word.tolist(), lattice.graph.tolist(), lattice.kind) == ("key", words, graph, kind)


def test_a_dead_end_is_printed_as_by_openfst():
    lattice = Lattice.from_arrays("k", [0, 2, 2, 2], [1, 2], [3, 4], [1, 1], [1, 1], [np.inf, np.inf, 0])
    content = write_tables(lattice, text=True)
    assert content == b"k \n0\t1\t3\t1,1,\n0\t2\t4\t1,1,\n1\tInfinity,Infinity,\n2\n\n"
    assert parse(content)[0].identical(lattice)


def test_double_precision_costs_are_read_as_single_precision(tmp_path):
    arcs = [[(1, 3, 0.1, 1 / 3, [5])], []]
    finals = [slow.NOT_FINAL, (0.2, 1e-9, [])]
    lattice = parse(slow.write_binary("k", 0, finals, arcs, "compactlattice84"))[0]
    assert lattice.graph[0] == np.float32(0.1)
    assert lattice.final_acoustic[1] == np.float32(1e-9)


def test_an_archive_can_mix_binary_and_text():
    lattice = Lattice.from_arrays("b", [0, 1, 1], [1], [3], [1], [1], [np.inf, 0])
    content = write_tables(lattice) + write_tables(lattice, text=True) + b"\n" + write_tables(lattice)
    assert [entry.identical(lattice) for entry in parse(content)] == [True] * 3


def test_keys_keep_their_bytes(tmp_path):
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [3], [1], [1], [np.inf, 0])
    names = ["가나", "é", b"\xff\xfe".decode("utf-8", "surrogateescape")]
    with write(tmp_path / "a.ark") as output:
        for name in names:
            output.write(lattice, key=name)
    assert [key for key, _ in read(tmp_path / "a.ark")] == names
    assert b"\xff\xfe \xd6" in (tmp_path / "a.ark").read_bytes()


def test_chunks_of_any_size_give_the_same_lattices():
    content = gzip.decompress((SAMPLE / "lat.ark.gz").read_bytes())[:30000]
    content += gzip.decompress((SAMPLE / "lat.txt.gz").read_bytes())
    whole = parse(content)
    for size in (1, 7, 1000, 4096):
        reader = TableReader("test")
        entries = []
        pieces = [content[at : at + size] for at in range(0, len(content), size)]
        for piece in itertools.chain(pieces, [b""]):
            reader.space(len(piece))[:] = piece
            reader.advance(len(piece))
            entries += entries_of(reader.parse((1 << 62) if piece else 0))
            if len(entries) == 2 and size == 1:
                break
        assert len(entries) >= 2
        for entry, expected in zip(entries, whole, strict=False):
            assert isinstance(entry, Lattice) == isinstance(expected, Lattice)
            assert not isinstance(entry, Lattice) or entry.identical(expected)


def test_the_header_is_valid_for_kaldi():
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [3], [1], [1], [np.inf, 0])
    content = write_tables(lattice)
    assert content[:34] == b"k \xd6\xfd\xb2\x7e\x06\0\0\0vector\x10\0\0\0compactlattice"[:34]
    assert struct.unpack_from("<iiQqqq", content, 36) == (2, 0, 3, 0, 2, 1)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("0 1 -5 1,2,", "negative word id -5"),
        ("0 1 3 -5 1,2", "negative word id -5"),
        ("0 1 3 -5", "negative word id -5"),
        ("0 1 5 1e39,2,", "graph cost +infinity"),
        ("0 1 3 5 2,-1e39", "acoustic cost -infinity"),
    ],
)
def test_malformed_arcs_are_refused_in_text(row, fault):
    (error,) = parse(f"k \n{row}\n1\n\n".encode())
    assert f"arc 0 of state 0 has the {fault}" in str(error)
