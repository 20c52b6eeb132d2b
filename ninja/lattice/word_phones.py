"""Phones of words: lexicons for alignment, and position-dependent phones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# The numbers are those of the kernel; 0 is a phone that a word boundary lacks.
KINDS = {"begin": 1, "end": 2, "singleton": 3, "internal": 4, "nonword": 5}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AlignLexicon:
    """Entries of a word, the word to put in its place, and phones; word 0 is silence or noise."""

    entries: npt.NDArray[np.int32]  # all of them, one behind the other
    begin: npt.NDArray[np.int64]  # [num_entries + 1], entry i is ``entries[begin[i] : begin[i + 1]]``
    path: str | None = None  # for messages

    @property
    def num_entries(self) -> int:
        """Number of entries."""
        return self.begin.size - 1

    @property
    def words_to_put(self) -> npt.NDArray[np.int32]:
        """The word put for each entry's, int32 [num_entries]."""
        return self.entries[self.begin[:-1] + 1]

    def __repr__(self) -> str:
        return f"AlignLexicon({self.path!r}, {self.num_entries} entries)"


@dataclass(frozen=True, slots=True, eq=False)
class WordBoundary:
    """The kind of each phone of a set whose phones tell by themselves where words begin and end."""

    path: str
    kind_of: dict[int, int]  # phone -> one of the values of KINDS

    def kinds(self, phones: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        """Return the kind of each of some phones, 0 for those the file lacks, uint32 of the same shape."""
        distinct, place = np.unique(phones, return_inverse=True)
        kinds = np.array([self.kind_of.get(phone, 0) for phone in distinct.tolist()], np.uint32)
        return kinds[place].reshape(phones.shape)
