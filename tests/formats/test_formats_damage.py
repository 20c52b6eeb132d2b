"""Damaged archives: every error has a type and a position, and the readable lattices are still read."""

import gzip
import math
import resource
import struct

import numpy as np
import pytest
import reference_formats as slow
from kaldi_tables import filled_reader, parse

from ninja import _core
from ninja._tables import TableWriter
from ninja.errors import FormatError, LatticeError, NinjaError, TableError
from ninja.io import read
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable

INF = math.inf
NOT_FINAL = slow.NOT_FINAL
ARCS = [[(1, 3, 1.5, 2.5, [7, 8]), (2, 0, 0.5, 9.25, [])], [(2, 4, 1.0, 2.0, [9])], []]
FINALS = [NOT_FINAL, NOT_FINAL, (0.5, 0.0, [1])]


def entry(key="k", arcs=ARCS, finals=FINALS, start=0, arc_type="compactlattice44"):
    return slow.write_binary(key, start, finals, arcs, arc_type)


def text(key="k", lines=("0 1 3 1.5,2.5,7_8", "1 0,0,")):
    return "\n".join([key + " ", *lines, "", ""]).encode()


def collect(path, **options):
    errors = []
    keys = [key for key, _ in read(path, on_error=errors.append, **options)]
    return keys, errors


@pytest.mark.parametrize("arc_type", ["compactlattice44", "compactlattice84", "lattice4", "text"])
def test_a_truncated_archive_gives_its_complete_lattices_and_one_error(arc_type):
    arcs = [[(*arc[:4], arc[4][:1]) for arc in state_arcs] for state_arcs in ARCS]
    finals = [NOT_FINAL, NOT_FINAL, (0.5, 0.0, [])]
    first, second = (
        text(key) if arc_type == "text" else entry(key, arcs, finals, 0, arc_type) for key in ("one", "two")
    )
    content = first + second
    for cut in range(len(content)):
        entries = parse(content[:cut])
        whole = cut // len(first)
        assert [lattice.key for lattice in entries[:whole]] == ["one", "two"][:whole]
        if cut in (0, len(first)):
            assert len(entries) == whole
        else:
            (error,) = entries[whole:]
            assert isinstance(error, FormatError)
            if arc_type != "text":
                assert error.byte is not None
                assert "the rest of this archive is not read" in error.message
                assert len(error.message) < 300


@pytest.mark.parametrize("content", [entry("one") + entry("two"), text("one") + text("two")], ids=["binary", "text"])
@pytest.mark.parametrize("mask", [0x01, 0x10, 0x80, 0xFF])
def test_a_damaged_byte_gives_typed_errors_or_valid_lattices(content, mask):
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= mask
        for item in parse(bytes(damaged)):
            if isinstance(item, Lattice):
                check(item)
            else:
                assert isinstance(item, NinjaError)
                assert item.byte is not None or item.line is not None
        parse(bytes(damaged), bytes_behind=1 << 62)  # also if more of the file follows


HEADER = len(b"k ") + 34  # the offset of the FST version
COUNTS = {
    "states": HEADER + 24,
    "labels of a final state": HEADER + 40 + 8,
    "arcs": HEADER + 40 + 12,
    "labels of an arc": HEADER + 40 + 20 + 16,
}


@pytest.mark.parametrize("count", [-1, 1 << 20, (1 << 31) - 1, 1 << 40, -(1 << 62)])
@pytest.mark.parametrize("field", COUNTS)
def test_huge_counts_are_refused_before_allocation(field, count):
    content = bytearray(entry())
    if "labels" in field:
        struct.pack_into("<i", content, COUNTS[field], count if abs(count) < 1 << 31 else -7)
    else:
        struct.pack_into("<q", content, COUNTS[field], count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (error,) = parse(bytes(content))
    assert isinstance(error, FormatError)
    assert "the rest of this archive is not read" in error.message
    assert _core.count(filled_reader(content).parse(1 << 62)[0]) == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB


def entry_with(at, form, value):
    content = bytearray(entry())
    struct.pack_into(form, content, at, value)
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (entry_with(2, "<i", 77), "expected a new line (text) or the byte D6"),
        (entry_with(3, "<B", 77), "wrong magic number"),
        (entry_with(10, "<B", 65), "the FST type is 'Aector', but 'vector' is needed"),
        (entry_with(20, "<B", 65), "the arc type is 'Aompactlattice44', which is not a lattice"),
        (entry_with(HEADER, "<i", 1), "the FST version is 1, but 2 is needed"),
        (entry_with(HEADER + 4, "<i", 2), "the lattice contains symbol tables"),
        (entry_with(HEADER + 24, "<q", -1), "the header has the number of states -1"),
        (b"x" * 5000, "not a Kaldi table"),
        (b"RIFF\x00\x01 bytes of a wave file", "no lattice follows the key"),
    ],
)
def test_damage_that_ends_reading_is_reported_with_its_byte(content, message):
    entries = parse(content + entry("next"))
    assert len(entries) == 1
    assert message in entries[0].message
    assert entries[0].byte is not None


def invalid_entry(**changes):
    return entry("bad", **changes)


SEMANTIC = {
    "the lattice is empty: it has no states": invalid_entry(arcs=[], finals=[], start=-1),
    "the start state is -1 of 3 states": invalid_entry(start=-1),
    "the start state is 3 of 3 states": invalid_entry(start=3),
    "no state is final": invalid_entry(finals=[NOT_FINAL] * 3),
    "arc 0 of state 1 enters state 3, but there are 3 states": invalid_entry(arcs=[ARCS[0], [(3, 4, 1, 2, [])], []]),
    "arc 0 of state 1 enters state -1, but there are 3 states": invalid_entry(arcs=[ARCS[0], [(-1, 4, 1, 2, [])], []]),
    "arc 0 of state 1 has the negative word id -4": invalid_entry(arcs=[ARCS[0], [(2, -4, 1, 2, [])], []]),
    "arc 0 of state 1 has the graph cost NaN": invalid_entry(arcs=[ARCS[0], [(2, 4, math.nan, 2, [])], []]),
    "arc 0 of state 1 has the acoustic cost -infinity": invalid_entry(arcs=[ARCS[0], [(2, 4, 1, -INF, [])], []]),
    "arc 0 of state 1 has the graph cost +infinity": invalid_entry(arcs=[ARCS[0], [(2, 4, INF, INF, [])], []]),
    "state 2 has the final cost +infinity": invalid_entry(finals=[NOT_FINAL, NOT_FINAL, (1, INF, [])]),
    "state 2 has the final cost NaN": invalid_entry(finals=[NOT_FINAL, NOT_FINAL, (INF, math.nan, [])]),
    "state 2 has the final cost -infinity": invalid_entry(finals=[NOT_FINAL, NOT_FINAL, (-INF, 1, [])]),
    "state 1 lies on a cycle": invalid_entry(arcs=[ARCS[0], [(2, 1, 1, 1, [])], [(1, 1, 1, 1, [])]]),
    "state 0 lies on a cycle": invalid_entry(arcs=[[(0, 1, 1, 1, [])], [], []]),
}


@pytest.mark.parametrize("message", SEMANTIC)
def test_reading_continues_after_an_invalid_lattice(message, tmp_path):
    path = tmp_path / "bad.ark"
    path.write_bytes(entry("one") + SEMANTIC[message] + entry("two"))
    keys, (error,) = collect(path)
    assert keys == ["one", "two"]
    assert isinstance(error, LatticeError)
    assert error.message.startswith(message)
    assert (error.path, error.key, error.byte) == (str(path), "bad", len(entry("one")))
    with pytest.raises(LatticeError, match=r"bad\.ark, byte \d+, key 'bad': "):
        list(read(path))


def test_two_word_ids_on_an_arc_of_a_compact_lattice_are_refused():
    content = bytearray(entry())
    struct.pack_into("<i", content, HEADER + 40 + 20, 5)
    (error,) = parse(bytes(content))
    assert error.message == "arc 0 of state 0 has two word ids, 5 and 3"


@pytest.mark.parametrize(
    ("lines", "kind", "message"),
    [
        (["0 1 HELLO 1,2,"], FormatError, "found '0 1 HELLO 1,2,'"),
        (["0 1"], FormatError, "found '0 1'"),
        (["0 1 2 3 4 5"], FormatError, "found"),
        (["0 1 2 1,2,3_x"], FormatError, "found"),
        (["0 1 2 1;2;3"], FormatError, "found"),
        (["0 1 99999999999 1,2,"], FormatError, "found"),
        (["-1 1 2 1,2,"], FormatError, "found"),
        (["0 1 2 1,2,3", "0 1 2 3 1,2"], FormatError, "found '0 1 2 3 1,2'"),
        (["0 1 -2 1,2,3"], LatticeError, "negative word id -2"),
        (["0 1 2 Infinity,Infinity,3", "1"], LatticeError, "graph cost +infinity"),
        (["0 1 2 BadNumber,1,3", "1"], LatticeError, "graph cost NaN"),
        (["0 1 2 1,1,3", "1 -Infinity,1,"], LatticeError, "final cost -infinity"),
        (["0 1 2 1,1,3", "1 Infinity,1,"], LatticeError, "final cost +infinity"),
        (["0 1 2 1,1,3"], LatticeError, "no state is final"),
        (["0 0 2 1,1,3", "0"], LatticeError, "state 0 lies on a cycle"),
        (["0 2000000000 2 1,1,3", "2000000000"], LatticeError, "number the states from 0"),
    ],
)
def test_an_invalid_text_lattice_is_skipped_up_to_its_empty_line(lines, kind, message, tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(text("one") + text("bad", lines) + text("two"))
    keys, (error,) = collect(path)
    assert keys == ["one", "two"]
    assert type(error) is kind
    assert message in error.message
    assert error.key == "bad"
    assert error.path == str(path)
    assert 5 <= error.line <= 5 + len(lines)


def test_an_invalid_key_line_is_skipped_up_to_the_empty_line(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(text("one") + text("bad 17") + text("two"))
    keys, (error,) = collect(path)
    assert keys == ["one", "two"]
    assert str(error).startswith(f"{path}:5, key 'bad': expected the key alone on its line, found '17 '")


def test_a_missing_empty_line_is_detected():
    entries = parse(text("one") + text("two")[:-1])
    assert isinstance(entries[0], Lattice)
    assert entries[1].message == "the file ends within a lattice, which must be followed by an empty line"


def test_ids_missing_in_the_table_raise_table_error(tmp_path):
    path = tmp_path / "lat.ark"
    path.write_bytes(entry("one") + entry("two", [[(1, 1, 1, 1, [])], []], [NOT_FINAL, (0, 0, [])]))
    errors = []
    words = SymbolTable.from_words(["<eps>", "a", "b", "c"])
    with pytest.raises(TableError, match="key 'one': word id 4 is not in the symbol table"):
        list(read(path, words=words, on_error=errors.append))
    assert not errors
    path.write_bytes(entry("two", [[(1, 1, 1, 1, [])], []], [NOT_FINAL, (0, 0, [])]))
    ((_, lattice),) = read(path, words=words)
    assert lattice.words is words


def test_a_truncated_gzip_file_gives_its_complete_lattices_and_one_error(tmp_path):
    rng = np.random.default_rng(1)
    entries = [
        entry(f"k{number}", [[(1, 1, float(rng.random()), 1, rng.integers(1, 9000, 2000).tolist())], []], FINALS[1:])
        for number in range(20)
    ]
    compressed = gzip.compress(b"".join(entries))
    path = tmp_path / "lat.ark.gz"
    for cut in (3, 15, len(compressed) // 2, len(compressed) - 9, len(compressed) - 1):
        path.write_bytes(compressed[:cut])
        keys, errors = collect(path)
        assert keys == [f"k{number}" for number in range(len(keys))]
        assert errors
        assert all(type(error) is FormatError for error in errors)
        assert "gzip stream is truncated" in errors[-1].message
    damaged = bytearray(compressed)
    for at in range(len(compressed) // 2, len(compressed) // 2 + 200):
        damaged[at] ^= 0x5A
    path.write_bytes(damaged)
    keys, errors = collect(path)
    assert errors
    assert len(keys) < 20


def test_the_next_archive_is_read_after_a_damaged_archive(tmp_path):
    (tmp_path / "a.ark").write_bytes(entry("a") + entry("broken")[:-3])
    (tmp_path / "b.ark").write_bytes(entry("b"))
    keys, (error,) = collect([tmp_path / "a.ark", tmp_path / "missing.ark", tmp_path / "b.ark"][::2])
    assert keys == ["a", "b"]
    assert error.key == "broken"
    assert "; the rest of this archive is not read" in str(error)


def test_a_writer_refuses_inconsistent_arrays():
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [3], [1], [1], [INF, 0], ali_begin=[0, 1], ali=[5])
    empty = np.zeros(0, np.int32)
    broken = Lattice(*(empty if name == "ali" else getattr(lattice, name) for name in Lattice.__slots__))
    with pytest.raises(LatticeError, match="do not fit together"):
        TableWriter().append(broken, b"k", True)


def test_offsets_of_invalid_entries_are_within_the_file():
    reader = filled_reader(b"no-table")
    _, faults = reader.parse(0)
    assert len(faults) == 1
    assert reader.offsets == [0]
