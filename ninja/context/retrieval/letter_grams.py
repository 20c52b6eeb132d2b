"""Vectors of phrases by their letter n-grams: for any script, without training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

SIZE = 256  # of a vector
LONGEST = 3  # letters of an n-gram
EDGE = "\0"  # before the first letter and behind the last


class LetterGrams:
    """Hashed counts of 1- to 3-grams of letters; strings that share many have similar vectors.

    It replaces a trained encoder where none knows the letters.
    """

    def vectors(self, texts: Sequence[str], phones: Sequence[Sequence[str]]) -> npt.NDArray[np.float32]:
        """Return the vectors of phrases, of length 1; texts are ignored, ``phones`` are letters here.

        Returns:
            float32 [phrases, `SIZE`]; zeros for an empty string.
        """
        out = np.zeros((len(texts), SIZE), np.float32)
        for row, letters in enumerate(phones):
            string = [EDGE, *letters, EDGE] if letters else []
            for size in range(1, LONGEST + 1):
                for begin in range(len(string) - size + 1):
                    place, sign = _place("".join(string[begin : begin + size]))
                    out[row, place] += sign
        length = np.sqrt((out * out).sum(axis=1, keepdims=True))
        out /= np.where(length > 0, length, 1)
        return out

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Return no letters: any can be hashed."""
        return Counter()


@lru_cache(maxsize=1 << 18)
def _place(letters: str) -> tuple[int, int]:
    """Return the element of the vector that counts an n-gram, and its sign, so that collisions cancel on average."""
    number = crc32(letters.encode("utf-8", "surrogatepass"))
    return number % SIZE, 1 if (number >> 16) & 1 else -1
