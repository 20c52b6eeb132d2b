"""References as word ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError
from ninja.lattice.symbols import EPSILON, LARGEST_ID, SymbolTable

NEVER = -1  # no arc carries it
_DIGITS = len(str(LARGEST_ID))


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """References as word ids, and their words without an id."""

    ids: Mapping[str, npt.NDArray[np.int32]]  # by utterance id
    unknown: Mapping[str, tuple[str, ...]]  # words without an id, of the utterances that have some

    def unknown_in(self, keys: Iterable[str]) -> Counter[str]:
        """Count the words without an id in some utterances."""
        return Counter(word for key in keys for word in self.unknown.get(key, ()))


def number(references: Mapping[str, Sequence[str]], words: SymbolTable | None, oov: int = NEVER) -> Numbered:
    """Turn references into word ids.

    Args:
        references: Words said, by utterance id; ids in decimal where there is no table.
        words: Symbol table of the lattices, if the references are words.
        oov: Id of words that the table lacks: -1 matches nothing; Kaldi's recipes use that of ``<unk>``.

    Raises:
        FormatError: Without a table, something is not the id of a word.

    Source: Kaldi, egs/wsj/s5/utils/sym2int.pl, ``--map-oov``.
    """
    ids, unknown = {}, {}
    for key, reference in references.items():
        numbers = _ids(reference, key) if words is None else words.ids(reference)
        if words is not None and NEVER in numbers:
            unknown[key] = tuple(word for word, each in zip(reference, numbers, strict=True) if each == NEVER)
            numbers = [oov if each == NEVER else each for each in numbers]
        ids[key] = np.array(numbers, np.int32)
    return Numbered(ids, unknown)


def word_id(word: str, words: SymbolTable | None) -> int:
    """Return the id of a word, or of an id in decimal."""
    if is_id(word) and int(word) != EPSILON:
        return int(word)
    found = None if words is None else words.id(word)
    if found is None or found == EPSILON:
        raise OptionError(f"{word!r} is neither a word id, 1 to {LARGEST_ID}, nor a word of the symbol table")
    return found


def is_id(word: str) -> bool:
    """Tell whether a word is an integer that could be the id of a word or of epsilon."""
    return word.isascii() and word.isdigit() and len(word) <= _DIGITS and int(word) <= LARGEST_ID


def _ids(reference: Sequence[str], key: str) -> list[int]:
    for word in reference:
        if not is_id(word):
            raise FormatError(
                f"{word!r} is no word id; give the symbol table with --words if the references are words", key=key
            )
    return [int(word) for word in reference]
