"""Information content of phones: the negative log-probability of each phone in English speech."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

# −ln of the relative frequency of each phone of the CMU dictionary, in nats. Phones are counted in the first
# pronunciations of the shipped trigram's words, weighted by the unigram probabilities of the words.
INFORMATION = {
    "AA": 3.99, "AE": 3.50, "AH": 2.08, "AO": 3.96, "AW": 4.96, "AY": 3.99, "B": 4.13, "CH": 5.02, "D": 2.51, "DH":
    3.44, "EH": 3.58, "ER": 3.98, "EY": 4.66, "F": 3.96, "G": 5.24, "HH": 3.70, "IH": 2.80, "IY": 3.62, "JH": 5.84,
    "K": 4.04, "L": 3.61, "M": 3.87, "N": 2.31, "NG": 4.96, "OW": 4.69, "OY": 7.21, "P": 4.52, "R": 3.28, "S": 3.37,
    "SH": 5.20, "T": 2.79, "TH": 5.93, "UH": 5.57, "UW": 3.85, "V": 3.78, "W": 3.42, "Y": 5.42, "Z": 3.50, "ZH":
    8.51,
}  # fmt: skip
LETTER = 2.9  # for other symbols, such as letters: the entropy of English letters without context, nats


@lru_cache(maxsize=64)
def information(symbols: tuple[str, ...]) -> npt.NDArray[np.float32]:
    """Return the information content of each phone or letter in nats, float32 [symbols]."""
    costs = np.array([INFORMATION.get(symbol, LETTER) for symbol in symbols], np.float32)
    costs.setflags(write=False)
    return costs
