"""Augmentation: arcs for phrases that sound like words of a lattice, which rescoring cannot find otherwise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja.context.entities.lists import PhraseList
from ninja.context.sound.class_costs import ClassCosts, Place
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.insertion import Chain, insert
from ninja.context.sound.old_costs import OldCosts
from ninja.context.sound.phones import ArcPhones
from ninja.context.sound.pronunciation import Pronouncer, PronunciationError
from ninja.errors import LatticeError, OptionError, SymbolError, check_range, described, documented
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.times import state_times

if TYPE_CHECKING:
    from ninja.context.deep.index import PhraseIndex
    from ninja.context.deep.retrieval import Retriever

_Strings = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]  # phones of string i: second[first[i] : first[i + 1]]

LARGEST_PENALTY = 1e5  # as acoustic cost; beyond it, float32 costs would no longer tell paths apart

# Words without a sound, as recognisers write them; epsilons are silent anyway.
SILENT = frozenset({"!SIL", "<eps>", "<sil>", "<SIL>", "SIL", "sil", "[SIL]", "<silence>", "[silence]", "<s>", "</s>"})


@documented
@dataclass(frozen=True, slots=True)
class AugmentOptions:
    """Bounds and costs of the phrases added.

    The excess of a path is its cost beyond the lattice's best, ``acoustic_scale · acoustic + graph``.
    """

    max_distance: float = described(0.25, "Largest distance per phone between a phrase and the words it replaces.")
    penalty: float = described(12.0, "Cost of a unit of distance, in nats.")
    choice_penalty: float = described(1.0, "Cost of being one of N phrases, times ln N, in nats.")
    acoustic_scale: float = 0.1  # of the acoustic costs, where paths are compared
    place_weight: float | None = described(
        None, "Factor of -ln P(class | words before), paid in place of boosts; 2 for thousands of phrases."
    )
    phone_reward: float = 0.8  # with a place_weight, for each phone of a phrase, nats
    beam: float = described(10.0, "Largest cost beyond the best path of the words a phrase replaces.")
    max_spans: int = 4  # arcs added at most for a phrase, each between other states
    max_arcs: int = 1000  # words added at most to a lattice; the likeliest phrases stay

    def __post_init__(self) -> None:
        for name in ("penalty", "acoustic_scale"):
            check_range(name, getattr(self, name), above=0, finite=True)
        if self.place_weight is not None:
            check_range("place_weight", self.place_weight, least=0, finite=True)
        for name in ("max_distance", "choice_penalty", "phone_reward", "beam"):
            check_range(name, getattr(self, name), least=0, finite=True)
        for name in ("penalty", "choice_penalty"):
            if getattr(self, name) / self.acoustic_scale > LARGEST_PENALTY:
                most = f"{LARGEST_PENALTY:g} times the acoustic scale"
                raise OptionError(f"{name} is {getattr(self, name)}, but must be {most} at most")
        for name in ("max_spans", "max_arcs"):
            check_range(name, getattr(self, name), least=1)


@dataclass(frozen=True, slots=True)
class Added:
    """A phrase added to a lattice, and the path that it sounds like."""

    cls: str  # class of the phrase, "" for none
    phrase: str
    start: int  # states of the lattice as it was
    end: int
    replaced: tuple[str, ...]  # words of the path it sounds like
    distance: float  # in units of the confusion costs
    cost: float  # acoustic cost added to that of the path replaced, nats, unscaled
    excess: float  # of the path replaced
    frames: tuple[int, int] | None  # begin and end, if the lattice has times


@dataclass(frozen=True, slots=True)
class Unpronounced:
    """A phrase that was left out."""

    cls: str
    phrase: str
    reason: str


class _Variant(NamedTuple):
    """A pronunciation of a phrase."""

    cls: str
    text: str
    words: tuple[int, ...]  # ids
    num_phones: tuple[int, ...]  # of each word


class _Sounding(NamedTuple):
    """Pronunciations of a list's phrases."""

    variants: list[_Variant]
    phrases: frozenset[tuple[int, ...]]  # their words
    strings: _Strings  # their phones
    left_out: list[Unpronounced]


def extended(words: SymbolTable, lists: Iterable[PhraseList]) -> SymbolTable:
    """Return a symbol table with the words of all phrases; new ids follow the largest, those there were stay.

    A new table has no path: a writer of lattices with its ids must write the table, too.
    """
    phrases = (phrase for each in lists for members in each.classes.values() for phrase in members)
    missing = dict.fromkeys(word for phrase in phrases for word in phrase.text.split() if word not in words)
    if words.grows:
        words.intern(missing)
    if words.grows or not missing:
        return words
    largest = max((number for _, number in words), default=0)
    return SymbolTable([*words, *zip(missing, range(largest + 1, largest + 1 + len(missing)), strict=True)])


class Augmenter:
    """Adds arcs for phrases to lattices.

    Args:
        words: The symbol table of the lattices, extended by the words of all phrases; see `extended`.
        confusion: What it costs to take a phone for another; None: by articulation.
        old_costs: The first pass's language model. Without it, a phrase has the graph cost of the words it replaces,
            which is not its own, and which no other model can take off again.
        class_costs: Scores of phrases by the class language model at their place; None: by their sound alone.
        phones: Phones of the lattices' arcs by their alignments; None: those of the pronouncer.
        silent: Words without a sound. A word that is not silent and cannot be pronounced is never replaced.
        retriever: Chooses the phrases of long lists that are looked for; None: all are.
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
        self._old_costs = old_costs
        self._class_costs = class_costs
        self._phones = phones
        self._silent = silent
        self.retriever = retriever
        self._indices: WeakKeyDictionary[PhraseList, PhraseIndex] = WeakKeyDictionary()
        self._lists: WeakKeyDictionary[PhraseList, _Sounding] = WeakKeyDictionary()
        self._sounds: dict[int, list[list[int]]] = {EPSILON: [[]]}

    def __call__(self, lattice: Lattice, lists: Sequence[PhraseList]) -> tuple[Lattice, tuple[Added, ...]]:
        """Return a lattice with arcs for phrases that sound like parts of it, and these phrases, likeliest first.

        A phrase becomes an arc a word, between two states of the lattice. Of all paths between two states, the one it
        stands for is that of the least ``cost + penalty · distance``; it takes over that path's costs and labels,
        divided between its words by their phones, and pays the penalties as acoustic cost. Its graph cost is that
        of the old model, where that is known, else the path's own. Nothing is taken away or changed. Phrases of a
        weight not above 0, and those whose words run between the two states already, are not added.

        Raises:
            LatticeError: The lattice is too large to be searched, or its alignments do not tell its phones.
            SymbolError: A word of a phrase is not in the symbol table, or a word id of the lattice.
        """
        chosen: list[_Span] = []
        seen: set[tuple[int, int, tuple[int, ...]]] = set()
        per_phrase: Counter[tuple[int, ...]] = Counter()
        room = self.options.max_arcs
        sounding = [self._sounding(each) for each in lists]
        num_phrases = _num_phrases(sounding)
        found = [
            span for each, phrases in zip(sounding, lists, strict=True) for span in self._spans(lattice, each, phrases)
        ]
        for span in sorted(found, key=lambda span: span[:4]):
            words = span.variant.words
            place = (span.start, span.end, words)
            if per_phrase[words] >= self.options.max_spans or len(words) > room or place in seen:
                continue
            seen.add(place)
            if _runs(lattice, span.start, span.end, words):
                continue
            chosen.append(span)
            per_phrase[words] += 1
            room -= len(words)
        change = np.zeros(len(chosen))
        if self._old_costs is not None:
            places = [(span.start, span.end, span.arcs, span.variant.words) for span in chosen]
            change = self._old_costs.changes(lattice, self.options.acoustic_scale, places)
        by_class = [0.0] * len(chosen)
        if self._class_costs is not None:
            entered = [Place(span.start, span.variant.cls, len(span.variant.words), sum(span.variant.num_phones))
                       for span in chosen]  # fmt: skip
            by_class = self._class_costs.of(lattice, self.options.acoustic_scale, entered).tolist()
        choice = self.options.choice_penalty * math.log(max(1, num_phrases))
        paid = [(self.options.penalty * span.distance + choice + more) / self.options.acoustic_scale
                for span, more in zip(chosen, by_class, strict=True)]  # fmt: skip
        chains = [_chain(lattice, *each) for each in zip(chosen, change.tolist(), paid, strict=True)]
        times = _times(lattice) if chosen else None
        added = tuple(
            Added(
                span.variant.cls,
                span.text,
                span.start,
                span.end,
                tuple(self.words.spell(lattice.word[span.arcs])),
                span.distance,
                cost,
                span.excess,
                None if times is None else (int(times[span.start]), int(times[span.end])),
            )
            for span, cost in zip(chosen, paid, strict=True)
        )
        return insert(lattice, chains, self.words), added

    def left_out(self, lists: Sequence[PhraseList]) -> tuple[Unpronounced, ...]:
        """Return the phrases of some lists that cannot be added, with the reasons."""
        return tuple(each for phrases in lists for each in self._sounding(phrases).left_out)

    def _sounding(self, phrases: PhraseList) -> _Sounding:
        """Return the pronunciations of a list, found once as long as the list lives."""
        if phrases in self._lists:
            return self._lists[phrases]
        found: list[_Variant] = []
        strings: list[list[int]] = []
        left_out: list[Unpronounced] = []
        for name, members in phrases.classes.items():
            for phrase in members:
                if phrase.weight <= 0:
                    continue
                ids = self.words.ids(phrase.text.split())
                if -1 in ids:
                    word = phrase.text.split()[ids.index(-1)]
                    where = f"{word!r} of the phrase {phrase.text!r} is not in the symbol table"
                    raise SymbolError(f"{where}; extend it, see ninja.context.sound.augment.extended", self.words.path)
                try:
                    variants = self.pronouncer.of_phrase(phrase)
                    strings += [self.confusion.numbers(sum(variant, ())) for variant in variants]
                except (PronunciationError, OptionError) as error:
                    left_out.append(Unpronounced(name, phrase.text, str(error)))
                    continue
                found += [_Variant(name, phrase.text, tuple(ids), tuple(map(len, variant))) for variant in variants]
        self._lists[phrases] = _Sounding(found, frozenset(each.words for each in found), _packed(strings), left_out)
        return self._lists[phrases]

    def _sound(self, word: int) -> list[list[int]]:
        """Return the pronunciations of a word of a lattice: none if it must stay, an empty one if silent."""
        if word not in self._sounds:
            spelling, known = self.words.word(word), self.confusion.id
            variants = [()] if spelling in self._silent else filter(None, self.pronouncer.of(spelling))
            self._sounds[word] = [[known[each] for each in phones] for phones in variants if known.keys() >= {*phones}]
        return self._sounds[word]

    def _units(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], list[list[list[int]]]]:
        """Return the unit of each arc, int32 [num_arcs], and the pronunciations of each unit."""
        if self._phones is not None:
            number: dict[tuple[int, ...], int] = {}
            unit = [number.setdefault(phones, len(number)) for phones in self._phones.of_arcs(lattice)]
            return np.array(unit, np.int32), [[list(phones)] for phones in number]
        words, of_arc = np.unique(lattice.word, return_inverse=True)
        return of_arc.astype(np.int32), [self._sound(int(word)) for word in words]

    def _spans(self, lattice: Lattice, sounding: _Sounding, phrases: PhraseList) -> list[_Span]:
        """Return the spans at which phrases may be added, as the kernel finds them."""
        if not sounding.variants or not lattice.num_arcs:
            return []
        options = self.options
        unit, sounds = self._units(lattice)
        variants, strings = sounding.variants, sounding.strings
        retriever = self.retriever
        # To make the vectors of a list for one utterance takes longer than to compare its phrases.
        if retriever is not None and phrases.name and len(variants) >= retriever.options.from_phrases:
            chosen = self._retrieved(lattice, unit, sounds, sounding, phrases)
            variants = [variants[each] for each in chosen]
            strings = _packed([_string(strings, each) for each in chosen])
        try:
            string, start, end, excess, distance, arc_begin, arc = _context.find_spans(
                lattice,
                unit,
                np.cumsum([0, *map(len, sounds)], dtype=np.int64),
                *_packed([phones for variants in sounds for phones in variants]),
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
            _Span(rank, (variant := variants[each]).text, begin, end, variant, *more)
            for rank, begin, end, each, *more in zip(*columns, strict=True)
        ]

    def _retrieved(
        self,
        lattice: Lattice,
        unit: npt.NDArray[np.int32],
        sounds: list[list[list[int]]],
        sounding: _Sounding,
        phrases: PhraseList,
    ) -> list[int]:
        """Return the variants of a long list's phrases that are most like a span of the lattice."""
        retriever, names = self.retriever, self.confusion.phones
        assert retriever is not None
        if phrases not in self._indices:
            strings = [_string(sounding.strings, each) for each in range(len(sounding.variants))]
            phones = [tuple(names[each] for each in string) for string in strings]
            self._indices[phrases] = retriever.index([each.text for each in sounding.variants], phones)
        spoken = [tuple(names[each] for each in variants[0]) if variants else None for variants in sounds]
        spans = retriever.spans(lattice, unit, spoken, self.options.acoustic_scale)
        nearest: list[int] = retriever.nearest(spans, self._indices[phrases]).tolist()
        return nearest


class _Span(NamedTuple):
    """A place for a phrase, ordered by its first fields: likelier ones first."""

    rank: float  # the excess with the penalty
    text: str
    start: int
    end: int
    variant: _Variant
    distance: float
    excess: float
    arcs: npt.NDArray[np.int64]  # the path the phrase takes the place of


def _num_phrases(lists: Sequence[_Sounding]) -> int:
    """Return the number of different phrases of lists, of which the longest may be very long."""
    longest, *others = sorted((each.phrases for each in lists), key=len, reverse=True) or [frozenset()]
    return len(longest) + len(frozenset().union(*others) - longest)


def _chain(lattice: Lattice, span: _Span, change: float, paid: float) -> Chain:
    """Make the chain of a span, with so much more graph and acoustic cost than the path it replaces."""
    num_phones = np.array(span.variant.num_phones, np.float64)
    share = num_phones / num_phones.sum()
    acoustic = float(lattice.acoustic[span.arcs].sum(dtype=np.float64)) + paid
    graph = float(lattice.graph[span.arcs].sum(dtype=np.float64)) + change
    labels = np.concatenate([lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]] for arc in span.arcs])
    cuts = np.rint(np.cumsum(share)[:-1] * len(labels)).astype(np.int64)
    return Chain(
        span.start, span.end, span.variant.words, graph * share, acoustic * share, tuple(np.split(labels, cuts))
    )


def _packed(strings: Sequence[Sequence[int]]) -> _Strings:
    """Return strings as one array, with their offsets in it."""
    begin = np.cumsum([0, *map(len, strings)], dtype=np.int64)
    return begin, np.fromiter((phone for string in strings for phone in string), np.int32, int(begin[-1]))


def _string(strings: _Strings, number: int) -> list[int]:
    begin, phone = strings
    string: list[int] = phone[begin[number] : begin[number + 1]].tolist()
    return string


def _runs(lattice: Lattice, start: int, end: int, words: Sequence[int]) -> bool:
    """Tell whether words run between two states already, epsilons aside."""
    here, seen = [(start, 0)], set()
    while here:
        state, read = here.pop()
        if state == end and read == len(words):
            return True
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            word, dst = int(lattice.word[arc]), int(lattice.dst[arc])
            if dst > end or (word != EPSILON and (read == len(words) or word != words[read])):
                continue
            place = (dst, read + (word != EPSILON))
            if place not in seen:
                seen.add(place)
                here.append(place)
    return False


def _times(lattice: Lattice) -> npt.NDArray[np.int32] | None:
    """Return the frame of each state; None if the lattice has no times."""
    if lattice.time is None and not len(lattice.ali):
        return None
    try:
        return state_times(lattice)
    except LatticeError:
        return None
