"""Write corrected words into recognisers' JSON, in which all else stays as it came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ninja.errors import FormatError, InputError
from ninja.files.stream import BOM
from ninja.formats.hypotheses.alignment import Change, changed_words
from ninja.formats.hypotheses.document import CHANGED, Corrections, Document, Rewritten
from ninja.formats.hypotheses.item_changes import ItemRevision
from ninja.formats.hypotheses.items import ItemList
from ninja.formats.hypotheses.json_spans import Edits, ItemSplice, Locator, Path, rewritten
from ninja.formats.hypotheses.places import PlacedDocument, PlacedHypothesis, placed
from ninja.formats.hypotheses.preset import Preset
from ninja.formats.hypotheses.reading import chosen_preset
from ninja.formats.hypotheses.texts import text_splices
from ninja.formats.hypotheses.values import Text
from ninja.formats.nbest.json_lists import loaded
from ninja.formats.nbest.writing import ListOptions, spelled
from ninja.lattice.nbest import NBest

CUT_LETTERS = "surrogateescape"  # bytes of letters that a recogniser cut into tokens stay as they are
LEAST_SHARE = 0.75  # of the words of all utterances, by which texts of a whole file correspond to them


def rewrite(
    content: bytes, corrections: Corrections, document: Document, presets: Sequence[Preset], options: ListOptions
) -> Rewritten:
    """Return an entry of a document with corrected words; see ``document.Rewrite``.

    Raises:
        FormatError: The entry cannot be read.
        InputError: It does not have the words that were read.
    """
    try:
        text = content.removeprefix(BOM).decode(document.encoding, CUT_LETTERS)
        if not text.strip():
            return Rewritten(content, 0)
        value, _ = loaded(text)
    except ValueError as error:
        raise FormatError(f"not JSON: {str(error)[:60]}", document.name) from error
    places = placed(value, chosen_preset(value, presets, document.options))
    num_utterances = max(len(places.utterances), 1)
    if not corrections:
        return Rewritten(content, num_utterances)
    corrected = [places.utterances[place] for place in corrections if place < len(places.utterances)]
    utterances = [one for one in corrected if not isinstance(one, FormatError)]
    bases = [one.path for utterance in utterances for one in utterance.hypotheses]
    revision = _Revision(Locator(text, bases), value)
    changes = revision.correct(places, corrections, document, options)
    revision.correct_all(places, changes)
    if not revision.edits:
        return Rewritten(content, num_utterances, revision.num_unmatched)
    mark = BOM if content.startswith(BOM) else b""
    output = rewritten(text, revision.edits, ascii_only=text.isascii())
    return Rewritten(mark + output.encode(document.encoding, CUT_LETTERS), num_utterances, revision.num_unmatched)


class _Revision:
    """The changes of a document."""

    def __init__(self, places: Locator, value: Any) -> None:
        self.edits = Edits()
        self.num_unmatched = 0
        self._places = places
        self._value = value

    def correct(
        self, places: PlacedDocument, corrections: Corrections, document: Document, options: ListOptions
    ) -> dict[int, list[Change]]:
        """Correct utterances; return the changes of the words of each."""
        changes: dict[int, list[Change]] = {}
        for place, nbest in corrections.items():
            utterance = places.utterances[place] if place < len(places.utterances) else None
            if isinstance(utterance, FormatError):
                raise InputError(CHANGED, document.name, key=nbest.key)
            alternatives = [] if utterance is None else utterance.hypotheses
            distinct = _distinct(alternatives, document)
            sentences = _sentences(nbest, distinct, options)
            if utterance is None or not utterance.hypotheses:
                self.num_unmatched += any(sentences)  # there is no text that could be changed
                continue
            first = utterance.hypotheses[0]
            origin = None if nbest.record is None else nbest.record.origin
            if origin is not None and tuple(first.words) != origin.words:
                raise InputError(CHANGED, document.name, key=nbest.key)
            if utterance.list_path is not None and len(utterance.hypotheses) > 1:
                if sentences == distinct:
                    continue
                self._reorder(alternatives, utterance.list_path, sentences)
            elif sentences:
                self._change(first, sentences[0])
            if sentences:
                changes[place] = changed_words(first.words, sentences[0])
        return changes

    def correct_all(self, places: PlacedDocument, changes: dict[int, list[Change]]) -> None:
        """Change the texts and the lists of words of all utterances."""
        words: list[str] = []
        all_changes: list[Change] = []
        for place, utterance in enumerate(places.utterances):
            if isinstance(utterance, FormatError) or not utterance.hypotheses:
                continue
            shift = len(words)
            all_changes += (Change(begin + shift, end + shift, new) for begin, end, new in changes.get(place, []))
            words += utterance.hypotheses[0].words
        for group in places.texts:
            self._change_texts(group, words, all_changes, LEAST_SHARE)
        for entries in places.lists:
            self._change_items(entries, words, all_changes, LEAST_SHARE)

    def _reorder(self, alternatives: Sequence[PlacedHypothesis], path: Path, sentences: list[list[str]]) -> None:
        """Put the alternatives of an utterance into the order of new sentences, with their words."""
        rest = list(alternatives)
        items: list[str] = []
        for sentence in sentences:
            equal = [one for one in rest if one.words == sentence]
            rest = [one for one in rest if one.words != sentence]
            for one in equal:
                items.append(self._places.raw(one.path))
            if not equal:
                nearest = min(rest or alternatives, key=lambda one: _distance(one.words, sentence))
                rest = [one for one in rest if one is not nearest]
                items.append(self._with_words(nearest, sentence))
        self.edits.items[path] = [ItemSplice(0, len(alternatives), tuple(items))]

    def _with_words(self, hypothesis: PlacedHypothesis, sentence: list[str]) -> str:
        """Return the JSON text of a hypothesis with other words."""
        inner = _Revision(self._places, self._value)
        inner._change(hypothesis, sentence)
        self.num_unmatched += inner.num_unmatched
        edits = inner.edits.below(hypothesis.path)
        return rewritten(self._places.raw(hypothesis.path), edits, ascii_only=self._places.text.isascii())

    def _change(self, hypothesis: PlacedHypothesis, sentence: list[str]) -> None:
        """Change the words of a hypothesis."""
        changes = changed_words(hypothesis.words, sentence)
        for group in hypothesis.texts:
            self._change_texts(group, hypothesis.words, changes)
        for entries in hypothesis.lists:
            self._change_items(entries, hypothesis.words, changes)

    def _change_texts(
        self, group: Sequence[Text], words: Sequence[str], changes: Sequence[Change], least_share: float = 0.0
    ) -> None:
        if not changes:
            return
        splices, num_unmatched = text_splices([text for _, text in group], words, changes, least_share)
        self.num_unmatched += num_unmatched
        for number, string_splices in splices.items():
            self.edits.strings.setdefault(group[number][0], []).extend(string_splices)

    def _change_items(
        self, entries: ItemList, words: Sequence[str], changes: Sequence[Change], least_share: float = 0.0
    ) -> None:
        if changes:
            revised = ItemRevision(entries, words, self._places, self._value, least_share)
            revised.change(changes)
            self.num_unmatched += revised.num_unmatched
            self.edits.add(revised.edits)


def _distinct(alternatives: Sequence[PlacedHypothesis], document: Document) -> list[list[str]]:
    """Return the different sentences of alternatives in the order of their scores."""
    missing = getattr(document.options, "missing_score", None) or 0.0
    by_score = sorted(alternatives, key=lambda one: np.float32(-missing if one.score is None else -one.score))
    return [list(words) for words in dict.fromkeys(tuple(one.words) for one in by_score)]


def _sentences(nbest: NBest, distinct: list[list[str]], options: ListOptions) -> list[list[str]]:
    """Return the sentences of a list; those of equal cost in the order that they had before."""
    places = {tuple(words): place for place, words in enumerate(distinct)}

    def rank(sentence: tuple[list[str], float]) -> tuple[float, int]:
        return sentence[1], places.get(tuple(sentence[0]), len(places))

    sentences = []
    for hypothesis in nbest.hypotheses:
        words = spelled(hypothesis, None, nbest.key)
        cost = options.acoustic_scale * hypothesis.acoustic_cost + options.lm_scale * hypothesis.graph_cost
        sentences.append((words, float(np.float32(cost + options.word_penalty * len(words)))))
    return [words for words, _ in sorted(sentences, key=rank)]


def _distance(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of words that differ."""
    return sum(max(end - begin, len(words)) for begin, end, words in changed_words(old, new))
