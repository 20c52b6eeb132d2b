"""The utterances of a recogniser's JSON document, with the places of their texts and words."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ninja.errors import FormatError
from ninja.formats.hypotheses.alignment import blocks, lexical
from ninja.formats.hypotheses.json_spans import Path, parsed_path, values_at
from ninja.formats.hypotheses.preset import Preset, WordFields
from ninja.formats.nbest.json_hypotheses import shown
from ninja.formats.nbest.text_rows import split

Text = tuple[Path, str]
Times = tuple[float, float]
_SECONDS = re.compile(r"(?:PT)?(?:([0-9]+)H)?(?:([0-9]+)M)?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)?[sS]?")
_CLOCK = re.compile(r"([0-9]+):([0-5][0-9]):([0-5][0-9](?:[.,][0-9]+)?)")
PIECE_MARK = "▁"  # in place of a blank
_PIECE_BEGIN = (" ", PIECE_MARK, "\t", "\n")
SECONDS, NANOS = "seconds", "nanos"  # fields of a time in Google's protocol buffers
LATEST = 1e9  # seconds, the largest time


@dataclass(slots=True)
class Item:
    """An entry of a list of words."""

    texts: list[Text]  # the first is read
    paths: list[Path]  # of the item, or of each of its fields in lists of fields
    times: Times | None
    confidence: float | None
    speaker: str | None


@dataclass(slots=True)
class ItemList:
    """A list of words."""

    fields: WordFields
    items: list[Item]
    words: list[str] = field(default_factory=list)
    bounds: list[tuple[int, int]] = field(default_factory=list)  # items of each word


@dataclass(slots=True)
class PlacedHypothesis:
    """A hypothesis and the places of its words in the document."""

    path: Path
    words: list[str]
    texts: list[list[Text]]  # forms of the text, each of one or several strings
    lists: list[ItemList]
    score: float | None = None  # natural log-probability
    all_words: ItemList | None = None  # its part of a list of the words of all utterances, if it has no other


@dataclass(slots=True)
class PlacedUtterance:
    """An utterance and its place in the document."""

    path: Path
    key: str | None
    hypotheses: list[PlacedHypothesis]
    list_path: Path | None = None  # of the hypotheses, if there may be several
    times: tuple[float | None, float | None] = (None, None)  # begin and end
    speaker: str | None = None
    channel: str | None = None


@dataclass(slots=True)
class PlacedDocument:
    """The utterances of a document, or the error of each."""

    utterances: list[PlacedUtterance | FormatError]
    texts: list[list[Text]]  # texts of all utterances
    lists: list[ItemList]  # lists of the words of all utterances


def placed(document: Any, preset: Preset) -> PlacedDocument:
    """Find the utterances of a document.

    Raises:
        FormatError: The document has no such list.
    """
    utterances: list[PlacedUtterance | FormatError] = []
    for path, value in _listed(document, preset.utterances):
        try:
            utterances.append(_utterance(path, value, document, preset))
        except FormatError as error:
            error.key = error.key or None
            utterances.append(error)
    texts = [_texts(document, (), name) for name in preset.all_text]
    lists = [entries for fields in preset.all_words if (entries := _item_list(document, (), fields)) is not None]
    if lists:
        _share(lists[0], [one for one in utterances if isinstance(one, PlacedUtterance) and len(one.hypotheses) == 1])
    return PlacedDocument(utterances, [group for group in texts if group], lists)


def _share(entries: ItemList, utterances: Sequence[PlacedUtterance]) -> None:
    """Give the words of a list to the utterances that it has one after the other."""
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


def _listed(value: Any, path: str, begin: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the items that a path reaches; each of its lists must be one, and the first must exist."""
    steps = parsed_path(path)
    last = max((place for place, part in enumerate(steps) if part == -1), default=None)
    if last is None:
        yield from values_at(value, steps, begin)
        return
    head, rest = steps[:last], steps[last + 1 :]
    is_missing = True
    for place, inner in values_at(value, head, begin):
        is_missing = False
        if not isinstance(inner, list):
            raise FormatError(f"expected a list as {spelled_path(place)}, found {shown(inner)}")
        for number, item in enumerate(inner):
            yield from values_at(item, rest, (*place, number)) if rest else [((*place, number), item)]
    if is_missing and -1 not in head:
        raise FormatError(f"expected a list as {path.rpartition('[]')[0]!r}")


def _utterance(path: Path, value: Any, document: Any, preset: Preset) -> PlacedUtterance:
    if not isinstance(value, dict):
        raise FormatError(f"expected an object as {spelled_path(path)}, found {shown(value)}")
    list_path = None
    if preset.hypotheses:
        steps = parsed_path(preset.hypotheses)
        is_silent = not any(True for _ in values_at(value, steps[: steps.index(-1)]))  # no word was recognised
        entries = [] if is_silent else [*_listed(value, preset.hypotheses, path)]
        list_path = (*path, *parsed_path(preset.hypotheses)[:-1])
    else:
        entries = [(path, value)]
    hypotheses = [_hypothesis(place, entry, preset) for place, entry in entries]
    begin, end = _bounds(value, path, preset.start, preset.end, preset.duration, preset.unit)
    utterance = PlacedUtterance(path, _key(value, preset.key), hypotheses, list_path, (begin, end))
    utterance.speaker = _label(value, preset.speaker)
    utterance.channel = _label(value, preset.channel)
    return utterance


def _hypothesis(path: Path, value: Any, preset: Preset) -> PlacedHypothesis:
    if not isinstance(value, dict | list):
        raise FormatError(f"expected a hypothesis as {spelled_path(path)}, found {shown(value)}")
    texts = [group for name in preset.text if (group := _texts(value, path, name))]
    spelled = split(" ".join(text for _, text in texts[0])) if texts else None
    lists = [entries for fields in preset.words if (entries := _item_list(value, path, fields, spelled)) is not None]
    if not texts and not lists:
        names = " or ".join(repr(name) for name in preset.text)
        raise FormatError(f"{spelled_path(path)} has neither {names} nor words")
    words = list(lists[0].words) if spelled is None else spelled
    score = _score(value, preset)
    return PlacedHypothesis(path, words, texts, lists, score)


def _texts(value: Any, begin: Path, name: str) -> list[Text]:
    """Return the strings that a path reaches."""
    return [(path, _text(text, path)) for path, text in values_at(value, parsed_path(name), begin)]


def _text(value: Any, path: Path, *, may_be_cut: bool = False) -> str:
    """Check that a value is a string that can be written; with `may_be_cut` letters may be in several strings."""
    try:
        if not isinstance(value, str):
            raise ValueError
        value.encode(errors="surrogateescape" if may_be_cut else "strict")
    except ValueError as error:
        if isinstance(value, str) and any("\udc80" <= letter <= "\udcff" for letter in value):
            message = f"{spelled_path(path)} is not UTF-8; give the encoding or convert the file with iconv"
            raise FormatError(message) from error
        raise FormatError(f"expected text as {spelled_path(path)}, found {shown(value)}") from error
    return value


def _key(value: Any, names: Sequence[str]) -> str | None:
    for name in names:
        for path, found in values_at(value, parsed_path(name)):
            text = str(found) if isinstance(found, int) and not isinstance(found, bool) else _text(found, path)
            return os.path.splitext(os.path.basename(text))[0] if name.endswith(("path", "filename")) else text
    return None


def _label(value: Any, names: Sequence[str]) -> str | None:
    """Return a name or a number of a speaker or a channel."""
    for name in names:
        for _, found in values_at(value, parsed_path(name)):
            if isinstance(found, str | int) and not isinstance(found, bool):
                return str(found) if not isinstance(found, int) or abs(found) < 1e18 else None
            if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str | int):
                return str(found[0])
    return None


def _score(value: Any, preset: Preset) -> float | None:
    """Return the natural log-probability of a hypothesis."""
    for name in preset.score:
        for path, found in values_at(value, parsed_path(name)):
            number = _number(found, path)
            if preset.meaning == "logprob":
                return number
            if not 0.0 <= number <= 1.0 + 1e-6:
                raise FormatError(f"expected a probability as {spelled_path(path)}, found {shown(found)}")
            return math.log(number) if number else None
    return None


def _number(value: Any, path: Path) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value) if not isinstance(value, str) or len(value) < 40 else math.nan
        if not math.isfinite(number):
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise FormatError(f"expected a number as {spelled_path(path)}, found {shown(value)}") from error
    return number


def seconds_of(value: Any, unit: float, path: Path) -> float:
    """Return a time in seconds: a number of units, or a text such as "1.2s", "PT1.2S", "1.2" and "00:00:01,200".

    Raises:
        FormatError: It is no time, negative, or too large.
    """
    if isinstance(value, str):
        match = (_SECONDS.fullmatch(value) or _CLOCK.fullmatch(value)) if len(value) < 40 else None
        if match is None or not any(match.groups()):
            raise FormatError(f"expected a time as {spelled_path(path)}, found {shown(value)}")
        hours, minutes, rest = (float((part or "0").replace(",", ".")) for part in match.groups())
        seconds = 3600 * hours + 60 * minutes + rest
    elif isinstance(value, dict):
        parts = (_number(value.get(name, 0), (*path, name)) for name in (SECONDS, NANOS))
        seconds = next(parts) + 1e-9 * next(parts)
    else:
        seconds = _number(value, path)
        seconds = seconds if unit == 1.0 else round(seconds * unit, 7)
    if not 0 <= seconds <= LATEST:
        raise FormatError(f"expected a time as {spelled_path(path)}, found {shown(value)}")
    return seconds


def _bounds(
    value: Any, begin: Path, starts: Sequence[str], ends: Sequence[str], durations: Sequence[str], unit: float
) -> tuple[float | None, float | None]:
    """Return the begin and the end of an utterance or a word in seconds."""

    def first(names: Sequence[str]) -> float | None:
        for name in names:
            for path, found in values_at(value, parsed_path(name), begin):
                return seconds_of(found, unit, path)
        return None

    start = first(starts)
    end = first(ends)
    if end is None and start is not None and (duration := first(durations)) is not None:
        end = start + duration
    return start, end


def _item_list(value: Any, begin: Path, fields: WordFields, words: Sequence[str] | None = None) -> ItemList | None:
    """Return a list of words; None if there is none."""
    if not fields.items:
        return _columns(value, begin, fields, words)
    entries: list[Item] = []
    steps = parsed_path(fields.items)
    if not any(True for _ in values_at(value, steps[: steps.index(-1)])):
        return None
    skip = None if fields.skip is None else re.compile(fields.skip)
    for path, entry in _listed(value, fields.items, begin):
        if not isinstance(entry, dict | list):
            raise FormatError(f"expected a word as {spelled_path(path)}, found {shown(entry)}")
        reached = [item for name in fields.text for item in _reached(entry, name, path)]
        texts = [(place, _text(text, place, may_be_cut=fields.join == "text")) for place, text in reached]
        if not texts or (skip is not None and skip.fullmatch(texts[0][1])):
            continue
        start, end = _bounds(entry, path, fields.start, fields.end, fields.duration, fields.unit)
        times = None if start is None or end is None else (start, end)
        entries.append(Item(texts, [path], times, _confidence(entry, fields), _label(entry, fields.speaker)))
    return _with_words(ItemList(fields, entries), words)


def _reached(value: Any, name: str, begin: Path) -> list[tuple[Path, Any]]:
    """Return the first value that a path reaches, if any."""
    return [*values_at(value, parsed_path(name), begin)][:1]


def _confidence(entry: Any, fields: WordFields) -> float | None:
    for name in fields.confidence:
        for path, found in values_at(entry, parsed_path(name)):
            return _number(found, path)
    return None


def _columns(value: Any, begin: Path, fields: WordFields, words: Sequence[str] | None) -> ItemList | None:
    """Return the words of a hypothesis that has a list for each field of them."""

    def column(names: Sequence[str]) -> list[tuple[Path, Any]] | None:
        for name in names:
            for path, entries in values_at(value, parsed_path(name), begin):
                if not isinstance(entries, list):
                    raise FormatError(f"expected a list as {spelled_path(path)}, found {shown(entries)}")
                if entries:
                    return [((*path, number), entry) for number, entry in enumerate(entries)]
        return None

    texts = column(fields.text)
    if texts is None:
        return None
    beside = ((name,) for name in fields.beside)
    others = [column(names) for names in (fields.start, fields.duration, fields.confidence, *beside)]
    for other in others:
        if other is not None and len(other) != len(texts):
            message = f"{spelled_path(texts[0][0][:-1])} has {len(texts)} items, but {spelled_path(other[0][0][:-1])}"
            raise FormatError(f"{message} has {len(other)}")
    starts, durations, confidences, *_ = others
    entries = []
    for number, (path, text) in enumerate(texts):
        times = None
        if starts is not None:
            start = seconds_of(starts[number][1], fields.unit, starts[number][0])
            if durations is not None:
                end = start + seconds_of(durations[number][1], fields.unit, durations[number][0])
            else:
                place = min(number + 1, len(starts) - 1)
                end = max(start, seconds_of(starts[place][1], fields.unit, starts[place][0]))
            times = start, end
        paths = [path, *(other[number][0] for other in others if other is not None)]
        confidence = None if confidences is None else _number(confidences[number][1], confidences[number][0])
        entries.append(Item([(path, _text(text, path, may_be_cut=True))], paths, times, confidence, None))
    return _with_words(ItemList(fields, entries), words)


def _with_words(entries: ItemList, words: Sequence[str] | None) -> ItemList:
    """Add the words of the items of a list.

    Args:
        words: The words of the text, which items may spell in parts.
    """
    join = entries.fields.join
    if join == "text" and words is not None and (bounds := _spelled_by(entries.items, words)) is not None:
        entries.words, entries.bounds = list(words), bounds
        return entries
    is_begin = True  # of a word
    for number, item in enumerate(entries.items):
        text = item.texts[0][1]
        is_begin |= join == "words" or (join == "punctuation" and item.times is not None)
        is_begin |= join == "text" and text.startswith(_PIECE_BEGIN)
        parts = split(text.replace(PIECE_MARK, " ") if join == "text" else text)
        if not parts:  # a blank of pieces begins the next word
            continue
        if not is_begin:
            entries.words[-1] += parts.pop(0)
            entries.bounds[-1] = entries.bounds[-1][0], number + 1
        entries.words += parts
        entries.bounds += [(number, number + 1)] * len(parts)
        is_begin = False
    entries.words = [_text(_whole(word), item.texts[0][0]) for word in entries.words]
    return entries


def _spelled_by(items: Sequence[Item], words: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return the items that spell each word; None if they do not spell the words, or an item has parts of several."""
    bounds: list[tuple[int, int]] = []
    begin = number = 0
    for word in words:
        spelled = ""
        while number < len(items) and len(spelled) < len(word):
            spelled = _whole(spelled + "".join(split(items[number].texts[0][1].replace(PIECE_MARK, " "))))
            begin = begin if spelled else number + 1
            number += 1
        if spelled != word:
            return None
        bounds.append((begin, number))
        begin = number
    rest = any(split(item.texts[0][1].replace(PIECE_MARK, " ")) for item in items[number:])
    return None if rest else bounds


def _whole(text: str) -> str:
    """Return a text in which the bytes of a letter that were cut apart are this letter."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="surrogateescape")


def spelled_path(path: Path) -> str:
    """Return a path as a user writes it, with items counted from 0."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return repr(text.removeprefix(".") or "the document")


@dataclass(slots=True)
class Attributes:
    """Times, confidences and speakers of the words of a hypothesis, each list empty if unknown."""

    times: list[Times] = field(default_factory=list)
    confidences: list[float | None] = field(default_factory=list)
    speakers: list[str | None] = field(default_factory=list)


def attributes_of(hypothesis: PlacedHypothesis) -> Attributes:
    """Return the times, confidences and speakers of the words of a hypothesis.

    Words of a list that has them in another form, such as without punctuation, are aligned with those of the text.
    There are times only if all words have them.
    """
    entries = hypothesis.lists[0] if hypothesis.lists else hypothesis.all_words
    if entries is None:
        return Attributes()
    spans = _item_times(entries)
    times: list[Times | None] = []
    confidences: list[float | None] = []
    speakers: list[str | None] = []
    for begin, end, first, last, _ in blocks(hypothesis.words, entries.words, lexical):
        size = end - begin
        stretches = [(first, last)] * size
        if size == last - first:
            stretches = [(place, place + 1) for place in range(first, last)]
            times += spans[first:last]
        elif size:
            known = [span for span in spans[first:last] if span is not None]
            whole = (known[0][0], known[-1][1]) if known and len(known) == last - first else None
            times += [None] * size if whole is None else divided(whole, size)
        for stretch in stretches:
            items = [entries.items[number] for word in range(*stretch) for number in range(*entries.bounds[word])]
            if entries.fields.join == "punctuation":  # it has no confidence
                items = [item for item in items if item.times is not None] or items
            numbers = [item.confidence for item in items if item.confidence is not None]
            confidences.append(min(numbers) if numbers else None)
            speakers.append(next((item.speaker for item in items if item.speaker is not None), None))
    return Attributes(
        [time for time in times if time is not None] if None not in times else [],
        confidences if any(value is not None for value in confidences) else [],
        speakers if any(value is not None for value in speakers) else [],
    )


def divided(times: Times, count: int) -> list[Times]:
    """Divide a stretch of time into equal parts."""
    step = (times[1] - times[0]) / count
    return [*pairwise([times[0] + number * step for number in range(count)] + [times[1]])]


def _item_times(entries: ItemList) -> list[Times | None]:
    """Return the times of each word of a list; words of one item share its time in equal parts."""
    times: list[Times | None] = []
    place = 0
    while place < len(entries.words):
        first, last = entries.bounds[place]
        count = 1
        while place + count < len(entries.words) and entries.bounds[place + count][0] == first == last - 1:
            count += 1
        spans = [item.times for item in entries.items[first:last] if item.times is not None]
        if not spans:
            times += [None] * count
        else:
            times += divided((spans[0][0], spans[-1][1]), count)
        place += count
    return times
