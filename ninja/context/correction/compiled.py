"""Phrase lists compiled for searching transcripts: the phones or letters of each phrase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ninja.context.augmentation.pronounced_list import PhoneStrings, Unpronounced, Variant, pronounce, unpack
from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.retrieval.letter_grams import LetterGrams
from ninja.context.retrieval.phrase_index import PhraseIndex
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.letters import LetterPronouncer, letter_confusion
from ninja.context.sound.pronunciation import Phones, Pronouncer
from ninja.lattice.arrays import gather, offsets
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import Form, Normalizer

LONG_LIST = 1000  # minimum number of phrases in a list whose phrases are preselected by their vectors
OTHER_LETTER = "\ufffd"  # represents every letter that occurs in no phrase


@dataclass(frozen=True, slots=True, eq=False)
class Alphabet:
    """Pronunciations as strings of symbols (phones or letters), and the costs of confusing these symbols."""

    pronouncer: Pronouncer
    confusion: Confusion

    def strings(self, word: str) -> list[list[int]]:
        """Return the symbols of each pronunciation of a word; empty if the word cannot be compared."""
        number_of, other_letter = self.confusion.id, self.confusion.id.get(OTHER_LETTER)
        strings = []
        for symbols in self.pronouncer.of(word):
            numbers = [number_of.get(symbol, other_letter) for symbol in symbols]
            if numbers and None not in numbers:
                strings.append([number for number in numbers if number is not None])
        return strings


@dataclass(frozen=True, slots=True, eq=False)
class SymbolStrings:
    """The pronunciations of phrases in one alphabet."""

    alphabet: Alphabet
    variants: list[Variant]
    strings: PhoneStrings
    length: npt.NDArray[np.int64]  # number of symbols of each variant, [variants]
    first: npt.NDArray[np.int64]  # first variant of each phrase, followed by the number of variants, [phrases + 1]
    index: PhraseIndex | None  # index of the first variant of each phrase; None for short lists

    @classmethod
    def of(cls, alphabet: Alphabet, variants: list[Variant], strings: PhoneStrings) -> SymbolStrings:
        """Group the pronunciations by phrase; index the phrases if there are at least `LONG_LIST` of them."""
        length = np.diff(strings[0])
        is_first = [  # each recognised form is searched for like a separate phrase
            number == 0 or variant.written != variants[number - 1].written or bool(variant.recognised)
            for number, variant in enumerate(variants)
        ]
        first = np.append(np.flatnonzero(is_first), len(variants))
        index = None
        if len(first) > LONG_LIST:
            names = alphabet.confusion.phones
            symbols = [tuple(names[symbol] for symbol in unpack(strings, n)) for n in first[:-1].tolist()]
            index = PhraseIndex(LetterGrams().vectors([""] * len(symbols), symbols))
        return cls(alphabet, variants, strings, length, first, index)

    def nearest(self, symbols: Sequence[Phones], count: int) -> npt.NDArray[np.int64]:
        """Find the phrases that are most similar to any of the given symbol strings.

        Args:
            symbols: Symbol strings of spans in a transcript.
            count: Maximum number of phrases.

        Returns:
            The indices in `variants` of all pronunciations of these phrases, in increasing order.
        """
        assert self.index is not None
        phrase = self.index.nearest(LetterGrams().vectors([""] * len(symbols), symbols), count)
        size = self.first[phrase + 1] - self.first[phrase]
        variants: npt.NDArray[np.int64] = np.repeat(self.first[phrase] - offsets(size)[:-1], size) + np.arange(
            size.sum()
        )
        return variants

    def some(self, variants: npt.NDArray[np.int64]) -> tuple[PhoneStrings, npt.NDArray[np.int64]]:
        """Return the symbol strings, and their lengths, of the pronunciations with the given indices in `variants`."""
        begin, symbol = self.strings
        length = self.length[variants]
        bounds, symbols = gather(symbol, begin[variants], length)
        return (bounds, symbols), length


@dataclass(frozen=True, slots=True, eq=False)
class CompiledList:
    """A phrase list with the pronunciations of its phrases."""

    phrases: dict[str, tuple[str, Phrase]]  # class and phrase by written text
    forms: dict[Form, list[str]]  # written texts by lexical form
    longest: int  # number of lexical words of the longest phrase
    is_cased: bool
    strings: tuple[SymbolStrings, ...]  # in phones, and in letters for phrases without phones
    left_out: tuple[Unpronounced, ...]


def compile_list(phrases: PhraseList, sounds: Alphabet | None, normalizer: Normalizer) -> CompiledList:
    """Compile a phrase list.

    Args:
        phrases: The list. Phrases with a weight <= 0 are ignored.
        sounds: Alphabet of phones; phrases without a pronunciation are compared by letters. If None, all
            phrases are compared by letters.
        normalizer: Normalizer that returns lexical forms.
    """
    members: dict[str, tuple[str, Phrase]] = {}
    forms: dict[Form, list[str]] = {}
    words = SymbolTable.growing()
    for name, phrase in phrases:
        if phrase.weight > 0 and phrase.text not in members:
            members[phrase.text] = name, phrase
            form = tuple(normalizer.words(phrase.text.split()))
            words.intern(form)
            forms.setdefault(form, []).append(phrase.text)
    forms.pop((), None)
    strings: list[SymbolStrings] = []
    unpronounced_phrases = phrases
    left_out: list[Unpronounced] = []
    if sounds is not None:
        pronounced = pronounce(phrases, words, sounds.pronouncer, sounds.confusion, normalizer)
        if pronounced.variants:
            strings.append(SymbolStrings.of(sounds, _spelled(pronounced.variants), pronounced.strings))
        unpronounced = {phrase.phrase for phrase in pronounced.left_out}
        unpronounced_phrases = _filtered(phrases, unpronounced)
    if unpronounced_phrases.num_phrases:
        letters = Alphabet(LetterPronouncer(), _letters(unpronounced_phrases))
        pronounced = pronounce(unpronounced_phrases, words, letters.pronouncer, letters.confusion, normalizer)
        if pronounced.variants:
            strings.append(SymbolStrings.of(letters, _spelled(pronounced.variants), pronounced.strings))
        left_out = pronounced.left_out
    longest = max(map(len, forms), default=0)
    return CompiledList(members, forms, longest, phrases.has_capitals, tuple(strings), tuple(left_out))


def _filtered(phrases: PhraseList, texts: set[str]) -> PhraseList:
    classes = {
        name: tuple(phrase for phrase in members if phrase.text in texts) for name, members in phrases.classes.items()
    }
    return PhraseList(phrases.name, {name: members for name, members in classes.items() if members})


def _spelled(variants: list[Variant]) -> list[Variant]:
    """Set the written words of variants that lack them because the normalizer is the identity."""
    return [
        variant if variant.written else variant._replace(written=tuple(variant.text.split())) for variant in variants
    ]


def _letters(phrases: PhraseList) -> Confusion:
    """Return confusion costs for the letters in a phrase list, and for one symbol that represents all other letters."""
    costs = letter_confusion([phrases], (text for _, phrase in phrases for text in phrase.recognised))
    size = len(costs.phones)
    edit = costs.insertion[0]
    substitution = np.full((size + 1, size + 1), edit)
    substitution[:size, :size] = costs.substitution
    substitution[size, size] = 0
    skip = np.full(size + 1, edit)
    return replace(
        costs, phones=(*costs.phones, OTHER_LETTER), substitution=substitution, insertion=skip, deletion=skip
    )
