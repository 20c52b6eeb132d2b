"""Text of tables of arcs, compared with Python's formatting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninja.errors import SymbolError
from ninja.formats.arc_table import Column, Names, Runs, row_texts, words_column
from ninja.lattice.arrays import offsets
from ninja.lattice.symbols import SymbolTable

INTEGERS = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-2, 10_001))
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), max_size=6) | st.just("\udcff")


def expected_text(prefix: str, rows: list[tuple[int, float, str, list[int], list[int]]]) -> str:
    """Format the rows by a slow and simple method."""
    lines = []
    for integer, number, name, run, second_run in rows:
        fields = [prefix, str(integer), f"{number:.7g}", name, ",".join(map(str, run))]
        lines.append("\t".join([*fields, *(["_".join(map(str, second_run))] if second_run else [])]) + "\n")
    return "".join(lines)


def runs(lists: list[list[int]], separator: str, *, may_lack: bool) -> Runs:
    pool = np.array([value for run in lists for value in run], np.int32)
    return Runs(pool, offsets([len(run) for run in lists]), separator, may_lack)


def rows_text(prefix: str, num_rows: int, columns: list[Column]) -> str:
    (text,) = row_texts([prefix], np.array([0, num_rows]), columns)
    return text


@given(
    NAMES,
    st.lists(st.tuples(INTEGERS, st.floats(), NAMES, st.lists(INTEGERS, max_size=3), st.lists(INTEGERS, max_size=3))),
    st.integers(0, 5),
)
def test_rows_are_formatted_as_in_python(
    prefix: str, rows: list[tuple[int, float, str, list[int], list[int]]], cut: int
) -> None:
    integer, number, name, first_runs, second_runs = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 5
    )
    names = list(dict.fromkeys(name))
    columns = [
        np.array(integer, np.int32),
        np.array(number, np.float64),
        Names(names, np.array([names.index(text) for text in name], np.int32)),
        runs(first_runs, ",", may_lack=False),
        runs(second_runs, "_", may_lack=True),
    ]
    assert rows_text(prefix, len(rows), columns) == expected_text(prefix, rows)
    cuts = np.array([0, cut := min(cut, len(rows)), len(rows)])
    assert row_texts([prefix, "k"], cuts, columns) == [
        expected_text(prefix, rows[:cut]),
        expected_text("k", rows[cut:]),
    ]


@settings(max_examples=40)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_float32_columns_are_printed_with_seven_digits(numbers: list[float]) -> None:
    text = rows_text("k", len(numbers), [np.array(numbers, np.float32)])
    assert text == "".join(f"k\t{number:.7g}\n" for number in numbers)


def test_int64_columns_are_printed() -> None:
    assert rows_text("k", 2, [np.array([5, 7], np.int64)]) == "k\t5\nk\t7\n"


def test_words_are_spelled_if_there_is_a_symbol_table() -> None:
    words = SymbolTable.from_words(["<eps>", "är", "b"])
    word = np.array([2, 1, 2, 0], np.int32)
    assert rows_text("k", 4, [words_column(word, words)]) == "k\tb\nk\tär\nk\tb\nk\t<eps>\n"
    assert rows_text("k", 4, [words_column(word, None)]) == "k\t2\nk\t1\nk\t2\nk\t0\n"
    with pytest.raises(SymbolError):
        words_column(np.array([3], np.int32), words)


def test_inconsistent_columns_are_refused() -> None:
    index = np.array([1], np.int64)
    with pytest.raises(ValueError, match="outside the pool"):
        rows_text("k", 1, [Runs(np.zeros(0, np.int32), np.array([0, 1]), ",")])
    with pytest.raises(ValueError, match="the index of a name is out of range"):
        rows_text("k", 1, [Names(["a"], index.astype(np.int32))])
    with pytest.raises(TypeError):
        rows_text("k", 2, [np.array([1.0])])
