"""Kaldi's ``align_lexicon.int``: the phones of each word, to find words in lattices by."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError
from ninja.files import text as utf8

LARGEST_ID = 2**31 - 4  # a few ids are kept for what gets no word


class AlignLexicon:
    """Entries of a word, the word to put in its place, and phones; word 0 stands for silence and the like.

    Args:
        entries: All entries behind each other, int32.
        begin: Entry i is ``entries[begin[i] : begin[i + 1]]``, int64 [num_entries + 1].
        path: Where they come from, for messages.
    """

    __slots__ = ("begin", "entries", "path")

    def __init__(self, entries: npt.NDArray[np.int32], begin: npt.NDArray[np.int64], path: str | None = None) -> None:
        self.entries = entries
        self.begin = begin
        self.path = path

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> AlignLexicon:
        """Read lines of a word's id, the id to put for it, and the ids of its phones; ``.gz`` is unpacked.

        Raises:
            FormatError: A line is anything else or contradicts another, or there are no lines.
            InputError: The file cannot be read.

        Source: Kaldi, lat/word-align-lattice-lexicon.cc, ReadLexiconForWordAlign.
        """
        name = os.fspath(path)
        known: dict[tuple[int, ...], int] = {}
        for number, line in enumerate(utf8.read(name).split("\n"), start=1):
            fields = line.split()
            if not fields:
                continue
            try:
                word, put, *phones = entry = [int(field) for field in fields]
            except ValueError:
                entry = []
            if not entry or min(entry) < 0 or max(entry) > LARGEST_ID or 0 in phones:
                message = f"expected ids of a word, the word to put, and phones, found {line[:60]!r}"
                raise FormatError(f"{message}; give align_lexicon.int, not .txt", name, line=number)
            if word == 0 and not phones:
                raise FormatError("word 0 has no phones: it would be found everywhere", name, line=number)
            if known.setdefault((word, *phones), put) != put:
                message = f"word {word} stands before with the same phones, but {known[(word, *phones)]} to put for it"
                raise FormatError(message, name, line=number)
        if not known:
            raise FormatError("no words in it; is it align_lexicon.int?", name)
        flat = [each for (word, *phones), put in known.items() for each in (word, put, *phones)]
        begin = np.cumsum([0, *(len(key) + 1 for key in known)])
        return cls(np.array(flat, np.int32), begin.astype(np.int64), name)

    @property
    def num_entries(self) -> int:
        """Number of entries."""
        return self.begin.size - 1

    @property
    def words_to_put(self) -> npt.NDArray[np.int32]:
        """The word put for each entry's, int32 [num_entries]."""
        return self.entries[self.begin[:-1] + 1]

    def __reduce__(self) -> tuple[object, ...]:
        return AlignLexicon, (self.entries, self.begin, self.path)

    def __repr__(self) -> str:
        return f"AlignLexicon({self.path!r}, {self.num_entries} entries)"
