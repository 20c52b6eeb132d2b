"""Written forms of phrases: the list's spelling, with the punctuation and the capital of the words in their place."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from ninja.graph.lexical import LexicalLattice, lexical_lattice
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalTable, Normalizer

_SENTENCE_ENDS = frozenset(".?!…。！？؟।")
_SEPARATORS = ",;:，、；：،"  # replaced by other punctuation at the end of a phrase


def affixes(word: str) -> tuple[str, str]:
    """Return the punctuation before and after a word; a word of punctuation alone has it all after it."""
    begin, end = 0, len(word)
    while end > 0 and _is_punctuation(word[end - 1]):
        end -= 1
    while begin < end and _is_punctuation(word[begin]):
        begin += 1
    return word[:begin], word[end:]


def ends_sentence(word: str) -> bool:
    """Tell whether a word ends a sentence: there is a mark such as a period in the punctuation after it."""
    return not _SENTENCE_ENDS.isdisjoint(affixes(word)[1])


def is_capitalised(word: str) -> bool:
    """Tell whether the first letter with a case is a capital."""
    return next((char.isupper() for char in word if char.lower() != char.upper()), False)


def in_place_of(phrase: Sequence[str], first: str, last: str, *, begins_sentence: bool) -> tuple[str, ...]:
    """Return the written words of a phrase where it takes the place of other words.

    They are spelled as in the list. The punctuation before the words replaced and after them is added, unless the list
    writes it already. At the beginning of a sentence, a word that the list writes in lower case is capitalised if the
    first word replaced is.

    Args:
        phrase: Words of the phrase as the list writes them.
        first: The first word replaced.
        last: The last one.
    """
    words = list(phrase)
    if begins_sentence and is_capitalised(first) and words[0].islower():
        words[0] = _capitalised(words[0])
    before, after = affixes(first)[0], affixes(last)[1]
    if not words[0].startswith(before):
        words[0] = before + words[0]
    words[-1] = _with_ending(words[-1], after)
    return tuple(words)


def _with_ending(word: str, ending: str) -> str:
    """Add punctuation to a word, without the part that the word has."""
    shared = next(count for count in range(len(ending), -1, -1) if word.endswith(ending[:count]))
    if not shared and ending and ending[0] not in "'\"":
        word = word.rstrip(_SEPARATORS) or word
    return word + ending[shared:]


def _capitalised(word: str) -> str:
    place = next(at for at, char in enumerate(word) if char.lower() != char.upper())
    return word[:place] + word[place].title() + word[place + 1 :]


def _is_punctuation(char: str) -> bool:
    return unicodedata.category(char)[0] == "P"


class WrittenWords:
    """The written words of lattices and those of phrases, and their lexical forms.

    Args:
        words: Symbol table of the lattices. If it does not grow, the attribute is a copy, which has a path until it
            grows: a writer of lattices with its ids must then write the table, too.
    """

    def __init__(self, words: SymbolTable, normalizer: Normalizer) -> None:
        self.words = words if words.grows else words.growing_copy()
        self.table = LexicalTable(self.words, normalizer)
        self._lock = threading.Lock()

    def lattice(self, lattice: Lattice) -> LexicalLattice:
        """Return the lattice of the lexical forms of a lattice's words."""
        return lexical_lattice(lattice, self.table)

    def in_table(self, lattice: Lattice) -> Lattice:
        """Return a lattice of another table with this one."""
        if lattice.words is None or lattice.words is self.words:
            return lattice
        used, place = np.unique(lattice.word, return_inverse=True)
        word = np.array(self.ids(map(lattice.words.word, used.tolist())), np.int32)[place]
        return lattice.replace(word=frozen(word), words=self.words)

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words; new words are added."""
        names = list(words)
        ids = self.words.ids(names)
        if -1 in ids:
            with self._lock:
                self.words.path = None
                ids = self.words.intern(names)
        return ids
