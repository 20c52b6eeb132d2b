"""Letters in the place of phones: words compared by how they are written, for languages without a lexicon."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

import numpy as np

from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.sound.confusion import MOST_PHONES, Confusion
from ninja.context.sound.pronunciation import Phones, Pronouncer

EDIT = 0.5  # distance of a letter more, less or another; a lost consonant is 0.79, but words have fewer phones


class LetterPronouncer(Pronouncer):
    """Takes the letters of words, without case, accents and punctuation, for their phones."""

    def __init__(self) -> None:
        super().__init__({}, lambda word: [letters] if (letters := _letters(word)) else [])

    def of_phrase(self, phrase: Phrase) -> list[tuple[Phones, ...]]:
        """Return the letters of each word of a phrase; pronunciations of its own are not looked at."""
        return super().of_phrase(replace(phrase, pronunciations=()))

    def _found(self, word: str) -> list[Phones]:
        return [letters] if (letters := _letters(word)) else []


def letter_confusion(lists: Iterable[PhraseList], words: Iterable[str]) -> Confusion:
    """Return costs of taking letters for one another, `EDIT` each, for the letters of phrases and words.

    Of more than `confusion.MOST_PHONES` different letters those of the most texts are taken; phrases and words with
    others cannot be compared.
    """
    phrases = (phrase.text for each in lists for members in each.classes.values() for phrase in members)
    counts = Counter(letter for text in chain(phrases, words) for letter in {*_letters(text)})
    letters = tuple(sorted(letter for letter, _ in counts.most_common(MOST_PHONES))) or ("a",)
    costs = Confusion.uniform(letters)
    edit = np.float32(EDIT)
    return Confusion(letters, edit * costs.substitution, edit * costs.insertion, edit * costs.deletion, "letters")


def plain_letters(text: str) -> str:
    """Return the letters and digits of a text in lower case, and apostrophes; without accents.

    Hangul syllables are decomposed into their jamo.
    """
    if text.isascii():
        return "".join(letter for letter in text.lower() if letter.isalnum() or letter == "'")
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(letter for letter in decomposed if letter.isalnum() or letter == "'")


def _letters(text: str) -> Phones:
    return tuple(letter for letter in plain_letters(text) if letter != "'")
