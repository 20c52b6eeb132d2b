"""Scoring of recognised, missed and inserted entities in transcripts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple
from unicodedata import normalize

from ninja.errors import FormatError
from ninja.evaluate.entity_forms import as_listed, occurrences, with_forms
from ninja.evaluate.entity_report import EntityReport, Insertion, Mention
from ninja.evaluate.error_rate import Alignment, Pair, align, count_errors
from ninja.evaluate.lexical import NormalizerName, lexical_references, lexical_texts
from ninja.evaluate.phrases import Entity, Phrases
from ninja.evaluate.records import RecordError, parse_json, read_records
from ninja.evaluate.scoring import Mode, count_absent, scored_keys
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import NONE, make_normalizer

_RECORD = '{"utt": "…", "true": [{"class": "@name", "text": "tom chen"}]}'


def score_entities(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    phrases: Mapping[str, Sequence[Phrases]],
    *,
    truth: Mapping[str, Collection[Entity]] | None = None,
    before: Mapping[str, Sequence[str]] | None = None,
    words: SymbolTable | None = None,
    mode: Mode = "strict",
    normalizer: NormalizerName = NONE,
) -> EntityReport:
    """Count the recognised, missed and inserted entities in a test set.

    An entity is *said* where the reference contains its words consecutively. If entities overlap, only the first
    entity is counted; if several begin at the same word, only the longest one is counted. An entity that is said
    n times is *found* each time the hypothesis contains its words consecutively, but at most n times. Further
    occurrences in the hypothesis are *inserted*. The same rules for overlaps apply to hypotheses.

    *Errors in entities* are counted in the word alignment: deletions and substitutions of words in an entity, and
    insertions between its first and last word. Insertions before or after an entity are errors of the utterance only.

    Args:
        references: Reference words by utterance id.
        hypotheses: Recognised words by utterance id; ids without a reference are counted, but not scored.
        phrases: Lists of entities for each utterance, as returned by ``Entities.phrases``; utterances without a list
            have no entities. A phrase in several lists belongs to the first one.
        truth: Entities spoken in each utterance; utterances without an entry contain no entities.  [default: the
            entities of ``phrases`` that the reference contains]
        before: Words recognised without context, by utterance id, for comparison.
        words: Symbol table of the recogniser; entities with out-of-vocabulary words are counted separately.
        mode: Treatment of references without a hypothesis in ``hypotheses`` or ``before``; see
            ``ninja.evaluate.score``.
        normalizer: Normalizer applied before words are compared; see ``ninja.evaluate.score``. An entity that is found
            is *in form* if it is written as in its list. Punctuation around it and a capital letter at the start of a
            sentence are ignored.

    Raises:
        FormatError: An entity of ``truth`` is not in its reference, or no utterance of ``truth`` has a reference; see
            also ``ninja.evaluate.score``.
    """
    keys = scored_keys(references, hypotheses, mode)
    if before is not None:
        scored_keys(references, before, mode)
    if truth is not None and not truth.keys() & references.keys():
        raise FormatError("no utterance with true entities has a reference; check that the utterance ids match")

    if truth is not None:
        truth = {
            key: [entity._replace(text=normalize("NFC", entity.text)) for entity in entities]
            for key, entities in truth.items()
        }

    forms = make_normalizer(normalizer)
    written = hypotheses
    written_references, references = references, lexical_references(references, forms)
    hypotheses = lexical_texts(hypotheses, forms)
    before = None if before is None else lexical_texts(before, forms)
    known = None if words is None else words if forms.is_identity else set(forms.words(words.names))
    shared: dict[int, Phrases] = {}  # by the id of the list

    def is_known(entity: Entity) -> bool | None:
        return None if known is None else all(word in known for word in entity.text.split())

    def lexical_list(written: Phrases) -> Phrases:
        if (phrases_of_list := shared.get(id(written))) is None:
            phrases_of_list = shared[id(written)] = written.lexical(forms)
        return phrases_of_list

    mentions: list[Mention] = []
    insertions: list[Insertion] = []
    rates = {}
    for key in keys:
        reference, hypothesis = list(references[key]), list(hypotheses.get(key, ()))
        earlier = None if before is None or (key not in before and mode == "present") else before.get(key, ())
        entities_of_key = list(map(lexical_list, phrases.get(key, ())))
        true = entities_of_key
        if truth is not None:
            of_utterance = truth.get(key, ())
            for entity in of_utterance:
                if not occurrences(reference, forms.words(entity.text.split())):
                    text = " ".join(written_references[key])
                    message = f"the true entity {entity.text!r} is not in the reference {text[:80]!r}"
                    raise FormatError(message, key=key)
            true = [Phrases(of_utterance, forms)]
        alignment = align(reference, hypothesis)
        rates[key] = alignment.rate()
        in_reference = _mentions(key, _find(reference, true), alignment, hypothesis, earlier, is_known)
        inserted = _insertions(key, entities_of_key, alignment, reference, hypothesis, earlier, is_known)
        if not forms.is_identity:
            lists = [of_list.written for of_list in (*true, *entities_of_key)]
            in_reference = with_forms(in_reference, lists, written.get(key, ()), forms)
            inserted = [replace(insertion, entity=as_listed(insertion.entity, lists)) for insertion in inserted]
        mentions += in_reference
        insertions += inserted
    return EntityReport(tuple(mentions), tuple(insertions), rates, count_absent(references, hypotheses))


def read_truth(path: str | os.PathLike[str]) -> dict[str, list[Entity]]:
    """Read the entities that were spoken in each utterance from JSON lines; gzip files are decompressed.

    Each line is an object ``{"utt": …, "true": [{"class": "@name", "text": "tom chen"}]}``; other keys are ignored.

    Raises:
        FormatError: A line is not such an object, an id occurs twice, or the file is empty, not UTF-8 or damaged.
    """

    def parse(line: str) -> tuple[str, list[Entity]]:
        record = parse_json(line)
        key, entities = (record.get("utt"), record.get("true")) if isinstance(record, dict) else (None, None)
        if not isinstance(key, str) or not isinstance(entities, list) or not all(map(_is_entity, entities)):
            raise RecordError(f"expected {_RECORD}, found {line[:60]!r}")
        return key, [Entity(entity.get("class") or "", " ".join(entity["text"].split())) for entity in entities]

    return read_records(path, lambda text: parse)


def _is_entity(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("class"), str | None):
        return False
    return isinstance(value.get("text"), str) and bool(value["text"].split())


class _Occurrence(NamedTuple):
    """An occurrence of an entity in a word sequence, from word ``begin`` to word ``end`` - 1."""

    begin: int
    end: int
    entity: Entity


def _find(words: Sequence[str], lists: Sequence[Phrases]) -> list[_Occurrence]:
    """Find non-overlapping entities; prefer the earliest start, then the longest entity, then the first list."""
    occurrences = []
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
            occurrences.append(_Occurrence(begin, end, Entity(best, " ".join(words[begin:end]))))
        begin = max(end, begin + 1)
    return occurrences


def _occurrences(words: Sequence[str], text: str) -> int:
    """Count the non-overlapping occurrences of a phrase."""
    return len(occurrences(words, text.split()))


def _mentions(
    key: str,
    mentions: Sequence[_Occurrence],
    alignment: Alignment,
    hypothesis: Sequence[str],
    earlier: Sequence[str] | None,
    is_known: Callable[[Entity], bool | None],
) -> list[Mention]:
    aligned = [_aligned_words(alignment, 0, mention) for mention in mentions]
    texts = [mention.entity.text for mention in mentions]
    is_found = _assign(
        texts, [instead for _, instead in aligned], {text: _occurrences(hypothesis, text) for text in texts}
    )
    is_found_before: Sequence[bool | None] = [None] * len(mentions)
    if earlier is not None:
        is_found_before = _assign(texts, texts, {text: _occurrences(earlier, text) for text in texts})
    return [
        Mention(key, entity, begin, is_correct, instead, count_errors(pairs), found_before, is_known(entity))
        for (begin, _, entity), (pairs, instead), is_correct, found_before in zip(
            mentions, aligned, is_found, is_found_before, strict=True
        )
    ]


def _insertions(
    key: str,
    entities_of_key: Sequence[Phrases],
    alignment: Alignment,
    reference: Sequence[str],
    hypothesis: Sequence[str],
    earlier: Sequence[str] | None,
    is_known: Callable[[Entity], bool | None],
) -> list[Insertion]:
    recognised = _find(hypothesis, entities_of_key)
    instead_of = [_aligned_words(alignment, 1, occurrence)[1] for occurrence in recognised]
    texts = [occurrence.entity.text for occurrence in recognised]
    is_correct = _assign(texts, instead_of, {text: _occurrences(reference, text) for text in texts})
    wrong = [i for i, correct in enumerate(is_correct) if not correct]
    is_found_before: Sequence[bool | None] = [None] * len(wrong)
    if earlier is not None:
        counts = Counter(occurrence.entity.text for occurrence in _find(earlier, entities_of_key))
        wrong_texts = [texts[i] for i in wrong]
        is_found_before = _assign(
            wrong_texts, wrong_texts, {text: count - _occurrences(reference, text) for text, count in counts.items()}
        )
    return [
        Insertion(
            key, recognised[i].entity, recognised[i].begin, instead_of[i], found_before, is_known(recognised[i].entity)
        )
        for i, found_before in zip(wrong, is_found_before, strict=True)
    ]


def _assign(texts: Sequence[str], aligned: Sequence[str], available: Mapping[str, int]) -> list[bool]:
    """Assign occurrences in one transcript to entities in another; entities aligned with equal words come first.

    Args:
        texts: Texts of the entities.
        aligned: Words of the first transcript that are aligned with each entity.
        available: Number of occurrences of each entity text in the first transcript.

    Returns:
        Whether each entity is assigned an occurrence.
    """
    remaining = dict(available)
    is_assigned = [False] * len(texts)
    for i in sorted(range(len(texts)), key=lambda i: aligned[i] != texts[i]):
        if remaining.get(texts[i], 0) > 0:
            remaining[texts[i]] -= 1
            is_assigned[i] = True
    return is_assigned


def _aligned_words(alignment: Alignment, side: Literal[0, 1], occurrence: _Occurrence) -> tuple[Sequence[Pair], str]:
    """Return the aligned word pairs of an entity in one transcript, and the words of the other transcript as text.

    If any pair is an error, the text also includes words directly before and after the entity, if they are aligned
    with no word. For example, a one-word name that was recognised as three words is aligned with only one of the
    three words.

    Args:
        alignment: Alignment of a reference and a hypothesis.
        side: Transcript that contains the entity: 0 for the reference, 1 for the hypothesis.
        occurrence: Position of the entity in this transcript.

    Returns:
        ``(pairs, text)``.
    """
    pairs = alignment.pairs
    indices = [index for index, pair in enumerate(pairs) if pair[side] is not None]
    first, last = indices[occurrence.begin], indices[occurrence.end - 1] + 1
    aligned = pairs[first:last]
    if any(reference != hypothesis for reference, hypothesis in aligned):
        while first > 0 and pairs[first - 1][side] is None:
            first -= 1
        while last < len(pairs) and pairs[last][side] is None:
            last += 1
    return aligned, " ".join(word for pair in pairs[first:last] if (word := pair[1 - side]) is not None)
