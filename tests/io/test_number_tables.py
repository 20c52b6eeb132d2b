"""Tables of numbers, lists of keys, and files next to lattices."""

from __future__ import annotations

import gzip
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import KEYS

from ninja import NinjaError
from ninja.errors import FormatError, OptionError
from ninja.io.lookup import KeyedTable
from ninja.io.number_tables import NumberWriter, read_floats, read_integers
from ninja.io.selection import part_of, read_keys

INTEGERS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6)


@given(st.lists(st.tuples(KEYS, INTEGERS), max_size=5), st.sampled_from(["", "ark:", "ark,t:"]), st.booleans())
def test_integers_are_read_as_written(tmp_path_factory, entries, form, compressed):
    path = tmp_path_factory.mktemp("numbers") / ("a.ark.gz" if compressed else "a.ark")
    with NumberWriter(f"{form}{path}") as table:
        for key, values in entries:
            table.integers(key, np.array(values, np.int32))
    assert path.read_bytes()[:2] == (b"\x1f\x8b" if compressed else path.read_bytes()[:2])
    assert [(key, integers.tolist()) for key, integers in read_integers(f"ark:{path}")] == entries


@given(st.lists(st.tuples(KEYS, st.floats(-1e6, 1e6, width=32)), max_size=5), st.sampled_from(["ark:", "ark,t:"]))
def test_floats_are_read_as_written(tmp_path_factory, entries, form):
    path = tmp_path_factory.mktemp("numbers") / "a.ark"
    with NumberWriter(f"{form}{path}") as table:
        for key, value in entries:
            table.number(key, value)
    values = list(read_floats(str(path)))
    assert [key for key, _ in values] == [key for key, _ in entries]
    assert [value for _, value in values] == pytest.approx([value for _, value in entries], rel=1e-6)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a \0B\4\2\0\0\0\4\7\0\0\0\4\10\0\0\0b \0B\4\0\0\0\0", [("a", [7, 8]), ("b", [])]),
        (b"a 7 8 \nb \nc\nd\t9\n", [("a", [7, 8]), ("b", []), ("c", []), ("d", [9])]),
        (b"\n  a 7", [("a", [7])]),
        (b"", []),
    ],
    ids=["binary", "text", "no newline", "empty"],
)
def test_integers_are_read_from_the_bytes_of_kaldi(tmp_path, content, expected):
    path = tmp_path / "a.ark"
    path.write_bytes(content)
    assert [(key, values.tolist()) for key, values in read_integers(str(path))] == expected
    path.write_bytes(gzip.compress(content))
    assert [(key, values.tolist()) for key, values in read_integers(f"ark:gunzip -c {path} |")] == expected


@pytest.mark.parametrize("blank", [" ", "\t", " \t "])
def test_script_files_separate_fields_by_blanks_or_tabs(tmp_path, blank):
    (tmp_path / "a.ark").write_bytes(b"a 7 8\nb 9\n")
    script = tmp_path / "a.scp"
    script.write_text(f"a{blank}{tmp_path}/a.ark:2\n\nb{blank}{tmp_path}/a.ark:8\n")
    assert [(key, integers.tolist()) for key, integers in read_integers(f"scp:{script}")] == [("a", [7, 8]), ("b", [9])]


def test_a_permissive_script_file_skips_unreadable_entries(tmp_path):
    (tmp_path / "a.ark").write_bytes(b"a 7 8\nb x\n")
    script = tmp_path / "a.scp"
    script.write_text(f"b {tmp_path}/a.ark:8\nc {tmp_path}/none.ark:2\na {tmp_path}/a.ark:2\n")
    assert [key for key, _ in read_integers(f"scp,p:{script}")] == ["a"]
    with pytest.raises(FormatError, match="expected integers"):
        list(read_integers(f"scp:{script}"))


def test_numbers_have_the_binary_layout_of_kaldi(tmp_path):
    with NumberWriter(f"ark:{tmp_path}/a") as table:
        table.integers("key", np.array([7, -1], np.int32))
    assert (tmp_path / "a").read_bytes() == b"key \0B\4\2\0\0\0\4\7\0\0\0\4\xff\xff\xff\xff"
    with NumberWriter(f"ark:{tmp_path}/b") as table:
        table.number("key", 1.0)
    assert (tmp_path / "b").read_bytes() == b"key \0B\4\0\0\x80\x3f"


@given(st.binary(max_size=40), st.sampled_from([b"", b"a ", b"a \0B", b"a \0B\4\1\0\0\0"]))
def test_damaged_tables_raise_a_ninja_error(tmp_path_factory, content, begin):
    path = tmp_path_factory.mktemp("numbers") / "a.ark"
    path.write_bytes(begin + content)
    for read in (read_integers, read_floats):
        with suppress(NinjaError):  # other exceptions are bugs
            list(read(path))


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_integers, b"a 1 2\nb 1 x\n", "byte 8, key 'b': expected integers"),
        (read_integers, b"a 3000000000\n", "byte 2, key 'a': expected"),
        (
            read_integers,
            b"a \0B\4\xff\xff\xff\xff",
            "byte 4, key 'a': the number of integers is -1, but must not be negative",
        ),
        (
            read_integers,
            b"a \0B\4\xff\xff\xff\x7f1234",
            "key 'a': the file declares 2147483647 numbers of 5 bytes, but only 4 bytes",
        ),
        (read_integers, b"a \0B\4\1\0\0\0\10\1\0\0\0", "byte 9, key 'a': expected a number of 4 bytes"),
        (read_integers, b"a \0B\10\1\0\0\0\4\1\0\0\0", "byte 4, key 'a': expected an integer"),
        (read_floats, b"a 1 2\n", "byte 2, key 'a': expected one finite number"),
        (read_floats, b"a nan\n", "byte 2, key 'a': expected one finite number"),
        (read_floats, b"a \0B\7\0\0\0\0", "byte 4, key 'a': expected a number, found the byte 0x07"),
        (read_integers, b"x" * 5000, "expected a key and a value"),
    ],
)
def test_malformed_numbers_are_reported_with_their_offset(tmp_path, read, content, message):
    path = tmp_path / "a.ark"
    path.write_bytes(content)
    with pytest.raises(FormatError) as error:
        list(read(str(path)))
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_script_files_select_entries_by_offset(tmp_path):
    (tmp_path / "a.ark").write_bytes(b"a \0B\4\1\0\0\0\4\7\0\0\0b \0B\4\0\0\0\0")
    (tmp_path / "a.scp").write_text(f"b {tmp_path}/a.ark:16\na {tmp_path}/a.ark:2\n")
    entries = [(key, values.tolist()) for key, values in read_integers(f"scp:{tmp_path}/a.scp")]
    assert entries == [("b", []), ("a", [7])]
    (tmp_path / "a.scp").write_text("a\n")
    with pytest.raises(FormatError, match="1: expected a key and a file"):
        list(read_integers(f"scp:{tmp_path}/a.scp"))


def test_a_binary_table_refuses_words_and_script_files(tmp_path):
    with (
        pytest.raises(OptionError, match="a binary table cannot contain words; use ark,t:FILE"),
        NumberWriter(f"ark:{tmp_path}/a") as table,
    ):
        table.fields("a", ["b"])
    assert not (tmp_path / "a").exists()
    with pytest.raises(OptionError, match="a table of numbers cannot have a script file"):
        NumberWriter(f"ark,scp:{tmp_path}/a,{tmp_path}/b")


@given(st.lists(st.tuples(KEYS, st.integers()), unique_by=lambda entry: entry[0]), st.data())
def test_a_keyed_table_returns_each_value_once_in_any_order(entries, data):
    table = KeyedTable(entries)
    for key, value in data.draw(st.permutations(entries)):
        assert table.get(key) == value
        assert table.get(key) is None
    assert table.get("missing key") is None


@given(st.lists(KEYS, unique=True, min_size=1, max_size=30), st.data())
def test_part_of_divides_keys_into_consecutive_parts_of_similar_size(keys, data):
    num_parts = data.draw(st.integers(1, len(keys)))
    part = [part_of(keys, num_parts)[key] for key in keys]
    assert part == sorted(part)
    sizes = [part.count(number) for number in range(num_parts)]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=30), st.data())
def test_part_of_never_splits_a_group_or_leaves_a_part_empty(groups, data):
    keys = [f"key{number}" for number in range(len(groups))]
    group_of = dict(zip(keys, groups, strict=True))
    num_parts = data.draw(st.integers(1, len(set(groups))))
    part = part_of(keys, num_parts, group_of)
    assert set(part.values()) == set(range(num_parts))
    assert len({(group_of[key], number) for key, number in part.items()}) == len(set(groups))


def test_part_of_refuses_more_parts_than_keys_or_groups():
    with pytest.raises(OptionError, match="the number of parts is 3, but must be from 1 to 2, the number of lattices"):
        part_of(["a", "b"], 3)
    with pytest.raises(OptionError, match="the number of parts is 2, but must be from 1 to 1, the number of speakers"):
        part_of(["a", "b"], 2, {"a": "s", "b": "s"})


def test_read_keys_returns_the_first_field_of_each_line(tmp_path):
    (tmp_path / "keys").write_text("b some words\na\tx\r\nb\n")
    assert read_keys(tmp_path / "keys") == ["b", "a"]
    (tmp_path / "keys").write_text("a\n\nb\n")
    with pytest.raises(FormatError, match="keys:2: expected a key"):
        read_keys(tmp_path / "keys")


def test_posteriors_have_the_layout_of_kaldi(tmp_path):
    entry = np.array([0, 2, 2, 3]), np.array([4, 7, 9], np.int32), np.array([0.25, 0.75, 1.0])
    with NumberWriter(str(tmp_path / "text")) as table:
        table.posteriors("key", *entry)
    assert (tmp_path / "text").read_text() == "key [ 4 0.25 7 0.75 ] [ ] [ 9 1 ]\n"
    with NumberWriter(f"ark:{tmp_path}/binary") as table:
        table.posteriors("key", *entry)
    one_pair, two_pairs = b"\4\1\0\0\0", b"\4\2\0\0\0"
    assert (tmp_path / "binary").read_bytes() == (
        b"key \0B\4\3\0\0\0"
        + two_pairs + b"\4\4\0\0\0\4\0\0\x80\x3e" + b"\4\7\0\0\0\4\0\0\x40\x3f"
        + b"\4\0\0\0\0"
        + one_pair + b"\4\x09\0\0\0\4\0\0\x80\x3f"
    )  # fmt: skip
