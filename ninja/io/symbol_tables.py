"""Symbol tables of a run: the table of its inputs, and the files next to inputs and outputs."""

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
_BLANK = re.compile(r"[ \t\n\v\f\r]")  # ASCII white space, which separates the fields of a line


class Words:
    """The words of the lattices of a run.

    Args:
        table: Symbol table. If it grows, the words that files spell are added to it; otherwise it must contain them.
        of_ids: Function that finds the symbol table of sources that contain ids, called when the first of them is
            read. None uses `table`, unless it grows.
        keep_tables: Lattices of a file that contains a symbol table keep that table, and some files may contain ids
            while others contain words.
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
        self._vocabulary: Vocabulary | None = None  # of files that contain ids
        self._ids_in = ""  # the first file that contains ids
        self._is_spelled = table.grows and len(table) > 1
        self._last: tuple[SymbolTable, Array] | None = None  # cached, as the lattices of a file share their table

    @property
    def known(self) -> SymbolTable | None:
        """Symbol table of the lattices read so far, None if they have only ids."""
        if self._is_spelled or not self.table.grows:
            return self.table
        return None if self._vocabulary is None else self._vocabulary.words

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary for files that contain word ids."""
        if self._vocabulary is None:
            table = None if self.table.grows else self.table
            if self._of_ids is not None and self.table.grows and not self._is_spelled:
                table = self._of_ids()
            self._vocabulary = Vocabulary.of(table)
        return self._vocabulary

    def check_ids(self, batches: Iterator[Batch], name: str) -> Iterator[Batch]:
        """Yield batches of Kaldi lattices; raise `OptionError` if they contain ids, but another file spells words."""
        for batch in batches:
            if self.table.grows and not self._keep_tables and not self._ids_in and any(map(self._has_ids, batch)):
                self._ids_in = name
                self._refuse_mixture()
            yield batch

    def _has_ids(self, lattice: Lattice) -> bool:
        return lattice.words is not self.table and bool(lattice.word.any())

    def attach(self, lattice: Lattice, name: str = "") -> Lattice:
        """Return a lattice whose word ids are those of the table.

        Raises:
            SymbolError: A word of the lattice is not in the table.
            OptionError: One file contains ids, but another spells words.
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
            message = "contains word ids, but another source spells words; set their symbol table with --words (words=)"
            raise OptionError(f"{self._ids_in} {message}")

    def _ids_of(self, other: SymbolTable) -> Array:
        """Return the id in this table for each id of another table, -1 for missing words; int32 [largest id + 2]."""
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
    """Return the path of the symbol table of an archive: ``lat.ark.words.txt`` for ``lat.ark``."""
    return f"{archive}{_BESIDE}"


def find_table(source: Sequence[str]) -> str:
    """Return the path of the symbol table next to lattices, or else that of the decoding graph next to their folder.

    For ``lat.ark``, candidates are ``lat.ark.words.txt``, ``words.txt`` and ``words.txt.gz`` in the same folder, then
    ``../graph*/words.txt``.

    Args:
        source: Names of the sources, at least one; ``-`` has no symbol table.

    Raises:
        OptionError: Some or all sources have no symbol table, or the tables differ.
    """
    candidates = {name: _tables_of(name) for name in source}
    tables = list(dict.fromkeys(table for paths in candidates.values() for table in paths))
    without = next((name for name, paths in candidates.items() if not paths), None)
    if without is not None:
        message = f"{without}: found no {' or '.join(TABLE_NAMES)} next to it"
        if tables:
            second = next(name for name, paths in candidates.items() if paths)
            message = f"{message}, but one next to {second}"
        raise OptionError(f"{message}; set the symbol table with --words")
    for second in tables[1:]:
        import filecmp  # for two tables only

        if not filecmp.cmp(tables[0], second, shallow=False):
            raise OptionError(f"the symbol tables {tables[0]} and {second} differ; choose one with --words")
    return tables[0]


def _tables_of(source: str) -> list[str]:
    """Return the symbol table next to a source, or else those of the graphs next to its folder."""
    if source == STDOUT:
        return []
    path = source if os.path.exists(source) or not SPECIFIER.fullmatch(source) else source.partition(":")[2]
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    names = [table_beside(path), *(os.path.join(folder, name) for name in TABLE_NAMES)]
    nearest = next(filter(is_file, names), None)
    return sorted(glob.glob(os.path.join(glob.escape(folder), _GRAPHS))) if nearest is None else [nearest]


def write_table(table: SymbolTable, path: str, guard: Guard | None = None) -> None:
    """Write a symbol table in the format of Kaldi's ``words.txt``, except words that contain white space."""
    with opened_as_text(path, guard) as file:
        file.writelines(f"{word} {number}\n" for word, number in table if is_one_field(word))


def is_one_field(word: str) -> bool:
    """Return whether a symbol table file can store a word, which must not be empty or contain white space."""
    return bool(word) and _BLANK.search(word) is None


class TableOutput:
    """The symbol table of an output that contains word ids.

    A table of the words that sources spell is written next to the output, and so is one that was written with another
    archive. Other tables come from a file that the user knows; they are written only to replace an older table that is
    already next to the output.

    Args:
        place: File or folder of the output, ``-`` for stdout.
        words_out: File for the table; None writes it next to the output.
        needed: Whether the output contains ids without words.
        guard: Protects the inputs from being replaced.
    """

    def __init__(self, place: str, words_out: str | None, *, needed: bool, guard: Guard | None = None) -> None:
        self._place = place
        self._words_out = words_out
        self._guard = guard
        self._needed = needed and place != os.devnull
        self._once = is_read_once(place)
        self._is_begun = False
        self._existing: SymbolTable | None = None  # table in the output folder
        self._last: SymbolTable | None = None  # the table checked last
        self._num_checked = 0  # number of its entries that were checked
        self._unwritable: dict[int, str] = {}  # its words that cannot be written, by id
        self._words: SymbolTable | None = None  # table of the written lattices

    def check(self, lattice: Lattice) -> None:
        """Check that the symbol table of the output can store the words of a lattice.

        Raises:
            OptionError: The words would be lost, or the output folder has another symbol table; this applies to all
                further lattices, too.
            SymbolError: A word of the lattice is empty or contains white space.
        """
        words = lattice.words
        if not self._needed and self._words_out is None:
            return
        if words is not None and self._needed and self._words_out is None and self._once and words.path is None:
            output = "standard output" if self._place == STDOUT else self._place
            message = f"{output} would contain word ids without a symbol table; use --words, --words-out FILE"
            raise OptionError(f"{message} (words_out=), or --to with a format that spells words")
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
                problem = "contains white space" if self._unwritable[number] else "is empty"
                advice = "use a format that spells words" if self._needed else "omit --words-out"
                message = (
                    f"the word {self._unwritable[number]!r} {problem}, so a symbol table cannot store it; {advice}"
                )
                raise SymbolError(message, key=lattice.key)
        if self._existing is not None and not agree(words, self._existing, lattice):
            message = "differs from the symbol table of the lattices; name another folder, or use this table as --words"
            raise OptionError(f"{self._existing.path} {message}")

    @property
    def is_particular(self) -> bool:
        """Whether lattices with the same table must be checked one by one."""
        return bool(self._unwritable) or self._existing is not None

    def take(self, lattice: Lattice) -> None:
        """Record the symbol table of a written lattice.

        In an output of ids, the table of the first lattice contains the words of all lattices; see `TableConsistency`.
        """
        if self._words is None or not self._needed:
            self._words = lattice.words

    def write(self) -> str | None:
        """Write the table if necessary; return its path, or None if it was not written."""
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
            message = "is too long for the name of the symbol table; use a shorter output name, or --words-out"
            raise OptionError(f"{path} {message} (words_out=)")
        if not is_file(path):
            return
        if words is None:
            raise OptionError(f"{path} already exists and would become the symbol table of the output; move it")
        if os.path.basename(path) == TABLE_NAMES[0]:
            self._existing = SymbolTable.read(path)

    def _path(self, words: SymbolTable | None) -> str | None:
        """Return the path to which the table will be written, None if it will not be written."""
        if self._words_out is not None or not self._needed or self._once:
            return self._words_out
        folder = os.path.isdir(self._place)
        path = os.path.join(self._place, TABLE_NAMES[0]) if folder else table_beside(self._place)
        is_derived = words is not None and (words.path is None or words.path.endswith(_BESIDE))
        return path if is_derived or is_file(path) else None


class TableConsistency:
    """Checks that the symbol tables of all lattices of an output agree on the word of each id.

    Args:
        words: Symbol table of the output; None uses that of the first lattice.
        shared: The output stores ids, so its lattices must share a table.
    """

    def __init__(self, words: SymbolTable | None, *, shared: bool) -> None:
        self._words = words
        self._has_table = words is not None
        self._shared = shared
        self._is_settled = self._has_table

    def check(self, lattice: Lattice, key: str) -> None:
        """Raise `SymbolError` if ids of a lattice have other words than in the table of the output."""
        table = lattice.words
        if table is self._words or not self._is_settled or (table is None and self._has_table):
            return
        if table is None or self._words is None or not agree(table, self._words, lattice):
            other = "the given table" if self._has_table else "that of earlier lattices"
            message = f"the symbol table of the lattice contradicts {other}; read all lattices with one table, words="
            raise SymbolError(message + " (--words), such as ninja.vocabulary(source)", key=key)

    def are_of(self, words: SymbolTable | None) -> bool:
        """Return whether lattices of a table can be written without checking their words."""
        return words is self._words or not self._is_settled or (words is None and self._has_table)

    def take(self, lattice: Lattice) -> None:
        """Record a written lattice."""
        if self._shared and not self._is_settled:
            self._words, self._is_settled = lattice.words, True
