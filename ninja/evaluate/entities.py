"""Scores of entities in transcripts: found, missed, and inserted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from ninja.errors import FormatError
from ninja.evaluate.entity_report import Entity, EntityReport, Insertion, Mention
from ninja.evaluate.error_rate import Alignment, Pair, align, count_errors
from ninja.evaluate.records import RecordError, parse_json, read_records
from ninja.evaluate.scoring import Mode, count_absent, scored_keys
from ninja.lattice.symbols import SymbolTable

_RECORD = '{"utt": "…", "true": [{"class": "@name", "text": "tom chen"}]}'


class Phrases:
    """Phrases to be found in word sequences; utterances with the same list share one object."""

    __slots__ = ("class_of", "lengths")

    def __init__(self, entities: Iterable[Entity]) -> None:
        """Index phrases by their words; of classes with the same phrase, the first owns it."""
        self.class_of: dict[tuple[str, ...], str] = {}
        for entity in entities:
            self.class_of.setdefault(tuple(entity.text.split()), entity.class_name)
        self.lengths = sorted({len(words) for words in self.class_of}, reverse=True)


def score_entities(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    phrases: Mapping[str, Sequence[Phrases]],
    *,
    truth: Mapping[str, Collection[Entity]] | None = None,
    before: Mapping[str, Sequence[str]] | None = None,
    words: SymbolTable | None = None,
    mode: Mode = "strict",
) -> EntityReport:
    """Count the entities recognised, missed and inserted.

    An entity is *said* where all its words stand side by side in the reference: of entities that overlap, the one that
    begins first, and of those the longest. It is *found* if its words stand side by side in the hypothesis, as often as
    it was said. It is *inserted* where it stands in the hypothesis, overlaps ruled as in the reference, more often
    than the reference holds its words. *Errors in entities* are those of the word alignment: reference words of an
    entity that are missing or replaced, and words put in between the first and the last of them; words put in before
    or after it are errors of the sentence only.

    Args:
        references: Words said, by utterance id.
        hypotheses: Words recognised; ids without a reference are counted, not scored.
        phrases: Entities that each utterance may hold, as of ``Entities.phrases``; none for those left out. The
            earlier list owns a phrase that two hold.
        truth: Entities said in each utterance, none in those left out; None: each entity of ``phrases`` that its
            reference holds.
        before: Words recognised without context, to tell what the context changed.
        words: Symbol table of the recogniser: entities with a word outside it are counted apart.
        mode: Of references without a hypothesis (here or in ``before``), as in ``ninja.evaluate.score``.

    Raises:
        FormatError: An entity of ``truth`` is not in its reference, no utterance of it has a reference, or as in
            ``ninja.evaluate.score``.
    """
    keys = scored_keys(references, hypotheses, mode)
    if before is not None:
        scored_keys(references, before, mode)
    if truth is not None and not truth.keys() & references.keys():
        raise FormatError("no utterance with true entities has a reference; do the utterance ids belong together?")

    def is_known(entity: Entity) -> bool | None:
        return None if words is None else all(word in words for word in entity.text.split())

    mentions: list[Mention] = []
    insertions: list[Insertion] = []
    rates = {}
    for key in keys:
        said, heard = list(references[key]), list(hypotheses.get(key, ()))
        earlier = None if before is None or (key not in before and mode == "present") else before.get(key, ())
        listed = phrases.get(key, ())
        true = listed
        if truth is not None:
            of_utterance = truth.get(key, ())
            for entity in of_utterance:
                if not _occurrences(said, entity.text):
                    what = f"the true entity {entity.text!r} is not in the reference {' '.join(said)[:80]!r}"
                    raise FormatError(what, key=key)
            true = [Phrases(of_utterance)]
        alignment = align(said, heard)
        rates[key] = alignment.rate()
        mentions += _mentions(key, _find(said, true), alignment, heard, earlier, is_known)
        insertions += _insertions(key, listed, alignment, said, heard, earlier, is_known)
    return EntityReport(tuple(mentions), tuple(insertions), rates, count_absent(references, hypotheses))


def read_truth(path: str | os.PathLike[str]) -> dict[str, list[Entity]]:
    """Read the true entities of each utterance from JSON lines; ``.gz`` is unpacked.

    On each line ``{"utt": …, "true": [{"class": "@name", "text": "tom chen"}]}``; other keys are ignored.

    Raises:
        FormatError: A line is no such object, an id occurs twice, the file is empty, not UTF-8 or damaged.
    """

    def parsed(line: str) -> tuple[str, list[Entity]]:
        record = parse_json(line)
        key, found = (record.get("utt"), record.get("true")) if isinstance(record, dict) else (None, None)
        if not isinstance(key, str) or not isinstance(found, list) or not all(map(_is_entity, found)):
            raise RecordError(f"expected {_RECORD}, found {line[:60]!r}")
        return key, [Entity(each.get("class") or "", " ".join(each["text"].split())) for each in found]

    return read_records(path, lambda text: parsed)


def _is_entity(value: object) -> bool:
    """Tell whether a JSON value is an entity."""
    if not isinstance(value, dict) or not isinstance(value.get("class"), str | None):
        return False
    return isinstance(value.get("text"), str) and bool(value["text"].split())


class _Spot(NamedTuple):
    """An entity in a word sequence."""

    begin: int
    end: int
    entity: Entity


def _find(words: Sequence[str], lists: Sequence[Phrases]) -> list[_Spot]:
    """Find entities: the first that begins, and of those that begin there the longest; the earlier list owns it."""
    spots = []
    begin = 0
    while begin < len(words):
        best, end = "", begin
        for phrases in lists:
            for length in phrases.lengths:
                if begin + length <= end:
                    break
                name = phrases.class_of.get(tuple(words[begin : begin + length]))
                if name is not None and begin + length <= len(words):
                    best, end = name, begin + length
                    break
        if end > begin:
            spots.append(_Spot(begin, end, Entity(best, " ".join(words[begin:end]))))
        begin = max(end, begin + 1)
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
    is_known: Callable[[Entity], bool | None],
) -> list[Mention]:
    stretches = [_stretch(alignment, 0, spot) for spot in spots]
    texts = [spot.entity.text for spot in spots]
    found = _allot(texts, [instead for _, instead in stretches], {text: _occurrences(heard, text) for text in texts})
    found_before: Sequence[bool | None] = [None] * len(spots)
    if earlier is not None:
        found_before = _allot(texts, texts, {text: _occurrences(earlier, text) for text in texts})
    return [
        Mention(key, spot.entity, spot.begin, here, instead, count_errors(pairs), there, is_known(spot.entity))
        for spot, (pairs, instead), here, there in zip(spots, stretches, found, found_before, strict=True)
    ]


def _insertions(
    key: str,
    listed: Sequence[Phrases],
    alignment: Alignment,
    said: Sequence[str],
    heard: Sequence[str],
    earlier: Sequence[str] | None,
    is_known: Callable[[Entity], bool | None],
) -> list[Insertion]:
    spots = _find(heard, listed)
    instead_of = [_stretch(alignment, 1, spot)[1] for spot in spots]
    texts = [spot.entity.text for spot in spots]
    said_too = _allot(texts, instead_of, {text: _occurrences(said, text) for text in texts})
    wrong = [i for i, rightly in enumerate(said_too) if not rightly]
    found_before: Sequence[bool | None] = [None] * len(wrong)
    if earlier is not None:
        stood = Counter(spot.entity.text for spot in _find(earlier, listed))
        wrong_texts = [texts[i] for i in wrong]
        found_before = _allot(
            wrong_texts, wrong_texts, {text: count - _occurrences(said, text) for text, count in stood.items()}
        )
    return [
        Insertion(key, spots[i].entity, spots[i].begin, instead_of[i], there, is_known(spots[i].entity))
        for i, there in zip(wrong, found_before, strict=True)
    ]


def _allot(texts: Sequence[str], beside: Sequence[str], available: Mapping[str, int]) -> list[bool]:
    """Assign occurrences of a text to its phrases, one each, those aligned with one first."""
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
