"""Formatting of columns as tab-separated lines, for commands that print arcs."""

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
    """A column of names, stored as indices into an array of distinct names."""

    names: Sequence[str]
    number: npt.NDArray[np.int32]  # [num_rows], index into `names`


@dataclass(frozen=True, slots=True)
class Runs:
    """A column in which each row is a list of integers."""

    pool: npt.NDArray[np.int32]
    begin: npt.NDArray[np.int64]  # [num_rows + 1]; the integers of row r are pool[begin[r] : begin[r + 1]]
    separator: str  # ASCII character that separates the integers in a row
    may_lack: bool = False  # in rows without integers, omit the column and the preceding tab


Column = npt.NDArray[np.integer] | npt.NDArray[np.floating] | Names | Runs


def row_texts(prefixes: Sequence[str], begin: npt.NDArray[np.int64], columns: Sequence[Column]) -> list[str]:
    """Format table rows as tab-separated lines; return one string per prefix, with all lines of the prefix.

    A line consists of the prefix and the value of each column. Integers must fit into 32 bits. Floats are formatted
    with ``%.7g``, as in Kaldi.

    Args:
        prefixes: First fields of the lines, such as utterance ids.
        begin: Offsets of the rows, [num_prefixes + 1]; rows ``begin[i] : begin[i + 1]`` belong to prefix i.
        columns: The columns after the prefix; each column contains the values of all rows.
    """
    rows = _tables.Rows(int(begin[-1]))
    for column in columns:
        if isinstance(column, Runs):
            if column.begin.min() < 0 or column.begin.max() > len(column.pool):
                raise ValueError("a row refers to integers outside the pool")
            rows.runs(column.pool, column.begin[:-1], column.begin[1:], column.separator, column.may_lack)
        elif isinstance(column, Names):
            if column.number.min(initial=0) < 0 or column.number.max(initial=-1) >= len(column.names):
                raise ValueError("the index of a name is out of range")
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
    """Return a column of words, or of word ids if there is no symbol table."""
    if words is None:
        return word
    ids, number = np.unique(word, return_inverse=True)
    return Names([words.word(word_id) for word_id in ids.tolist()], number.astype(np.int32))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
