"""Add lattice arcs for phrases that sound like recognised words; rescoring can then choose these phrases."""

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
from ninja.context.augmentation.class_costs import ClassCosts, ClassEntry
from ninja.context.augmentation.insertion import insert
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
from ninja.context.augmentation.replacement import Replacement, WrittenReplacements, chain
from ninja.context.entities.lists import PhraseList
from ninja.context.entities.written import WrittenWords
from ninja.context.retrieval.phrase_index import PhraseIndex
from ninja.context.retrieval.retriever import Retriever, likely_spans
from ninja.context.sound.arc_phones import ArcPhones
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Pronouncer
from ninja.errors import LatticeError
from ninja.graph.lexical import LexicalLattice
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import NONE
from ninja.lattice.times import state_times

FORMS = 4  # number of spans to find for each span to add, because some spans differ only in their written form
# Words that recognisers use for silence, in addition to epsilons.
SILENT = frozenset({"!SIL", "<eps>", "<sil>", "<SIL>", "SIL", "sil", "[SIL]", "<silence>", "[silence]", "<s>", "</s>"})


@dataclass(frozen=True, slots=True)
class Added:
    """A phrase that was added to a lattice, and the path that it sounds like."""

    cls: str  # class of the phrase, "" for no class
    phrase: str  # as written in the lattice
    start: int  # first state of the path, in the original lattice
    end: int  # last state of the path
    replaced: tuple[str, ...]  # words of the path
    distance: float  # distance between the phrase and the path, in units of the confusion costs
    cost: float  # acoustic cost of the phrase minus the acoustic cost of the path, in nats before scaling
    excess: float  # cost of the best sentence through the path, minus the cost of the best path of the lattice, nats
    frames: tuple[int, int] | None  # first frame, and last frame plus 1; None if the lattice has no times
    genitive: str = ""  # the "'s" of the replaced words, which is a part of `phrase`


class _Span(NamedTuple):
    """A span of a lattice that sounds like a phrase. Sorting spans puts the most probable span first."""

    rank: float  # excess plus penalty, nats
    text: str
    start: int
    end: int
    variant: Variant
    distance: float
    excess: float
    arcs: npt.NDArray[np.int64]  # path that the phrase replaces
    is_cased: bool  # the phrase list contains capitals


def with_phrase_words(words: SymbolTable, lists: Iterable[PhraseList]) -> SymbolTable:
    """Return a symbol table that also contains the words of all phrases, with ids above the largest existing id.

    A growing table is extended in place. Any other table is copied if words are missing from it. The copy has
    no file yet, so write it together with the lattices that use its ids.
    """
    phrases = (phrase for phrase_list in lists for _, phrase in phrase_list)
    missing = dict.fromkeys(word for phrase in phrases for word in phrase.text.split() if word not in words)
    if words.grows:
        words.intern(missing)
    if words.grows or not missing:
        return words
    first = max((number for _, number in words), default=0) + 1
    return SymbolTable([*words, *zip(missing, range(first, first + len(missing)), strict=True)])


@dataclass(frozen=True, slots=True)
class ModelCosts:
    """Language model costs of added phrases.

    Without the first-pass model, a phrase has the graph cost of the words that it replaces, so the first-pass model
    cannot be subtracted correctly later. Without a class model, the costs of phrases depend
    only on how they sound.
    """

    old: OldCosts | None = None  # costs under the first-pass model
    classes: ClassCosts | None = None  # costs under the class model


NO_MODELS = ModelCosts()


class Augmenter:
    """Callable that adds arcs for phrases to lattices.

    Args:
        words: Symbol table of the lattices, extended with the words of all phrases (see `with_phrase_words`). If
            `written` is set, the table of lexical words must be passed instead.
        pronouncer: Pronunciations of words.
        confusion: Phone confusion costs.  [default: articulatory distances]
        options: Limits on the search for phrases, and the costs of added phrases.
        costs: Language model costs of phrases.
        phones: Map from the alignments of arcs to phones.  [default: use the pronouncer]
        silent: Words that are not pronounced. Other words without a pronunciation are never replaced.
        retriever: Retriever that selects phrases from long lists.  [default: search for all phrases]
        written: Written words and their lexical forms. If they are set, words are compared by their lexical forms, and
            phrases are spelled as in their lists, with the punctuation, the genitive (``'s``) and the sentence-initial
            capital of the words that they replace.  [default: words are compared unchanged]
    """

    def __init__(
        self,
        words: SymbolTable,
        pronouncer: Pronouncer,
        confusion: Confusion | None = None,
        options: AugmentOptions | None = None,
        *,
        costs: ModelCosts = NO_MODELS,
        phones: ArcPhones | None = None,
        silent: frozenset[str] = SILENT,
        retriever: Retriever | None = None,
        written: WrittenWords | None = None,
    ) -> None:
        self.words = words
        self.pronouncer = pronouncer
        self.confusion = confusion or Confusion.articulatory()
        self.options = options or AugmentOptions()
        self.retriever = retriever
        self.costs = costs
        self._phones = phones
        self._silent = silent
        self._written = written
        self._indices: WeakKeyDictionary[PhraseList, PhraseIndex] = WeakKeyDictionary()
        self._lists: WeakKeyDictionary[PhraseList, PronouncedList] = WeakKeyDictionary()
        self._pronunciations: dict[int, list[list[int]]] = {EPSILON: [[]]}

    def __call__(self, lattice: Lattice, lists: Sequence[PhraseList]) -> tuple[Lattice, tuple[Added, ...]]:
        """Add phrases that sound like words in a lattice.

        A phrase is inserted between two states of the lattice as one arc per word, parallel to the path with the
        lowest ``cost + penalty · distance``. The costs and labels of that path are divided among the words of the
        phrase in proportion to the number of phones per word, and penalties are added to the acoustic cost. The
        graph cost is computed with the first-pass model; without this model, it is the graph cost of the path.
        Existing arcs do not change. A phrase is not added if its weight is <= 0, or if its words already connect the
        two states.

        Returns:
            The new lattice, and the phrases that were added, in order of decreasing probability.

        Raises:
            LatticeError: The lattice is too large to be searched, or its alignments do not determine its phones.
            SymbolError: A word of a phrase, or a word id of the lattice, is not in the symbol table.
        """
        source = lattice
        of_forms = None if self._written is None else self._written.lattice(source)
        if of_forms is not None:
            lattice = of_forms.lattice
        pronounced = [self._pronounced(phrases) for phrases in lists]
        spans = [
            span
            for variants, phrases in zip(pronounced, lists, strict=True)
            for span in self._spans(source, variants, phrases, of_forms)
        ]
        spans = self._selected(lattice, spans)
        words = self.words if self._written is None else self._written.words
        if not spans:
            return source.with_words(words), ()
        change, by_class = np.zeros(len(spans)), np.zeros(len(spans))
        if self.costs.old is not None:
            places = [(span.start, span.end, span.arcs, span.variant.words) for span in spans]
            change = self.costs.old.changes(lattice, self.options.acoustic_scale, places)
        if self.costs.classes is not None:
            entries = [
                ClassEntry(span.start, span.variant.cls, len(span.variant.words), sum(span.variant.num_phones))
                for span in spans
            ]
            by_class = self.costs.classes.of(lattice, self.options.acoustic_scale, entries)
        choice = self.options.choice_penalty * math.log(max(1, count_phrases(part.phrases for part in pronounced)))
        distance = np.array([span.distance for span in spans])
        cost = ((self.options.penalty * distance + choice + by_class) / self.options.acoustic_scale).tolist()
        replacements = self._replacements(source, of_forms, spans)
        chains = [chain(source, *columns) for columns in zip(replacements, change.tolist(), cost, strict=True)]
        times = _times(source)
        added = tuple(
            Added(
                span.variant.cls,
                " ".join(words.spell(place.words)),
                place.start,
                place.end,
                tuple(words.spell(source.word[place.arcs])),
                span.distance,
                paid,
                span.excess,
                None if times is None else (int(times[place.start]), int(times[place.end])),
                place.genitive,
            )
            for span, place, paid in zip(spans, replacements, cost, strict=True)
        )
        return insert(source, chains, words), added

    def left_out(self, lists: Sequence[PhraseList]) -> tuple[Unpronounced, ...]:
        """Return the phrases that cannot be added, with the reasons."""
        return tuple(phrase for phrases in lists for phrase in self._pronounced(phrases).left_out)

    def _pronounced(self, phrases: PhraseList) -> PronouncedList:
        if phrases not in self._lists:
            normalizer = NONE if self._written is None else self._written.table.normalizer
            self._lists[phrases] = pronounce(phrases, self.words, self.pronouncer, self.confusion, normalizer)
        return self._lists[phrases]

    def _of_word(self, word: int) -> list[list[int]]:
        """Return the pronunciations of a word as lists of phone ids.

        A silent word has one empty pronunciation. A word that is never replaced has no pronunciations.
        """
        if word not in self._pronunciations:
            spelling, phone_id = self.words.word(word), self.confusion.id
            variants = [()] if spelling in self._silent else filter(None, self.pronouncer.of(spelling))
            self._pronunciations[word] = [
                [phone_id[phone] for phone in phones] for phones in variants if phone_id.keys() >= {*phones}
            ]
        return self._pronunciations[word]

    def _units(
        self, source: Lattice, lattice: Lattice, of_forms: LexicalLattice | None
    ) -> tuple[npt.NDArray[np.int32], list[list[list[int]]]]:
        """Return the unit (word or phone string) of each arc, int32 [num_arcs], and the pronunciations of each unit."""
        if self._phones is not None:
            number: dict[tuple[int, ...], int] = {}
            of_arcs = self._phones.of_arcs(source)
            if of_forms is not None:  # assign the phones of a word to its first arc
                pieces = zip(of_forms.source_arc.tolist(), of_forms.is_first.tolist(), strict=True)
                of_arcs = [of_arcs[arc] if is_first else () for arc, is_first in pieces]
            unit = [number.setdefault(phones, len(number)) for phones in of_arcs]
            return np.array(unit, np.int32), [[list(phones)] for phones in number]
        words, of_arc = np.unique(lattice.word, return_inverse=True)
        return of_arc.astype(np.int32), [self._of_word(int(word)) for word in words]

    def _replacements(
        self, source: Lattice, of_forms: LexicalLattice | None, spans: Sequence[_Span]
    ) -> list[Replacement]:
        """Return a `Replacement` for each span, with the states, arcs and words of `source` (not lexical words)."""
        if self._written is None or of_forms is None:
            return [
                Replacement(span.start, span.end, span.arcs, span.variant.words, np.array(span.variant.num_phones))
                for span in spans
            ]
        of_spans = WrittenReplacements(self._written, source, of_forms, self.options.acoustic_scale)
        return [
            of_spans.of(span.start, span.end, span.arcs, span.variant, span.distance, is_cased=span.is_cased)
            for span in spans
        ]

    def _spans(
        self, source: Lattice, pronounced: PronouncedList, phrases: PhraseList, of_forms: LexicalLattice | None
    ) -> list[_Span]:
        """Find the spans where phrases from a list can be added."""
        lattice = source if of_forms is None else of_forms.lattice
        if not pronounced.variants or not lattice.num_arcs:
            return []
        options = self.options
        unit, pronunciations = self._units(source, lattice, of_forms)
        max_spans = options.max_spans if of_forms is None else FORMS * options.max_spans
        variants, strings = pronounced.variants, pronounced.strings
        # Encoding a list that belongs to a single utterance takes longer than comparing its phrases.
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
                max_spans,
            )
        except OverflowError as error:
            raise LatticeError("the lattice is too large to search for phrases; prune it", key=lattice.key) from error
        rank = (excess + options.penalty * distance).tolist()
        paths = np.split(arc, arc_begin[1:-1]) if len(string) else []
        columns = (rank, start.tolist(), end.tolist(), string.tolist(), distance.tolist(), excess.tolist(), paths)
        is_cased = phrases.has_capitals
        is_state = np.ones(lattice.num_states, np.bool_)
        if of_forms is not None:  # phrases must not begin or end inside a word
            is_state[:] = False
            is_state[of_forms.state] = True
        return [
            _Span(cost, variants[number].text, first, last, variants[number], units, over, path, is_cased)
            for cost, first, last, number, units, over, path in zip(*columns, strict=True)
            if is_state[first] and is_state[last]
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
        """Return the indices in ``pronounced.variants`` of the pronunciations most similar to spans of the lattice."""
        names = self.confusion.phones
        if phrases not in self._indices:
            strings = [unpack(pronounced.strings, number) for number in range(len(pronounced.variants))]
            phones = [tuple(names[phone] for phone in string) for string in strings]
            self._indices[phrases] = retriever.index([variant.text for variant in pronounced.variants], phones)
        first = [tuple(names[phone] for phone in of_unit[0]) if of_unit else None for of_unit in pronunciations]
        spans = likely_spans(lattice, unit, first, self.options.acoustic_scale, retriever.options)
        return retriever.nearest(spans, self._indices[phrases])

    def _selected(self, lattice: Lattice, spans: Iterable[_Span]) -> list[_Span]:
        """Return the most probable spans, within the limits on spans per phrase and on words added to the lattice.

        A span is skipped if the words of its phrase already connect its first and last states, in the lattice or in a
        selected span. Spans that differ only in written form count once.
        """
        selected: list[_Span] = []
        visited: set[tuple[int, int, tuple[int, ...]]] = set()
        forms: set[tuple[object, ...]] = set()
        per_phrase: Counter[tuple[int, ...]] = Counter()
        free = self.options.max_arcs
        for span in sorted(spans, key=lambda span: span[:4]):
            words = span.variant.words
            place = (span.start, span.end, words)
            form: tuple[object, ...] = ()
            if self._written is not None:  # spans that differ only in their written form are counted once
                form = (
                    words,
                    round(span.rank, 3),
                    *lattice.word[span.arcs][lattice.word[span.arcs] != EPSILON].tolist(),
                )
            is_form = form in forms
            if not is_form and (per_phrase[words] >= self.options.max_spans or len(words) > free):
                continue
            if place in visited:
                continue
            visited.add(place)
            if not _connects(lattice, span.start, span.end, words):
                selected.append(span)
                if not is_form:
                    per_phrase[words] += 1
                    free -= len(words)
                if form:
                    forms.add(form)
        return selected


def _connects(lattice: Lattice, start: int, end: int, words: Sequence[int]) -> bool:
    """Return whether a path between two states consists of exactly the given words, ignoring epsilons."""
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
