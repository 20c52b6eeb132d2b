"""How well entities are recognised: which were found, which were missed, which appeared though nobody said them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ninja.context.entity_report import Entity, EntityRate, EntityReport, Insertion, Mention
from ninja.errors import FormatError
from ninja.evaluate.error_rate import Alignment, ErrorRate, Pair, align, count_errors
from ninja.evaluate.scoring import Mode, scored_keys
from ninja.files import text as utf8
from ninja.lattice.symbols import SymbolTable

if TYPE_CHECKING:
    from ninja.context.entities.lists import Entities, PhraseList

__all__ = ["Entity", "EntityRate", "EntityReport", "Insertion", "Mention", "read_truth", "score_entities"]

_RECORD = '{"utt": "…", "true": [{"class": "@name", "text": "tom chen"}]}'


def score_entities(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    entities: Entities,
    *,
    truth: Mapping[str, Collection[Entity]] | None = None,
    before: Mapping[str, Sequence[str]] | None = None,
    words: SymbolTable | None = None,
    mode: Mode = "strict",
) -> EntityReport:
    """Find out which entities were recognised, which were missed and which were put in wrongly.

    An entity is *said* where all its words stand side by side in the reference: of entities that overlap, the one that
    begins first, and of those the longest. It is *found* if its words stand side by side in the hypothesis, as often as
    it was said. It is *inserted* where it stands in the hypothesis, overlaps ruled as in the reference, more often
    than the reference holds its words. *Errors in entities* are those of the word alignment: reference words of an
    entity that are missing or replaced, and words put in between the first and the last of them; words put in before
    or after it are errors of the sentence only. Phrases of negative weight are no entities.

    Args:
        references: Words said, by utterance id.
        hypotheses: Words recognised; ids without a reference are counted, not scored.
        entities: The lists of each utterance.
        truth: Entities said in each utterance, none in those left out; None: each entity of the utterance's lists that
            its reference holds.
        before: Words recognised without context, to tell what the context changed.
        words: Symbol table of the recogniser: entities with a word outside it are counted apart.
        mode: Of references without a hypothesis (here or in ``before``), as in ``ninja.evaluate.score``.

    Raises:
        FormatError: An entity of ``truth`` is not in its reference, no utterance of it has a reference, or as in
            ``ninja.evaluate.score``.
        OptionError: ``mode`` is none of the three.
    """
    keys = scored_keys(references, hypotheses, mode)
    if before is not None:
        scored_keys(references, before, mode)
    if truth is not None and not truth.keys() & references.keys():
        raise FormatError("no utterance with true entities has a reference; do the utterance ids belong together?")
    finder = _Finder()
    mentions: list[Mention] = []
    insertions: list[Insertion] = []
    rates = {}
    for key in keys:
        said, heard = list(references[key]), list(hypotheses.get(key, ()))
        earlier = None if before is None or (key not in before and mode == "present") else before.get(key, ())
        listed = finder.phrases_of(entities.of(key))
        true = listed if truth is None else [_true_phrases(key, truth.get(key, ()), said)]
        alignment = align(said, heard)
        rates[key] = alignment.rate()
        mentions += _mentions(key, _spots(said, true), alignment, heard, earlier, words)
        insertions += _insertions(key, listed, alignment, said, heard, earlier, words)
    absent = ErrorRate(
        missing=sum(key not in hypotheses for key in references),
        unreferenced=sum(key not in references for key in hypotheses),
    )
    return EntityReport(tuple(mentions), tuple(insertions), rates, absent)


def read_truth(path: str | os.PathLike[str]) -> dict[str, list[Entity]]:
    """Read which entities are said in each utterance, from JSON lines; ``.gz`` is unpacked.

    On each line ``{"utt": …, "true": [{"class": "@name", "text": "tom chen"}]}``; what else an object holds is ignored.

    Raises:
        FormatError: A line is no such object, an id occurs twice, the file is empty, not UTF-8 or damaged.
        InputError: The file cannot be read.
    """
    name = os.fspath(path)
    text = utf8.read(name)
    if not text:
        raise FormatError("the file is empty", name)
    truth: dict[str, list[Entity]] = {}
    for number, row in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            record = json.loads(row)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{row[:60]!r} is no JSON: {error}", name, line=number) from error
        true = _true_entities(record)
        if true is None:
            raise FormatError(f"expected {_RECORD}, found {row[:60]!r}", name, line=number)
        key = record["utt"]
        if key in truth:
            raise FormatError(f"utterance {key!r} occurs twice", name, line=number)
        truth[key] = true
    return truth


def _true_entities(record: Any) -> list[Entity] | None:
    """Return the entities of a record, None if it is none."""
    if not isinstance(record, dict) or not isinstance(record.get("utt"), str):
        return None
    found = record.get("true")
    if not isinstance(found, list):
        return None
    true = []
    for each in found:
        if not isinstance(each, dict):
            return None
        text, name = each.get("text"), each.get("class")
        if not isinstance(text, str) or not text.split() or not isinstance(name, str | None):
            return None
        true.append(Entity(name or "", " ".join(text.split())))
    return true


class _Phrases:
    """Phrases to be spotted in a word sequence."""

    __slots__ = ("class_of", "lengths")

    def __init__(self, entities: Iterable[Entity]) -> None:
        self.class_of: dict[tuple[str, ...], str] = {}
        for entity in entities:
            self.class_of.setdefault(tuple(entity.text.split()), entity.class_name)  # the first class owns a phrase
        self.lengths = sorted({len(words) for words in self.class_of}, reverse=True)


class _Finder:
    """Makes the phrases of each shared list once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[PhraseList, _Phrases]] = {}  # by identity; the list is kept, so no other takes it

    def phrases_of(self, lists: Iterable[PhraseList]) -> list[_Phrases]:
        """Return the phrases of some lists."""
        found = []
        for each in lists:
            kept = self._made.get(id(each))
            if kept is None:
                kept = (
                    each,
                    _Phrases(
                        Entity(name, phrase.text)
                        for name, phrases in each.classes.items()
                        for phrase in phrases
                        if phrase.weight >= 0
                    ),
                )
                if each.name:
                    self._made[id(each)] = kept
            found.append(kept[1])
        return found


def _true_phrases(key: str, entities: Collection[Entity], said: Sequence[str]) -> _Phrases:
    for entity in entities:
        if not _occurrences(said, entity.text):
            raise FormatError(
                f"the true entity {entity.text!r} is not in the reference {' '.join(said)[:80]!r}", key=key
            )
    return _Phrases(entities)


@dataclass(frozen=True, slots=True)
class _Spot:
    """A stretch of words that is an entity."""

    begin: int
    end: int
    entity: Entity


def _spots(words: Sequence[str], phrases: Sequence[_Phrases]) -> list[_Spot]:
    """Find entities: the first that begins, and of those that begin there the longest; the earlier list owns it."""
    spots = []
    begin = 0
    while begin < len(words):
        best: _Spot | None = None
        for each in phrases:
            for length in each.lengths:
                if best is not None and begin + length <= best.end:
                    break
                if begin + length > len(words):
                    continue
                name = each.class_of.get(tuple(words[begin : begin + length]))
                if name is not None:
                    best = _Spot(begin, begin + length, Entity(name, " ".join(words[begin : begin + length])))
                    break
        if best is not None:
            spots.append(best)
        begin = best.end if best is not None else begin + 1
    return spots


def _occurrences(words: Sequence[str], text: str) -> int:
    """Count how often a phrase stands in a word sequence, without overlap."""
    phrase = text.split()
    count = begin = 0
    while phrase and begin + len(phrase) <= len(words):
        hit = list(words[begin : begin + len(phrase)]) == phrase
        count += hit
        begin += len(phrase) if hit else 1
    return count


def _mentions(
    key: str,
    spots: Sequence[_Spot],
    alignment: Alignment,
    heard: Sequence[str],
    earlier: Sequence[str] | None,
    table: SymbolTable | None,
) -> list[Mention]:
    stretches = [_stretch(alignment, 0, spot) for spot in spots]
    texts = [spot.entity.text for spot in spots]
    found = _allot(texts, [instead for _, instead in stretches], {text: _occurrences(heard, text) for text in texts})
    found_before: Sequence[bool | None] = [None] * len(spots)
    if earlier is not None:
        found_before = _allot(texts, texts, {text: _occurrences(earlier, text) for text in texts})
    return [
        Mention(key, spot.entity, spot.begin, here, instead, count_errors(pairs), there, _is_known(spot.entity, table))
        for spot, (pairs, instead), here, there in zip(spots, stretches, found, found_before, strict=True)
    ]


def _insertions(
    key: str,
    listed: Sequence[_Phrases],
    alignment: Alignment,
    said: Sequence[str],
    heard: Sequence[str],
    earlier: Sequence[str] | None,
    table: SymbolTable | None,
) -> list[Insertion]:
    spots = _spots(heard, listed)
    instead_of = [_stretch(alignment, 1, spot)[1] for spot in spots]
    texts = [spot.entity.text for spot in spots]
    said_too = _allot(texts, instead_of, {text: _occurrences(said, text) for text in texts})
    wrong = [i for i, rightly in enumerate(said_too) if not rightly]
    found_before: Sequence[bool | None] = [None] * len(wrong)
    if earlier is not None:
        stood = Counter(spot.entity.text for spot in _spots(earlier, listed))
        wrongly = {text: count - _occurrences(said, text) for text, count in stood.items()}
        wrong_texts = [texts[i] for i in wrong]
        found_before = _allot(wrong_texts, wrong_texts, wrongly)
    return [
        Insertion(key, spots[i].entity, spots[i].begin, instead_of[i], there, _is_known(spots[i].entity, table))
        for i, there in zip(wrong, found_before, strict=True)
    ]


def _allot(texts: Sequence[str], beside: Sequence[str], available: Mapping[str, int]) -> list[bool]:
    """Say for each phrase whether it gets one of the occurrences of its text: those aligned with one come first."""
    left = dict(available)
    given = [False] * len(texts)
    for i in sorted(range(len(texts)), key=lambda i: beside[i] != texts[i]):
        if left.get(texts[i], 0) > 0:
            left[texts[i]] -= 1
            given[i] = True
    return given


def _stretch(alignment: Alignment, side: Literal[0, 1], spot: _Spot) -> tuple[Sequence[Pair], str]:
    """Return the pairs from the first to the last word of a spot on one side, and the words on the other side.

    Where these differ from the spot's, they are shown with what was put in right beside them: a name heard as three
    words is aligned with one of them, and which one says little.
    """
    pairs = alignment.pairs
    places = [place for place, pair in enumerate(pairs) if pair[side] is not None]
    first, last = places[spot.begin], places[spot.end - 1] + 1
    own = pairs[first:last]
    if any(said != heard for said, heard in own):
        while first > 0 and pairs[first - 1][side] is None:
            first -= 1
        while last < len(pairs) and pairs[last][side] is None:
            last += 1
    return own, " ".join(word for pair in pairs[first:last] if (word := pair[1 - side]) is not None)


def _is_known(entity: Entity, table: SymbolTable | None) -> bool | None:
    return None if table is None else all(word in table for word in entity.text.split())
