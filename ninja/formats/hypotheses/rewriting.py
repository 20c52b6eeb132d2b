"""Rewriting of JSON written by recognisers: corrected words replace the old ones, and all other content is kept."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ninja.errors import FormatError, InputError
from ninja.files.stream import BOM
from ninja.formats.hypotheses.alignment import Change, changed_words
from ninja.formats.hypotheses.document import CHANGED, Corrections, Document, Rewritten
from ninja.formats.hypotheses.item_changes import ItemRevision
from ninja.formats.hypotheses.items import ItemList
from ninja.formats.hypotheses.json_spans import Edits, ItemSplice, Locator, Splice, rewritten, spliced
from ninja.formats.hypotheses.places import (
    PlacedDocument,
    PlacedHypothesis,
    PlacedUtterance,
    alternative_costs,
    placed,
)
from ninja.formats.hypotheses.preset import Preset
from ninja.formats.hypotheses.reading import chosen_preset
from ninja.formats.hypotheses.texts import places_within, text_splices, words_of
from ninja.formats.hypotheses.values import Text, parsed, reached
from ninja.formats.nbest.writing import ListOptions, spelled
from ninja.lattice.nbest import NBest

CUT_LETTERS = "surrogateescape"  # keeps the bytes of characters that a recogniser split between tokens
LEAST_SHARE = 0.75  # minimum fraction of the words of all utterances that a text spanning them must contain


def rewrite(
    content: bytes, corrections: Corrections, document: Document, presets: Sequence[Preset], options: ListOptions
) -> Rewritten:
    """Rewrite an entry in a document with corrected words; see ``document.Rewrite``.

    Raises:
        FormatError: The entry cannot be read.
        InputError: The words of the entry have changed since it was read.
    """
    try:
        text = content.removeprefix(BOM).decode(document.encoding, CUT_LETTERS)
        if not text.strip():
            return Rewritten(content, 0)
        value, _ = parsed(text)
    except ValueError as error:
        raise FormatError(f"not JSON: {str(error)[:60]}", document.name) from error
    preset = chosen_preset(value, presets, document.options)
    places = placed(value, preset)
    num_utterances = max(len(places.utterances), 1)
    if not corrections:
        return Rewritten(content, num_utterances)
    corrected = [places.utterances[place] for place in corrections if place < len(places.utterances)]
    utterances = [one for one in corrected if not isinstance(one, FormatError)]
    bases = [one.path for utterance in utterances for one in utterance.hypotheses]
    revision = _Revision(Locator(text, bases))
    corrections_of_forms = revision.correct(places, corrections, document, preset, options)
    revision.correct_all(places, corrections_of_forms)
    if not revision.edits:
        return Rewritten(content, num_utterances, revision.num_unmatched)
    mark = BOM if content.startswith(BOM) else b""
    output = rewritten(text, revision.edits, ascii_only=text.isascii())
    return Rewritten(mark + output.encode(document.encoding, CUT_LETTERS), num_utterances, revision.num_unmatched)


class _Ranked(NamedTuple):
    """A sentence from an n-best list, and its cost."""

    words: list[str]
    cost: float


class _Form(NamedTuple):
    """A variant of an utterance's text, for example with punctuation, before and after the correction."""

    old: list[str]  # strings of the variant before the correction
    new: list[str]
    # Splices for the old strings; None if the text of another alternative replaces the strings.
    splices: dict[int, list[Splice]] | None = None

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """The words of the variant before and after the correction."""
        return [word.text for word in words_of(self.old)], [word.text for word in words_of(self.new)]


Forms = list[_Form]  # text variants; the first contains the words of the utterance


class _Revision:
    """The changes to a document."""

    def __init__(self, places: Locator) -> None:
        self.edits = Edits()
        self.num_unmatched = 0
        self._places = places

    def correct(
        self,
        places: PlacedDocument,
        corrections: Corrections,
        document: Document,
        preset: Preset,
        options: ListOptions,
    ) -> dict[int, Forms]:
        """Correct utterances; return the corrected variants of the first hypothesis of each utterance."""
        forms: dict[int, Forms] = {}
        for place, nbest in corrections.items():
            utterance = places.utterances[place] if place < len(places.utterances) else None
            if isinstance(utterance, FormatError):
                raise InputError(CHANGED, document.name, key=nbest.key)
            distinct = _distinct([] if utterance is None else utterance.hypotheses, document, preset)
            ranked = _ranked(nbest, distinct, options)
            if utterance is None or not utterance.hypotheses:
                self.num_unmatched += any(words for words, _ in ranked)  # the file has no text that could be changed
                continue
            first = utterance.hypotheses[0]
            origin = None if nbest.record is None else nbest.record.origin
            if origin is not None and tuple(first.words) != origin.words:
                raise InputError(CHANGED, document.name, key=nbest.key)
            if utterance.list_path is None or len(utterance.hypotheses) == 1:
                if ranked:
                    forms[place] = self._change(first, ranked[0].words)
            elif _has_order(ranked, distinct):
                new = {tuple(old): words for old, (words, _) in zip(distinct, ranked, strict=True)}
                changed = [self._change(one, new[tuple(one.words)]) for one in utterance.hypotheses]
                forms[place] = changed[0]
            else:
                forms[place] = self._reorder(utterance, ranked, preset)
        return forms

    def correct_all(self, places: PlacedDocument, new_forms: dict[int, Forms]) -> None:
        """Change the texts and word lists that span all utterances."""
        utterances = [
            (one.channel or "", new_forms.get(index) or _forms(one.hypotheses[0]))
            for index, one in enumerate(places.utterances)
            if not isinstance(one, FormatError) and one.hypotheses
        ]
        orders = [[forms for _, forms in order] for order in (utterances, sorted(utterances, key=itemgetter(0)))]
        candidates = [
            [forms[number] for forms in order]
            for number in range(max((len(forms) for _, forms in utterances), default=0))
            for order in orders
            if all(len(forms) > number for forms in order)
        ]
        for group in places.texts:
            if not any(self._change_sequence(group, forms) for forms in candidates):
                words, changes, least_share = _base(candidates, [text for _, text in group])
                self._change_texts(group, words, changes, least_share)
        for entries in places.lists:
            self._change_items(entries, *_base(candidates, entries.words))

    def _change_sequence(self, group: Sequence[Text], forms: Sequence[_Form]) -> bool:
        """Change a text that is the concatenation of the utterance texts; return False for any other text."""
        is_blank = [not any(text.strip() for text in form.old) for form in forms]
        if any(blank and form.old != form.new for form, blank in zip(forms, is_blank, strict=True)):
            return False
        forms = [form for form, blank in zip(forms, is_blank, strict=True) if not blank]
        if any(len(form.old) > 1 for form in forms):
            return False
        parts = [form.old[0].strip() for form in forms]
        strings = [text for _, text in group]
        places = places_within(strings, parts)
        if places is None:
            return False
        for form, part, (number, begin) in zip(forms, parts, places, strict=True):
            splices = [] if form.old == form.new else _shifted(form, part, strings[number], begin)
            if splices:
                self.edits.strings.setdefault(group[number][0], []).extend(splices)
        return True

    def _reorder(self, utterance: PlacedUtterance, ranked: Sequence[_Ranked], preset: Preset) -> Forms:
        """Put the alternatives in the order of the new sentences; return the text variants of the first alternative.

        Confidences stay with their alternatives. Log-probabilities that contradict the order are replaced with the
        log-probabilities that were used to sort the sentences.
        """
        alternatives = utterance.hypotheses
        remaining = list(alternatives)
        order: list[tuple[PlacedHypothesis, _Ranked]] = []
        for sentence in ranked:
            equal = [entry for entry in remaining if entry.words == sentence.words]
            remaining = [entry for entry in remaining if entry.words != sentence.words]
            if not equal:
                equal = [min(remaining or alternatives, key=lambda entry: _distance(entry.words, sentence.words))]
                remaining = [entry for entry in remaining if entry is not equal[0]]
            order += [(entry, sentence) for entry in equal]
        scores = [entry.score for entry, _ in order]
        has_new_scores = preset.meaning == "logprob" and None not in scores and scores != _descending(scores)
        items: list[str] = []
        forms: list[Forms] = []
        for entry, sentence in order:
            inner = _Revision(self._places)
            forms.append(inner._change(entry, sentence.words))
            if has_new_scores:
                path, _ = reached(entry.value, preset.score[0], entry.path)[0]
                inner.edits.values[path] = repr(round(0.0 - sentence.cost, 6))
            self.num_unmatched += inner.num_unmatched
            edits = inner.edits.below(entry.path)
            items.append(rewritten(self._places.raw(entry.path), edits, ascii_only=self._places.text.isascii()))
        assert utterance.list_path is not None
        self.edits.items[utterance.list_path] = [ItemSplice(0, len(alternatives), tuple(items))]
        if not forms or order[0][0] is alternatives[0]:
            return forms[0] if forms else []
        old = _forms(alternatives[0])
        return [_Form(form.old, new.new) for form, new in zip(old, forms[0], strict=False)]

    def _change(self, hypothesis: PlacedHypothesis, sentence: list[str]) -> Forms:
        """Change the words of a hypothesis; return its text variants."""
        changes = changed_words(hypothesis.words, sentence)
        forms = [self._change_texts(group, hypothesis.words, changes) for group in hypothesis.texts]
        for entries in hypothesis.lists:
            self._change_items(entries, hypothesis.words, changes)
        return forms or [_Form([" ".join(hypothesis.words)], [" ".join(sentence)])]

    def _change_texts(
        self, group: Sequence[Text], words: Sequence[str], changes: Sequence[Change], least_share: float = 0.0
    ) -> _Form:
        """Apply changes to one variant of a text; return the variant before and after the changes."""
        old = [text for _, text in group]
        if not changes:
            return _Form(old, old, {})
        splices, num_unmatched = text_splices(old, words, changes, least_share)
        self.num_unmatched += num_unmatched
        for number, string_splices in splices.items():
            self.edits.strings.setdefault(group[number][0], []).extend(string_splices)
        return _Form(old, [spliced(text, splices.get(number, ())) for number, text in enumerate(old)], splices)

    def _change_items(
        self, entries: ItemList, words: Sequence[str], changes: Sequence[Change], least_share: float = 0.0
    ) -> None:
        if changes:
            revised = ItemRevision(entries, words, self._places, least_share)
            revised.change(changes)
            self.num_unmatched += revised.num_unmatched
            self.edits.add(revised.edits)


def _forms(hypothesis: PlacedHypothesis) -> Forms:
    """Return the text variants of a hypothesis to which no correction was applied."""
    strings = [[text for _, text in group] for group in hypothesis.texts] or [[" ".join(hypothesis.words)]]
    return [_Form(old, old, {}) for old in strings]


def _shifted(form: _Form, part: str, string: str, begin: int) -> list[Splice]:
    """Convert the changes of a text variant to splices of a string in which its old text occurs at index `begin`."""
    end = begin + len(part)
    new = form.new[0].strip()
    if not new:
        return [Splice(len(string[:begin].rstrip()), end, "")]  # also remove the spaces before the old text
    if form.splices is not None:
        shift = begin - (len(form.old[0]) - len(form.old[0].lstrip()))
        return [Splice(first + shift, last + shift, text) for first, last, text in form.splices.get(0, ())]
    return [Splice(begin, end, new)]


def _base(
    candidates: Sequence[Sequence[_Form]], strings_or_words: Sequence[str]
) -> tuple[list[str], list[Change], float]:
    """Select the variant of the utterances' texts that equals the text of the whole file, else the first variant.

    Args:
        candidates: Variants of the texts of all utterances, in order of preference.
        strings_or_words: The strings of a text, or the words of a word list, that spans all utterances.

    Returns:
        The words of all utterances in this variant, their changes, and the minimum fraction of words that must match.
    """
    text = [word.text for word in words_of(strings_or_words)]
    for forms in candidates:
        old = [word for form in forms for word in form.words[0]]
        if old == text:
            return old, _all_changes(forms), 0.0
    first = candidates[0] if candidates else ()
    return [word for form in first for word in form.words[0]], _all_changes(first), LEAST_SHARE


def _all_changes(forms: Sequence[_Form]) -> list[Change]:
    """Return the changes to all utterances as changes to their concatenated words."""
    changes: list[Change] = []
    shift = 0
    for form in forms:
        old, new = form.words
        if form.old != form.new:
            changes += (Change(begin + shift, end + shift, words) for begin, end, words in changed_words(old, new))
        shift += len(old)
    return changes


def _has_order(ranked: Sequence[_Ranked], distinct: Sequence[list[str]]) -> bool:
    """Return whether each changed sentence is most similar to the old sentence at its position."""
    if len(ranked) != len(distinct):
        return False
    changed = [(old, new) for old, (new, _) in zip(distinct, ranked, strict=True) if old != new]
    return all(
        new not in distinct and _distance(old, new) <= min(_distance(other, new) for other in distinct)
        for old, new in changed
    )


def _distinct(alternatives: Sequence[PlacedHypothesis], document: Document, preset: Preset) -> list[list[str]]:
    """Return the distinct sentences among alternatives, best first."""
    missing = getattr(document.options, "missing_score", None) or 0.0
    costs = alternative_costs(alternatives, preset.meaning, missing)
    by_cost = sorted(zip(alternatives, costs, strict=True), key=lambda one: np.float32(one[1]))
    return [list(words) for words in dict.fromkeys(tuple(one.words) for one, _ in by_cost)]


def _ranked(nbest: NBest, distinct: list[list[str]], options: ListOptions) -> list[_Ranked]:
    """Return the sentences in a list, best first; sentences of equal cost keep their order in the file."""
    places = {tuple(words): index for index, words in enumerate(distinct)}
    sentences = []
    for hypothesis in nbest.hypotheses:
        words = spelled(hypothesis, None, nbest.key)
        cost = options.acoustic_scale * hypothesis.acoustic_cost + options.lm_scale * hypothesis.graph_cost
        sentences.append(_Ranked(words, float(np.float32(cost + options.word_penalty * len(words)))))
    return sorted(sentences, key=lambda one: (one.cost, places.get(tuple(one.words), len(places))))


def _descending(scores: Sequence[float | None]) -> list[float | None]:
    return sorted(scores, key=lambda score: 0.0 if score is None else -score)


def _distance(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of words that differ between two sentences."""
    return sum(max(end - begin, len(words)) for begin, end, words in changed_words(old, new))
