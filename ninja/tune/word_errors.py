"""Word errors on lattice paths against a reference, in words or in lexical forms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.evaluate import edits
from ninja.lattice import Lattice
from ninja.lattice.text import LexicalForms, LexicalTable


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference of a lattice, stored as ids of words or of lexical forms."""

    ids: Sequence[int]  # -1 for words that are not in the symbol table
    table: LexicalTable | None

    @classmethod
    def of(cls, lattice: Lattice, words: Iterable[str], forms: LexicalForms) -> Reference:
        """Create the reference for a lattice by looking up its words."""
        table = forms.table(lattice)
        if table is not None:
            return cls(table.ids(words), table)
        numbers = (None if lattice.words is None else lattice.words.id(word) for word in words)
        return cls([-1 if number is None else number for number in numbers], None)

    def errors(self, words: npt.NDArray[np.int32]) -> int:
        """Count the word errors on a path, given its word ids."""
        return edits(self.ids, words.tolist() if self.table is None else self.table.lexical_ids(words.tolist()))
