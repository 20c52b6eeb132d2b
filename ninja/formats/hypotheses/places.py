"""The utterances in a recogniser's JSON document, with the paths of their texts and words."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from ninja.errors import FormatError
from ninja.formats.hypotheses.alignment import blocks, lexical
from ninja.formats.hypotheses.items import ItemList, Times, divided, item_list, item_times
from ninja.formats.hypotheses.json_spans import Path, parsed_path, values_at
from ninja.formats.hypotheses.preset import Meaning, Preset
from ninja.formats.hypotheses.values import (
    Text,
    bounds_of,
    by_channel,
    label_of,
    listed,
    number_of,
    reached,
    spelled_path,
    text_of,
    texts_of,
)
from ninja.formats.nbest.json_hypotheses import shown
from ninja.formats.nbest.text_rows import split


@dataclass(slots=True)
class PlacedHypothesis:
    """A hypothesis, with the paths of its words in the JSON document."""

    path: Path
    words: list[str]
    texts: list[list[Text]]  # variants of the text, each of which consists of one or more strings
    lists: list[ItemList]
    score: float | None = None  # natural log-probability
    value: Any = None  # JSON value of the hypothesis in the document
    all_words: ItemList | None = None  # used if `lists` is empty: its part of a list with the words of all utterances


@dataclass(slots=True)
class PlacedUtterance:
    """An utterance, with its path in the JSON document."""

    path: Path
    key: str | None
    hypotheses: list[PlacedHypothesis]
    list_path: Path | None = None  # path of the hypotheses, if there may be several
    times: tuple[float | None, float | None] = (None, None)  # start and end of the utterance in seconds
    speaker: str | None = None
    channel: str | None = None

    @property
    def words(self) -> list[str]:
        """The words of the first hypothesis."""
        return self.hypotheses[0].words if self.hypotheses else []


@dataclass(slots=True)
class PlacedDocument:
    """The utterances in a document (or their errors), and the texts and word lists that span all utterances."""

    utterances: list[PlacedUtterance | FormatError]
    texts: list[list[Text]]  # variants of the text that spans all utterances
    lists: list[ItemList]  # word lists that span all utterances


def placed(document: Any, preset: Preset) -> PlacedDocument:
    """Locate the utterances in a document.

    Raises:
        FormatError: The document contains no list of utterances.
    """
    utterances: list[PlacedUtterance | FormatError] = []
    paths = preset.utterances.split("|")
    for path, value in chain.from_iterable(listed(document, name) for name in paths):
        try:
            utterances.append(_utterance(path, value, document, preset))
        except FormatError as error:
            error.key = error.key or None
            utterances.append(error)
    groups = [texts_of(document, (), name) for name in preset.all_text]
    texts = [by_channel(document, group, [path[:-1] for path, _ in group]) for group in groups]
    words = [word for one in utterances if isinstance(one, PlacedUtterance) for word in one.words]
    lists = [entries for fields in preset.all_words if (entries := item_list(document, (), fields, words)) is not None]
    if lists:
        _share(lists[0], [one for one in utterances if isinstance(one, PlacedUtterance) and len(one.hypotheses) == 1])
    return PlacedDocument(utterances, [group for group in texts if group], lists)


def _share(entries: ItemList, utterances: Sequence[PlacedUtterance]) -> None:
    """Divide a word list that spans all utterances among the utterances."""
    hypotheses = [utterance.hypotheses[0] for utterance in utterances]
    if [word for one in hypotheses for word in map(lexical, one.words)] != [*map(lexical, entries.words)]:
        return
    begin = 0
    for hypothesis in hypotheses:
        end = begin + len(hypothesis.words)
        hypothesis.all_words = ItemList(
            entries.fields, entries.items, entries.words[begin:end], entries.bounds[begin:end]
        )
        begin = end


def _utterance(path: Path, value: Any, document: Any, preset: Preset) -> PlacedUtterance:
    if not isinstance(value, dict):
        raise FormatError(f"expected an object at {spelled_path(path)}, found {shown(value)}")
    list_path = None
    if preset.hypotheses:
        steps = parsed_path(preset.hypotheses)
        is_silent = not any(True for _ in values_at(value, steps[: steps.index(-1)]))  # no words were recognised
        entries = [] if is_silent else [*listed(value, preset.hypotheses, path)]
        list_path = (*path, *parsed_path(preset.hypotheses)[:-1])
    else:
        is_silent = preset.may_lack_text and not any(reached(value, name, path) for name in preset.text)
        entries = [] if is_silent else [(path, value)]
    hypotheses = [_hypothesis(place, entry, preset) for place, entry in entries]
    begin, end = bounds_of(value, path, preset.start, preset.end, preset.duration, preset.unit)
    utterance = PlacedUtterance(path, _key(value, preset.key), hypotheses, list_path, (begin, end))
    utterance.speaker = label_of(value, preset.speaker)
    utterance.channel = label_of(value, preset.channel)
    return utterance


def _hypothesis(path: Path, value: Any, preset: Preset) -> PlacedHypothesis:
    if not isinstance(value, dict | list):
        raise FormatError(f"expected a hypothesis at {spelled_path(path)}, found {shown(value)}")
    texts = [group for name in preset.text if (group := texts_of(value, path, name))]
    spelled = split(" ".join(text for _, text in texts[0])) if texts else None
    lists = [entries for fields in preset.words if (entries := item_list(value, path, fields, spelled)) is not None]
    if not texts and not lists:
        names = " or ".join(repr(name) for name in preset.text)
        raise FormatError(f"{spelled_path(path)} has neither {names} nor words")
    words = list(lists[0].words) if spelled is None else spelled
    score = _score(value, preset)
    return PlacedHypothesis(path, words, texts, lists, score, value)


def alternative_costs(
    hypotheses: Sequence[PlacedHypothesis], meaning: Meaning, missing_score: float | None
) -> list[float | None]:
    """Return the cost in nats of each alternative of an utterance, or None for an alternative without a score.

    Services list the best alternative first, even if a later alternative has a higher confidence. If scores are
    confidences, costs are therefore raised where necessary: each cost is at least one float32 increment above the
    costs of the preceding alternatives.

    Args:
        missing_score: Log-probability for alternatives without a score.
    """
    costs: list[float | None] = []
    least = -math.inf
    for one in hypotheses:
        score = missing_score if one.score is None else one.score
        cost = None if score is None else 0.0 - score
        if cost is not None and meaning == "probability":
            cost = max(least, cost)
            least = float(np.nextafter(np.float32(cost), np.float32(math.inf)))
        costs.append(cost)
    return costs


def _key(value: Any, names: Sequence[str]) -> str | None:
    for name in names:
        for path, entry in values_at(value, parsed_path(name)):
            text = str(entry) if isinstance(entry, int) and not isinstance(entry, bool) else text_of(entry, path)
            return os.path.splitext(os.path.basename(text))[0] if name.endswith(("path", "filename")) else text
    return None


def _score(value: Any, preset: Preset) -> float | None:
    """Return the natural log-probability of a hypothesis."""
    for name in preset.score:
        for path, score in values_at(value, parsed_path(name)):
            number = number_of(score, path)
            if preset.meaning == "logprob":
                return number
            if not 0.0 <= number <= 1.0 + 1e-6:
                raise FormatError(f"expected a probability at {spelled_path(path)}, found {shown(score)}")
            return math.log(number) if number else None
    return None


@dataclass(slots=True)
class Attributes:
    """Times, confidences and speakers of the words in a hypothesis; unknown values are represented by an empty list."""

    times: list[Times] = field(default_factory=list)
    confidences: list[float | None] = field(default_factory=list)
    speakers: list[str | None] = field(default_factory=list)


def attributes_of(hypothesis: PlacedHypothesis) -> Attributes:
    """Return the times, confidences and speakers of the words in a hypothesis.

    If the word list of the hypothesis spells the words differently from its text, for example without punctuation, the
    two are aligned. Words of the text that correspond to no word in the list have neither confidence nor speaker.
    Times are returned only if all words have times.
    """
    entries = hypothesis.lists[0] if hypothesis.lists else hypothesis.all_words
    if entries is None:
        return Attributes()
    spans = item_times(entries)
    times: list[Times | None] = []
    confidences: list[float | None] = []
    speakers: list[str | None] = []
    for begin, end, first, last, _ in blocks(hypothesis.words, entries.words, lexical):
        size = end - begin
        stretches = [(first, last)] * size
        if size == last - first:
            stretches = [(index, index + 1) for index in range(first, last)]
            times += spans[first:last]
        elif size:
            word_spans = [span for span in spans[first:last] if span is not None]
            whole = (word_spans[0][0], word_spans[-1][1]) if word_spans and len(word_spans) == last - first else None
            times += [None] * size if whole is None else divided(whole, size)
        for stretch in stretches:
            items = [entries.items[number] for word in range(*stretch) for number in range(*entries.bounds[word])]
            if entries.fields.join == "punctuation":  # ignore punctuation, which has no confidence
                items = [item for item in items if item.times is not None] or items
            numbers = [item.confidence for item in items if item.confidence is not None]
            confidences.append(min(numbers) if numbers else None)
            speakers.append(next((item.speaker for item in items if item.speaker is not None), None))
    return Attributes(
        [time for time in times if time is not None] if None not in times else [],
        confidences if any(value is not None for value in confidences) else [],
        speakers if any(value is not None for value in speakers) else [],
    )
