"""Checking and writing of an output's symbol table, which is stored next to the lattices."""

from __future__ import annotations

import os
import re

from ninja.errors import OptionError, SymbolError
from ninja.files.output import LONGEST_NAME, opened_as_text
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import Guard, is_file, is_read_once
from ninja.formats.kaldi.archive import BESIDE, TABLE_NAMES
from ninja.io.sources import table_path
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_ids import agree, used_words

_BLANK = re.compile(r"[ \t\n\v\f\r]")  # ASCII whitespace, which separates the fields of a line


def write_table(table: SymbolTable, path: str, guard: Guard | None = None) -> None:
    """Write a symbol table in the format of Kaldi's ``words.txt``, omitting words that contain whitespace."""
    with opened_as_text(path, guard) as file:
        file.writelines(f"{word} {number}\n" for word, number in table if is_one_field(word))


def is_one_field(word: str) -> bool:
    """Return whether a symbol table file can store a word, which must not be empty or contain whitespace."""
    return bool(word) and _BLANK.search(word) is None


class OutputWords:
    """The symbol table of an output; the table is written if necessary, and all lattices must agree with it.

    The table is written next to the output if it was built from the words in the sources, or was read from a file next
    to another archive. Any other table was read from a file that the user specified; it is written only to replace an
    older table next to the output.

    Args:
        place: Output file or folder; ``-`` for stdout.
        words: Symbol table of the output; None uses the table of the first lattice.
        words_out: File for the table; None writes it next to the output.
        needed: Whether the output contains ids without words.
        shared: Whether the output contains ids, so that its lattices must share a table.
        follows: Whether the output already contains lattices without a symbol table.
        guard: Guard that protects the inputs from being replaced.
    """

    def __init__(
        self,
        place: str,
        words: SymbolTable | None,
        words_out: str | None,
        *,
        needed: bool,
        shared: bool,
        follows: bool = False,
        guard: Guard | None = None,
    ) -> None:
        self._place = place
        self._words_out = words_out
        self._guard = guard
        self._needed = needed and place != os.devnull
        self._shared = shared
        self._once = is_read_once(place)
        self._is_begun = False
        self._existing: SymbolTable | None = None  # table that already exists in the output folder
        self._last: SymbolTable | None = None  # table of the lattice that was checked last
        self._num_checked = 0  # number of entries of `_last` that were checked
        self._unwritable: dict[int, str] = {}  # id → word, for words of `_last` that cannot be written
        self._common = words  # table with which the tables of all lattices must agree
        self._has_table = words is not None
        self._is_settled = self._has_table or (shared and follows)
        self._written: SymbolTable | None = None  # table of the lattices that were written

    def check(self, lattice: Lattice, key: str) -> None:
        """Check that a lattice agrees with the symbol table of the output, and that its words can be stored.

        Raises:
            OptionError: The words would be lost, or the output folder contains a different symbol table. This error
                also applies to all later lattices.
            SymbolError: A word in the lattice is empty or contains whitespace, or the output's table maps an id to a
                different word.
        """
        self._check_storable(lattice)
        table = lattice.words
        if self._agrees(table):
            return
        if table is None or self._common is None or not agree(table, self._common, lattice):
            other = "the table in words=" if self._has_table else "the table of earlier lattices"
            message = f"the symbol table of the lattice contradicts {other}; read all lattices with the same table: "
            raise SymbolError(message + "--words (words=), for example words=ninja.vocabulary(source)", key=key)

    def fit(self, first: Lattice) -> bool:
        """Return whether lattices that share the first lattice's symbol table can be written without further checks.

        Raises:
            OptionError: See `check`.
        """
        if not self._agrees(first.words):
            return False
        try:
            self._check_storable(first)
        except SymbolError:  # writing the lattices one by one will report the invalid lattice
            return False
        return not self._unwritable and self._existing is None

    def take(self, lattice: Lattice) -> None:
        """Record that a lattice was written; if ids are written, the first lattice determines the symbol table."""
        if self._shared and not self._is_settled:
            self._common, self._is_settled = lattice.words, True
        if self._written is None or not self._needed:
            self._written = lattice.words

    def write(self) -> str | None:
        """Write the table if necessary; return its path, or None if it was not written."""
        path = self._path(self._written)
        if path is None or self._written is None or self._existing is not None:
            return None
        write_table(self._written, path, self._guard)
        return path

    def _agrees(self, table: SymbolTable | None) -> bool:
        """Return whether lattices with this table are accepted without comparing it with the output's table."""
        return table is self._common or not self._is_settled or (table is None and self._has_table)

    def _check_storable(self, lattice: Lattice) -> None:
        """Check that the output's symbol table file can store the words in a lattice."""
        words = lattice.words
        if not self._needed and self._words_out is None:
            return
        if words is not None and self._needed and self._words_out is None and self._once and words.path is None:
            output = "standard output" if self._place == STDOUT else self._place
            message = f"{output} would contain word ids without a symbol table; use --words, --words-out FILE"
            raise OptionError(f"{message} (words_out=), or --to with a format that stores words as text")
        if not self._is_begun:
            self._begin(words)
        if words is None:
            return
        if self._last is not words:
            self._last, self._num_checked, self._unwritable = words, 0, {}
        if self._num_checked < len(words):
            names, numbers = words.since(self._num_checked)
            self._num_checked += len(names)
            if "" in names or not is_one_field("-".join(names)):
                entries = zip(names, numbers, strict=True)
                self._unwritable |= {number: word for word, number in entries if not is_one_field(word)}
        for number in used_words(lattice) if self._unwritable else ():
            if number in self._unwritable:
                problem = "contains whitespace" if self._unwritable[number] else "is empty"
                advice = "use a format that stores words as text" if self._needed else "omit --words-out"
                message = (
                    f"the word {self._unwritable[number]!r} {problem}, so a symbol table cannot store it; {advice}"
                )
                raise SymbolError(message, key=lattice.key)
        if self._existing is not None and not agree(words, self._existing, lattice):
            message = "differs from the symbol table of the lattices; use another folder, or pass this table as --words"
            raise OptionError(f"{self._existing.path} {message}")

    def _begin(self, words: SymbolTable | None) -> None:
        """Read the table that already exists at the path where the output's table will be written."""
        self._is_begun = True
        path = self._path(words)
        if path is None or self._words_out is not None:
            return
        if len(os.fsencode(os.path.basename(path))) > LONGEST_NAME:
            message = "the file name of the symbol table is too long; use a shorter output name, or --words-out"
            raise OptionError(f"{path}: {message} (words_out=)")
        if not is_file(path):
            return
        if words is None:
            raise OptionError(f"{path} already exists and would become the symbol table of the output; move it")
        if os.path.basename(path) == TABLE_NAMES[0]:
            self._existing = SymbolTable.read(path)

    def _path(self, words: SymbolTable | None) -> str | None:
        """Return the path to which the table will be written, or None if it will not be written."""
        if self._words_out is not None or not self._needed or self._once:
            return self._words_out
        path = table_path(self._place)
        is_derived = words is not None and (words.path is None or words.path.endswith(BESIDE))
        return path if is_derived or is_file(path) else None
