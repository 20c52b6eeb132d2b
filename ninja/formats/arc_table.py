"""Rows of columns as tab-separated lines, for commands that print arcs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from ninja import _tables
from ninja.lattice.symbols import SymbolTable


@dataclass(frozen=True, slots=True)
class Names:
    """A column of names, many of them alike."""

    names: Sequence[str]
    number: npt.NDArray[np.int32]  # [rows], which of them


@dataclass(frozen=True, slots=True)
class Runs:
    """A column of stretches of integers."""

    pool: npt.NDArray[np.int32]
    begin: npt.NDArray[np.int64]  # [rows + 1]; the integers of row r are pool[begin[r] : begin[r + 1]]
    separator: str  # between the integers of a row, one letter of ASCII
    may_lack: bool = False  # a row without integers lacks this column, and the tab before it


Column = npt.NDArray[np.integer] | npt.NDArray[np.floating] | Names | Runs


def row_texts(prefixes: Sequence[str], begin: npt.NDArray[np.int64], columns: Sequence[Column]) -> list[str]:
    """Return the lines behind each prefix: that and a row's columns, separated by tabs.

    Integers must fit into 32 bits; floats are printed as ``%.7g``, which is how Kaldi prints them.

    Args:
        prefixes: Keys.
        begin: Rows of each, [prefixes + 1]; those of prefix i are ``begin[i] : begin[i + 1]``.
        columns: Of all rows.
    """
    rows = _tables.Rows(int(begin[-1]))
    for column in columns:
        if isinstance(column, Runs):
            if column.begin.min() < 0 or column.begin.max() > len(column.pool):
                raise ValueError("a row's integers lie outside the pool")
            rows.runs(column.pool, column.begin[:-1], column.begin[1:], column.separator, column.may_lack)
        elif isinstance(column, Names):
            if column.number.min(initial=0) < 0 or column.number.max(initial=-1) >= len(column.names):
                raise ValueError("a row's name is not among the names")
            letters = [_bytes(name) for name in column.names]
            ends = np.fromiter(accumulate(map(len, letters)), np.int64, len(letters))
            begins = np.concatenate([[0], ends[:-1]]) if letters else ends
            rows.names(column.number, b"".join(letters), begins, ends)
        elif column.dtype.kind == "f":
            rows.numbers(np.ascontiguousarray(column, np.float64))
        else:
            rows.integers(np.ascontiguousarray(column, np.int32))
    return rows.texts([_bytes(prefix) for prefix in prefixes], begin)


def words_column(word: npt.NDArray[np.int32], words: SymbolTable | None) -> Column:
    """Return a column of words, or of their ids where they have no names."""
    if words is None:
        return word
    ids, number = np.unique(word, return_inverse=True)
    return Names([words.word(word_id) for word_id in ids.tolist()], number.astype(np.int32))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
