"""Alignment lexicons, which map words to phones, and the word-boundary types of phones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import counted

# The kernel uses the same values; 0 means a phone that is not in the word-boundary file.
KINDS = {"begin": 1, "end": 2, "singleton": 3, "internal": 4, "nonword": 5}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AlignLexicon:
    """Alignment lexicon: entries with a word, its replacement and its phones. Word 0 is silence or noise."""

    entries: npt.NDArray[np.int32]  # all entries, concatenated
    begin: npt.NDArray[np.int64]  # [num_entries + 1]; entry i is ``entries[begin[i] : begin[i + 1]]``
    path: str | None = None  # path of the lexicon file, for messages

    @property
    def num_entries(self) -> int:
        """Number of entries (pronunciations) in the lexicon."""
        return self.begin.size - 1

    @property
    def replacements(self) -> npt.NDArray[np.int32]:
        """Replacement for the word in each entry, int32 [num_entries]."""
        return self.entries[self.begin[:-1] + 1]

    def __repr__(self) -> str:
        return f"AlignLexicon({self.path!r}, {counted(self.num_entries, 'entry', 'entries')})"


@dataclass(frozen=True, slots=True, eq=False)
class WordBoundary:
    """The word-boundary type of each phone of a word-position-dependent phone set."""

    path: str
    kind_of: dict[int, int]  # phone -> one of the values of KINDS

    def kinds(self, phones: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        """Return the type of each phone (0 if it is not in the word-boundary file), uint32 in the shape of `phones`."""
        distinct, index = np.unique(phones, return_inverse=True)
        kinds = np.array([self.kind_of.get(phone, 0) for phone in distinct.tolist()], np.uint32)
        return kinds[index].reshape(phones.shape)
