"""What stands in JSON and JSON lines, an object at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ninja.errors import FormatError
from ninja.formats.nbest.rows import decoded, each_row
from ninja.formats.pieces import Pieces

if TYPE_CHECKING:
    from ninja.formats.nbest.object_fields import ObjectFields

Entry = tuple[str, Any, int | None]  # a name for messages; an object, a key and its list, or an error; the line


def no_document(head: bytes, path: str | None = None, encoding: str = "utf-8") -> ValueError | None:
    """Return why a file is no JSON as a whole, so that its lines may be, as far as its first lines tell; None: it may.

    Args:
        head: Its first lines, whole ones.
        path: File name for error messages.
        encoding: Of the file.
    """
    if head.lstrip()[:1] == b"[" or b"\n" not in head.strip():
        return None
    try:
        text = decoded(head, path, encoding=encoding)
        _loaded(text)
    except json.JSONDecodeError as error:  # what is missing at the end may come with the next lines
        return error if error.pos < len(text.rstrip(" \t\r\n")) else None
    except ValueError as error:
        return error
    return None


def entries(content: bytes, path: str | None, fields: ObjectFields) -> Iterator[Entry]:
    """Yield a name for messages, the object of each utterance (its key and list, or its error), and its line."""
    try:
        whole, doubled = _loaded(decoded(content, path, encoding=fields.encoding))
    except ValueError as error:
        is_lines = content.lstrip()[:1] != b"[" and b"\n" in content.strip()
        yield from of_lines(content if is_lines else b"", path, fields, error)
        return
    for name, entry in _of_whole(whole, path, fields):
        if doubled and _is_doubled(entry):
            entry = FormatError(f"not JSON: {_TWICE} (object {name})", path)
        yield name, entry, None


def _of_whole(whole: Any, path: str | None, fields: ObjectFields) -> Iterator[tuple[str, Any]]:
    if isinstance(whole, dict):
        own = fields.nbest is None or fields.nbest in whole or fields.key in whole
        if own or not whole or not all(isinstance(value, list) for value in whole.values()):
            yield "1", whole
        else:
            pairs = whole.pairs if isinstance(whole, _Doubled) else whole.items()
            yield from ((key, (key, value)) for key, value in pairs)
    elif isinstance(whole, list):
        for number, entry in enumerate(whole, start=1):
            if isinstance(entry, list):
                yield from ((f"{number}-{turn}", inner) for turn, inner in enumerate(entry, start=1))
            else:
                yield str(number), entry
    else:
        raise FormatError(f"expected objects with hypotheses, found {shown(whole)}", path)


def of_lines(content: Pieces, path: str | None, fields: ObjectFields, error: ValueError) -> Iterator[Entry]:
    """Yield the objects of lines, if a file is of these that is not JSON as a whole.

    Raises:
        FormatError: No line is an object, so the file is no JSON at all.
    """
    held: list[Entry] | None = []  # the lines before the first that is an object
    number = 0
    for line, row in each_row(content, path, fields.encoding, marked=True):
        entry: Any = row
        parsed = False
        if isinstance(row, str):
            if not row.strip():
                continue
            try:
                entry, doubled = _loaded(row)
            except ValueError as bad:
                entry = FormatError(f"not JSON: {str(bad)[:80]}", path, line=line)
            else:
                # The lines of one object that is written over many are indented.
                parsed = isinstance(entry, dict) and row[0] == "{"
                if doubled:
                    entry = FormatError(f"not JSON: {_TWICE}", path, line=line)
        elif not isinstance(error, FormatError):
            error = FormatError(row.message, path)  # that is what is wrong with the file as a whole
        number += 1
        if held is None:
            yield str(number), entry, line
            continue
        held.append((str(number), entry, line))
        if parsed:
            yield from held
            held = None
    if held is not None:
        if isinstance(error, FormatError):
            raise error
        bad_lines = [entry for _, entry, _ in held if isinstance(entry, FormatError)]
        raise bad_lines[0] if bad_lines else FormatError(f"not JSON: {str(error)[:80]}", path) from error


_TWICE = "an object names a field twice"


class _Doubled(dict[str, Any]):
    """An object that names a field twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _is_doubled(entry: Any) -> bool:
    """Tell whether an object, or one within it, names a field twice."""
    left = [entry]
    while left:
        each = left.pop()
        if isinstance(each, _Doubled):
            return True
        if isinstance(each, list | tuple):
            left.extend(inner for inner in each if isinstance(inner, list | dict))
        elif isinstance(each, dict):
            left.extend(inner for inner in each.values() if isinstance(inner, list | dict))
    return False


def _loaded(text: str) -> tuple[Any, bool]:
    """Return what JSON says, and whether some object in it names a field twice."""
    doubled = []

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entry = dict(pairs)
        if len(entry) < len(pairs):
            entry = _Doubled(pairs)
            doubled.append(True)
        return entry

    try:
        return json.loads(text, object_pairs_hook=made, parse_constant=_no_number), bool(doubled)
    except RecursionError as error:
        raise ValueError("lists within lists, too deep") from error


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def shown(value: object) -> str:
    """Return a value as messages show it."""
    if isinstance(value, dict):
        return f"an object with {[str(name)[:20] for name in value][:6]}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > 1e18:
        return "a large number"
    return ascii(value[:60] if isinstance(value, str) else value)
