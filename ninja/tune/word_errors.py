"""Word errors on lattice paths against a reference, in words or in lexical forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import FormatError
from ninja.evaluate.normal_form import reference_ids
from ninja.lattice import Lattice
from ninja.lattice.arrays import offsets, runs
from ninja.lattice.text import LexicalForms, LexicalTable


def check_words(num_words: int, lattices: str = "lattices") -> None:
    """Raise FormatError if the references of lattices contain no word; `lattices` names these lattices."""
    if not num_words:
        raise FormatError(
            f"the references of the {lattices} contain no words, so the word error rate is undefined; specify other "
            "references"
        )


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference of a lattice, stored as ids of words or of lexical forms."""

    ids: Sequence[int]  # -1 for words that are not in the symbol table
    table: LexicalTable | None

    @classmethod
    def of(cls, lattice: Lattice, words: Sequence[str], forms: LexicalForms) -> Reference:
        """Create the reference for a lattice by looking up its words."""
        table = forms.table(lattice)
        if table is not None:
            return cls(table.ids(words), table)
        return cls([-1] * len(words) if lattice.words is None else reference_ids(lattice.words, words), None)

    def errors(self, words: npt.NDArray[np.int32]) -> int:
        """Count the word errors on a path that has the given word ids."""
        return int(self.errors_by_path(words, np.array([0, words.size]))[0])

    def errors_by_path(self, words: npt.NDArray[np.int32], begin: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Count the word errors on several paths.

        Args:
            words: Word ids of all paths, int32.
            begin: Offset of each path in `words`, int64 [num_paths + 1].

        Returns:
            The number of errors on each path, int64 [num_paths].
        """
        if self.table is not None:
            forms = [self.table.lexical_ids(path.tolist()) for path in runs(words, begin)]
            begin = offsets([len(form) for form in forms])
            words = np.fromiter(chain.from_iterable(forms), np.int32, begin[-1])
        num_paths = begin.size - 1
        reference = np.tile(np.array(self.ids, np.int32), num_paths)
        counts = _graph.edit_counts(reference, len(self.ids) * np.arange(num_paths + 1), words, begin)
        errors: npt.NDArray[np.int64] = counts.reshape(-1, 3).sum(axis=1, dtype=np.int64)
        return errors
