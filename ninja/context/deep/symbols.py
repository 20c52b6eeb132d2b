"""Ids of letters and phones, the input of the phrase encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ninja.lattice.characters import plain_letters

FIRST = 2  # id of the first letter, and of the first phone; id 0 is padding, and id 1 marks the end
MAX_SYMBOLS = 200  # maximum number of symbols per phrase; the rest is ignored


@dataclass(frozen=True)
class Symbols:
    """Letters and phones that an encoder can read, in the order of their ids."""

    letters: str
    phones: tuple[str, ...]

    @cached_property
    def _of_letter(self) -> dict[str, int]:
        return {letter: number for number, letter in enumerate(self.letters, start=FIRST)}

    @cached_property
    def _of_phone(self) -> dict[str, int]:
        return {phone: number for number, phone in enumerate(self.phones, start=FIRST)}

    def spelled(self, text: str) -> list[int]:
        """Return the ids of a phrase's letters, omitting unknown letters."""
        letter_ids = self._of_letter
        return [letter_ids[letter] for letter in plain_letters(text) if letter in letter_ids][:MAX_SYMBOLS]

    def pronounced(self, phones: Iterable[str]) -> list[int]:
        """Return the ids of phones; an empty list if a phone is unknown."""
        numbers = [self._of_phone.get(phone, 0) for phone in phones]
        return [] if 0 in numbers else numbers[:MAX_SYMBOLS]

    def unknown(self, texts: Iterable[str]) -> Counter[str]:
        """Count the occurrences of each letter that is unknown to the encoder."""
        letter_ids = self._of_letter
        return Counter(
            letter for text in texts for letter in plain_letters(text) if letter.isalpha() and letter not in letter_ids
        )


def padded(strings: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
    """Return a matrix with one string of ids per row, padded with 0, int64 [strings, max(1, longest)]."""
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    matrix = np.zeros((len(strings), max(1, int(lengths.max(initial=0)))), np.int64)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = [number for string in strings for number in string]
    return matrix
