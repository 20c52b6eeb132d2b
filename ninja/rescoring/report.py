"""`RescoreReport`: the log of a rescoring run, and the check that models know most words of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import VocabularyError, counted
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.lattice.batch import Keyed
from ninja.lattice.symbols import SymbolTable
from ninja.lm.word_map import Coverage, WordMap, added
from ninja.log import Log

WordMaps = Callable[[SymbolTable], Sequence[WordMap]]

ENOUGH_LATTICES = 100  # lattices of a file after which a model may be refused before the file ends


class VocabularyCheck:
    """Count the words that models lack, per file and over the run, and refuse files with too many.

    A file is refused if a model lacks the words of too large a fraction of its arcs. This is tested after the first
    hundred lattices and at the end of the file. Files that contain a single lattice are tested together, because
    one lattice may have many rare words.

    Args:
        word_maps: Returns the map from a symbol table to the words of each model.
        max_unknown: The largest allowed fraction of arcs, 0 to 1.
        cover: Called with the coverage of each file's words by each model.
        other_maps: Returns additional maps; their coverage is reported, but not tested.
    """

    def __init__(
        self,
        word_maps: WordMaps,
        max_unknown: float,
        cover: Callable[[Sequence[Coverage]], None],
        *,
        other_maps: WordMaps = lambda words: (),
    ) -> None:
        self._word_maps = word_maps
        self._other_maps = other_maps
        self._max_unknown = max_unknown
        self._cover = cover
        self._words: SymbolTable | None = None
        self._count: npt.NDArray[np.int64] = np.zeros(0, np.int64)  # arcs per word of the table since `_sum_up`
        self._file: str | None = None
        self._num_lattices = 0  # in the current file
        self._num_judged = 0  # number of models, counted from the first, whose coverage is tested
        self._all_fail = True  # every lattice of the file has a word that a model without <unk> lacks
        self._of_file: tuple[Coverage, ...] = ()  # one per model
        self._of_single: tuple[Coverage, ...] = ()  # coverages of all files that contain a single lattice

    def __call__(self, lattices: Iterable[Keyed]) -> Iterator[Keyed]:
        """Yield the lattices, testing them as one file.

        Raises:
            VocabularyError: A model lacks too many words.
        """
        for key, lattice in lattices:
            self.add(lattice)
            yield key, lattice
        self.end_file()

    def read(self, inputs: Inputs) -> Iterator[Keyed]:
        """Yield the lattices of inputs, testing each file.

        Raises:
            VocabularyError: A model lacks too many words.
        """
        for key, lattice in inputs.lattices():
            self.add(lattice, inputs.file)
            yield key, lattice
        self.end_file()
        if not inputs.is_part:
            self.close()

    def close(self) -> None:
        """Test the files that contain a single lattice.

        Raises:
            VocabularyError: A model lacks too many of their words.
        """
        self._refuse(self._of_single)

    def add(self, lattice: Lattice, file: str | None = None) -> None:
        """Count the words of a lattice; test the previous file if this lattice begins another file.

        Raises:
            VocabularyError: A model lacks too many words.
        """
        if file != self._file:
            self.end_file()
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
        """Add the counts to each model's coverage of the file."""
        if self._words is not None and self._count.any():
            judged = self._word_maps(self._words)
            self._num_judged = len(judged)
            maps = (*judged, *self._other_maps(self._words))
            self._of_file = added(self._of_file, [word_map.coverage_of(self._count) for word_map in maps])
        self._count = np.zeros(self._count.size, np.int64)

    def end_file(self) -> None:
        """Test the lattices of the current file.

        Raises:
            VocabularyError: A model lacks too many words.
        """
        self._sum_up()
        coverages, num_lattices = self._of_file, self._num_lattices
        self._of_file, self._num_lattices = (), 0
        self._cover(coverages)
        if num_lattices == 1 and self._file is not None:
            self._of_single = added(self._of_single, coverages)
        else:
            self._refuse(coverages, self._file)
            self._refuse_without_unk(coverages)
        self._all_fail = True

    def _refuse(self, coverages: Sequence[Coverage], file: str | None = None) -> None:
        for coverage in coverages[: self._num_judged]:
            if coverage.share > self._max_unknown:
                raise unknown_words(coverage, self._max_unknown, file)

    def _refuse_without_unk(self, coverages: Sequence[Coverage]) -> None:
        """Refuse a model without <unk> if it cannot score any lattice of the file."""
        for coverage in coverages[: self._num_judged] if self._all_fail else ():
            if coverage.lacking and not coverage.has_unk:
                raise VocabularyError(f"{coverage.facts}; the model has no <unk>: {coverage.advice}", self._file)


def unknown_words(coverage: Coverage, max_unknown: float, file: str | None = None) -> VocabularyError:
    """Return the error for a model that lacks too many words."""
    return VocabularyError(
        f"{coverage.facts}; this is more than max_unknown = {max_unknown:.0%}: check that the model and the symbol "
        "table match the lattices, or raise max_unknown",
        file,
    )


@dataclass(slots=True)
class RescoreReport(Log):
    """Log of a rescoring run: failures, notes and counts."""

    arcs: int = 0  # arcs read
    arcs_written: int = 0
    expanded_arcs: int = 0  # (hypothesis, arc) pairs scored by the language model
    histories: int = 0  # distinct word histories, i.e. steps of the language model
    scores: int = 0  # distinct (history, word) pairs
    calls: int = 0  # batched calls of the language model
    frames: int = 0  # alignment labels on the best paths, if the lattices have alignments
    seconds: float = 0.0  # wall time
    lm_seconds: float = 0.0  # part of `seconds` spent in the language model
    merged: int = 0  # n-best hypotheses that were merged into another one with the same text
    left_out: int = 0  # n-best hypotheses beyond num_best, which are dropped
    coverages: tuple[Coverage, ...] = ()  # coverage of the words of all lattices, one per language model
    vocabulary: VocabularyCheck | None = None  # set by the caller, as stages do not know the files

    def cover(self, coverages: Sequence[Coverage]) -> None:
        """Add the language models' coverage of the words of a file."""
        self.coverages = added(self.coverages, coverages)

    def tell_coverage(self) -> None:
        """Report the coverage of all lattices' words as notes."""
        for coverage in self.coverages:
            if self.on_note is not None:
                self.on_note(f"vocabulary: {coverage}")

    def summary(self, seconds: float, frame_shift: float) -> str:
        """Return a one-line summary of the run.

        Args:
            seconds: Wall time of the run.
            frame_shift: Duration of a frame in seconds.
        """
        audio = self.frames * frame_shift
        sound = f", {audio:.0f} s of audio (real-time factor {seconds / audio:.4f})" if audio else ""
        lists = f", {counted(self.merged, 'hypothesis', 'hypotheses')} with equal texts merged" if self.merged else ""
        lists += (
            f", {counted(self.left_out, 'hypothesis', 'hypotheses')} beyond --num-best dropped" if self.left_out else ""
        )
        return (
            f"{counted(self.lattices, 'lattice')}{lists}, {counted(self.arcs, 'arc')} ({self.expanded_arcs} expanded), "
            f"{self.histories} histories, {self.calls} LM steps of {self.scores} scores, {seconds:.1f} s "
            f"({self.lm_seconds:.1f} s in the LM){sound}"
        )

    def merge(self, part: Log) -> None:
        """Add the log of a thread."""
        if isinstance(part, RescoreReport) and self.vocabulary is None:
            self.cover(part.coverages)
        Log.merge(self, part)
