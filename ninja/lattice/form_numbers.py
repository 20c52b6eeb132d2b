"""Assign numbers to the lexical forms of written words, so that lattices can be compared by their lexical words."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ninja import _core
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable

Form = tuple[str, ...]
NO_WORD, UNKNOWN, SEVERAL = 0, -1, -2  # codes of lexical forms; see ext/core/form_words.hpp
FIRST_OTHER = 1 << 30  # number of the first lexical word that is not a word of the table


class FormFunction(Protocol):
    """A function from a written word to its lexical form, such as ``ninja.lattice.text.Normalizer``."""

    def __call__(self, word: str) -> Form:
        """Return the lexical form of a word."""

    def changes(self, words: Iterable[str]) -> list[tuple[int, str, Form]]:
        """Return ``(index, word, lexical form)`` for each word that differs from its lexical form."""

    def irregular(self, table: SymbolTable) -> list[str] | None:
        """Return words in a symbol table that can differ from their lexical forms; None if the search would be slow."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberedLattices:
    """Lattices in which word ids are replaced with the numbers of lexical words."""

    lattices: Lattice | Batch
    changed: npt.NDArray[np.int64]  # indices of the lattices whose words were replaced
    items: object | None  # all lattices in the form that kernels accept (without copies); None if none is changed

    def forms(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return ``(forms, parts)``, which identify the written word of each arc in the changed lattices.

        Returns:
            ``forms``: For each arc of each changed lattice in order, the id of its written word; or, if this word has
            several lexical words, -1 - n, where n is an index into ``parts``. int32 [total number of arcs].
            ``parts``: Pairs ``(id of a written word, 0-based index of one of its lexical words)``, int64
            [num_parts, 2].
        """
        form, word, piece = _core.arc_forms(self.lattices, Lattice, self.items, self.changed)
        return form, np.stack((word, piece), axis=1).astype(np.int64)


class FormNumbers:
    """Numbers of the lexical words in a symbol table; equal lexical words have equal numbers.

    The number of a lexical word is its id if the table contains it. Each word is normalised when it first occurs,
    unless its spelling shows that it equals its lexical form.
    """

    def __init__(self, words: SymbolTable, normalizer: FormFunction) -> None:
        self._words = words
        self._normalizer = normalizer
        self._lock = threading.Lock()
        self._code = np.full(1, NO_WORD, np.int32)  # [size], code of the lexical form of each word id
        self._several: dict[Form, int] = {}  # codes of forms that have several words
        # For the forms in `_several`: offsets, and the concatenated numbers of their words.
        self._parts = np.zeros(1, np.int64), np.zeros(0, np.int32)
        self._other: dict[str, int] = {}  # numbers of lexical words that the table lacks
        self._names: list[str] = []  # the lexical words that the table lacks, in order of their numbers
        self._is_started = False  # whether `_learn_regular` was called

    def lattices(
        self, lattices: Lattice | Batch, *, all_changed: bool = False, labels: bool = True
    ) -> NumberedLattices:
        """Replace words with the numbers of their lexical words.

        By default, the words in a lattice are replaced only if two different words in it have the same lexical form, or
        the lexical form of a word does not consist of exactly one lexical word.

        Args:
            lattices: Lattices with ids of written words.
            all_changed: Replace the words in every lattice in which any word differs from its lexical form; this is
                required for comparing the lattice with other words.
            labels: Keep the alignment labels of lattices in which a word with several lexical words becomes a chain of
                arcs.

        Raises:
            SymbolError: A word id is not in the symbol table, and its lexical form is not yet known.
        """
        if not self._is_started:
            self._learn_regular()
        unknown, changed, items = _core.form_words(lattices, Lattice, self._code, *self._parts, all_changed, labels)
        if len(unknown):
            self._learn(unknown)
            _, changed, items = _core.form_words(lattices, Lattice, self._code, *self._parts, all_changed, labels)
        return NumberedLattices(lattices, changed, items)

    def of(self, words: Iterable[str]) -> list[int]:
        """Return the number of each lexical word, for example of the words in a reference."""
        with self._lock:
            return self._numbers_of(list(words))

    def of_written(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the numbers of the lexical words for a sequence of written word ids."""
        names = self._words.words_of(ids[ids != EPSILON].tolist())
        return np.array(self.of(part for name in names for part in self._normalizer(name)), np.int32)

    def names(self, numbers: Iterable[int]) -> list[str]:
        """Return the lexical words with these numbers."""
        return [
            self._names[number - FIRST_OTHER] if number >= FIRST_OTHER else self._words.word(number)
            for number in numbers
        ]

    def _learn_regular(self) -> None:
        """For each word that evidently equals its lexical form, use its id as its number; learn other words later."""
        with self._lock:
            irregular = None if self._words.grows else self._normalizer.irregular(self._words)
            if not self._is_started and irregular is not None:
                # Ids that are missing from the table are treated like words that equal their lexical forms.
                code = np.arange(len(self._words), dtype=np.int32)
                ids = np.array(self._words.ids(irregular), np.int32)
                code[ids[ids < len(code)]] = UNKNOWN
                code[:1] = NO_WORD
                self._code = code
            self._is_started = True

    def _learn(self, ids: npt.NDArray[np.int32]) -> None:
        """Determine the lexical forms of the words with these ids, and assign numbers to new lexical words.

        Raises:
            SymbolError: An id is not in the symbol table.
        """
        names = self._words.words_of(ids.tolist())
        changes = self._normalizer.changes(names)
        self._extend(int(ids.max()) + 1)
        with self._lock:
            code = ids.copy()
            if self._words.grows and self._other:  # the table may now contain the form of an earlier word
                code[:] = [self._other.get(name, number) for name, number in zip(names, ids.tolist(), strict=True)]
            parts = iter(self._numbers_of([part for _, _, form in changes for part in form]))
            for place, _, form in changes:
                numbers = [next(parts) for _ in form]
                if ids[place] != EPSILON:
                    code[place] = self._code_of(form, numbers)
            self._code[ids] = code

    def _code_of(self, form: Form, numbers: list[int]) -> int:
        """Return the number of a form's only word, 0 for an empty form, or -2 - k for the k-th multi-word form."""
        if len(form) < 2:
            return numbers[0] if form else NO_WORD
        code = self._several.get(form)
        if code is None:
            code = self._several[form] = SEVERAL - len(self._several)
            begin, part = self._parts
            self._parts = np.append(begin, len(part) + len(form)), np.append(part, np.array(numbers, np.int32))
        return code

    def _numbers_of(self, lexical: list[str]) -> list[int]:
        """Return the number of each lexical word; the caller must hold the lock."""
        return [self._number_of(name, number) for name, number in zip(lexical, self._words.ids(lexical), strict=True)]

    def _number_of(self, form: str, number: int) -> int:
        """Return the number of a lexical word; `number` is its id in the table, or -1 if it is not in the table."""
        other = self._other.get(form)
        if other is None and number >= 0:
            return number
        if other is None:
            other = self._other[form] = FIRST_OTHER + len(self._names)
            self._names.append(form)
        return other

    def _extend(self, size: int) -> None:
        """Extend the array of codes to all word ids below `size`; the new codes are `UNKNOWN`."""
        with self._lock:
            if size > len(self._code):
                spare = np.full(size - len(self._code), UNKNOWN, np.int32)
                self._code = np.concatenate((self._code, spare))
