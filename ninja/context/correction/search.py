"""Search a transcript for words that sound like phrases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja.context.augmentation.pronounced_list import Variant, pack
from ninja.context.correction.compiled import Alphabet, SymbolStrings
from ninja.context.sound.information import information
from ninja.context.sound.pronunciation import Phones
from ninja.formats.nbest.lattices import nbest_lattice
from ninja.lattice import Lattice
from ninja.lattice.nbest import NBest, sentence

MAX_DISTANCE = 0.4  # maximum distance per symbol of a phrase; the substitution of a letter costs 0.5
MAX_SPANS = 3  # maximum number of spans with which a phrase is compared
MIN_SYMBOLS = 3  # phrases with fewer symbols are inserted only if they sound exactly like the words
RETRIEVED, RETRIEVED_PER_WORD, MAX_RETRIEVED = 100, 10, 1000  # number of phrases of a long list that are compared
MAX_SPAN_WORDS = 3  # maximum number of words per span whose vector is compared with the vectors of a long list
CANDIDATES, CANDIDATES_PER_WORD, MAX_CANDIDATES = 20, 2, 400


class Match(NamedTuple):
    """A phrase and the lexical words that it sounds like."""

    variant: Variant
    list_number: int  # index of the phrase's list in the lists of the utterance
    begin: int  # index of the first lexical word
    end: int  # index of the last lexical word plus 1
    distance: float  # distance between the phrase and the words, in units of the confusion costs
    length: int  # number of symbols of the phrase
    num_symbols: int  # number of symbols in the first pronunciations of the words
    shared: float  # information of the symbols that the phrase shares with the most similar words in this span, nats

    def is_within(self, begin: int, end: int) -> bool:
        """Return whether the words of the match lie within a span."""
        return begin <= self.begin and self.end <= end


def matches(words: Sequence[str], lists: Sequence[Sequence[SymbolStrings]]) -> list[Match]:
    """Return the most similar pairs of phrases and word sequences, in order of increasing distance per symbol.

    Args:
        words: Lexical words of a transcript.
        lists: The pronunciations of the phrases in each list.
    """
    if not words:
        return []
    lattice = nbest_lattice(NBest("", (sentence(tuple(words)),)))
    columns = [
        (place, strings, _spans(lattice, words, strings)) for place, part in enumerate(lists) for strings in part
    ]
    count = min(MAX_CANDIDATES, CANDIDATES + CANDIDATES_PER_WORD * len(words))
    relative = np.concatenate([spans.distance / spans.length for _, _, spans in columns] or [np.zeros(0)])
    first = np.cumsum([0, *(len(spans.distance) for _, _, spans in columns)])
    best: dict[tuple[str, int, int], Match] = {}
    of_phrase: dict[str, list[Match]] = {}  # in order of increasing distance
    for number in np.argsort(relative, kind="stable").tolist():
        group = int(np.searchsorted(first, number, side="right")) - 1
        place, strings, spans = columns[group]
        row = number - int(first[group])
        variant = strings.variants[int(spans.variant[row])]
        begin, end = int(spans.begin[row]), int(spans.end[row])
        num_symbols = int(spans.before[end] - spans.before[begin])
        distance, length, shared = float(spans.distance[row]), int(spans.length[row]), float(spans.shared[row])
        if (variant.text, begin, end) not in best:
            nearer = of_phrase.setdefault(variant.text, [])
            # Additional words must not add information, so a span has at most the information of the most similar span
            # that lies within it.
            shared = min(shared, next((other.shared for other in nearer if other.is_within(begin, end)), shared))
            nearer.append(Match(variant, place, begin, end, distance, length, num_symbols, shared))
            best[variant.text, begin, end] = nearer[-1]
        if len(best) >= count:
            break
    return list(best.values())


class _Spans(NamedTuple):
    variant: npt.NDArray[np.int64]
    begin: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]
    distance: npt.NDArray[np.float32]
    length: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]  # number of symbols before each word, using first pronunciations, [words + 1]
    shared: npt.NDArray[np.float32]


def _spans(lattice: Lattice, words: Sequence[str], strings: SymbolStrings) -> _Spans:
    """Find the spans of words that sound like phrases, comparing the symbols of one alphabet."""
    alphabet, confusion = strings.alphabet, strings.alphabet.confusion
    unit = lattice.word.astype(np.int32) - int(lattice.word.min())
    names = lattice.words.words_of(range(int(lattice.word.min()), int(lattice.word.max()) + 1)) if lattice.words else []
    sounds = [alphabet.strings(name) for name in names]
    chosen = np.arange(len(strings.variants))
    packed, length = strings.strings, strings.length
    if strings.index is not None:
        count = min(MAX_RETRIEVED, RETRIEVED + RETRIEVED_PER_WORD * len(words))
        symbols = _span_symbols(words, dict(zip(names, sounds, strict=True)), alphabet)
        chosen = strings.nearest(symbols, count)
        packed, length = strings.some(chosen)
    arguments = (
        unit,
        np.cumsum([0, *map(len, sounds)], dtype=np.int64),
        *pack([symbols for of_word in sounds for symbols in of_word]),
        *packed,
        confusion.substitution,
        confusion.insertion,
        confusion.deletion,
    )
    variant, begin, end, _, distance, _, _ = _context.find_spans(
        lattice,
        *arguments,
        1.0,
        1.0,
        1.0,
        MAX_DISTANCE,
        MAX_SPANS,
    )
    keep = (length[variant] >= MIN_SYMBOLS) | (distance == 0)
    variant, begin, end = variant[keep], begin[keep], end[keep]
    weight = information(confusion.phones)
    shared = _context.shared_weights(*arguments, weight, variant, begin, end)
    num_symbols = [len(pronunciations[0]) if pronunciations else 0 for pronunciations in sounds]
    before = np.cumsum([0, *(num_symbols[number] for number in unit.tolist())], dtype=np.int64)
    return _Spans(chosen[variant], begin, end, distance[keep], length[variant], before, shared)


def _span_symbols(words: Sequence[str], sounds: dict[str, list[list[int]]], alphabet: Alphabet) -> list[Phones]:
    """Return the distinct symbol strings of short word sequences, using the first pronunciation of each word."""
    names = alphabet.confusion.phones
    strings: dict[Phones, None] = {}
    for begin in range(len(words)):
        symbols: Phones = ()
        for word in words[begin : begin + MAX_SPAN_WORDS]:
            if not sounds[word]:
                break
            symbols += tuple(names[symbol] for symbol in sounds[word][0])
            strings[symbols] = None
    return list(strings)
