"""Written forms of phrases: spelled as in their lists, with the punctuation and capital of the replaced words."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from ninja.evaluate import edits
from ninja.graph.lexical import LexicalLattice, lexical_lattice
from ninja.lattice import Lattice
from ninja.lattice.characters import plain_letters
from ninja.lattice.lattice import frozen
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalTable, Normalizer

_SENTENCE_ENDS = frozenset(".?!…。！？؟।")
_SEPARATORS = ",;:，、；：،"  # replaced when other punctuation follows at the end of a phrase


def affixes(word: str) -> tuple[str, str]:
    """Return the punctuation before and after the letters of a word; ``("", word)`` if there are no letters."""
    begin, end = 0, len(word)
    while end > 0 and _is_punctuation(word[end - 1]):
        end -= 1
    while begin < end and _is_punctuation(word[begin]):
        begin += 1
    return word[:begin], word[end:]


def ends_sentence(word: str) -> bool:
    """Return whether the punctuation at the end of a word ends a sentence."""
    return not _SENTENCE_ENDS.isdisjoint(affixes(word)[1])


def is_capitalised(word: str) -> bool:
    """Return whether the first cased letter of a word is a capital."""
    return next((char.isupper() for char in word if char.lower() != char.upper()), False)


def genitive_ending(word: str) -> str:
    """Return the ``'s`` at the end of a word, before any punctuation; an empty string if there is none."""
    ending = word[: len(word) - len(affixes(word)[1])][-2:]
    return ending if ending.lower() in ("'s", "’s") else ""


def kept_genitive(replaced: Sequence[str], phrase: str, distance: float) -> str:
    """Return the ``'s`` at the end of the last replaced word if it is a genitive; otherwise, return an empty string.

    The ``'s`` is not a genitive but part of a misrecognised name if it makes the letters of the replaced words more
    similar to the phrase, or if it does not affect this similarity and the phrase ends with a similar sound: "Davis"
    can replace "David's".

    Args:
        replaced: The replaced words.
        phrase: The phrase, or the words that are recognised in its place.
        distance: Distance between the phones or letters of the phrase and the replaced words.
    """
    ending = genitive_ending(replaced[-1])
    if not ending or not distance:  # if the distance is 0, 's is part of the name: "Mac's" and "Max"
        return ""
    letters, phrase_letters = (plain_letters(text).replace("'", "") for text in ("".join(replaced), phrase))
    gain = edits(letters, phrase_letters) - edits(letters[:-1], phrase_letters)
    return ending if gain > 0 or (gain == 0 and not phrase_letters.endswith(("s", "x", "z"))) else ""


def in_place_of(
    phrase: Sequence[str], first: str, last: str, *, begins_sentence: bool, genitive: str = ""
) -> tuple[str, ...]:
    """Return the written words of a phrase that replaces other words.

    The phrase is spelled as in its list. The punctuation before and after the replaced words is added, unless the
    phrase already has it. At the beginning of a sentence, a first word in lower case is capitalised if the first
    replaced word is capitalised.

    Args:
        phrase: Words of the phrase, spelled as in its list.
        first: The first replaced word.
        last: The last replaced word.
        begins_sentence: Whether the phrase begins a sentence.
        genitive: The ``'s`` that is added to the phrase; see `kept_genitive`.
    """
    words = [*phrase[:-1], phrase[-1] + genitive]
    if begins_sentence and is_capitalised(first) and words[0].islower():
        words[0] = _capitalised(words[0])
    before, after = affixes(first)[0], affixes(last)[1]
    words[0] = _with_beginning(words[0], before)
    words[-1] = _with_ending(words[-1], after)
    return tuple(words)


def _with_beginning(word: str, beginning: str) -> str:
    """Prepend punctuation to a word, except characters with which the word already begins."""
    missing = next(count for count in range(len(beginning) + 1) if word.startswith(beginning[count:]))
    return beginning[:missing] + word


def _with_ending(word: str, ending: str) -> str:
    """Append punctuation to a word, except characters with which the word already ends."""
    shared = next(count for count in range(len(ending), -1, -1) if word.endswith(ending[:count]))
    if not shared and ending and ending[0] not in "'\"":
        word = word.rstrip(_SEPARATORS) or word
    return word + ending[shared:]


def _capitalised(word: str) -> str:
    index = next(index for index, char in enumerate(word) if char.lower() != char.upper())
    return word[:index] + word[index].title() + word[index + 1 :]


def _is_punctuation(char: str) -> bool:
    return unicodedata.category(char)[0] == "P"


class WrittenWords:
    """The written words of lattices and phrases, and their lexical forms.

    Args:
        words: Symbol table of the lattices. If this table cannot grow, the attribute `words` is a growing copy. When a
            word is added, the path of `words` is removed, and the table is then written together with the lattices.
        normalizer: Normalizer that returns lexical forms.
    """

    def __init__(self, words: SymbolTable, normalizer: Normalizer) -> None:
        self.words = words if words.grows else words.growing_copy()
        self.table = LexicalTable(self.words, normalizer)
        self._lock = threading.Lock()

    def lattice(self, lattice: Lattice) -> LexicalLattice:
        """Convert a lattice of written words to the corresponding lattice of lexical forms."""
        return lexical_lattice(lattice, self.table)

    def in_table(self, lattice: Lattice) -> Lattice:
        """Convert a lattice with another symbol table to the symbol table `words`."""
        if lattice.words is None or lattice.words is self.words:
            return lattice
        used, index = np.unique(lattice.word, return_inverse=True)
        word = np.array(self.ids(map(lattice.words.word, used.tolist())), np.int32)[index]
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
