"""`VocabularyCheck`: refuses language models that lack most words of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ninja.errors import VocabularyError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lm.coverage import Coverage, added
from ninja.lm.word_map import WordMap

AnyPair = TypeVar("AnyPair", bound="tuple[str, Lattice] | None")
WordMaps = Callable[[SymbolTable], Sequence[WordMap]]

ENOUGH_LATTICES = 100  # of a file, after which a model is refused before the file ends


class VocabularyCheck:
    """Counts the words of lattices that models lack, file by file and over the run, and refuses files.

    A file is refused if more than a share of its arcs carries words that a model lacks: at its end, and earlier if its
    first hundred lattices are such. Files of one lattice are judged together, for a few rare words are no mistake.

    Args:
        word_maps: Returns the maps of a symbol table to the words of each model.
        max_unknown: The largest share, 0 to 1.
        cover: Called with the coverage of each file's words by each model.
        other_maps: Returns maps of models that may lack any share of the words, and are reported only.
        judges_ends: The end of the lattices is the end of a file.
    """

    def __init__(
        self,
        word_maps: WordMaps,
        max_unknown: float,
        cover: Callable[[Sequence[Coverage]], None],
        *,
        other_maps: WordMaps = lambda words: (),
        judges_ends: bool = True,
    ) -> None:
        self._word_maps = word_maps
        self._other_maps = other_maps
        self._max_unknown = max_unknown
        self._cover = cover
        self._judges_ends = judges_ends
        self._words: SymbolTable | None = None
        self._count: npt.NDArray[np.int64] = np.zeros(0, np.int64)  # arcs of each word of the table, not summed up yet
        self._file: str | None = None
        self._num_lattices = 0  # of the file
        self._num_judged = 0  # models, the first of the coverages
        self._all_fail = True  # lattices of the file, for words that a model without <unk> lacks
        self._of_file: tuple[Coverage, ...] = ()
        self._of_single: tuple[Coverage, ...] = ()  # of all files of one lattice

    def __call__(self, lattices: Iterable[AnyPair], file: Callable[[], str | None] | None = None) -> Iterator[AnyPair]:
        """Yield lattices, and count their words.

        Args:
            file: Returns the file of the lattice that was read last; None: they are judged as one file.

        Raises:
            VocabularyError: A model lacks too many words.
        """
        for pair in lattices:
            if pair is not None:
                self._add(pair[1], None if file is None else file())
            yield pair
        self._end_file()

    def close(self) -> None:
        """Judge the files of one lattice.

        Raises:
            VocabularyError: A model lacks too many of their words.
        """
        self._refuse(self._of_single)

    def _add(self, lattice: Lattice, file: str | None) -> None:
        if file != self._file:
            self._end_file()
            self._file = file
        if lattice.words is None:
            return
        if lattice.words is not self._words:
            self._sum_up()
            self._words = lattice.words
        size = int(lattice.word.max(initial=0)) + 1
        if size > self._count.size:
            self._count = np.pad(self._count, (0, max(size, len(lattice.words)) - self._count.size))
        np.add.at(self._count, lattice.word, 1)
        self._all_fail = self._all_fail and any(
            word_map.unk is None and word_map.unknown_share(lattice) > 0 for word_map in self._word_maps(lattice.words)
        )
        self._num_lattices += 1
        if self._num_lattices == ENOUGH_LATTICES:
            self._sum_up()
            self._refuse(self._of_file, self._file)
            self._refuse_without_unk(self._of_file)

    def _sum_up(self) -> None:
        """Make a coverage of what was counted, by each model."""
        if self._words is not None and self._count.any():
            judged = self._word_maps(self._words)
            self._num_judged = len(judged)
            maps = (*judged, *self._other_maps(self._words))
            self._of_file = added(self._of_file, [word_map.coverage_of(self._count) for word_map in maps])
        self._count = np.zeros(self._count.size, np.int64)

    def _end_file(self) -> None:
        self._sum_up()
        coverages, num_lattices = self._of_file, self._num_lattices
        self._of_file, self._num_lattices = (), 0
        self._cover(coverages)
        if num_lattices == 1 and self._file is not None:
            self._of_single = added(self._of_single, coverages)
        elif self._judges_ends:
            self._refuse(coverages, self._file)
            self._refuse_without_unk(coverages)
        self._all_fail = True

    def _refuse(self, coverages: Sequence[Coverage], file: str | None = None) -> None:
        for coverage in coverages[: self._num_judged]:
            if coverage.share > self._max_unknown:
                raise unknown_words(coverage, self._max_unknown, file)

    def _refuse_without_unk(self, coverages: Sequence[Coverage]) -> None:
        """Refuse a model without <unk> that can score no lattice of the file; where it can, the others fail alone."""
        for coverage in coverages[: self._num_judged] if self._all_fail else ():
            if coverage.lacking and not coverage.has_unk:
                raise VocabularyError(f"{coverage.facts}; it has no <unk>: {coverage.advice}", self._file)


def unknown_words(coverage: Coverage, max_unknown: float, file: str | None = None) -> VocabularyError:
    """Return the error of a model that lacks too many words: it, or the symbol table, is likely the wrong one."""
    return VocabularyError(
        f"{coverage.facts}; more than max_unknown = {max_unknown:.0%}: is this the right model, and the right symbol "
        "table? Raise max_unknown to go on all the same",
        file,
    )
