"""Phrase vectors from letter n-grams, for any script and without training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

SIZE = 256  # size of a vector
LONGEST = 3  # maximum n-gram length
EDGE = "\0"  # marks the beginning and end of a phrase


class LetterGrams:
    """Encoder that counts hashed letter 1- to 3-grams; strings with many n-grams in common have similar vectors.

    The vectors require no training, and work for any script.
    """

    def vectors(self, texts: Sequence[str], phones: Sequence[Sequence[str]]) -> npt.NDArray[np.float32]:
        """Return a vector of length 1 for each phrase, computed from its letters in `phones`; `texts` is ignored.

        Returns:
            float32 [phrases, `SIZE`]; zeros for empty strings.
        """
        out = np.zeros((len(texts), SIZE), np.float32)
        for row, letters in enumerate(phones):
            string = [EDGE, *letters, EDGE] if letters else []
            for size in range(1, LONGEST + 1):
                for begin in range(len(string) - size + 1):
                    element, sign = _hash("".join(string[begin : begin + size]))
                    out[row, element] += sign
        length = np.sqrt((out * out).sum(axis=1, keepdims=True))
        out /= np.where(length > 0, length, 1)
        return out

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Return an empty counter, because any letter can be hashed."""
        return Counter()


@lru_cache(maxsize=1 << 18)
def _hash(letters: str) -> tuple[int, int]:
    """Return the vector element that counts an n-gram, and its sign; signs make collisions cancel on average."""
    number = crc32(letters.encode("utf-8", "surrogatepass"))
    return number % SIZE, 1 if (number >> 16) & 1 else -1
