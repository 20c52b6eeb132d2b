"""Symbol tables of a run: that of its inputs, and the files beside inputs and outputs."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ninja.errors import OptionError, SymbolError
from ninja.files.output import LONGEST_NAME, Guard, opened_as_text
from ninja.files.place import SPECIFIER, is_file, is_read_once
from ninja.files.place import STDIN as STDOUT
from ninja.formats.kaldi.archive import Vocabulary
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.word_ids import agree, used_words

TABLE_NAMES = ("words.txt", "words.txt.gz")
_BESIDE = ".words.txt"
_GRAPHS = os.path.join(os.pardir, "graph*", TABLE_NAMES[0])  # from a decode folder of Kaldi
_BLANK = re.compile(r"[ \t\n\v\f\r]")  # ASCII blanks, which separate the fields of a line


class Words:
    """The words of the lattices of a run.

    Args:
        table: A growing table takes in the words that files spell; any other table must contain them.
        of_ids: Finds the table of sources of ids, when the first one is read.  [default: `table`, unless it grows]
        keep_tables: Lattices of a file with a table of its own keep that table, and files may mix ids and words.
    """

    def __init__(
        self,
        table: SymbolTable,
        of_ids: Callable[[], SymbolTable | None] | None = None,
        *,
        keep_tables: bool = False,
    ) -> None:
        self.table = table
        self._keep_tables = keep_tables and table.grows
        self._of_ids = of_ids
        self._vocabulary: Vocabulary | None = None  # of ids
        self._ids_in = ""  # the first file of ids
        self._is_spelled = table.grows and len(table) > 1
        self._last: tuple[SymbolTable, Array] | None = None  # lattices of one file share their table

    @property
    def known(self) -> SymbolTable | None:
        """Table of the lattices read so far; None if they have only ids."""
        if self._is_spelled or not self.table.grows:
            return self.table
        return None if self._vocabulary is None else self._vocabulary.words

    def vocabulary(self) -> Vocabulary:
        """Return the table of word ids in a file."""
        if self._vocabulary is None:
            table = None if self.table.grows else self.table
            if self._of_ids is not None and self.table.grows and not self._is_spelled:
                table = self._of_ids()
            self._vocabulary = Vocabulary.of(table)
        return self._vocabulary

    def check_ids(self, batches: Iterator[Batch], name: str) -> Iterator[Batch]:
        """Yield batches of Kaldi lattices; refuse their ids where another file spells words."""
        for batch in batches:
            if self.table.grows and not self._keep_tables and not self._ids_in and any(map(self._has_ids, batch)):
                self._ids_in = name
                self._refuse_mixture()
            yield batch

    def _has_ids(self, lattice: Lattice) -> bool:
        return lattice.words is not self.table and bool(lattice.word.any())

    def attach(self, lattice: Lattice, name: str = "") -> Lattice:
        """Return a lattice of a file with ids of the table.

        Raises:
            SymbolError: The table lacks a word of the lattice.
            OptionError: One file has ids, and another words.
        """
        if lattice.words is None:
            if lattice.word.any():
                self._ids_in = self._ids_in or name
                self._refuse_mixture()
                return self.vocabulary().attach(lattice)
            return lattice if self.table.grows else lattice.with_words(self.table)
        if self.table.grows and not self._is_spelled:
            self._is_spelled = True
            self._refuse_mixture()
        if lattice.words is self.table or self._keep_tables:
            return lattice
        id_of = self._ids_of(lattice.words)
        word = frozen(id_of[np.minimum(lattice.word, len(id_of) - 1)])
        if (word < 0).any():
            missing = lattice.words.word(int(lattice.word[np.flatnonzero(word < 0)[0]]))
            raise SymbolError(f"word {missing!r} is not in the symbol table; is it the right one?", key=lattice.key)
        return lattice.replace(word=word, words=self.table)

    def _refuse_mixture(self) -> None:
        if self._is_spelled and self._ids_in and not self._keep_tables:
            message = (
                "holds ids of words, but another source spells words; give the words of the ids with words= (--words)"
            )
            raise OptionError(f"{self._ids_in} {message}")

    def _ids_of(self, other: SymbolTable) -> Array:
        """Return this table's id of each id of another table, -1 for missing words, int32 [largest id + 2]."""
        if self._last is None or self._last[0] is not other:
            if self.table.grows:
                self.table.merge(other)
            entries = dict(other)
            ids = np.fromiter(entries.values(), np.int64, len(entries))
            id_of = np.full(max(other.end_of_ids(), 1) + 1, -1, np.int32)
            id_of[ids] = self.table.ids(entries)
            id_of[EPSILON] = EPSILON
            self._last = other, id_of
        return self._last[1]


def table_beside(archive: str) -> str:
    """Return the path of the symbol table of one archive: ``lat.ark.words.txt`` beside ``lat.ark``."""
    return f"{archive}{_BESIDE}"


def find_table(source: Sequence[str]) -> str:
    """Return the symbol table beside lattices, or else that of the decoding graph beside their folder.

    Candidates are ``lat.ark.words.txt``, ``words.txt`` or ``words.txt.gz`` beside ``lat.ark``, then
    ``../graph*/words.txt``.

    Args:
        source: Names of the lattices, at least one; ``-`` has no file beside it.

    Raises:
        OptionError: No table exists, some of the lattices have none, or several tables differ.
    """
    beside = {name: _beside(name) for name in source}
    tables = list(dict.fromkeys(table for places in beside.values() for table in places))
    without = next((name for name, places in beside.items() if not places), None)
    if without is not None:
        message = f"{without}: no {' or '.join(TABLE_NAMES)} beside it"
        if tables:
            second = next(name for name, places in beside.items() if places)
            message = f"{message}, but there is one beside {second}"
        raise OptionError(f"{message}; give the words' spelling with --words")
    for second in tables[1:]:
        import filecmp  # for two tables only

        if not filecmp.cmp(tables[0], second, shallow=False):
            raise OptionError(
                f"{tables[0]} and {second}, beside the lattices, differ; say with --words which one it is"
            )
    return tables[0]


def _beside(source: str) -> list[str]:
    """Return the symbol table beside a source, or else those of the graphs beside its folder."""
    if source == STDOUT:
        return []
    path = source if os.path.exists(source) or not SPECIFIER.fullmatch(source) else source.partition(":")[2]
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    names = [table_beside(path), *(os.path.join(folder, name) for name in TABLE_NAMES)]
    nearest = next(filter(is_file, names), None)
    return sorted(glob.glob(os.path.join(glob.escape(folder), _GRAPHS))) if nearest is None else [nearest]


def write_table(table: SymbolTable, path: str, guard: Guard | None = None) -> None:
    """Write a symbol table as Kaldi's ``words.txt``, without words that have blanks."""
    with opened_as_text(path, guard) as file:
        file.writelines(f"{word} {number}\n" for word, number in table if is_one_field(word))


def is_one_field(word: str) -> bool:
    """Return whether a word is not empty and has no blanks, so that a file of words and ids can store it."""
    return bool(word) and _BLANK.search(word) is None


class TableOutput:
    """The symbol table of an output of ids.

    A table that the user named is not written again. A table of the words that sources spell is written beside the
    output, and so is a table from beside another archive, or one whose place beside the output has an older table.

    Args:
        place: File or folder of the output, ``-`` for the standard output.
        words_out: File for the table.  [default: beside the output]
        needed: Whether the output holds ids.
        guard: Inputs that must not be replaced.
    """

    def __init__(self, place: str, words_out: str | None, *, needed: bool, guard: Guard | None = None) -> None:
        self._place = place
        self._words_out = words_out
        self._guard = guard
        self._needed = needed and place != os.devnull
        self._once = is_read_once(place)
        self._is_begun = False
        self._existing: SymbolTable | None = None  # table in the output folder
        self._last: SymbolTable | None = None  # last checked table
        self._num_checked = 0  # number of its checked entries
        self._unwritable: dict[int, str] = {}  # its words that cannot be written
        self._words: SymbolTable | None = None  # table of the written lattices

    def check(self, lattice: Lattice) -> None:
        """Refuse a lattice whose words would lose or change their spelling in the table of the output.

        Raises:
            OptionError: The same applies to all further lattices.
            SymbolError: A word of the lattice has blanks or is empty.
        """
        words = lattice.words
        if not self._needed and self._words_out is None:
            return
        if words is not None and self._needed and self._words_out is None and self._once and words.path is None:
            position = "on the standard output" if self._place == STDOUT else f"in {self._place}"
            message = f"the words' ids would lose their names {position}; give --words, --words-out FILE (words_out=)"
            raise OptionError(f"{message}, or --to a format that spells words")
        if not self._is_begun:
            self._begin(words)
        if words is None:
            return
        if self._last is not words:
            self._last, self._num_checked, self._unwritable = words, 0, {}
        if self._num_checked < len(words):
            new = words.since(self._num_checked)
            self._num_checked += len(new)
            self._unwritable |= {number: word for word, number in new if not is_one_field(word)}
        for number in used_words(lattice) if self._unwritable else ():
            if number in self._unwritable:
                fault = "has blanks" if self._unwritable[number] else "is empty"
                instead = "write a format that spells words" if self._needed else "leave --words-out out"
                message = f"the word {self._unwritable[number]!r} {fault}, which symbol tables cannot store; {instead}"
                raise SymbolError(message, key=lattice.key)
        if self._existing is not None and not agree(words, self._existing, lattice):
            message = "is another symbol table; name a folder without one, or give it as --words"
            raise OptionError(f"{self._existing.path} {message}")

    @property
    def is_particular(self) -> bool:
        """Whether lattices of the same table must be checked one by one."""
        return bool(self._unwritable) or self._existing is not None

    def take(self, lattice: Lattice) -> None:
        """Record the table of a written lattice.

        In an output of ids the table of the first lattice has the words of all (see `TableConsistency`).
        """
        if self._words is None or not self._needed:
            self._words = lattice.words

    def write(self) -> str | None:
        """Write the table if it is needed, and return its path."""
        path = self._path(self._words)
        if path is None or self._words is None or self._existing is not None:
            return None
        write_table(self._words, path, self._guard)
        return path

    def _begin(self, words: SymbolTable | None) -> None:
        """Read an existing table at the path of the output's table."""
        self._is_begun = True
        path = self._path(words)
        if path is None or self._words_out is not None:
            return
        if len(os.fsencode(os.path.basename(path))) > LONGEST_NAME:
            message = "is too long a name for the words' table; name a shorter output, or the table: --words-out"
            raise OptionError(f"{path} {message} (words_out=)")
        if not is_file(path):
            return
        if words is None:
            raise OptionError(f"{path} would be taken for the new lattices' symbol table; move it away")
        if os.path.basename(path) == TABLE_NAMES[0]:
            self._existing = SymbolTable.read(path)

    def _path(self, words: SymbolTable | None) -> str | None:
        """Return the path of the table, if it is to be written."""
        if self._words_out is not None or not self._needed or self._once:
            return self._words_out
        folder = os.path.isdir(self._place)
        path = os.path.join(self._place, TABLE_NAMES[0]) if folder else table_beside(self._place)
        is_derived = words is not None and (words.path is None or words.path.endswith(_BESIDE))
        return path if is_derived or is_file(path) else None


class TableConsistency:
    """Checks that the symbol tables of an output's lattices agree on the word of each id.

    Args:
        words: Table of all lattices, if the caller passed one.
        shared: The output stores ids of one table; by default that of the first lattice.
    """

    def __init__(self, words: SymbolTable | None, *, shared: bool) -> None:
        self._words = words
        self._has_table = words is not None
        self._shared = shared
        self._is_settled = self._has_table

    def check(self, lattice: Lattice, key: str) -> None:
        """Refuse a lattice whose ids have other words.

        Raises:
            SymbolError: The table of the lattice contradicts that of the output.
        """
        table = lattice.words
        if table is self._words or not self._is_settled or (table is None and self._has_table):
            return
        if table is None or self._words is None or not agree(table, self._words, lattice):
            before = "the one that was given" if self._has_table else "that of the lattices before"
            message = f"its symbol table gives its words other names than {before}; read all with one table: words= "
            raise SymbolError(message + "(--words), for example that of ninja.vocabulary(source)", key=key)

    def are_of(self, words: SymbolTable | None) -> bool:
        """Return whether lattices of a table can be written without checking their words."""
        return words is self._words or not self._is_settled or (words is None and self._has_table)

    def take(self, lattice: Lattice) -> None:
        """Record a written lattice."""
        if self._shared and not self._is_settled:
            self._words, self._is_settled = lattice.words, True
