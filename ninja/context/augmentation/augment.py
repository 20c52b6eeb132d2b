"""Add arcs to lattices for phrases that sound like recognised words, which rescoring cannot find otherwise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja.context.augmentation.class_costs import ClassCosts, Place
from ninja.context.augmentation.insertion import Chain, insert
from ninja.context.augmentation.old_costs import OldCosts
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.augmentation.pronounced_list import (
    PronouncedList,
    Unpronounced,
    Variant,
    count_phrases,
    pack,
    pronounce,
    unpack,
)
from ninja.context.entities.lists import PhraseList
from ninja.context.retrieval.phrase_index import PhraseIndex
from ninja.context.retrieval.retriever import Retriever, likely_spans
from ninja.context.sound.arc_phones import ArcPhones
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Pronouncer
from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.times import state_times

# Silent words of recognisers, besides epsilons.
SILENT = frozenset({"!SIL", "<eps>", "<sil>", "<SIL>", "SIL", "sil", "[SIL]", "<silence>", "[silence]", "<s>", "</s>"})


@dataclass(frozen=True, slots=True)
class Added:
    """A phrase added to a lattice, and the path that it sounds like."""

    cls: str  # class of the phrase, "" for none
    phrase: str
    start: int  # states of the lattice before the addition
    end: int
    replaced: tuple[str, ...]  # words of the path that it sounds like
    distance: float  # in units of the confusion costs
    cost: float  # acoustic cost added to that of the path replaced, nats, unscaled
    excess: float  # of the path replaced
    frames: tuple[int, int] | None  # begin and end, if the lattice has times


class _Span(NamedTuple):
    """A place for a phrase; the first fields order spans, likelier ones first."""

    rank: float  # the excess with the penalty
    text: str
    start: int
    end: int
    variant: Variant
    distance: float
    excess: float
    arcs: npt.NDArray[np.int64]  # the path that the phrase replaces


def with_phrase_words(words: SymbolTable, lists: Iterable[PhraseList]) -> SymbolTable:
    """Return a symbol table with the words of all phrases; existing ids stay, and new ones follow the largest.

    A new table has no path: a writer of lattices with its ids must write the table, too.
    """
    phrases = (phrase for phrase_list in lists for members in phrase_list.classes.values() for phrase in members)
    missing = dict.fromkeys(word for phrase in phrases for word in phrase.text.split() if word not in words)
    if words.grows:
        words.intern(missing)
    if words.grows or not missing:
        return words
    first = max((number for _, number in words), default=0) + 1
    return SymbolTable([*words, *zip(missing, range(first, first + len(missing)), strict=True)])


class Augmenter:
    """Adds arcs for phrases to lattices.

    Args:
        words: The symbol table of the lattices with the words of all phrases; see `with_phrase_words`.
        confusion: Costs of confusing phones, by default by articulation.
        old_costs: The first pass's language model. Without it, a phrase has the graph cost of the words that it
            replaces, which no other model can subtract again.
        class_costs: Scores of phrases by the class language model at their place; None scores them by sound alone.
        phones: Phones of the lattices' arcs by their alignments; None takes those of the pronouncer.
        silent: Words without a sound. A word that is not silent and has no pronunciation is never replaced.
        retriever: Selects the phrases of long lists to search for; None searches for all.
    """

    def __init__(
        self,
        words: SymbolTable,
        pronouncer: Pronouncer,
        confusion: Confusion | None = None,
        options: AugmentOptions | None = None,
        *,
        old_costs: OldCosts | None = None,
        class_costs: ClassCosts | None = None,
        phones: ArcPhones | None = None,
        silent: frozenset[str] = SILENT,
        retriever: Retriever | None = None,
    ) -> None:
        self.words = words
        self.pronouncer = pronouncer
        self.confusion = confusion or Confusion.articulatory()
        self.options = options or AugmentOptions()
        self.retriever = retriever
        self._old_costs = old_costs
        self._class_costs = class_costs
        self._phones = phones
        self._silent = silent
        self._indices: WeakKeyDictionary[PhraseList, PhraseIndex] = WeakKeyDictionary()
        self._lists: WeakKeyDictionary[PhraseList, PronouncedList] = WeakKeyDictionary()
        self._pronunciations: dict[int, list[list[int]]] = {EPSILON: [[]]}

    def __call__(self, lattice: Lattice, lists: Sequence[PhraseList]) -> tuple[Lattice, tuple[Added, ...]]:
        """Return a lattice with arcs for phrases that sound like parts of it, and these phrases, likeliest first.

        A phrase becomes one arc per word between two states of the lattice. It replaces the path between them of the
        least ``cost + penalty · distance``; it takes over that path's costs and labels, divided between its words by
        their phones, and pays the penalties as acoustic cost. Its graph cost is that of the old model, if that is
        known, else the path's own. Existing arcs stay unchanged. Phrases of a weight of 0 or less, and those whose
        words already connect the two states, are not added.

        Raises:
            LatticeError: The lattice is too large to be searched, or its alignments do not tell its phones.
            SymbolError: A word of a phrase is not in the symbol table, or a word id of the lattice.
        """
        pronounced = [self._pronounced(phrases) for phrases in lists]
        spans = [
            span
            for variants, phrases in zip(pronounced, lists, strict=True)
            for span in self._spans(lattice, variants, phrases)
        ]
        spans = self._selected(lattice, spans)
        change, by_class = np.zeros(len(spans)), np.zeros(len(spans))
        if self._old_costs is not None:
            places = [(span.start, span.end, span.arcs, span.variant.words) for span in spans]
            change = self._old_costs.changes(lattice, self.options.acoustic_scale, places)
        if self._class_costs is not None:
            entered = [Place(span.start, span.variant.cls, len(span.variant.words), sum(span.variant.num_phones))
                       for span in spans]  # fmt: skip
            by_class = self._class_costs.of(lattice, self.options.acoustic_scale, entered)
        choice = self.options.choice_penalty * math.log(max(1, count_phrases(pronounced)))
        distance = np.array([span.distance for span in spans])
        cost = ((self.options.penalty * distance + choice + by_class) / self.options.acoustic_scale).tolist()
        chains = [_chain(lattice, *columns) for columns in zip(spans, change.tolist(), cost, strict=True)]
        times = _times(lattice) if spans else None
        added = tuple(
            Added(
                span.variant.cls,
                span.text,
                span.start,
                span.end,
                tuple(self.words.spell(lattice.word[span.arcs])),
                span.distance,
                paid,
                span.excess,
                None if times is None else (int(times[span.start]), int(times[span.end])),
            )
            for span, paid in zip(spans, cost, strict=True)
        )
        return insert(lattice, chains, self.words), added

    def left_out(self, lists: Sequence[PhraseList]) -> tuple[Unpronounced, ...]:
        """Return the phrases of some lists that cannot be added, with the reasons."""
        return tuple(phrase for phrases in lists for phrase in self._pronounced(phrases).left_out)

    def _pronounced(self, phrases: PhraseList) -> PronouncedList:
        if phrases not in self._lists:
            self._lists[phrases] = pronounce(phrases, self.words, self.pronouncer, self.confusion)
        return self._lists[phrases]

    def _of_word(self, word: int) -> list[list[int]]:
        """Return the pronunciations of a lattice's word: none if it must stay, an empty one if it is silent."""
        if word not in self._pronunciations:
            spelling, known = self.words.word(word), self.confusion.id
            variants = [()] if spelling in self._silent else filter(None, self.pronouncer.of(spelling))
            self._pronunciations[word] = [
                [known[phone] for phone in phones] for phones in variants if known.keys() >= {*phones}
            ]
        return self._pronunciations[word]

    def _units(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], list[list[list[int]]]]:
        """Return the unit of each arc, int32 [num_arcs], and the pronunciations of each unit."""
        if self._phones is not None:
            number: dict[tuple[int, ...], int] = {}
            unit = [number.setdefault(phones, len(number)) for phones in self._phones.of_arcs(lattice)]
            return np.array(unit, np.int32), [[list(phones)] for phones in number]
        words, of_arc = np.unique(lattice.word, return_inverse=True)
        return of_arc.astype(np.int32), [self._of_word(int(word)) for word in words]

    def _spans(self, lattice: Lattice, pronounced: PronouncedList, phrases: PhraseList) -> list[_Span]:
        """Find the spans at which phrases of a list may be added."""
        if not pronounced.variants or not lattice.num_arcs:
            return []
        options = self.options
        unit, pronunciations = self._units(lattice)
        variants, strings = pronounced.variants, pronounced.strings
        # Encoding a list that only one utterance has takes longer than comparing its phrases.
        if self.retriever is not None and phrases.name and len(variants) >= self.retriever.options.from_phrases:
            chosen = self._retrieve(self.retriever, lattice, unit, pronunciations, pronounced, phrases).tolist()
            variants = [variants[number] for number in chosen]
            strings = pack([unpack(strings, number) for number in chosen])
        try:
            string, start, end, excess, distance, arc_begin, arc = _context.find_spans(
                lattice,
                unit,
                np.cumsum([0, *map(len, pronunciations)], dtype=np.int64),
                *pack([phones for of_unit in pronunciations for phones in of_unit]),
                *strings,
                self.confusion.substitution,
                self.confusion.insertion,
                self.confusion.deletion,
                options.acoustic_scale,
                options.penalty,
                options.beam,
                options.max_distance,
                options.max_spans,
            )
        except OverflowError as error:
            raise LatticeError("too large to be searched for phrases; prune it", key=lattice.key) from error
        rank = (excess + options.penalty * distance).tolist()
        paths = np.split(arc, arc_begin[1:-1]) if len(string) else []
        columns = (rank, start.tolist(), end.tolist(), string.tolist(), distance.tolist(), excess.tolist(), paths)
        return [
            _Span(cost, variants[number].text, first, last, variants[number], *rest)
            for cost, first, last, number, *rest in zip(*columns, strict=True)
        ]

    def _retrieve(
        self,
        retriever: Retriever,
        lattice: Lattice,
        unit: npt.NDArray[np.int32],
        pronunciations: list[list[list[int]]],
        pronounced: PronouncedList,
        phrases: PhraseList,
    ) -> npt.NDArray[np.int64]:
        """Return the variants of a long list's phrases that are most similar to a span of the lattice."""
        names = self.confusion.phones
        if phrases not in self._indices:
            strings = [unpack(pronounced.strings, number) for number in range(len(pronounced.variants))]
            phones = [tuple(names[phone] for phone in string) for string in strings]
            self._indices[phrases] = retriever.index([variant.text for variant in pronounced.variants], phones)
        first = [tuple(names[phone] for phone in of_unit[0]) if of_unit else None for of_unit in pronunciations]
        spans = likely_spans(lattice, unit, first, self.options.acoustic_scale, retriever.options)
        return retriever.nearest(spans, self._indices[phrases])

    def _selected(self, lattice: Lattice, spans: Iterable[_Span]) -> list[_Span]:
        """Return the likeliest spans within the bounds, without those that would repeat a path of the lattice."""
        selected: list[_Span] = []
        visited: set[tuple[int, int, tuple[int, ...]]] = set()
        per_phrase: Counter[tuple[int, ...]] = Counter()
        free = self.options.max_arcs
        for span in sorted(spans, key=lambda span: span[:4]):
            words = span.variant.words
            place = (span.start, span.end, words)
            if per_phrase[words] >= self.options.max_spans or len(words) > free or place in visited:
                continue
            visited.add(place)
            if not _connects(lattice, span.start, span.end, words):
                selected.append(span)
                per_phrase[words] += 1
                free -= len(words)
        return selected


def _chain(lattice: Lattice, span: _Span, change: float, paid: float) -> Chain:
    """Make the chain of a span, with this much more graph and acoustic cost than the path it replaces."""
    num_phones = np.array(span.variant.num_phones, np.float64)
    share = num_phones / num_phones.sum()
    acoustic = float(lattice.acoustic[span.arcs].sum(dtype=np.float64)) + paid
    graph = float(lattice.graph[span.arcs].sum(dtype=np.float64)) + change
    labels = np.concatenate([lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]] for arc in span.arcs])
    cuts = np.rint(np.cumsum(share)[:-1] * len(labels)).astype(np.int64)
    return Chain(
        span.start, span.end, span.variant.words, graph * share, acoustic * share, tuple(np.split(labels, cuts))
    )


def _connects(lattice: Lattice, start: int, end: int, words: Sequence[int]) -> bool:
    """Tell whether a path between two states has exactly these words, epsilons aside."""
    stack, visited = [(start, 0)], set()
    while stack:
        state, num_read = stack.pop()
        if state == end and num_read == len(words):
            return True
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            word, dst = int(lattice.word[arc]), int(lattice.dst[arc])
            if dst > end or (word != EPSILON and (num_read == len(words) or word != words[num_read])):
                continue
            place = (dst, num_read + (word != EPSILON))
            if place not in visited:
                visited.add(place)
                stack.append(place)
    return False


def _times(lattice: Lattice) -> npt.NDArray[np.int32] | None:
    """Return the frame of each state; None if the lattice has no times."""
    if lattice.time is None and not len(lattice.ali):
        return None
    try:
        return state_times(lattice)
    except LatticeError:
        return None
