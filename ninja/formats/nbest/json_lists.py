"""Reader for n-best lists in JSON and JSON lines, with arbitrary field names.

The schema, with the default names of ``ObjectFields``::

    {"key": "utt1", "nbest": [{"text": "a sentence", "score": -1.5}, …]}

A file contains one such object per line (JSON lines), a list of objects, lists of lists (dialogues with turns), or an
object that maps keys to lists of hypotheses. A hypothesis has ``score``, or ``am_score`` and ``lm_score``, and
optionally words with times in seconds: ``"words": [{"word": "a", "start": 0.1, "end": 0.2}, …]``. The text may be a
list of words. A hypothesis may also be a plain string, with its score in a separate list. For ESPnet, icefall,
SpeechBrain and Whisper, whose field names are not fixed, options specify the names.

An empty list is read as an empty sentence, because the recogniser found no words.

Other fields are kept for the JSON writer (``json_records``). A combined score is ignored if the acoustic and the
language model have separate scores. Times are ignored unless all words of all hypotheses in the list have times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from ninja.errors import FormatError, NinjaError
from ninja.formats.content import Content, Pieces
from ninja.formats.format import Format, Read, Write, WriteSettings
from ninja.formats.nbest.json_hypotheses import ObjectFields, ObjectPlace, hypotheses_of, listed_of, shown, text_of
from ninja.formats.nbest.json_records import record_of, write_objects
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.text_rows import decoded, each_row
from ninja.formats.nbest.writing import ListOptions, recoded
from ninja.lattice.lattice import ListRecord, joined_records
from ninja.lattice.nbest import Hypothesis, NBest, with_silence

Constant = Callable[[str], float]
Object = tuple[str, Any, int | None]  # name for messages; an object, a pair (key, list) or an error; line number


@dataclass(slots=True)
class _List:
    """The hypotheses of one utterance."""

    key: str
    hypotheses: list[Hypothesis]
    line: int | None
    is_pair: bool  # whether the list comes from an object that maps keys to lists
    record: ListRecord | None = None

    def nbest(self, fields: ObjectFields) -> NBest:
        """Return the n-best list, with times if all hypotheses with words have times."""
        spoken = [hypothesis for hypothesis in self.hypotheses if hypothesis.words]
        hypotheses = self.hypotheses
        timed = any(hypothesis.begin is not None for hypothesis in hypotheses)
        if timed and any(hypothesis.begin is None for hypothesis in spoken):
            hypotheses = [replace(hypothesis, begin=None, end=None) for hypothesis in hypotheses]
            timed = False
        shift = fields.frame_shift if timed else None
        return with_silence(NBest(self.key, tuple(hypotheses), shift, self.record))


_Keyed = tuple[str | None, _List | FormatError | None]  # key, or None if unknown; list, error, or None if skipped


def read_lists(
    entries: Iterator[Object],
    path: str | None,
    fields: ObjectFields,
    naming: Content | None = None,
) -> Iterator[NBest | FormatError]:
    """Yield the n-best list of each object in a file, or its error.

    Objects without a key are numbered; with `naming`, their keys are the file name followed by the number.
    """
    keys: set[str] = set()
    is_empty = True
    lists = _lists(entries if naming is None else _named(entries, naming, fields), path, fields, naming)
    for key, item in _grouped(lists) if fields.group else lists:
        if item is None:
            continue
        is_empty = False
        if isinstance(item, FormatError):
            if fields.group and key is not None:
                keys.add(key)  # a later object with this key is an error, because it would belong to the same list
            yield item
        elif item.key in keys:
            hint = ""
            if fields.group:
                hint = ", with other utterances in between"
            elif fields.nbest is None and not item.is_pair:
                hint = "; if consecutive objects are hypotheses of one list, set group=true"
            yield FormatError(f"the utterance occurs twice{hint}", path, key=item.key, line=item.line)
        else:
            keys.add(item.key)
            yield item.nbest(fields)
    if is_empty:
        raise FormatError("there are no hypotheses", path)


def read_two(entries: Iterator[Any]) -> tuple[list[Any], NinjaError | None]:
    """Return at most the first two entries in a file, and the error that was raised while reading them, or None."""
    ahead: list[Any] = []
    try:
        ahead.extend(islice(entries, 1))
        ahead.extend(islice(entries, 1))
    except NinjaError as error:  # the entries before the error are valid
        return ahead, error
    return ahead, None


def _named(entries: Iterator[Object], naming: Content, fields: ObjectFields) -> Iterator[Object]:
    """Yield objects whose names consist of the file name and the object number.

    If the file contains a single object, its name is the file name alone, and becomes its key if it has no key.
    """
    ahead, failure = read_two(entries)
    if len(ahead) == 1 and failure is None:
        _, only, line = ahead[0]
        if isinstance(only, dict) and fields.key is not None and only.get(fields.key) is None:
            only = {**only, fields.key: naming.key}
        yield naming.key, only, line
        return
    for name, entry, line in chain(ahead, entries if failure is None else ()):
        if not isinstance(entry, tuple):
            number, dash, turn = name.partition("-")
            name = f"{naming.numbered(int(number))}{dash}{turn}"
        yield name, entry, line
    if failure is not None:
        raise failure


def _lists(
    entries: Iterable[Object], path: str | None, fields: ObjectFields, content: Content | None
) -> Iterator[_Keyed]:
    """Yield ``(key or None, list or error)`` for each object."""
    for name, entry, line in entries:
        where, key = ObjectPlace(path, name, line, None if content is None else content.note_overlaps), None
        try:
            if isinstance(entry, FormatError):
                raise entry
            key = _key(entry, where, fields)
            yield key, _list(entry, where._replace(key=key), fields)
        except FormatError as error:
            yield key, error


def _grouped(items: Iterable[_Keyed]) -> Iterator[_Keyed]:
    """Join consecutive lists with the same key; an error in one of them becomes the error of the joined list."""
    current: _List | None = None
    failed_key: str | None = None
    for key, item in items:
        if key is None or item is None:  # an object with an unknown key, or a skipped object
            yield key, item
            continue
        if key == failed_key:
            continue
        if current is not None and key == current.key and isinstance(item, _List):
            current.hypotheses += item.hypotheses
            current.record = joined_records(current.record, item.record)
            continue
        if current is not None and key != current.key:
            yield current.key, current
        current = failed_key = None
        if isinstance(item, _List):
            current = item
        else:
            failed_key = key
            yield key, item
    if current is not None:
        yield current.key, current


def _key(entry: Any, where: ObjectPlace, fields: ObjectFields) -> str:
    """Return the key of an object."""
    if isinstance(entry, tuple):  # a pair of a key and a list
        key: str = entry[0]
        return key
    if not isinstance(entry, dict):
        raise where.error(f"expected an object, found {shown(entry)}")
    if fields.key is None:
        return where.key
    if entry.get(fields.key) is None:
        message = (
            f"the field {fields.key!r} is missing or null; specify the field of the key (key=NAME), or number the "
        )
        raise where.error(f"{message}objects (key=none)")
    return text_of(entry, fields.key, where)


def _list(entry: Any, where: ObjectPlace, fields: ObjectFields) -> _List | None:
    """Return the list of hypotheses in an object, or None to skip the object."""
    is_pair = isinstance(entry, tuple)
    listed = entry[1] if is_pair else listed_of(entry, fields, where)
    if fields.skip and not listed and not is_pair:
        return None
    if not isinstance(listed, list):
        raise where.error(f"expected a list of hypotheses at {fields.nbest!r}, found {shown(listed)}")
    hypotheses = hypotheses_of(listed, fields, where)
    record = record_of({} if is_pair else entry, listed, hypotheses, fields)
    return _List(where.key, hypotheses, where.line, is_pair, record)


def no_document(
    head: bytes, path: str | None = None, encoding: str = "utf-8", constant: Constant | None = None
) -> ValueError | None:
    """Return an error if the first lines show that a file is not a single JSON document; otherwise, return None."""
    if head.lstrip()[:1] == b"[" or b"\n" not in head.strip():
        return None
    try:
        text = decoded(head, path, encoding=encoding)
        loaded(text, constant)
    except json.JSONDecodeError as error:  # an error at the end does not count: the document may continue
        return error if error.pos < len(text.rstrip(" \t\r\n")) else None
    except ValueError as error:
        return error
    return None


def objects(content: bytes, path: str | None, fields: ObjectFields) -> Iterator[Object]:
    """Yield the objects in a JSON document, or in JSON lines if the file is not a single document."""
    try:
        whole, doubled = loaded(decoded(content, path, encoding=fields.encoding))
    except ValueError as error:
        is_lines = content.lstrip()[:1] != b"[" and b"\n" in content.strip()
        yield from of_lines(content if is_lines else b"", path, fields, error)
        return
    for name, entry in _of_whole(whole, path, fields):
        if doubled and is_doubled(entry):
            entry = FormatError(f"not JSON: {TWICE} (object {name})", path)
        yield name, entry, None


def _of_whole(whole: Any, path: str | None, fields: ObjectFields) -> Iterator[tuple[str, Any]]:
    if isinstance(whole, dict):
        is_object = fields.nbest is None or fields.nbest in whole or fields.key in whole
        if is_object or not whole or not all(isinstance(value, list) for value in whole.values()):
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


def of_lines(content: Pieces, path: str | None, fields: ObjectFields, error: ValueError) -> Iterator[Object]:
    """Yield the object or the error of each line in JSON lines.

    If no line is an object, raise the error of the first invalid line. If no line is invalid, or if the document cannot
    be decoded, raise the error for the whole document (`error`).
    """
    pending: list[Object] | None = []  # errors of the lines before the first object; then None
    number = 0
    for line, row in each_row(content, path, fields.encoding, marked=True):
        entry: Any = row
        parsed = False
        if isinstance(row, str):
            if not row.strip():
                continue
            try:
                entry, doubled = loaded(row)
            except ValueError as bad:
                entry = FormatError(f"not JSON: {str(bad)[:80]}", path, line=line)
            else:
                # An indented line is probably a part of an object that spans several lines.
                parsed = isinstance(entry, dict) and row[0] == "{"
                if doubled:
                    entry = FormatError(f"not JSON: {TWICE}", path, line=line)
        elif not isinstance(error, FormatError):
            error = FormatError(row.message, path)  # the document as a whole cannot be decoded either
        number += 1
        if pending is None:
            yield str(number), entry, line
            continue
        pending.append((str(number), entry, line))
        if parsed:
            yield from pending
            pending = None
    if pending is not None:
        if isinstance(error, FormatError):
            raise error
        bad_lines = [entry for _, entry, _ in pending if isinstance(entry, FormatError)]
        raise bad_lines[0] if bad_lines else FormatError(f"not JSON: {str(error)[:80]}", path) from error


TWICE = "an object contains the same field twice"


class _Doubled(dict[str, Any]):
    """An object with a duplicate field."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def is_doubled(entry: Any, *, deep: bool = True) -> bool:
    """Return whether an object has a duplicate field; with `deep`, also check all objects within it."""
    if not deep:
        return isinstance(entry, _Doubled)
    stack = [entry]
    while stack:
        value = stack.pop()
        if isinstance(value, _Doubled):
            return True
        if isinstance(value, list | tuple | dict):
            values = value.values() if isinstance(value, dict) else value
            stack.extend(inner for inner in values if isinstance(inner, list | dict))
    return False


def loaded(text: str, constant: Constant | None = None) -> tuple[Any, bool]:
    """Parse JSON; return ``(value, whether an object has a duplicate field)``.

    Args:
        constant: Function that converts ``NaN``, ``Infinity`` and ``-Infinity``.  [default: raise an error]
    """
    doubled = []

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entry = dict(pairs)
        if len(entry) < len(pairs):
            entry = _Doubled(pairs)
            doubled.append(True)
        return entry

    try:
        return json.loads(text, object_pairs_hook=to_object, parse_constant=constant or _no_number), bool(doubled)
    except RecursionError as error:
        raise ValueError("lists are nested too deeply") from error


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number")


_MARK = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{\]])")


def _read(content: Content, options: ObjectFields) -> Iterator[NBest | FormatError]:
    why = no_document(content.first_lines(), content.name, options.encoding)
    if why is None:
        entries = objects(content.whole(), content.name, options)
    else:
        entries = of_lines(content.blocks(), content.name, options, why)
    return read_lists(entries, content.name, options, content)


def _has_lists(head: bytes) -> bool:
    return _MARK.match(head) is not None and b'"nbest"' in head


def _encode(nbest: NBest, settings: WriteSettings) -> bytes:
    return recoded(write_objects(nbest, settings.words, settings.options), settings.encoding, nbest.key)


FORMAT = Format(
    name="json",
    about="n-best lists in JSON or JSON lines, with arbitrary field names",
    holds="nbest",
    extensions=(".jsonl", ".json"),
    aliases=("nbest",),
    mark=_MARK.match,
    in_folder=_has_lists,
    read=Read(list_entries(_read), ObjectFields),
    keeps=frozenset({"key", "times", "frame shift", "graph", "acoustic", "apart", "unscaled", "names", "fields"}),
    write=Write(_encode, options=ListOptions, unique_keys=True, encoded_keys=True),
)
