"""Native files: writing, memory mapping, reading by key and by Arrow's tools, and damaged files."""

from __future__ import annotations

import io
import pickle
import random
import re
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_graph import SHARED
from strategies import lattices
from whole_files import read_native, write_k2s, write_native, write_natives

from ninja.errors import FormatError, InputError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats import native
from ninja.formats.k2 import read_k2s
from ninja.formats.native import NativeFile
from ninja.io import read
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable

arrow = pytest.importorskip("pyarrow")
WORDS = SymbolTable([("<eps>", 0), ("one", 1), ("two", 2), ("three", 3), ("four", 4), ("five", 5)])


def small(key: str = "utt", **changes: Any) -> Lattice:
    """Return the lattice 0 -1-> 1 -2-> 2, 0 -3-> 2."""
    lattice = Lattice.from_arrays(
        key, [0, 2, 3, 3], [1, 2, 2], [1, 3, 2], [1, 2, 3], [4, 5, 6], [np.inf, np.inf, 0.5], words=WORDS
    )
    return replace(lattice, **changes)


def are_equal(first: Lattice, second: Lattice) -> bool:
    times = (first.time is None) == (second.time is None) and (
        first.time is None or np.array_equal(first.time, second.time)
    )
    return first.identical(second) and times and first.frame_shift == second.frame_shift and first.words == second.words


@given(st.lists(lattices(connected=False), max_size=4), st.booleans(), st.booleans())
def test_native_files_are_identical_after_write_and_read(
    drawn_lattices: list[Lattice], timed: bool, with_words: bool
) -> None:
    if timed:
        drawn_lattices[::2] = [
            replace(lattice, time=np.arange(lattice.num_states, dtype=np.int32), frame_shift=0.03)
            for lattice in drawn_lattices[::2]
        ]
    if with_words:
        drawn_lattices = [lattice.with_words(WORDS) for lattice in drawn_lattices]
    file = NativeFile(write_natives(drawn_lattices))
    assert len(file) == len(drawn_lattices)
    for lattice, back in zip(drawn_lattices, file, strict=True):
        check(back)
        assert are_equal(back, lattice)
    for lattice in drawn_lattices:
        assert file[lattice.key].key == lattice.key
    if drawn_lattices:
        assert are_equal(read_native(write_native(drawn_lattices[0])), drawn_lattices[0])


def test_arrays_are_mapped_from_the_file(tmp_path: Any) -> None:
    path = tmp_path / "lattices.arrow"
    path.write_bytes(write_natives([small("a"), small("b")]))
    with NativeFile(path) as file:
        before = arrow.total_allocated_bytes()
        lattice = file["b"]
        assert arrow.total_allocated_bytes() == before
    assert not lattice.graph.flags.owndata
    assert not lattice.graph.flags.writeable
    path.unlink()
    assert lattice.graph.tolist() == [1, 2, 3]  # the deleted file is still mapped


def test_a_lattice_is_fetched_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    written_lattices = [small(f"utt{number}") for number in range(9)]
    monkeypatch.setattr(native, "BATCH", 1)  # one lattice per batch
    file = NativeFile(write_natives(written_lattices))
    assert list(file.keys()) == [lattice.key for lattice in written_lattices]
    assert "utt7" in file
    assert "utt9" not in file
    assert file["utt7"].identical(written_lattices[7])
    with pytest.raises(KeyError):
        file["utt9"]


def test_the_first_of_several_lattices_with_a_key_is_fetched() -> None:
    file = NativeFile(write_natives([small(), small(graph=np.zeros(3, np.float32))]))
    assert file["utt"].graph.tolist() == [1, 2, 3]
    assert [lattice.graph[0] for lattice in file] == [1, 0]


def test_pyarrow_reads_words_and_costs() -> None:
    content = write_natives([small("a"), small("b", time=np.array([0, 4, 9], np.int32), frame_shift=0.01)])
    table = arrow.ipc.open_file(arrow.BufferReader(content)).read_all()
    table.validate(full=True)
    assert table.column("key").to_pylist() == ["a", "b"]
    assert table.column("word").to_pylist() == [["one", "three", "two"]] * 2
    assert table.column("graph").to_pylist()[0] == [1, 2, 3]
    assert table.column("time").to_pylist() == [None, [0, 4, 9]]
    assert table.schema.metadata[b"ninja.lattices"] == b"1"
    assert all(field.metadata[b"meaning"] for field in table.schema)


def test_a_symbol_table_with_gaps_is_unchanged_after_write_and_read() -> None:
    dense = SymbolTable([("<eps>", 0), ("a", 1), ("b", 2), ("c", 3), ("z", 500)])
    sparse = SymbolTable([("<eps>", 0), ("a", 1), ("b", 2), ("c", 3), ("z", 2_000_000_000)])
    for words in (dense, sparse):
        back = read_native(write_native(small(words=words)))
        assert back.words == words
        assert back.words is not None
        assert pickle.loads(pickle.dumps(back)).words == words


def test_words_missing_in_the_table_and_invalid_keys_are_refused() -> None:
    with pytest.raises(SymbolError, match="word id 9 is not in the symbol table"):
        write_natives([small(word=np.array([1, 9, 2], np.int32))])
    assert len(NativeFile(write_natives([small("a"), small("b", words=SymbolTable(list(WORDS)))]))) == 2
    with pytest.raises(UnicodeEncodeError):
        write_native(small("\udcff"))


@pytest.mark.parametrize("key", ["", "a\tb", "a\n", "\0", "\x7f", "a\x85b"])
def test_a_key_with_control_characters_is_neither_written_nor_read(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LatticeError, match="is empty or contains a control character; use another"):
        write_native(small(key))
    monkeypatch.setattr(native, "_NO_KEY", re.compile("(?!)"))
    content = write_natives([small("a"), small(key), small("é b")])
    first, second, third = (entry for _, entry in NativeFile(content, "x.arrow").entries())
    assert isinstance(first, Lattice)
    assert isinstance(third, Lattice)
    assert isinstance(second, FormatError)
    assert f"the key {key!r} is empty or has a control character" in str(second)
    with pytest.raises(FormatError, match=r"x.arrow.*is empty or has a control character"):
        assert list(NativeFile(content, "x.arrow"))[1].dst is None


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"word": np.zeros(2, np.int32)}, "the lengths of its arrays disagree"),
    ({"arc_begin": np.array([0, 2, 1, 3])}, "arc_begin does not rise"),
    ({"arc_begin": np.array([0, 2, 2, 2])}, "arc_begin does not rise"),
    ({"arc_begin": np.array([1, 2, 3, 3])}, "arc_begin does not rise"),
    ({"arc_begin": np.array([0, 2**63 - 1, -2, 3])}, "arc_begin does not rise"),
    ({"dst": np.array([1, 2, 3], np.int32)}, "arc 2 enters a state that does not exist"),
    ({"dst": np.array([1, -2, 2], np.int32)}, "arc 1 enters a state that does not exist"),
    (
        {"dst": np.array([1, 2, 1], np.int32)},
        "arc 2 enters a state that does not exist or is not later than its source",
    ),
    ({"dst": np.array([0, 2, 2], np.int32)}, "arc 0 enters"),
    ({"word": np.array([1, 2, -1], np.int32)}, "arc 2 has a word id"),
    ({"graph": np.array([1, np.nan, 2], np.float32)}, "arc 1 has a cost"),
    ({"acoustic": np.array([1, 2, -np.inf], np.float32)}, "arc 2 has a cost"),
    ({"final_graph": np.array([0, np.nan, 0], np.float32)}, "state 1 has a final cost"),
    ({"final_acoustic": np.array([-np.inf, 0, 0], np.float32)}, "state 0 has a final cost"),
    ({"final_graph": np.full(3, np.inf, np.float32)}, "no state is final"),
    ({"ali_begin": np.array([0, 0, 0, 5])}, "ali_begin does not rise"),
    ({"final_ali_begin": np.array([0, 7, 0, 0])}, "final_ali_begin does not rise"),
    ({"time": np.zeros(2, np.int32)}, "the lengths of its arrays disagree"),
]


@pytest.mark.parametrize(("changes", "message"), BROKEN)
def test_an_invalid_lattice_raises_its_error_and_affects_no_other(changes: dict[str, Any], message: str) -> None:
    content = write_natives([small("a", words=None), small("b", words=None, **changes), small("c", words=None)])
    entries = list(NativeFile(content, "x.arrow").entries())
    assert [key for key, _ in entries] == ["a", "b", "c"]
    assert isinstance(entries[0][1], Lattice)
    assert isinstance(entries[2][1], Lattice)
    assert isinstance(entries[1][1], LatticeError)
    assert str(entries[1][1]).startswith(f"x.arrow, key 'b': {message}")


@given(lattices(max_states=5), st.randoms(use_true_random=False))
def test_the_check_agrees_with_the_slow_check(lattice: Lattice, rng: random.Random) -> None:
    name = rng.choice(
        [
            "arc_begin",
            "dst",
            "word",
            "graph",
            "acoustic",
            "ali_begin",
            "final_graph",
            "final_acoustic",
            "final_ali_begin",
        ]
    )
    array = getattr(lattice, name).copy()
    if len(array):
        if array.dtype.kind == "f":
            array[rng.randrange(len(array))] = rng.choice([np.nan, np.inf, -np.inf, 3.0])
        else:
            array[rng.randrange(len(array))] += rng.choice([-3, -2, -1, 1, 2, 3])
    damaged = replace(lattice, **{name: array})
    try:
        check(damaged)
        is_valid = True
    except LatticeError:
        is_valid = False
    ((_, result),) = NativeFile(write_native(damaged)).entries()
    assert isinstance(result, Lattice) == is_valid
    assert isinstance(next(iter(NativeFile(write_native(damaged), check="none"))), Lattice)


def broken(**changes: Any) -> NativeFile:
    return NativeFile(write_native(small(words=None, **changes)), "x.arrow")


def test_a_lattice_is_checked_and_becomes_plain_on_first_use() -> None:
    (lattice,) = NativeFile(write_native(small()))
    assert isinstance(lattice, Lattice)
    assert (lattice.key, lattice.kind, lattice.num_states, lattice.num_arcs) == ("utt", "compact", 3, 3)
    assert repr(lattice) == repr(small())
    assert type(lattice) is not Lattice
    assert lattice.dst.tolist() == [1, 2, 2]
    assert type(lattice) is Lattice
    assert are_equal(lattice, small())


@pytest.mark.parametrize("name", [field.name for field in fields(Lattice)])
def test_any_array_can_be_used_first(name: str) -> None:
    timed = small(time=np.array([0, 4, 9], np.int32))
    (lattice,) = NativeFile(write_native(timed))
    assert np.array_equal(getattr(lattice, name), getattr(timed, name))
    assert are_equal(lattice, timed)


def test_unread_lattices_can_be_changed_and_pickled() -> None:
    changes: list[Any] = [
        lambda lattice: pickle.loads(pickle.dumps(lattice)),
        lambda lattice: lattice.with_key("utt"),
        lambda lattice: lattice.with_words(WORDS),
        lambda lattice: replace(lattice, kind="compact"),
        lambda lattice: lattice.with_costs(lattice.graph),
    ]
    for operation in changes:
        (lattice,) = NativeFile(write_native(small()))
        result = operation(lattice)
        assert type(result) is Lattice
        assert are_equal(result, small())


def test_each_use_of_an_unread_lattice_raises_its_error() -> None:
    file = broken(dst=np.array([1, 2, 3], np.int32))
    for lattice in (next(iter(file)), file["utt"]):
        assert lattice.num_arcs == 3
        for use in (
            lambda lattice: lattice.dst,
            lambda lattice: lattice.ali,
            lambda lattice: lattice.with_key("x"),
            pickle.dumps,
        ):
            with pytest.raises(LatticeError, match=r"x.arrow, key 'utt': arc 2 enters a state that does not exist"):
                use(lattice)
    for use in (
        lambda lattice: lattice.num_states,
        lambda lattice: lattice.num_arcs,
        repr,
        lambda lattice: lattice.dst,
    ):
        with pytest.raises(LatticeError, match=r"x.arrow, key 'utt': the lengths of its arrays disagree"):
            use(next(iter(broken(word=np.zeros(2, np.int32)))))
    with pytest.raises(LatticeError, match="key 'utt': arc 2 enters"):
        next(iter(NativeFile(write_native(small(words=None, dst=np.array([1, 2, 3], np.int32))), check="all")))


def test_threads_can_share_an_unread_lattice() -> None:
    for lattice in NativeFile(write_natives([small()] * 50)):
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(are_equal, [lattice] * 4, [small()] * 4))


def documented_checksum(lattice: Lattice) -> int:
    counts = (lattice.num_states, lattice.num_arcs, len(lattice.ali), len(lattice.final_ali), lattice.time is not None)
    head = struct.pack("<d6q", lattice.frame_shift or 0, lattice.kind == "raw", *counts)
    arrays = [getattr(lattice, field.name) for field in fields(Lattice)]
    return zlib.crc32(
        lattice.key.encode() + head + b"".join(array.tobytes() for array in arrays if type(array) is np.ndarray)
    )


def checksums(content: bytes) -> list[int]:
    sums: list[int] = arrow.ipc.open_file(arrow.BufferReader(content)).read_all().column("crc32").to_pylist()
    return sums


@settings(max_examples=12)
@given(lattices(connected=False), st.sampled_from([None, 0.01]), st.booleans())
def test_the_checksum_agrees_with_its_documentation(lattice: Lattice, frame_shift: float | None, timed: bool) -> None:
    lattice = replace(lattice, frame_shift=frame_shift)
    if timed:
        lattice = replace(lattice, time=np.arange(lattice.num_states, dtype=np.int32))
    assert checksums(write_native(lattice)) == [documented_checksum(lattice)]


@pytest.mark.parametrize("num_arcs", [511, 512, 513, 600, 1000, 1023, 1024, 1025, 3000])
def test_the_checksum_does_not_depend_on_block_boundaries(num_arcs: int) -> None:
    written_lattices = [
        Lattice.from_arrays(
            "utt",
            [0, num_arcs, num_arcs],
            np.ones(num_arcs),
            *np.random.default_rng(number).integers(1, 99, (3, num_arcs)),
            [np.inf, 0.0],
            ali_begin=np.full(num_arcs + 1, labels) * (np.arange(num_arcs + 1) == num_arcs),
            ali=np.arange(labels),
        )
        for number, labels in enumerate((0, 1024, 5000))
    ]
    content = write_natives(written_lattices)
    assert checksums(content) == [documented_checksum(lattice) for lattice in written_lattices]
    assert all(
        are_equal(lattice, back)
        for lattice, back in zip(written_lattices, NativeFile(content, check="all"), strict=True)
    )


@settings(max_examples=40)
@given(st.integers(0, 7), st.data())
def test_every_flipped_bit_is_detected(bit: int, data: st.DataObject) -> None:
    content = bytearray(BASE)
    content[data.draw(st.integers(0, len(BASE) - 1))] ^= 1 << bit
    try:
        file = NativeFile(bytes(content))
        entries = list(file.entries())
        words = list(file.words or ())
    except NinjaError:
        return
    if all(isinstance(entry, Lattice) for _, entry in entries):
        assert [key for key, _ in entries] == ["a", "b"]
        before = list(NativeFile(BASE))
        assert all(
            isinstance(entry, Lattice) and are_equal(entry, expected)
            for (_, entry), expected in zip(entries, before, strict=True)
        )
        assert words == list(WORDS)


def test_changes_by_other_programs_are_detected_if_checksums_remain() -> None:
    def with_higher_costs(table: Any) -> Any:
        costs = arrow.array([[2.0, 2, 3], [1, 2, 3]], table.schema.field("graph").type)
        return table.set_column(table.schema.get_field_index("graph"), table.schema.field("graph"), costs)

    content = write_natives([small("a"), small("b")])
    entries = dict(NativeFile(rewrite(content, with_higher_costs), "x.arrow").entries())
    assert str(entries["a"]) == "x.arrow, key 'a': damaged: its checksum differs"
    assert isinstance(entries["b"], Lattice)
    assert next(iter(NativeFile(rewrite(content, with_higher_costs), check="none"))).graph.tolist() == [2, 2, 3]
    without_checksums = rewrite(content, lambda table: with_higher_costs(table).drop_columns(["crc32"]))
    assert NativeFile(without_checksums)["a"].graph.tolist() == [2, 2, 3]
    unknown = arrow.array([None, None], arrow.uint32())
    without_checksums = rewrite(
        content, lambda table: with_higher_costs(table).set_column(15, table.schema.field(15), unknown)
    )
    assert NativeFile(without_checksums)["a"].graph.tolist() == [2, 2, 3]


def test_a_changed_symbol_table_is_detected() -> None:
    file = NativeFile(write_native(small()).replace(b"onetwothree", b"onetwotreee"), "x.arrow")
    (lattice,) = file
    with pytest.raises(FormatError, match=r"x.arrow: the symbol table is damaged, or was changed by another program"):
        lattice.words.word(1)  # type: ignore[union-attr]
    sparse = write_native(small(words=SymbolTable([("<eps>", 0), ("one", 1), ("z", 2_000_000_000)])))
    with pytest.raises(FormatError, match="the symbol table is damaged, or was changed by another program"):
        NativeFile(sparse.replace(b'"one"', b'"two"'))
    metadata = {"ninja.lattices": "1", "ninja.words.crc32": "none"}
    with pytest.raises(FormatError, match="the checksum of the symbol table is not a number"):
        NativeFile(rewrite(sparse, lambda table: table.replace_schema_metadata(metadata)))


def test_a_column_with_a_truncated_validity_bitmap_is_refused() -> None:
    messages = set()
    for place in range(0, len(BASE) - 16, 8):
        if BASE[place + 8 : place + 16] == struct.pack("<q", 1):  # possibly the length of a validity bitmap
            file = NativeFile(BASE[: place + 8] + bytes(8) + BASE[place + 16 :], "x.arrow")
            messages |= {str(error) for _, error in file.entries() if isinstance(error, NinjaError)}
    assert "x.arrow: a column is truncated" in messages


def rewrite(content: bytes, change: Any, **options: Any) -> bytes:
    table = change(arrow.ipc.open_file(arrow.BufferReader(content)).read_all())
    buffer = io.BytesIO()
    with arrow.ipc.new_file(buffer, table.schema, **options) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def test_other_arrow_files_are_refused(tmp_path: Any) -> None:
    content = write_native(small())

    def read(content: bytes) -> None:
        read_native(content)

    with pytest.raises(FormatError, match=r"x.arrow: not an Arrow file, or truncated"):
        read(content[:-3])
    with pytest.raises(FormatError, match="not an Arrow file"):
        read(b"")
    (tmp_path / "empty").touch()
    with pytest.raises(FormatError, match="not an Arrow file"):
        NativeFile(tmp_path / "empty")
    with pytest.raises(InputError, match="cannot be read: "):
        NativeFile(tmp_path / "none")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        NativeFile(tmp_path)
    with pytest.raises(FormatError, match="this is an Arrow file, but it contains no lattices"):
        read(rewrite(content, lambda table: table.replace_schema_metadata({})))
    with pytest.raises(FormatError, match="the file has version 2, but Ninja reads only version 1; upgrade Ninja"):
        read(rewrite(content, lambda table: table.replace_schema_metadata({"ninja.lattices": "2"})))
    with pytest.raises(
        FormatError, match="this Arrow file is not a lattice file, because it has other columns: kind, "
    ):
        read(rewrite(content, lambda table: table.drop_columns(["key"])))
    with pytest.raises(FormatError, match="the column time is of type int64"):
        read(rewrite(content, lambda table: table.set_column(14, "time", arrow.array([3]))))
    with pytest.raises(FormatError, match="the columns are compressed; write the file without compression"):
        read(rewrite(content, lambda table: table, options=arrow.ipc.IpcWriteOptions(compression="lz4")))
    with pytest.raises(FormatError, match="a lattice has no key, or is of an unknown kind"):
        read(rewrite(content, lambda table: table.set_column(1, table.schema.field(1), arrow.array(["odd"]))))
    with pytest.raises(FormatError, match="a frame shift is not a number from 1e-6 to 1e6"):
        read(rewrite(content, lambda table: table.set_column(2, table.schema.field(2), arrow.array([-1.0]))))
    nulls = arrow.array([None], arrow.large_list(arrow.int32()))
    with pytest.raises(FormatError, match="a lattice has no dst"):
        read(rewrite(content, lambda table: table.set_column(4, arrow.field("dst", nulls.type), nulls)))
    first, last = content.find(b"ARROW1"), content.rfind(b"ARROW1")
    footer = last - 4 - int.from_bytes(content[last - 4 : last], "little")
    with pytest.raises(FormatError, match="the gap between two blocks is 72 bytes, but must be from 0 to 64"):
        read(content[:footer] + bytes(64) + content[footer:])
    assert first == 0
    with pytest.raises(OptionError, match="check is 'often', but must be use, all or none"):
        NativeFile(content, check="often")  # type: ignore[arg-type]


ARCHIVES = ["korean/raw.ark.gz", "korean/wide.ark.gz", "english/test/libri/lat.ark.gz", "english/test/calls/lat.ark.gz"]


@pytest.mark.parametrize("name", ARCHIVES)
def test_real_lattices_are_unchanged_by_k2_and_native_files(name: str) -> None:
    pytest.importorskip("torch")
    path = SHARED / "data" / name
    if not path.is_file():  # in CI, conftest.py turns this skip into a failure
        pytest.skip("the shared data are absent")
    written_lattices = [lattice for _, lattice in islice(read(str(path)), 40)]
    for lattice, result in zip(
        written_lattices, read_k2s(write_natives_of(read_k2s(write_k2s(written_lattices)))), strict=True
    ):
        assert isinstance(result, Lattice)
        assert result.identical(lattice)


def write_natives_of(items: Any) -> bytes:
    """Convert lattices to the native format and back to a k2 file."""
    return write_k2s(NativeFile(write_natives(items)))


BASE = write_natives([small("a"), small("b", time=np.array([0, 4, 9], np.int32), frame_shift=0.01)])
