"""Parse entity files: hot words, JSON, JSONL and TSV, all into the same sections.

    list    a phrase per line, for all utterances; a file without a tab
    JSON    {"@name": ["tom chen", {"text": "kathi", "weight": 2, "pronunciations": ["K AE TH IY"]}]}
            {"lists": {NAME: {…}}, "all": {…}, "groups": {NAME: {…}}, "utterances": {KEY: {…}}}
    JSONL   {"utt": KEY, "@name": […], "group": NAME, "lists": [NAME]}; likewise "list", "group", "all": true
    TSV     KEY, *, group:NAME or list:NAME ⇥ class, lists, group or file ⇥ phrase or name [⇥ weight [⇥ pronunciation]]
    file    class ⇥ phrase [⇥ weight [⇥ pronunciation]], in the file that a list names

This module checks the format; ``lists`` checks phrases, names and duplicates.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn

from ninja.errors import FormatError
from ninja.files import text as utf8
from ninja.files.place import below, names_url
from ninja.lm.ngram.classes import is_class

Kind = Literal["all", "group", "list", "utt"]

NO_CLASS = "phrases"  # a key for the class ""
EVERYONE = "*"
_CLASSES = f'classes (@…, $…, <…>), "{NO_CLASS}", "entities"'
_KEYS: dict[Kind, tuple[str, ...]] = {  # besides those of classes
    "all": ("lists",),
    "group": ("lists",),
    "list": ("file", "first"),
    "utt": ("group", "lists"),
}
_LABEL: dict[Kind, str] = {"all": "all", "group": "group", "list": "list", "utt": "utterance"}
_TOP: dict[str, Kind] = {"lists": "list", "groups": "group", "utterances": "utt"}
_COLUMNS = "utterance (or *, group:NAME, list:NAME), class, phrase, weight, pronunciation"
_LIST_COLUMNS = "class, phrase, weight, pronunciation"
_FIRST_MOST = 10**9


class Place(NamedTuple):
    """File, line, and index in the list of a class."""

    path: str | None
    line: int | None = None
    entry: int = 0  # from 1; 0 if a line is one entry

    def seen_from(self, home: str | None) -> str:
        """Return the location as text, without the file name if the file is `home`."""
        parts = [self.path] if self.path is not None and self.path != home else []
        parts += [f"line {self.line}"] if self.line is not None else []
        parts += [f"entry {self.entry}"] if self.entry else []
        return ", ".join(parts)


class Entry(NamedTuple):
    """A phrase as written in the file."""

    class_name: str
    text: str
    weight: float
    pronunciations: tuple[str, ...]
    place: Place


@dataclass(slots=True)
class Section:
    """Entries and lists for all utterances, a group, a shared list or one utterance."""

    kind: Kind
    name: str
    place: Place
    entries: list[Entry] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    group: str | None = None
    short_file: str = ""  # note on a file with too few phrases
    files: list[str] = field(default_factory=list)  # files of phrases that it names

    @property
    def label(self) -> str:
        """The section's name in messages."""
        return "all utterances" if self.kind == "all" else f"{_LABEL[self.kind]} {self.name!r}"

    def refuse(self, reason: str, place: Place | None = None, class_name: str | None = None) -> NoReturn:
        """Raise a FormatError that names section, class and entry unless the line is one entry."""
        path, line, entry = place or self.place
        parts = [self.label] if entry or line is None or place is None else []
        parts += [class_name or NO_CLASS] if class_name is not None and parts else []
        parts += [f"entry {entry}"] if entry else []
        raise FormatError(f"{', '.join(parts)}: {reason}" if parts else reason, path, line=line)

    def refuse_entry(self, reason: str, entry: Entry) -> NoReturn:
        """Raise a FormatError about one phrase."""
        self.refuse(reason, entry.place, entry.class_name)


def read_sections(path: str) -> list[Section]:
    """Read an entity file; the format is detected from the content."""
    text = utf8.read(path)
    start = text.lstrip()[:1]
    if start == "[":
        raise FormatError('a list at the top; entities are an object, {"@name": [...]}, or one object a line', path)
    if start != "{":
        return _from_tsv(text, path) if "\t" in text else _from_phrases(text, path)
    first, _, rest = text.lstrip().partition("\n")
    try:
        content = _parse(first, path, text[: -len(text.lstrip())].count("\n") + 1)
    except FormatError as error:
        if not isinstance(error.__cause__, json.JSONDecodeError):
            raise
        return sections_of(_parse(text, path, None), path)
    if rest.strip() or not {"utt", "list", "group"}.isdisjoint(content) or content.get("all") is True:
        return _from_lines(text, path)
    return sections_of(content, path)


def sections_of(content: Mapping[str, Any], path: str | None) -> list[Section]:
    """Return the sections of a JSON file's content; paths in it are relative to the folder of `path`."""
    if not isinstance(content, Mapping):
        raise FormatError(f"entities are an object by class, not {_shown(content)}", path)
    plain, sections = {}, []
    for key, value in content.items():
        if key in _TOP:
            if not isinstance(value, Mapping):
                raise FormatError(f"{key!r} must be an object by name, not {_shown(value)}", path)
            sections += [_section(_TOP[key], name, section, Place(path)) for name, section in value.items()]
        elif key == "all":
            sections.append(_section("all", EVERYONE, value, Place(path)))
        elif _class_of(key) is None and key != "entities":
            message = f'unknown key {key!r}; there are {_CLASSES}, "all", "lists", "groups", "utterances"'
            raise FormatError(message, path)
        else:
            plain[key] = value
    if plain and "all" in content:
        raise FormatError("phrases for all utterances are both at the top and under 'all'; move them there", path)
    return [_section("all", EVERYONE, plain, Place(path)), *sections] if plain else sections


def _parse(text: str, path: str, line: int | None) -> dict[str, Any]:
    """Parse the JSON object of a line, or of a file if `line` is None."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            duplicate = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise FormatError(f"the key {duplicate!r} is twice in one object; merge the two", path, line=line)
        return result

    try:
        content = json.loads(text, object_pairs_hook=unique)
    except FormatError:
        raise
    except json.JSONDecodeError as error:
        raise FormatError(f"no JSON: {error.msg}, column {error.colno}", path, line=line or error.lineno) from error
    except RecursionError:
        raise FormatError("no JSON of ours: nested too deeply", path, line=line) from None
    except ValueError as error:  # an integer of thousands of digits
        raise FormatError(f"no JSON: {error}", path, line=line) from error
    if not isinstance(content, dict):
        raise FormatError(f"expected an object, found {_shown(content)}", path, line=line)
    return content


def _from_lines(text: str, path: str) -> list[Section]:
    sections = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        content = _parse(line, path, number)
        kinds: tuple[Kind, ...] = ("utt", "list", "group", "all")
        kind = next((kind for kind in kinds if kind in content), None)  # an utterance may name its group
        if kind is None:
            raise FormatError('a line needs "utt", "group", "list", or "all": true', path, line=number)
        name = content.pop(kind)
        if kind == "all":
            if name is not True:
                raise FormatError(f'"all" must be true in a line, not {_shown(name)}', path, line=number)
            name = EVERYONE
        sections.append(_section(kind, name, content, Place(path, number)))
    return sections


def _section(kind: Kind, name: object, content: object, place: Place) -> Section:
    if not isinstance(name, str) or not name.strip():
        message = f"the name of {'an' if kind == 'utt' else 'a'} {_LABEL[kind]} must be text, not {_shown(name)}"
        raise FormatError(message, place.path, line=place.line)
    section = Section(kind, name, place)
    if not isinstance(content, Mapping):
        section.refuse(f"expected an object by class, found {_shown(content)}")
    entries: list[Entry] = []
    for key, value in content.items():
        class_name = _class_of(key)
        if class_name is not None or key == "entities":
            entries += _entries(section, key, class_name, value)
        elif key not in _KEYS[kind]:
            keys = ", ".join([_CLASSES, *(f'"{name}"' for name in _KEYS[kind])])
            section.refuse(f"unknown key {key!r}; there are {keys}")
    lists = content.get("lists", [])
    if not isinstance(lists, list) or not all(isinstance(name, str) for name in lists):
        section.refuse(f'"lists" must be a list of names, not {_shown(lists)}')
    section.lists = list(lists)
    section.group = content.get("group")
    if "group" in content and not isinstance(section.group, str):
        section.refuse(f'"group" must be a name, not {_shown(section.group)}')
    if "file" in content:
        _add_file(section, content["file"], content.get("first"))
    elif "first" in content:
        section.refuse('"first" needs "file", of which it takes the first phrases')
    section.entries += entries
    return section


def _class_of(key: object) -> str | None:
    """Return the class of a key, None if it is no class."""
    if key in ("", NO_CLASS):
        return ""
    return key if isinstance(key, str) and is_class(key) else None


def _entries(section: Section, key: str, class_name: str | None, values: object) -> Iterator[Entry]:
    """Yield the phrases of a key; if class_name is None, each phrase names its class."""
    if not isinstance(values, list | tuple):
        section.refuse(f"{key!r} must be a list of phrases, not {_shown(values)}")
    known = ("text", "weight", "pronunciations", *(() if class_name is not None else ("class",)))
    for number, value in enumerate(values, start=1):
        place = Place(section.place.path, section.place.line, number)
        if isinstance(value, str) and class_name is not None:
            yield Entry(class_name, value, 1.0, (), place)
            continue
        if not isinstance(value, Mapping):
            keys = '"text"' if class_name is not None else '"class" and "text"'
            section.refuse(f"expected a phrase or an object with {keys}, found {_shown(value)}", place, key)
        if unknown := [name for name in value if name not in known]:
            section.refuse(f"unknown key {unknown[0]!r}; there are {', '.join(known)}", place, key)
        cls = class_name if class_name is not None else _class_of(value.get("class"))
        if cls is None:
            section.refuse(f'"class" must be "", @…, $… or <…>, not {_shown(value.get("class"))}', place, key)
        text, weight = value.get("text"), value.get("weight", 1.0)
        if not isinstance(text, str):
            section.refuse(f'"text" must be the phrase, not {_shown(text)}', place, key)
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            section.refuse(f'"weight" must be a number, not {_shown(weight)}', place, key)
        spoken = value.get("pronunciations", [])
        if not isinstance(spoken, list | tuple) or not all(isinstance(phones, str) for phones in spoken):
            fault = f'"pronunciations" must be a list of texts such as "T AA M", not {_shown(spoken)}'
            section.refuse(fault, place, key)
        yield Entry(cls, text, _number(section, weight, place, key), tuple(spoken), place)


def _number(section: Section, weight: str | float, place: Place, key: str) -> float:
    try:
        return float(weight)
    except (ValueError, OverflowError):
        section.refuse(f"the weight {_shown(weight)} is not a number, or too large", place, key)


def _from_phrases(text: str, path: str) -> list[Section]:
    """Return the section of a list of hot words, one per line, of no class, for all utterances."""
    section = Section("all", EVERYONE, Place(path))
    section.entries = [_entry(section, "", fields, place) for place, fields in _rows(text, path, 1, "phrase")]
    return [section]


def _from_tsv(text: str, path: str) -> list[Section]:
    sections: dict[tuple[Kind, str], Section] = {}
    for place, fields in _rows(text, path, 3, _COLUMNS):
        kind, name = _scope(fields[0], place)
        section = sections.setdefault((kind, name), Section(kind, name, place))
        key, value = fields[1].strip(), fields[2]
        if key in _KEYS[kind] and key != "first":
            _set(section, key, value.strip(), fields[3:], place)
        else:
            section.entries.append(_entry(section, key, fields[2:], place, _KEYS[kind]))
    return list(sections.values())


def _scope(column: str, place: Place) -> tuple[Kind, str]:
    head, colon, tail = column.partition(":")
    kind: Kind = "all" if column == EVERYONE else "utt"
    name = column
    if colon and head in ("list", "group"):
        kind, name = ("list" if head == "list" else "group"), tail
    if not name.strip() or name != name.strip():
        raise FormatError(f"the first column must name an utterance, not {column!r}", place.path, line=place.line)
    return kind, name


def _set(section: Section, key: str, value: str, more: list[str], place: Place) -> None:
    """Apply a row that names a list, a group or a file instead of a phrase."""
    if key == "file":
        first = more[0].strip() if more else ""
        if first and not (first.isascii() and first.isdigit()):
            section.refuse(f"the number of phrases to take must be a whole number from 1, not {first!r}", place)
        _add_file(section, value, int(first[:12]) if first else None, place)
        return
    if any(column.strip() for column in more):
        section.refuse(f"a row with {key!r} has three columns", place)
    if key == "lists":
        section.lists.append(value)
    elif section.group not in (None, value):
        section.refuse(f"utterance {section.name!r} is in two groups, {section.group!r} and {value!r}", place)
    else:
        section.group = value


def _entry(section: Section, key: str, columns: list[str], place: Place, others: tuple[str, ...] = ()) -> Entry:
    """Make an entry of the columns phrase, weight and pronunciation."""
    class_name = "" if key in ("", "-") else _class_of(key)
    if class_name is None:
        keys = "".join(f", {name!r}" for name in others if name != "first")
        section.refuse(f"unknown class {key!r}; there are @…, $…, <…>, '-' for none{keys}", place)
    text, weight, spoken = (*columns, "", "")[:3]
    factor = _number(section, weight, place, key) if weight.strip() else 1.0
    return Entry(class_name, text, factor, (spoken,) if spoken.strip() else (), place)


def _add_file(section: Section, file: object, first: object, place: Place | None = None) -> None:
    """Add the phrases of a file of columns class, phrase, weight, pronunciation: the `first` ones, or all."""
    if not isinstance(file, str) or not file or "\0" in file:
        section.refuse(f'"file" must name a file, not {_shown(file)}', place)
    if first is not None and (isinstance(first, bool) or not isinstance(first, int) or not 1 <= first <= _FIRST_MOST):
        section.refuse(f"the number of phrases to take must be a whole number from 1, not {_shown(first)}", place)
    path = file
    if section.place.path is not None:  # else the content is a dictionary of the caller
        try:
            path = below(file, section.place.path)
        except FormatError:
            section.refuse(f"the file {file!r} is not in the folder of the entity file or below; copy it there", place)
    elif names_url(file):
        section.refuse(f"the file {file!r} is a URL; copy it to this machine", place)
    section.files.append(path)
    entries: list[Entry] = []
    for row, fields in _rows(utf8.read(path, plain=True), path, 2, _LIST_COLUMNS):
        entries.append(_entry(section, fields[0].strip(), fields[1:], row))
        if len(entries) == first:
            break
    else:
        if isinstance(first, int):
            section.short_file = (
                f"{path} has {len(entries)} phrases, fewer than the first {first} that {section.label} asks for"
            )
    section.entries += entries


def _rows(text: str, path: str, least: int, columns: str) -> Iterator[tuple[Place, list[str]]]:
    """Yield place and columns of each line that is not empty or a comment; there are `least` to `least` + 2."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            fields = line.split("\t")
            if not least <= len(fields) <= least + 2:
                message = f"expected {least} to {least + 2} columns ({columns}), found {line[:60]!r}"
                raise FormatError(message, path, line=number)
            yield Place(path, number), fields


def _shown(value: object) -> str:
    """Return a value for an error message; only the type of a large or nested one."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    shown = "null" if value is None else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
