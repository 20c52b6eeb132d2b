"""Changes to single values in the text of a JSON document, with all other characters unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Path = tuple[str | int, ...]  # names of fields and indices of items that lead from the document to a value
_BLANK = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}]+")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_LETTER = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)


class Splice(NamedTuple):
    """A replacement for a range of characters in a string."""

    begin: int
    end: int
    text: str


class ItemSplice(NamedTuple):
    """A replacement for a range of items in a JSON list; the new items are JSON texts."""

    begin: int
    end: int
    items: tuple[str, ...]


@dataclass(slots=True)
class Edits:
    """Changes to a document, keyed by the path of the changed value."""

    strings: dict[Path, list[Splice]] = field(default_factory=dict)  # replacements in string values, in text order
    values: dict[Path, str] = field(default_factory=dict)  # new values as JSON text
    items: dict[Path, list[ItemSplice]] = field(default_factory=dict)  # replacements in lists, in list order

    def __bool__(self) -> bool:
        return bool(self.strings or self.values or self.items)

    def add(self, others: Edits) -> None:
        """Add the changes in `others`, which must not contain changes to a value that already has changes here."""
        self.strings.update(others.strings)
        self.values.update(others.values)
        self.items.update(others.items)

    def below(self, path: Path) -> Edits:
        """Return the changes with paths relative to the value at `path`; all changed values must be in this value."""
        depth = len(path)
        return Edits(
            {inner[depth:]: splices for inner, splices in self.strings.items()},
            {inner[depth:]: value for inner, value in self.values.items()},
            {inner[depth:]: splices for inner, splices in self.items.items()},
        )


def rewritten(text: str, edits: Edits, *, ascii_only: bool) -> str:
    """Apply changes to a JSON document.

    Args:
        text: A valid document.
        edits: Changes to apply; no value inside a replaced item may have a change of its own.
        ascii_only: Whether to escape non-ASCII characters in new text.
    """
    places = spans(text, [*edits.strings, *edits.values, *edits.items])
    pieces: list[Splice] = []
    for path, splices in edits.strings.items():
        begin, end = places[path]
        pieces += _string_splices(text[begin:end], begin, splices, ascii_only=ascii_only)
    for path, value in edits.values.items():
        pieces.append(Splice(*places[path], value))
    for path, item_splices in edits.items.items():
        begin = list_begin(text, places[path][0])
        pieces += _item_splices(text, [*item_spans(text, begin)], item_splices, begin)
    return spliced(text, sorted(pieces, key=lambda piece: (piece.begin, piece.end)))


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """Apply splices to a text; they must be in order and must not overlap."""
    pieces = []
    at = 0
    for begin, end, new in splices:
        pieces += [text[at:begin], new]
        at = end
    return "".join([*pieces, text[at:]])


class Locator:
    """Positions of values in a JSON document.

    Args:
        text: A valid document.
        bases: Paths of containers in which values will be located; all containers are located in one pass.
    """

    def __init__(self, text: str, bases: Iterable[Path]) -> None:
        self.text = text
        self._spans = spans(text, bases)
        self._items: dict[Path, list[tuple[int, int]]] = {}

    def raw(self, path: Path) -> str:
        """Return the JSON text of a value."""
        begin, end = self.span(path)
        return self.text[begin:end]

    def span(self, path: Path) -> tuple[int, int]:
        """Return ``(start, end)`` of the value at a path, as indices in the text of the document."""
        if path in self._spans:
            return self._spans[path]
        *above, last = path
        if isinstance(last, int):
            return self._items_of(tuple(above))[last]
        size = next((size for size in range(len(path), 0, -1) if path[:size] in self._spans), 0)
        begin = self._spans[path[:size]][0] if size else 0
        self._spans[path] = spans(self.text, [path[size:]], begin)[path[size:]]
        return self._spans[path]

    def _items_of(self, path: Path) -> list[tuple[int, int]]:
        """Return ``(start, end)`` of each item in the list at a path, as indices in the text of the document."""
        if path not in self._items:
            self._items[path] = [*item_spans(self.text, list_begin(self.text, self.span(path)[0]))]
        return self._items[path]


def spans(text: str, paths: Iterable[Path], begin: int = 0) -> dict[Path, tuple[int, int]]:
    """Return ``(start, end)`` in the text for each of several values in a JSON document.

    Args:
        text: A valid document without duplicate fields on the paths.
        paths: Paths of the values, which must exist.
        begin: Index in `text` of the value to which the paths are relative.

    Raises:
        KeyError: A value does not exist.
    """
    places: dict[Path, tuple[int, int]] = {}
    # Values still to be scanned, each with the requested paths that lead to or through it, and its depth.
    stack = [(_after_blank(text, begin), [*dict.fromkeys(paths)], 0)]
    while stack:
        begin, below, depth = stack.pop()
        here = [path for path in below if len(path) == depth]
        for path in here:
            places[path] = begin, end_of_value(text, begin)
        by_name: dict[str | int, list[Path]] = {}
        for path in below:
            if len(path) > depth:
                by_name.setdefault(path[depth], []).append(path)
        if not by_name:
            continue
        parts = _fields(text, begin) if text[begin] == "{" else enumerate(_item_begins(text, begin))
        for name, at in parts:
            if name in by_name:
                stack.append((at, by_name.pop(name), depth + 1))
                if not by_name:
                    break
        if by_name:
            raise KeyError(next(iter(by_name.values()))[0])
    return places


def list_begin(text: str, begin: int) -> int:
    """Return the index of a list's opening bracket; the value at `begin` is a list or a string such as "[0.5, 1]"."""
    return _after_blank(text, begin + 1) if text[begin] == '"' else begin


def item_spans(text: str, begin: int) -> Iterator[tuple[int, int]]:
    """Yield ``(start, end)`` for each item in the JSON list that begins at `begin`."""
    return ((at, end_of_value(text, at)) for at in _item_begins(text, begin))


def end_of_value(text: str, begin: int) -> int:
    """Return the end of the JSON value that begins at `begin`."""
    if text[begin] == '"':
        match = _STRING.match(text, begin)
    elif text[begin] in "[{":
        depth = 0
        for token in _TOKEN.finditer(text, begin):
            letter = token[0]
            depth += letter in "[{" if letter[0] != '"' else 0
            depth -= letter in "]}" if letter[0] != '"' else 0
            if not depth:
                return token.end()
        match = None
    else:
        match = _SCALAR.match(text, begin)
    if match is None:
        raise ValueError(f"no JSON value at character {begin}")
    return match.end()


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()


def _fields(text: str, begin: int) -> Iterator[tuple[str, int]]:
    """Yield ``(name, start of the value)`` for each field of an object."""
    at = _after_blank(text, begin + 1)
    while text[at] != "}":
        end = end_of_value(text, at)
        name = json.loads(text[at:end])
        at = _after_blank(text, _after_blank(text, end) + 1)  # after the colon
        yield name, at
        at = _after_blank(text, end_of_value(text, at))
        if text[at] == ",":
            at = _after_blank(text, at + 1)


def _item_begins(text: str, begin: int) -> Iterator[int]:
    """Yield the start of each item in a list."""
    at = _after_blank(text, begin + 1)
    while text[at] != "]":
        yield at
        at = _after_blank(text, end_of_value(text, at))
        if text[at] == ",":
            at = _after_blank(text, at + 1)


def _string_splices(raw: str, begin: int, splices: Sequence[Splice], *, ascii_only: bool) -> Iterator[Splice]:
    """Convert splices of a string value to splices of the document.

    Args:
        raw: The string in the document, in quotes.
        begin: Start of the string in the document.
        splices: Changes to its decoded characters.
    """
    bounds = [1]
    for letter in _LETTER.finditer(raw, 1, len(raw) - 1):
        bounds.append(letter.end())
    for first, last, new in splices:
        yield Splice(begin + bounds[first], begin + bounds[last], json.dumps(new, ensure_ascii=ascii_only)[1:-1])


def _item_splices(
    text: str, items: Sequence[tuple[int, int]], splices: Sequence[ItemSplice], begin: int
) -> Iterator[Splice]:
    """Convert splices of list items to splices of the document."""
    separator = text[items[0][1] : items[1][0]] if len(items) > 1 else ", "
    for first, last, new in _joined(splices):
        num_replaced = min(last - first, len(new))
        for index in range(num_replaced):
            yield Splice(*items[first + index], new[index])
        if num_replaced < last - first:  # remove the remaining items, each together with a separator
            num_before = first + num_replaced
            if num_before:
                yield Splice(items[num_before - 1][1], items[last - 1][1], "")
            elif last < len(items):
                yield Splice(items[0][0], items[last][0], "")
            else:
                yield Splice(items[0][0], items[last - 1][1], "")
        elif num_replaced < len(new):
            more = new[num_replaced:]
            if last:
                end = items[last - 1][1]
                yield Splice(end, end, "".join(separator + item for item in more))
            elif items:
                yield Splice(items[0][0], items[0][0], "".join(item + separator for item in more))
            else:
                yield Splice(begin + 1, begin + 1, separator.join(more))


def _joined(splices: Sequence[ItemSplice]) -> list[ItemSplice]:
    """Join splices of adjacent ranges, whose changes to the separators between items would overlap."""
    result: list[ItemSplice] = []
    for begin, end, new in splices:
        if result and result[-1].end == begin:
            before = result.pop()
            begin, new = before.begin, before.items + new
        result.append(ItemSplice(begin, end, new))
    return result


def parsed_path(path: str) -> Path:
    """Parse a path such as ``results[].alternatives[0].text``; ``[]`` becomes -1."""
    parts: list[str | int] = []
    for piece in path.split(".") if path else ():
        name, *indices = piece.split("[")
        if name:
            parts.append(name)
        parts += [-1 if index == "]" else int(index[:-1]) for index in indices]
    return tuple(parts)


def values_at(value: object, path: Path, begin: Path = ()) -> Iterator[tuple[Path, object]]:
    """Yield ``(path, value)`` for each value that matches a path; missing fields and null values are skipped.

    Args:
        path: Path relative to `value`, in which -1 matches each item of a list.
        begin: Path of `value` in the document; the yielded paths begin with it.
    """
    if not path:
        if value is not None:
            yield begin, value
        return
    part, *rest = path
    if isinstance(part, str):
        if isinstance(value, Mapping) and part in value:
            yield from values_at(value[part], tuple(rest), (*begin, part))
    elif isinstance(value, list):
        for index in range(len(value)) if part < 0 else [part] if part < len(value) else ():
            yield from values_at(value[index], tuple(rest), (*begin, index))
