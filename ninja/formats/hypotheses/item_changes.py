"""Changes to words in lists of timed words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from ninja.errors import FormatError
from ninja.formats.hypotheses.alignment import Change, Correspondence
from ninja.formats.hypotheses.items import GOES_ON, Item, ItemList, Times, divided, piece_of
from ninja.formats.hypotheses.json_spans import (
    Edits,
    ItemSplice,
    Locator,
    Path,
    Splice,
    parsed_path,
    rewritten,
    values_at,
)
from ninja.formats.hypotheses.texts import form_of, text_splices, word_like
from ninja.formats.hypotheses.values import NANOS, SECONDS, seconds_of, unit_of
from ninja.formats.nbest.text_rows import split

_CORE = re.compile(r"[^\s▁](?:.*[^\s])?", re.DOTALL)  # the text of an item without leading and trailing spaces


class ItemRevision:
    """Collector of the edits that change words in a list of timed items.

    If words are replaced one for one and each has a separate item, or if an item contains several words, only the text
    of the items changes. For any other replacement, the new items are copies of the first items of the old words, and
    share the time of the old words equally. The items for inserted words are copies of the first item of the preceding
    word, and share the time between the preceding and the next word. If a word consists of several items, the items
    that match the new word are kept.

    Args:
        entries: The list of words, with its items.
        words: The words of the utterance before the changes; the list may spell them differently.
        places: Locator for the positions of values in the document.
        least_share: Minimum fraction of the words that the list must contain in order; if it contains fewer, nothing is
            changed.
    """

    def __init__(self, entries: ItemList, words: Sequence[str], places: Locator, least_share: float = 0.0) -> None:
        self.edits = Edits()
        self.num_unmatched = 0
        self._entries = entries
        self._words = words
        self._places = places
        self._begins = {begin for begin, _ in entries.bounds}  # for each word, the index of its first item
        self._forms: dict[str | int, Callable[[str], str]] = {}
        self._least_share = least_share

    def change(self, changes: Sequence[Change]) -> None:
        """Record the edits that apply word changes in the utterance to the list; the changes must be in order."""
        matching = Correspondence(self._words, self._entries.words, self._least_share)
        for change in changes:
            stretch = matching.stretch(change.begin, change.end)
            if stretch is None:
                self.num_unmatched += 1
            else:
                old = self._words[change.begin : change.end]
                self._change(*stretch, change.words, old if len(old) == len(change.words) else change.words)

    def _change(self, first: int, last: int, new: tuple[str, ...], old: Sequence[str]) -> None:
        """Replace the words ``first : last`` of the list with the words `new`.

        A new word, such as a lone punctuation mark, is omitted if it would be empty in the spelling of every field.

        Args:
            old: The replaced words in the spelling of the utterance, or `new` if the number of words changes.
        """
        bounds, items = self._entries.bounds, self._entries.items
        if items:
            forms = [self._form(path) for path, _ in items[0].texts]
            old = [former for former, word in zip(old, new, strict=True) if any(form(word) for form in forms)]
            new = tuple(word for word in new if any(form(word) for form in forms))
        begin = bounds[first][0] if first < len(bounds) else len(items)
        end = bounds[last - 1][1] if last else 0
        if first == last and begin >= end:  # insertion between two items
            if new:
                self._insert(first, new)
        elif (first and bounds[first - 1][1] > begin) or (last < len(bounds) and bounds[last][0] < end):
            self._change_within(begin, end, Change(first, last, new))
        elif end - begin == last - first == len(new):
            for item, word, former in zip(items[begin:end], new, old, strict=True):
                self._set_word(item, word, former)
        elif self._entries.fields.join != "words" and last - first == len(new) == 1:
            self._change_parts(begin, end, new[0])
        else:
            self._replace(begin, end, new)

    def _form(self, path: Path) -> Callable[[str], str]:
        """Return a function that converts new words to the spelling used in an item field (such as lower case)."""
        name = next(part for part in reversed(path) if isinstance(part, str))
        if name not in self._forms:
            texts = [text for item in self._entries.items for place, text in item.texts if _is_named(place, name)]
            others = [word for text in texts for word in split(text)]
            if self._entries.fields.join != "words":
                others = self._entries.words  # an item may be only a part of a word
            self._forms[name] = form_of(self._words, others)
        return self._forms[name]

    def _set_word(self, item: Item, word: str, former: str | None = None) -> None:
        """Change the word of an item, but keep the spaces around it; `former` is the old word in the utterance."""
        for path, text in item.texts:
            core = _CORE.search(text)
            begin, end = core.span() if core is not None else (len(text), len(text))
            like = word if former is None else word_like(former, text[begin:end], word)
            self.edits.strings[path] = [Splice(begin, end, self._form(path)(like))]

    def _change_within(self, begin: int, end: int, change: Change) -> None:
        """Change some of the words in items that contain several words."""
        entries = self._entries
        places = [place for place, bound in enumerate(entries.bounds) if begin <= bound[0] < end]
        words = [entries.words[place] for place in places]
        inner = Change(change.begin - places[0], change.end - places[0], change.words)
        items = entries.items[begin:end]
        for number in range(len(items[0].texts)):
            texts = [item.texts[number] for item in items if number < len(item.texts)]
            splices, num_unmatched = text_splices([text for _, text in texts], words, [inner])
            self.num_unmatched += num_unmatched
            for place, string_splices in splices.items():
                self.edits.strings.setdefault(texts[place][0], []).extend(string_splices)

    def _change_parts(self, begin: int, end: int, word: str) -> None:
        """Change a word that consists of several items; keep the items at its start and end that match the new word."""
        items = self._entries.items
        texts = ["".join(split(piece_of(item.texts[0][1]))) for item in items[begin:end]]
        word = self._form(items[begin].texts[0][0])(word)
        first, last = 0, len(texts)
        while last > 1 and word.endswith(texts[last - 1]) and word != texts[last - 1]:
            last -= 1
            word = word.removesuffix(texts[last])
        while first < last - 1 and word.startswith(texts[first]) and word != texts[first]:
            word = word.removeprefix(texts[first])
            first += 1
        if last < len(texts) and items[begin + last - 1].texts[0][1].endswith(GOES_ON):
            word += GOES_ON
        if last - first == 1:
            self._set_word(items[begin + first], word)
        else:
            self._replace(begin + first, begin + last, [word])

    def _replace(self, begin: int, end: int, new: Sequence[str]) -> None:
        """Replace items with new items; if the old items are in several lists, all new items go into the first list."""
        for _, group in groupby(self._entries.items[begin:end], lambda item: item.paths[0][:-1]):
            items = [*group]
            times = _span(items)
            parts: list[Times | None] = [None] * len(new)
            if times is not None and new:
                parts = [*divided(times, len(new))]
            originals = [item for index, item in enumerate(items, begin) if index in self._begins] or items
            templates = [originals[min(number, len(originals) - 1)] for number in range(len(new))]
            self._splice(begin, begin + len(items), [*zip(templates, new, parts, strict=True)])
            begin, new = begin + len(items), ()

    def _insert(self, place: int, new: Sequence[str]) -> None:
        """Insert new words before the word at index `place`."""
        items, bounds = self._entries.items, self._entries.bounds
        if not items:
            self.num_unmatched += 1
            return
        begin, end = bounds[place - 1] if place else (0, 0)
        before = _span(items[begin:end])
        behind = items[end].times if end < len(items) else None
        stop = behind[0] if behind is not None else None if before is None else before[1]
        start = stop if before is None else before[1]
        parts: list[Times | None] = [None] * len(new)
        if start is not None and stop is not None:
            parts = [*divided((min(start, stop), stop), len(new))]
        original = items[begin if place or not bounds else bounds[0][0]]
        self._splice(end, end, [*zip([original] * len(new), new, parts, strict=True)])

    def _splice(self, begin: int, end: int, new: Sequence[tuple[Item, str, Times | None]]) -> None:
        """Replace a range of items with copies that contain new words and times; an empty range is an insertion."""
        items = self._entries.items
        for number in range(len(items[0].paths)):
            path = items[max(begin - 1, 0) if begin == end else begin].paths[number]
            first = int(path[-1]) + (begin == end > 0)
            last = int(items[end - 1].paths[number][-1]) + 1 if end > begin else first
            copies = tuple(self._copy(item, number, word, times) for item, word, times in new)
            self.edits.items.setdefault(path[:-1], []).append(ItemSplice(first, last, copies))

    def _copy(self, item: Item, number: int, word: str, times: Times | None) -> str:
        """Copy an item with a new word and new times; return the copy as JSON text.

        If each field of the items is a separate list, copy only the item's value in list `number`.
        """
        path = item.paths[number]
        raw = self._places.raw(path)
        fields = self._entries.fields
        edits = Edits()
        for place, text in item.texts:
            if place[: len(path)] == path:
                core = _CORE.search(text)
                begin, end = core.span() if core is not None else (len(text), len(text))
                edits.strings[place[len(path) :]] = [Splice(begin, end, self._form(place)(word))]
        if times is not None:
            value = json.loads(raw)
            begin_time, end_time = times
            for names, seconds in (
                (fields.start, begin_time),
                (fields.end, end_time),
                (fields.duration, end_time - begin_time),
            ):
                for name in names:
                    steps = parsed_path(name)
                    if not fields.items:
                        if name == path[-2]:
                            edits.values[()] = spelled_time(value, seconds, fields.unit)
                        continue
                    for place, old in values_at(value, steps):
                        if _is_time(old):
                            edits.values[place] = spelled_time(old, seconds, unit_of(name, fields.unit))
        return rewritten(raw, edits, ascii_only=self._places.text.isascii())


def _is_named(path: Path, name: str | int) -> bool:
    return next(part for part in reversed(path) if isinstance(part, str)) == name


def _is_time(value: Any) -> bool:
    """Return whether a value is a valid time; if several fields give the same time, readers check only the first."""
    try:
        seconds_of(value, 1.0, ())
    except FormatError:
        return False
    return True


def _span(items: Sequence[Item]) -> Times | None:
    """Return the time interval ``(start, end)`` of consecutive items in seconds, or None if no item has times."""
    times = [item.times for item in items if item.times is not None]
    return (times[0][0], times[-1][1]) if times else None


def spelled_time(old: Any, seconds: float, unit: float) -> str:
    """Format a time as JSON text in the format of `old`.

    A float is rounded to the number of decimals in `old`, but to at least two. An integer in seconds, or a number in a
    string, is replaced with a number of up to three decimals.

    Args:
        old: The old time: a number, a string, or an object with seconds and nanoseconds.
        seconds: The new time in seconds.
        unit: Unit in seconds (0.001 for milliseconds) of times that are numbers or strings with numbers.
    """
    if isinstance(old, dict):
        whole, fraction = divmod(round(seconds * 1e9), 10**9)
        return json.dumps({SECONDS: str(whole), NANOS: fraction})
    if isinstance(old, int):
        return str(round(seconds / unit)) if unit < 1 else repr(round(seconds, 3))
    if isinstance(old, float):
        text = repr(old)
        decimals = len(text.partition(".")[2]) if "e" not in text else 3
        return repr(round(seconds / unit, max(decimals, 2)))
    if ":" in old:
        mark = "," if "," in old else "."
        milliseconds = round(seconds * 1000)
        whole, fraction = divmod(milliseconds, 1000)
        return json.dumps(f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{mark}{fraction:03}")
    prefix = "PT" if old.startswith("PT") else ""
    suffix = old[-1] if old[-1] in "sS" else ""
    number = seconds if prefix or suffix else seconds / unit
    digits = f"{number:.3f}".rstrip("0").rstrip(".")
    return json.dumps(f"{prefix}{digits}{suffix}")
