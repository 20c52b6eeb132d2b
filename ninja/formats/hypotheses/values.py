"""Parsing and checking of values in JSON written by recognisers: texts, numbers, times and names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from ninja.errors import FormatError
from ninja.formats.hypotheses.json_spans import Path, parsed_path, values_at
from ninja.formats.nbest.json_hypotheses import shown
from ninja.formats.nbest.json_lists import loaded

Text = tuple[Path, str]
Entry = TypeVar("Entry")
_SECONDS = re.compile(r"(?:PT)?(?:([0-9]+)H)?(?:([0-9]+)M)?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)?[sS]?")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_CLOCK = re.compile(r"([0-9]+):([0-5][0-9]):([0-5][0-9](?:[.,][0-9]+)?)")
SECONDS, NANOS = "seconds", "nanos"  # fields of a Duration in Google's protocol buffers
LATEST = 1e9  # largest valid time in seconds


def parsed(text: str) -> tuple[Any, bool]:
    """Parse a recogniser's JSON; return ``(value, whether any object has a duplicate field)``.

    Recognisers written in Python output unknown numbers as ``NaN``, which is rejected only for times and scores.
    """
    return loaded(text, float)


def listed(value: Any, path: str, begin: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the values that match a path; values before ``[]`` must be lists, and the outermost list must exist."""
    steps = parsed_path(path)
    last = max((place for place, part in enumerate(steps) if part == -1), default=None)
    if last is None:
        yield from values_at(value, steps, begin)
        return
    head, tail = steps[:last], steps[last + 1 :]
    is_missing = True
    for place, inner in values_at(value, head, begin):
        is_missing = False
        if not isinstance(inner, list):
            raise FormatError(f"expected a list at {spelled_path(place)}, found {shown(inner)}")
        for number, item in enumerate(inner):
            yield from values_at(item, tail, (*place, number)) if tail else [((*place, number), item)]
    if is_missing and -1 not in head:
        raise FormatError(f"expected a list at {path.rpartition('[]')[0]!r}, found nothing")


def reached(value: Any, name: str, begin: Path) -> list[tuple[Path, Any]]:
    """Return a list with ``(path, value)`` for the first match of a path, or an empty list if nothing matches."""
    return [*values_at(value, parsed_path(name), begin)][:1]


def texts_of(value: Any, begin: Path, name: str) -> list[Text]:
    """Return the strings that match a path."""
    return [(path, text_of(text, path)) for path, text in values_at(value, parsed_path(name), begin)]


def text_of(value: Any, path: Path, *, may_be_cut: bool = False) -> str:
    """Check that a value is a valid string and return it; `may_be_cut` also allows parts of split UTF-8 characters."""
    try:
        if not isinstance(value, str):
            raise ValueError
        value.encode(errors="surrogateescape" if may_be_cut else "strict")
    except ValueError as error:
        if isinstance(value, str) and any("\udc80" <= letter <= "\udcff" for letter in value):
            message = f"{spelled_path(path)} is not UTF-8; specify the encoding or convert the file with iconv"
            raise FormatError(message) from error
        raise FormatError(f"expected text at {spelled_path(path)}, found {shown(value)}") from error
    return value


def by_channel(document: Any, entries: Sequence[Entry], paths: Sequence[Path]) -> list[Entry]:
    """Sort entries by channel; entries without a channel come first, and entries of the same channel keep their order.

    Args:
        paths: For each entry, the path of the object in `document` whose field ``channel`` applies to it.
    """
    labels = [next((label_of(value, ("channel",)) for _, value in values_at(document, path)), None) for path in paths]
    return [entries[place] for place in sorted(range(len(entries)), key=lambda place: labels[place] or "")]


def label_of(value: Any, names: Sequence[str]) -> str | None:
    """Return the name or number of a speaker or channel, or None if it is missing."""
    for name in names:
        for _, label in values_at(value, parsed_path(name)):
            if isinstance(label, str | int) and not isinstance(label, bool):
                return str(label) if not isinstance(label, int) or abs(label) < 1e18 else None
            if isinstance(label, list) and len(label) == 1 and isinstance(label[0], str | int):
                return str(label[0])
    return None


def number_of(value: Any, path: Path) -> float:
    """Convert a value to a finite number; the value can be a string.

    Raises:
        FormatError: The value is not a finite number.
    """
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value) if not isinstance(value, str) or len(value) < 40 else math.nan
        if not math.isfinite(number):
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise FormatError(f"expected a number at {spelled_path(path)}, found {shown(value)}") from error
    return number


def seconds_of(value: Any, unit: float, path: Path) -> float:
    """Convert a time to seconds: a number in the given unit (12 or "12"), or a string such as "1.2s" or "00:00:01,200".

    Raises:
        FormatError: The value is not a time, is negative, or is too large.
    """
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        match = (_SECONDS.fullmatch(value) or _CLOCK.fullmatch(value)) if len(value) < 40 else None
        if match is None or not any(match.groups()):
            raise FormatError(f"expected a time at {spelled_path(path)}, found {shown(value)}")
        hours, minutes, second = (float((part or "0").replace(",", ".")) for part in match.groups())
        seconds = 3600 * hours + 60 * minutes + second
    elif isinstance(value, dict):
        parts = (number_of(value.get(name, 0), (*path, name)) for name in (SECONDS, NANOS))
        seconds = next(parts) + 1e-9 * next(parts)
    else:
        seconds = number_of(value, path)
        seconds = seconds if unit == 1.0 else round(seconds * unit, 7)
    if not 0 <= seconds <= LATEST:
        raise FormatError(f"expected a time at {spelled_path(path)}, found {shown(value)}")
    return seconds


def unit_of(name: str, unit: float) -> float:
    """Return the time unit of a field in seconds: `unit`, unless the suffix of its name specifies another unit."""
    return 0.001 if name.endswith("Milliseconds") else unit


def bounds_of(
    value: Any, begin: Path, starts: Sequence[str], ends: Sequence[str], durations: Sequence[str], unit: float
) -> tuple[float | None, float | None]:
    """Return ``(start, end)`` of an utterance or a word in seconds; unknown times are None."""

    def first(names: Sequence[str]) -> float | None:
        for name in names:
            for path, time in values_at(value, parsed_path(name), begin):
                return seconds_of(time, unit_of(name, unit), path)
        return None

    start = first(starts)
    end = first(ends)
    if end is None and start is not None and (duration := first(durations)) is not None:
        end = start + duration
    return start, end


def spelled_path(path: Path) -> str:
    """Format a path for messages, in quotes and as written in options (``segments[0].text``, indices from 0)."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return repr(text.removeprefix(".") or "the document")
