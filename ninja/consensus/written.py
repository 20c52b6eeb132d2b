"""Conversion of decoded lexical words to their most probable written forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice
from ninja.lattice.batch import Batch, as_batch
from ninja.lattice.lattice import frozen
from ninja.lattice.symbols import EPSILON
from ninja.lattice.text import LexicalTable

Integers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ArcForms:
    """A batch after conversion to lexical words, and the written forms of the arcs in the converted lattices.

    Lattices that did not need the conversion are unchanged, and have no written forms.
    """

    table: LexicalTable
    changed: npt.NDArray[np.int64]  # indices of the converted lattices
    batch: Batch
    form: Integers  # [num_arcs of the converted lattices], written word id; 0 = none; -1 - n refers to parts[n]
    parts: npt.NDArray[np.int64]  # [num_parts, 2], written word id, and index of one of its lexical words

    def written_ids(self, numbers: list[int]) -> list[int]:
        """Return the ids of the written words that are spelled like lexical words.

        Args:
            numbers: Numbers of the lexical words in ``table.numbers``.
        """
        return self.table.written_ids(self.table.numbers.names(numbers))


def arc_forms(lattices: Lattice | Batch, table: LexicalTable, *, all_changed: bool = False) -> ArcForms | None:
    """Convert lattices to lexical words, or return None if no lattice needs the conversion.

    Args:
        all_changed: Convert every lattice in which a word differs from its lexical form. Otherwise, a lattice in which
            all lexical forms are distinct single words is not converted; see ``FormNumbers.lattices``.

    Raises:
        SymbolError: A word id is not in the symbol table.
    """
    numbered = table.numbers.lattices(lattices, all_changed=all_changed)
    if numbered.items is None:
        return None
    return ArcForms(table, numbered.changed, as_batch(lattices).like(numbered.items), *numbered.forms())


@dataclass(frozen=True, slots=True, eq=False)
class BinForms:
    """The written forms in the bins of the confusion network of one lattice."""

    entry: npt.NDArray[np.int64]  # [num_words], entry of each word, or -1 - bin if the word has no entry
    form: Integers  # [num_entries], most probable form
    whole: Integers  # [num_entries], most probable form that is a whole word, 0 = none
    mark: Integers  # [num_bins], most probable word without lexical words, such as a comma, 0 = none
    mark_share: Floats  # [num_bins], posterior of the word in `mark`
    mark_times: Floats  # [num_bins, 2], start and end of this word in frames

    @property
    def are_words(self) -> bool:
        """Whether each written form corresponds to exactly one lexical word."""
        return not self.mark.any() and bool((self.form >= 0).all()) and bool((self.entry >= 0).all())

    def entries(self, arcs: ArcForms, word: Integers) -> Integers:
        """Return the written word for each entry of the confusion network, 0 = no word.

        Args:
            arcs: Written forms from which this object was computed.
            word: Lexical word of each entry, 0 = no word.
        """
        written = self.whole.copy()
        unwritten = np.flatnonzero((written == 0) & (word != EPSILON))
        if len(unwritten):
            written[unwritten] = arcs.written_ids(word[unwritten].tolist())
        return frozen(written)

    def words(
        self, arcs: ArcForms, words: Integers, confidences: Floats, times: Floats, bin_begin: npt.NDArray[np.int64]
    ) -> tuple[Integers, Floats, Floats]:
        """Convert decoded lexical words to written words.

        Args:
            arcs: Written forms from which this object was computed.
            words: Decoded lexical words, [num_words].
            confidences: Confidence of each lexical word, [num_words].
            times: Start and end of each lexical word in frames, [num_words, 2].
            bin_begin: Offsets of the entries of each bin, [num_bins + 1].

        Returns:
            ``(written words, confidences, times)``; a written word has the smallest confidence of its lexical words.
        """
        if self.are_words:
            return frozen(self.whole[self.entry]), confidences, times
        entry = self.entry.tolist()
        form = [0 if index < 0 else int(self.form[index]) for index in entry]
        bins = [
            -1 - index if index < 0 else int(np.searchsorted(bin_begin, index, side="right")) - 1 for index in entry
        ]
        rows: list[tuple[int, float, float, float]] = []  # word, confidence, start and end
        marks = np.flatnonzero(self.mark).tolist()[::-1]  # in reverse order, for pop()
        first = 0
        while first < len(words):
            while marks and marks[-1] < bins[first]:
                rows.append(self._mark_row(marks.pop()))
            length = _num_parts(arcs, form, first)
            last = first + length - 1
            if length > 1:
                number = int(arcs.parts[-1 - form[first], 0])
                marks = [mark for mark in marks if not bins[first] <= mark < bins[last]]
            elif words[first] == EPSILON:
                number = EPSILON
            else:
                number = 0 if entry[first] < 0 else int(self.whole[entry[first]])
                number = number or arcs.written_ids([int(words[first])])[0]
            confidence = float(confidences[first : last + 1].min())
            rows.append((number, confidence, float(times[first, 0]), float(times[last, 1])))
            first += length
        rows += map(self._mark_row, reversed(marks))
        table = np.array(rows, np.float64).reshape(-1, 4)
        return frozen(table[:, 0], np.int32), frozen(table[:, 1], np.float32), frozen(table[:, 2:], np.float32)

    def _mark_row(self, mark: int) -> tuple[int, float, float, float]:
        begin, end = self.mark_times[mark].tolist()
        return int(self.mark[mark]), float(self.mark_share[mark]), begin, end


def _num_parts(arcs: ArcForms, form: Sequence[int], first: int) -> int:
    """Return the number of words, at least 1, that begin at `first` and together form one written word.

    Args:
        arcs: Written forms of the arcs.
        form: Most probable form of each lexical word; see `ArcForms.form`.
        first: Index of the first lexical word.
    """
    if form[first] >= 0:
        return 1
    number, piece = arcs.parts[-1 - form[first]].tolist()
    length = len(arcs.table.form(number))
    following = [tuple(arcs.parts[-1 - part].tolist()) for part in form[first : first + length] if part < 0]
    return length if piece == 0 and following == [(number, part) for part in range(length)] else 1
