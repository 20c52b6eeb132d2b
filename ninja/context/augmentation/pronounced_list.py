"""Pronunciations of the phrases in a list, stored as arrays for comparison with the spans of a lattice."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Pronouncer, PronunciationError, divided
from ninja.errors import OptionError, SymbolError
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import NONE, Normalizer

# (begin, phone): string i is phone[begin[i] : begin[i + 1]]
PhoneStrings = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class Unpronounced:
    """A phrase without a pronunciation."""

    cls: str
    phrase: str
    reason: str  # message that includes the phrase


class Variant(NamedTuple):
    """A pronunciation of a phrase."""

    cls: str
    text: str  # words separated by spaces
    words: tuple[int, ...]  # word ids
    num_phones: tuple[int, ...]  # number of phones of each word
    written: tuple[str, ...] = ()  # words as spelled in the list, if words are compared by lexical form
    recognised: str = ""  # recognised words that have these phones; "" if the phones are the phrase's own


class PronouncedList(NamedTuple):
    """The pronunciations of the phrases in a list."""

    variants: list[Variant]
    phrases: frozenset[tuple[int, ...]]  # word ids of the phrases that have a pronunciation
    strings: PhoneStrings  # phones of each variant
    left_out: list[Unpronounced]


def pronounce(
    phrases: PhraseList,
    words: SymbolTable,
    pronouncer: Pronouncer,
    confusion: Confusion,
    normalizer: Normalizer = NONE,
) -> PronouncedList:
    """Look up the pronunciations of the phrases with a positive weight.

    Args:
        phrases: The phrase list.
        words: Symbol table of the words; lexical words are added to it.
        pronouncer: Pronunciations of words.
        confusion: Phone confusion costs, which determine the phone ids.
        normalizer: Normalizer that converts phrases to lexical words.

    Raises:
        SymbolError: A word of a phrase is not in the symbol table.
    """
    variants: list[Variant] = []
    strings: list[list[int]] = []
    left_out: list[Unpronounced] = []
    for name, phrase in phrases:
        if phrase.weight <= 0:
            continue
        written = () if normalizer.is_identity else tuple(phrase.text.split())
        spellings = normalizer.words(phrase.text.split())
        if not spellings:
            continue
        ids = words.ids(spellings) if normalizer.is_identity else words.intern(spellings)
        if -1 in ids:
            message = f"{spellings[ids.index(-1)]!r} in the phrase {phrase.text!r} is not in the symbol table"
            raise SymbolError(f"{message}; extend it with ninja.context.with_phrase_words", words.path)
        try:
            pronunciations = pronouncer.of_phrase(replace(phrase, text=" ".join(spellings)))
            strings += [confusion.numbers(sum(phones, ())) for phones in pronunciations]
        except (PronunciationError, OptionError) as error:
            reason = str(error) if isinstance(error, PronunciationError) else f"{phrase.text!r}: {error}"
            left_out.append(Unpronounced(name, phrase.text, reason))
            continue
        text = " ".join(spellings)
        variants += [Variant(name, text, tuple(ids), tuple(map(len, phones)), written) for phones in pronunciations]
        for recognised in phrase.recognised:
            try:
                words_of = pronouncer.of_phrase(Phrase(recognised))[0]
                strings.append(confusion.numbers(sum(words_of, ())))
            except (PronunciationError, OptionError):
                continue  # the phrase is still compared by its own phones
            phones = divided(sum(words_of, ()), spellings)
            variants.append(Variant(name, text, tuple(ids), tuple(map(len, phones)), written, recognised))
    return PronouncedList(variants, frozenset(variant.words for variant in variants), pack(strings), left_out)


def count_phrases(lists: Iterable[Collection[tuple[Hashable, ...]]]) -> int:
    """Return the number of distinct phrases in several collections; the largest collection is not copied."""
    longest, *others = sorted(lists, key=len, reverse=True) or [frozenset()]
    return len(longest) + len(frozenset().union(*others).difference(longest))


def pack(strings: Sequence[Sequence[int]]) -> PhoneStrings:
    """Concatenate phone strings; return the offset of each string, and the phones."""
    begin = np.cumsum([0, *map(len, strings)], dtype=np.int64)
    return begin, np.fromiter((phone for string in strings for phone in string), np.int32, int(begin[-1]))


def unpack(strings: PhoneStrings, number: int) -> list[int]:
    """Return the phone string with the given index from concatenated strings; see `pack`."""
    begin, phone = strings
    string: list[int] = phone[begin[number] : begin[number + 1]].tolist()
    return string
