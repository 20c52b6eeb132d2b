"""N-best lists in JSON and JSON lines, whatever their makers call the fields.

The schema, with the names of ``ObjectFields`` as they are by default::

    {"key": "utt1", "nbest": [{"text": "a sentence", "score": -1.5}, …]}

One such object a line (JSON lines), a list of them, lists of lists (dialogues of turns), or an object that maps keys to
lists of hypotheses. A hypothesis has ``score``, or ``am_score`` and ``lm_score``, and may have its words with times:
``"words": [{"word": "a", "start": 0.1, "end": 0.2}, …]``, in seconds. The text may be a list of its words; a hypothesis
may be a text alone, whose score stands at its place in a list beside that of hypotheses. ``ESPnet``, ``icefall``,
``SpeechBrain`` and ``Whisper`` leave the form of such files to their users; name the fields as yours have them.

Not read: other fields, a score of all models beside those of each, times of pieces joined to others without any.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from ninja.errors import FormatError, NinjaError
from ninja.formats.content import Content
from ninja.formats.format import Entry, Format, Read, Write, WriteSettings
from ninja.formats.nbest import json_text
from ninja.formats.nbest.json_text import shown
from ninja.formats.nbest.object_fields import DSTC10, ObjectFields
from ninja.formats.nbest.object_hypotheses import Where, hypotheses_of, listed_of, text_of
from ninja.formats.nbest.prefixes import list_entries
from ninja.formats.nbest.rows import strict
from ninja.formats.nbest.srilm import spelled
from ninja.formats.nbest.written import ListOptions, recoded
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import SymbolTable

__all__ = [
    "DSTC10",
    "Naming",
    "ObjectFields",
    "each_object",
    "each_of",
    "read_objects",
    "write_objects",
]


class Naming(Protocol):
    """Names of objects that have no key: ``Content`` makes them of the name of its file."""

    @property
    def key(self) -> str:
        """Name of the only one."""
        ...

    def numbered(self, number: int) -> str:
        """Return the name of one of several, counted from 1."""
        ...


@dataclass(slots=True)
class _Found:
    """The hypotheses of a key so far."""

    key: str
    hypotheses: list[Hypothesis]
    line: int | None
    is_pair: bool  # whether the key stands before its list

    def nbest(self, fields: ObjectFields) -> NBest:
        timed = any(each.begin is not None for each in self.hypotheses)
        return NBest(self.key, tuple(self.hypotheses), fields.frame_shift if timed else None)


# The key of an object where it is known; what is found, what is wrong with it, or None: it is to be skipped.
_Keyed = tuple[str | None, _Found | FormatError | None]


def read_objects(content: bytes, path: str | None = None, fields: ObjectFields | None = None) -> list[NBest]:
    """Read n-best lists of JSON or JSON lines; which of these it is, is seen from the content.

    Args:
        content: The whole file, unpacked.
        path: File name for error messages.
        fields: What the fields are called.

    Raises:
        FormatError: The file is no JSON, an object names a field twice, a field is missing or of another type, or an
            utterance occurs twice.
    """
    return strict(each_object(content, path, fields))


def each_object(
    content: bytes, path: str | None = None, fields: ObjectFields | None = None
) -> list[NBest | FormatError]:
    """Return each list as ``read_objects`` reads it, or what is wrong with it, in the order of the file.

    Raises:
        FormatError: There is nothing, or the file as a whole is no JSON.
    """
    fields = fields or ObjectFields()
    return list(each_of(json_text.entries(content, path, fields), path, fields))


def each_of(
    entries: Iterator[json_text.Entry],
    path: str | None = None,
    fields: ObjectFields | None = None,
    *,
    naming: Naming | None = None,
) -> Iterator[NBest | FormatError]:
    """Yield what ``each_object`` returns.

    Args:
        entries: The objects of a file, as ``json_text.entries`` or, line by line, ``json_text.of_lines`` yields them.
        path: File name for error messages.
        fields: What the fields are called.
        naming: Names of objects that have no key; None: only where there is to be none, they are numbered.

    Raises:
        FormatError: There is nothing, or the file is no JSON.
    """
    fields = fields or ObjectFields()
    seen: set[str] = set()
    any_made = False
    found = _found(entries if naming is None else _named(entries, naming, fields), path, fields)
    for key, each in _grouped(found) if fields.group else found:
        if each is None:
            continue
        made: NBest | FormatError
        if isinstance(each, FormatError):
            made = each
            if fields.group and key is not None:
                seen.add(key)  # what comes of it later would be a part
        elif each.key in seen:
            made = FormatError(f"the utterance occurs twice{_why(each, fields)}", path, key=each.key, line=each.line)
        else:
            seen.add(each.key)
            made = each.nbest(fields)
        any_made = True
        yield made
    if not any_made:
        raise FormatError("there are no hypotheses", path)


def _why(found: _Found, fields: ObjectFields) -> str:
    """Say what may be meant by a key that occurs twice."""
    if fields.group:
        return ", with others between"
    if fields.nbest is None and not found.is_pair:
        return "; if objects that follow each other are hypotheses of one list, say so (group=true)"
    return ""


def _named(entries: Iterator[json_text.Entry], naming: Naming, fields: ObjectFields) -> Iterator[json_text.Entry]:
    """Name objects by their file, for which two of them are awaited; the only one may lack its key."""
    ahead: list[json_text.Entry] = []
    failure: NinjaError | None = None
    try:
        for entry in entries:
            ahead.append(entry)
            if len(ahead) == 2:
                break
    except NinjaError as error:  # what comes before is sound
        failure = error
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


def _found(entries: Iterable[json_text.Entry], path: str | None, fields: ObjectFields) -> Iterator[_Keyed]:
    """Yield the key of each object, if it is known, and what it holds, or what is wrong with it."""
    for name, entry, line in entries:
        where, key = Where(path, name, line), None
        try:
            if isinstance(entry, FormatError):
                raise entry
            key = _key(entry, where, fields)
            yield key, _list(entry, where._replace(key=key), fields)
        except FormatError as error:
            yield key, error


def _grouped(found: Iterable[_Keyed]) -> Iterator[_Keyed]:
    """Put together what follows each other with one key; a bad part of it costs it all."""
    held: _Found | None = None
    spoiled: str | None = None
    for key, each in found:
        if key is None or each is None:  # nobody knows whose part that is, or it is skipped
            yield key, each
            continue
        if key == spoiled:
            continue
        if held is not None and key == held.key and isinstance(each, _Found):
            held.hypotheses += each.hypotheses
            continue
        if held is not None and key != held.key:
            yield held.key, held
        held = spoiled = None
        if isinstance(each, _Found):
            held = each
        else:
            spoiled = key
            yield key, each
    if held is not None:
        yield held.key, held


def _key(entry: Any, where: Where, fields: ObjectFields) -> str:
    """Return the key of an object."""
    if isinstance(entry, tuple):  # a key and its list
        key: str = entry[0]
        return key
    if not isinstance(entry, dict):
        raise where.error(f"expected an object, found {shown(entry)}")
    if fields.key is None:
        return where.key
    if entry.get(fields.key) is None:
        message = f"expected text as {fields.key!r}, found None; name the field of the key, or let objects be numbered"
        raise where.error(f"{message} (key=none)")
    return text_of(entry, fields.key, where)


def _list(entry: Any, where: Where, fields: ObjectFields) -> _Found | None:
    """Return the list of an object; None: it is to be skipped."""
    is_pair = isinstance(entry, tuple)
    listed = entry[1] if is_pair else listed_of(entry, fields, where)
    if fields.skip and not listed and not is_pair:
        return None
    if not isinstance(listed, list) or not (listed or fields.join):
        raise where.error(f"expected a list of hypotheses as {fields.nbest!r}")
    return _Found(where.key, hypotheses_of(listed, fields, where), where.line, is_pair)


def write_objects(lists: list[NBest], words: SymbolTable | None = None) -> bytes:
    """Return lists as JSON lines with the names that fields have by default; both scores go apart, times along.

    Raises:
        SymbolError: A word is unnamed, or cannot be written.
    """
    lines = []
    for nbest in lists:
        listed: list[dict[str, Any]] = []
        for each in nbest.hypotheses:
            names = spelled(each, words, nbest.key)
            entry: dict[str, Any] = {
                "text": " ".join(names),
                "am_score": 0.0 - each.acoustic_cost,
                "lm_score": 0.0 - each.graph_cost,
            }
            if each.begin is not None and each.end is not None and nbest.frame_shift is not None:
                times = zip(names, each.begin, each.end, strict=True)
                entry["words"] = [
                    {"word": name, "start": _seconds(begin, nbest), "end": _seconds(end, nbest)}
                    for name, begin, end in times
                ]
            listed.append(entry)
        lines.append(json.dumps({"key": nbest.key, "nbest": listed}, ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def _seconds(frame: int, nbest: NBest) -> float:
    return round(frame * (nbest.frame_shift or 0.0), 6)


_MARK = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{\]])")


def _entries(content: Content, words: SymbolTable | None, options: ObjectFields) -> Iterator[Entry]:
    why = json_text.no_document(content.first_lines(), content.name, options.encoding)
    if why is None:
        entries = json_text.entries(content.whole(), content.name, options)
    else:
        entries = json_text.of_lines(content.blocks(), content.name, options, why)
    lists = each_of(entries, content.name, options, naming=content)
    return list_entries(lists, content, words)


def _has_lists(head: bytes) -> bool:
    return _MARK.match(head) is not None and b'"nbest"' in head


def _encode(nbest: NBest, settings: WriteSettings) -> bytes:
    return recoded(write_objects([nbest], settings.words), settings.encoding, nbest.key)


FORMAT = Format(
    name="json",
    about="n-best lists in JSON or JSON lines, whatever their fields are called",
    holds="nbest",
    extensions=(".jsonl", ".json"),
    aliases=("nbest",),
    mark=_MARK.match,
    in_folder=_has_lists,
    read=Read(_entries, ObjectFields),
    keeps=frozenset({"key", "times", "frame shift", "graph", "acoustic", "apart", "unscaled", "names"}),
    write=Write(_encode, options=ListOptions, unique_keys=True, encoded_keys=True),
)
