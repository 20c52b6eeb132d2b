"""Reader for word lists (words, times, confidences, speakers) in JSON written by recognisers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from ninja.errors import FormatError
from ninja.formats.hypotheses.json_spans import Path, parsed_path, values_at
from ninja.formats.hypotheses.preset import WordFields
from ninja.formats.hypotheses.values import (
    Text,
    bounds_of,
    by_channel,
    label_of,
    listed,
    number_of,
    reached,
    seconds_of,
    spelled_path,
    text_of,
)
from ninja.formats.nbest.json_hypotheses import shown
from ninja.formats.nbest.text_rows import split

Times = tuple[float, float]
PIECE_MARK = "▁"  # represents a space in a subword piece, as in SentencePiece
GOES_ON = "@@"  # ends each subword piece of a word except the last piece
_NUMBERS = re.compile(r"\s*\[\s*(?:(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,9})?\s*(?:,\s*(?=[0-9])|(?=\])))*\]\s*")
_PIECE_BEGIN = (" ", PIECE_MARK, "\t", "\n")


@dataclass(slots=True)
class Item:
    """An entry in a list of words."""

    texts: list[Text]  # variants of the text; only the first is read
    paths: list[Path]  # path of the item; if each field is a separate list, paths of the item's value in each list
    times: Times | None
    confidence: float | None
    speaker: str | None


@dataclass(slots=True)
class ItemList:
    """A list of words, each of which is stored in one or more items."""

    fields: WordFields
    items: list[Item]
    words: list[str] = field(default_factory=list)
    bounds: list[tuple[int, int]] = field(default_factory=list)  # range of the items of each word


def item_list(value: Any, begin: Path, fields: WordFields, words: Sequence[str] | None = None) -> ItemList | None:
    """Return the list of words in a JSON value, or None if it is missing.

    Args:
        value: The hypothesis or the document.
        begin: Path of `value` in the document.
        fields: Path of the list in `value`, and the fields of its items.
        words: Words of the text, which are required for joining items that contain parts of words.  [default: unknown]

    Raises:
        FormatError: An item is invalid.
    """
    if not fields.items:
        return _columns(value, begin, fields, words)
    entries: list[Item] = []
    steps = parsed_path(fields.items)
    if not any(True for _ in values_at(value, steps[: steps.index(-1)])):
        return None
    skip = None if fields.skip is None else re.compile(fields.skip)
    for path, entry in listed(value, fields.items, begin):
        if not isinstance(entry, dict | list):
            raise FormatError(f"expected a word at {spelled_path(path)}, found {shown(entry)}")
        values = [item for name in fields.text for item in reached(entry, name, path)]
        texts = [(place, text_of(text, place, may_be_cut=fields.join == "text")) for place, text in values]
        if not texts or (skip is not None and skip.fullmatch(texts[0][1])):
            continue
        start, end = bounds_of(entry, path, fields.start, fields.end, fields.duration, fields.unit)
        times = None if start is None or end is None else (start, end)
        entries.append(Item(texts, [path], times, _confidence(entry, fields), label_of(entry, fields.speaker)))
    if fields.order == "time":
        entries = _by_time(entries)
    elif fields.order == "channel":
        entries = by_channel(value, entries, [item.paths[0][len(begin) : -2] for item in entries])
    return _with_words(ItemList(fields, entries), words)


def _by_time(entries: Sequence[Item]) -> list[Item]:
    """Sort items by time; items without times stay after the item that precedes them."""
    begins: list[float] = []
    for item in entries:
        begins.append(item.times[0] if item.times is not None else begins[-1] if begins else 0.0)
    return [entries[place] for place in sorted(range(len(entries)), key=begins.__getitem__)]


def _confidence(entry: Any, fields: WordFields) -> float | None:
    for name in fields.confidence:
        for path, confidence in values_at(entry, parsed_path(name)):
            if not isinstance(confidence, float) or not math.isnan(confidence):  # NaN means unknown
                return number_of(confidence, path)
    return None


def _columns(value: Any, begin: Path, fields: WordFields, words: Sequence[str] | None) -> ItemList | None:
    """Return the words of a hypothesis in which each field (words, start times, …) is a separate list."""

    def column(names: Sequence[str]) -> list[tuple[Path, Any]] | None:
        for name in names:
            for path, entries in values_at(value, parsed_path(name), begin):
                entries = _spelled_list(entries)
                if not isinstance(entries, list):
                    raise FormatError(f"expected a list at {spelled_path(path)}, found {shown(entries)}")
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
        confidence = None if confidences is None else number_of(confidences[number][1], confidences[number][0])
        entries.append(Item([(path, text_of(text, path, may_be_cut=True))], paths, times, confidence, None))
    return _with_words(ItemList(fields, entries), words)


def _spelled_list(value: Any) -> Any:
    """Parse a list of numbers in a string, as early sherpa-onnx versions write it; return other values unchanged."""
    return json.loads(value) if isinstance(value, str) and _NUMBERS.fullmatch(value) else value


def _with_words(entries: ItemList, words: Sequence[str] | None) -> ItemList:
    """Combine items into words.

    Args:
        words: The words of the text; parts of a word can be separate items.
    """
    join = entries.fields.join
    if join in ("text", "spelled"):
        bounds = None if words is None else _spelled_by(entries.items, words)
        join = "text" if join == "text" or bounds is not None else "words"
        entries.fields = replace(entries.fields, join=join)
        if words is not None and bounds is not None:
            entries.words, entries.bounds = list(words), bounds
            return entries
    is_begin = True  # whether the current item begins a word
    for number, item in enumerate(entries.items):
        text = item.texts[0][1]
        is_begin |= join == "words" or (join == "punctuation" and item.times is not None)
        is_begin |= join == "text" and text.startswith(_PIECE_BEGIN)
        parts = split(piece_of(text) if join == "text" else text)
        if not parts:  # an empty piece only marks the start of the next word
            continue
        if not is_begin:
            entries.words[-1] += parts.pop(0)
            entries.bounds[-1] = entries.bounds[-1][0], number + 1
        entries.words += parts
        entries.bounds += [(number, number + 1)] * len(parts)
        is_begin = False
    entries.words = [text_of(_whole(word), item.texts[0][0]) for word in entries.words]
    return entries


def _spelled_by(items: Sequence[Item], words: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return the range of items for each word, or None if the items do not form these words.

    The result is also None if an item contains parts of several words.
    """
    bounds: list[tuple[int, int]] = []
    begin = number = 0
    for word in words:
        spelled = ""
        while number < len(items) and len(spelled) < len(word):
            spelled = _whole(spelled + "".join(split(piece_of(items[number].texts[0][1]))))
            begin = begin if spelled else number + 1
            number += 1
        if spelled != word:
            return None
        bounds.append((begin, number))
        begin = number
    continues = any(split(piece_of(item.texts[0][1])) for item in items[number:])
    return None if continues else bounds


def piece_of(text: str) -> str:
    """Return a subword piece with "▁" replaced by a space and the continuation mark removed."""
    return text.replace(PIECE_MARK, " ").removesuffix(GOES_ON)


def _whole(text: str) -> str:
    """Join the bytes of characters that a recogniser split across subword pieces."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="surrogateescape")


def item_times(entries: ItemList) -> list[Times | None]:
    """Return the times of each word in a list; words in the same item share its time equally."""
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


def divided(times: Times, count: int) -> list[Times]:
    """Divide a time interval into `count` equal parts."""
    step = (times[1] - times[0]) / count
    return [*pairwise([times[0] + number * step for number in range(count)] + [times[1]])]
