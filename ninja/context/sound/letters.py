"""Letters as a substitute for phones, for languages without a lexicon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

import numpy as np

from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.sound.confusion import MAX_PHONES, Confusion
from ninja.context.sound.pronunciation import Phones, Pronouncer
from ninja.lattice.characters import plain_letters

EDIT = 0.5  # cost of a letter edit; below 1, because words have more letters than phones


class LetterPronouncer(Pronouncer):
    """Pronouncer that uses the letters of a word as its pronunciation, ignoring case, accents and punctuation."""

    def __init__(self) -> None:
        super().__init__({})

    def of_phrase(self, phrase: Phrase) -> list[tuple[Phones, ...]]:
        """Return the letters of each word of a phrase; pronunciations in the phrase list are ignored."""
        return super().of_phrase(replace(phrase, pronunciations=()))

    def _look_up(self, word: str) -> list[Phones]:
        return [letters] if (letters := _letters(word)) else []


def letter_confusion(lists: Iterable[PhraseList], words: Iterable[str]) -> Confusion:
    """Return confusion costs for the letters of phrases and words; each edit costs `EDIT`.

    Only the `confusion.MAX_PHONES` letters that occur in the most texts are included; phrases and words that contain
    any other letter cannot be compared.
    """
    phrases = (phrase.text for phrase_list in lists for _, phrase in phrase_list)
    counts = Counter(letter for text in chain(phrases, words) for letter in {*_letters(text)})
    letters = tuple(sorted(letter for letter, _ in counts.most_common(MAX_PHONES))) or ("a",)
    costs = Confusion.uniform(letters)
    edit = np.float32(EDIT)
    return Confusion(letters, edit * costs.substitution, edit * costs.insertion, edit * costs.deletion, "letters")


def _letters(text: str) -> Phones:
    return tuple(letter for letter in plain_letters(text) if letter != "'")
