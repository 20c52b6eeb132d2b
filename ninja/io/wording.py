"""One symbol table for lattices whose files spell words, each in its own way."""

from __future__ import annotations

import numpy as np

from ninja.errors import SymbolError
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.symbols import EPSILON, SpelledTable, SymbolTable


class Respelling:
    """Gives lattices with tables of their own the ids of one table.

    Args:
        words: The table.
    """

    def __init__(self, words: SymbolTable) -> None:
        self.words = words
        self._last: tuple[SymbolTable, Array] | None = None  # lattices of one file share their table

    def __call__(self, lattice: Lattice) -> Lattice:
        """Return the lattice with the same words, as ids of the table.

        Raises:
            SymbolError: The table lacks a word of the lattice.
        """
        if lattice.words is None or lattice.words is self.words:
            return lattice.with_words(self.words)
        number = self._numbers(lattice.words)
        found = frozen(number[np.minimum(lattice.word, len(number) - 1)])
        if (found < 0).any():
            lacking = lattice.words.word(int(lattice.word[np.flatnonzero(found < 0)[0]]))
            raise SymbolError(f"word {lacking!r} is not in the symbol table; is it the right one?", key=lattice.key)
        return lattice.replace(word=found, words=self.words)

    def _numbers(self, own: SymbolTable) -> Array:
        """Return our id of each id of a table, -1: none, int32 [largest id + 2]."""
        if self._last is None or self._last[0] is not own:
            entries = dict(own)
            ids = np.fromiter(entries.values(), np.int64, len(entries))
            number = np.full(int(ids.max(initial=0)) + 2, -1, np.int32)
            number[ids] = self.words.ids(entries)
            number[EPSILON] = EPSILON
            self._last = own, number
        return self._last[1]


class Merging:
    """One table of the words of several, in the order in which they come; epsilon is 0.

    A word keeps its id unless another word has it already.
    """

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._taken: set[int] = set()
        self._free = EPSILON + 1
        self._last: SymbolTable | None = None  # lattices of one file share their table

    def add(self, table: SymbolTable) -> None:
        """Take in the words of a table."""
        if table is self._last:
            return
        self._last = table
        number_of, taken = self._number_of, self._taken
        for word, number in table:
            if word in number_of or (number == EPSILON and EPSILON in taken):
                continue
            if number in taken:
                while self._free in taken:
                    self._free += 1
                number = self._free
            number_of[word] = number
            taken.add(number)

    def table(self) -> SpelledTable | None:
        """Return the table; None: none was taken in."""
        return None if self._last is None else SpelledTable(self._number_of.items())
