"""Symbol tables: contents and rejected inputs."""

from __future__ import annotations

import gzip
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linear_time import assert_linear

from ninja.errors import FormatError, InputError, NinjaError, SymbolError
from ninja.lattice import symbols
from ninja.lattice.symbols import SymbolTable

WORDS = st.text(st.characters(exclude_characters=" \t\r\n", exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(
    entries=st.dictionaries(WORDS, st.integers(0, 2**31 - 1), max_size=8).filter(lambda d: len({*d.values()}) == len(d))
)
def test_symbol_table_survives_a_round_trip(entries: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("words") / "words.txt"
    content = "".join(f"{word} {number}\n" for word, number in entries.items()).encode()
    for data in (content, gzip.compress(content)):
        path.write_bytes(data)
        assert dict(SymbolTable.read(path)) == entries


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a 1\nb\n", r"words\.txt:2: expected a word and an integer, as in words.txt, found 'b'"),
        (b"a 1 2\n", r"words\.txt:1: expected a word and an integer"),
        (b"a --1\n", r"words\.txt:1: expected a word and an integer"),
        (b"a " + b"9" * 5000, r"words\.txt:1: expected a word and an integer"),
        ("a ²\n".encode(), r"words\.txt:1: expected a word and an integer"),
        (b"a 1\n\xff 2\n", r"words\.txt:2: not UTF-8 \(invalid start byte\); convert it with iconv"),
        (gzip.compress(b"a 1\n")[:-9], r"words\.txt: the gzip stream is truncated"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff\xff", r"words\.txt: the gzip stream is damaged"),
    ],
)
def test_a_damaged_symbol_table_is_refused_with_its_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        SymbolTable.read(path)


def test_a_missing_symbol_table_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^\S*words\.txt: cannot be read: No such file or directory$"):
        SymbolTable.read(tmp_path / "words.txt")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("a", 1), ("a", 2)], "word 'a' has two ids, 1 and 2"),
        ([("a", 1), ("b", 1)], "id 1 has two words, 'a' and 'b'"),
        ([("a", -1)], "word 'a' has the negative id -1"),
        ([("a", 2**31)], "word 'a' has the id 2147483648, but the largest allowed id is 2147483647"),
        (
            ["<eps>", "a"],
            "'<eps>' is not a pair of a word and its id; for words without ids, use SymbolTable.from_words",
        ),
        ([(0, "<eps>")], r"\(0, '<eps>'\) is not a pair of a word and its id"),
    ],
)
def test_a_symbol_table_that_is_not_one_to_one_is_refused(entries: list[Any], message: str) -> None:
    with pytest.raises(SymbolError, match=message):
        SymbolTable(entries)


def test_an_unknown_word_id_is_named_in_the_error() -> None:
    with pytest.raises(SymbolError, match="word id 7 is not in the symbol table"):
        SymbolTable.from_words(["<eps>", "a"]).spell([1, 0, 7])


PIECES = ["a 1", "b\t2", "c", "3", " d  0 ", "", "a", " ", "\r", "\n", "\x0b", "\xa0", "-1", "e 10"]


@given(st.lists(st.sampled_from(PIECES)))
def test_fast_reader_agrees_with_reading_line_by_line(tmp_path_factory, pieces):
    path = tmp_path_factory.getbasetemp() / "words.txt"
    path.write_bytes("".join(f"{piece}\n" if " " in piece else piece for piece in pieces).encode())

    def read():
        try:
            return list(SymbolTable.read(path))
        except NinjaError as error:
            return str(error)

    fast = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(symbols, "_read_plain", lambda _: None)
        assert fast == read()


@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_fast_reader_does_not_depend_on_the_block_size(block: int, tmp_path: Path, monkeypatch) -> None:
    entries = [(f"w{number}" * (1 + number % 3), 7 * number % 20_011) for number in range(20_000)]
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{word}\t{number}\n" for word, number in entries))
    monkeypatch.setattr(symbols, "BLOCK", block)
    assert list(SymbolTable.read(path)) == entries


def test_merging_symbol_tables_takes_linear_time() -> None:
    def make_run(size: int) -> Callable[[], object]:
        first, second = ([(f"{name}{number}", size // 2 + number) for number in range(size)] for name in "ab")

        def run() -> None:
            table = SymbolTable.growing(first)
            table.merge(second)
            assert table.ids(word for word, _ in second) == list(range(size + size // 2, 2 * size + size // 2))

        return run

    assert_linear(make_run, 2_000)


def test_merge_gives_words_with_a_used_id_the_next_free_id() -> None:
    table = SymbolTable.growing([("a", 0), ("b", 1), ("c", 4), ("d", 5)])
    table.merge([("e", 0), ("f", 1), ("g", 8), ("h", 8)])
    assert list(table) == [("a", 0), ("b", 1), ("c", 4), ("d", 5), ("e", 6), ("f", 7), ("g", 8), ("h", 9)]


@pytest.mark.parametrize("verb", ["copy", "rescore", "prune"])
def test_a_word_id_far_beyond_the_number_of_words_allocates_no_memory(
    verb: str, ninja: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text(f"<eps> 0\na 1\nb {symbols.LARGEST_ID}\n")
    (tmp_path / "lat.txt").write_text("utt \n0 1 1 1,1,\n1 0,0,\n\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    options = {"copy": ["--to", "slf"], "rescore": [], "prune": ["--beam", "4"]}[verb]
    code, _, errors = ninja(
        verb, tmp_path / "lat.txt", "--words", tmp_path / "words.txt", *options, "-o", tmp_path / "out"
    )
    assert code == 1
    assert "words.txt: word 'b' has the id 2147483647, but there are only 3 words" in errors
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB
