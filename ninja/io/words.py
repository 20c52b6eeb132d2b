"""Words of the lattices of a run: one symbol table for the ids and the names that its files hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ninja.errors import OptionError, SymbolError
from ninja.formats.kaldi.archive import Vocabulary
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import EPSILON, SymbolTable


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
            message = "holds ids of words, but another source spells words; say with words= (--words) what ids mean"
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
