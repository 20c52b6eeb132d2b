"""Parse entity files in four formats (phrase lists, JSON, JSONL and TSV) into sections.

    list    one phrase per line, for all utterances; used if the file contains no tab
    JSON    {"@name": ["tom chen", {"text": "kathi", "weight": 2, "pronunciations": ["K AE TH IY"]}]}
            {"lists": {NAME: {…}}, "all": {…}, "groups": {NAME: {…}}, "utterances": {KEY: {…}}}
    JSONL   {"utt": KEY, "@name": […], "group": NAME, "lists": [NAME]}
            instead of "utt": KEY, a line may contain "list": NAME, "group": NAME or "all": true
    TSV     SCOPE ⇥ CLASS ⇥ PHRASE [⇥ WEIGHT [⇥ PRONUNCIATION]]
            SCOPE ⇥ "lists", "group" or "file" ⇥ NAME; SCOPE is KEY, *, group:NAME or list:NAME

A list can refer to a phrase file, whose lines are CLASS ⇥ PHRASE [⇥ WEIGHT [⇥ PRONUNCIATION]].
This module checks the format; ``lists`` checks phrases, names and duplicates.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn

from ninja.context.entities.edit_evidence import EditEvidence, divide
from ninja.errors import FormatError
from ninja.files.names import below, names_url
from ninja.files.stream import decoded, text_of
from ninja.lm.ngram.classes import is_class

Kind = Literal["all", "group", "list", "utt"]

NO_CLASS = "phrases"  # key for the class ""
EVERYONE = "*"
_CLASSES = f'classes (@…, $…, <…>), "{NO_CLASS}", "entities"'
_KEYS: dict[Kind, tuple[str, ...]] = {  # in addition to classes
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


class Location(NamedTuple):
    """Location of an entry: file, line, and index in the list of a class."""

    path: str | None
    line: int | None = None
    entry: int = 0  # index from 1; 0 if a line contains a single entry

    def seen_from(self, home: str | None) -> str:
        """Return the location as text, without the file name if the file is `home`."""
        parts = [self.path] if self.path is not None and self.path != home else []
        parts += [f"line {self.line}"] if self.line is not None else []
        parts += [f"entry {self.entry}"] if self.entry else []
        return ", ".join(parts)


class Entry(NamedTuple):
    """A phrase as written in an entity file, before normalisation."""

    class_name: str
    text: str
    weight: float
    pronunciations: tuple[str, ...]
    location: Location


@dataclass(slots=True)
class Section:
    """A section of an entity file, with phrases and list names for all utterances, a group, a list or an utterance."""

    kind: Kind
    name: str
    location: Location
    entries: list[Entry] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    group: str | None = None
    short_file: str = ""  # note about a phrase file with fewer phrases than requested
    files: list[str] = field(default_factory=list)  # phrase files that the section names
    added: list[Entry] = field(default_factory=list)  # phrases that edits added

    @property
    def label(self) -> str:
        """Name of the section in error messages, such as "all utterances" or "group 'NAME'"."""
        return "all utterances" if self.kind == "all" else f"{_LABEL[self.kind]} {self.name!r}"

    def refuse(self, reason: str, location: Location | None = None, class_name: str | None = None) -> NoReturn:
        """Raise a FormatError that specifies the section, class and entry.

        For a line that contains only one entry, the error specifies only the file and the line.
        """
        path, line, entry = location or self.location
        parts = [self.label] if entry or line is None or location is None else []
        parts += [class_name or NO_CLASS] if class_name is not None and parts else []
        parts += [f"entry {entry}"] if entry else []
        raise FormatError(f"{', '.join(parts)}: {reason}" if parts else reason, path, line=line)

    def refuse_entry(self, reason: str, entry: Entry) -> NoReturn:
        """Raise a FormatError about a phrase."""
        self.refuse(reason, entry.location, entry.class_name)


def read_sections(path: str, content: bytes | None = None) -> tuple[list[Section], EditEvidence]:
    """Read an entity file and the evidence from edits that `ninja learn` added to it.

    The format is detected from the content.

    Args:
        path: Path of the file.
        content: Content of the file. If None, it is read from `path`.
    """
    text, runs = divide(text_of(path) if content is None else decoded(content, path), path)
    edits = EditEvidence.of(runs)
    sections = _sections(text, path)
    if edits.new:
        if not any(section.kind == "all" for section in sections):
            sections.append(Section("all", EVERYONE, Location(path)))
        everyone = next(section for section in sections if section.kind == "all")
        everyone.added = [Entry(item.cls, item.phrase, 1.0, (), Location(path)) for item in edits.new]
    return sections, edits


def _sections(text: str, path: str) -> list[Section]:
    start = text.lstrip()[:1]
    if start == "[":
        raise FormatError(
            'the top level is a list; write an object such as {"@name": [...]}, or one object per line', path
        )
    if start != "{":
        return _from_tsv(text, path) if "\t" in text else _from_phrases(text, path)
    first, _, rows = text.lstrip().partition("\n")
    try:
        content = _parse(first, path, text[: -len(text.lstrip())].count("\n") + 1)
    except FormatError as error:
        if not isinstance(error.__cause__, json.JSONDecodeError):
            raise
        return sections_of(_parse(text, path, None), path)
    if rows.strip() or not {"utt", "list", "group"}.isdisjoint(content) or content.get("all") is True:
        return _from_lines(text, path)
    return sections_of(content, path)


def sections_of(content: Mapping[str, Any], path: str | None) -> list[Section]:
    """Return the sections in the content of a JSON file; relative paths start from the directory of `path`."""
    if not isinstance(content, Mapping):
        raise FormatError(f"entities must be an object with classes as keys, not {_shown(content)}", path)
    plain, sections = {}, []
    for key, value in content.items():
        if key in _TOP:
            if not isinstance(value, Mapping):
                raise FormatError(f"{key!r} must be an object with names as keys, not {_shown(value)}", path)
            sections += [_section(_TOP[key], name, section, Location(path)) for name, section in value.items()]
        elif key == "all":
            sections.append(_section("all", EVERYONE, value, Location(path)))
        elif _class_of(key) is None and key != "entities":
            message = f'unknown key {key!r}; allowed keys: {_CLASSES}, "all", "lists", "groups", "utterances"'
            raise FormatError(message, path)
        else:
            plain[key] = value
    if plain and "all" in content:
        raise FormatError(
            "phrases for all utterances are both at the top level and under 'all'; move all of them to 'all'", path
        )
    return [_section("all", EVERYONE, plain, Location(path)), *sections] if plain else sections


def _parse(text: str, path: str, line: int | None) -> dict[str, Any]:
    """Parse the JSON object in a line, or in a file if `line` is None."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            duplicate = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise FormatError(
                f"the key {duplicate!r} occurs twice in an object; merge the occurrences", path, line=line
            )
        return result

    try:
        content = json.loads(text, object_pairs_hook=unique)
    except FormatError:
        raise
    except json.JSONDecodeError as error:
        raise FormatError(
            f"not valid JSON: {error.msg}, column {error.colno}", path, line=line or error.lineno
        ) from error
    except RecursionError:
        raise FormatError("the JSON is nested too deeply", path, line=line) from None
    except ValueError as error:  # an integer with thousands of digits
        raise FormatError(f"not valid JSON: {error}", path, line=line) from error
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
        # "utt" is first, because a line with "utt" may also contain "group".
        kind = next((kind for kind in kinds if kind in content), None)
        if kind is None:
            raise FormatError('a line must contain "utt", "group", "list", or "all": true', path, line=number)
        name = content.pop(kind)
        if kind == "all":
            if name is not True:
                raise FormatError(f'"all" must be true, not {_shown(name)}', path, line=number)
            name = EVERYONE
        sections.append(_section(kind, name, content, Location(path, number)))
    return sections


def _section(kind: Kind, name: object, content: object, location: Location) -> Section:
    if not isinstance(name, str) or not name.strip():
        message = (
            f"the name of {'an' if kind == 'utt' else 'a'} {_LABEL[kind]} must be a non-empty string, "
            f"not {_shown(name)}"
        )
        raise FormatError(message, location.path, line=location.line)
    section = Section(kind, name, location)
    if not isinstance(content, Mapping):
        section.refuse(f"expected an object with classes as keys, found {_shown(content)}")
    entries: list[Entry] = []
    for key, value in content.items():
        class_name = _class_of(key)
        if class_name is not None or key == "entities":
            entries += _entries(section, key, class_name, value)
        elif key not in _KEYS[kind]:
            keys = ", ".join([_CLASSES, *(f'"{name}"' for name in _KEYS[kind])])
            section.refuse(f"unknown key {key!r}; allowed keys: {keys}")
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
        section.refuse('"first" is the number of phrases to read from a file; add "file", or remove "first"')
    section.entries += entries
    return section


def _class_of(key: object) -> str | None:
    """Return the class that a key or value in an entity file denotes ("" for no class); None if it is not a class."""
    if key in ("", NO_CLASS):
        return ""
    return key if isinstance(key, str) and is_class(key) else None


def _entries(section: Section, key: str, class_name: str | None, values: object) -> Iterator[Entry]:
    """Yield the phrases in the value of a JSON key; if `class_name` is None, each phrase specifies its class."""
    if not isinstance(values, list | tuple):
        section.refuse(f"{key!r} must be a list of phrases, not {_shown(values)}")
    known = ("text", "weight", "pronunciations", *(() if class_name is not None else ("class",)))
    for number, value in enumerate(values, start=1):
        location = Location(section.location.path, section.location.line, number)
        if isinstance(value, str) and class_name is not None:
            yield Entry(class_name, value, 1.0, (), location)
            continue
        if not isinstance(value, Mapping):
            keys = '"text"' if class_name is not None else '"class" and "text"'
            section.refuse(f"expected a phrase or an object with {keys}, found {_shown(value)}", location, key)
        if unknown := [name for name in value if name not in known]:
            section.refuse(f"unknown key {unknown[0]!r}; allowed keys: {', '.join(known)}", location, key)
        cls = class_name if class_name is not None else _class_of(value.get("class"))
        if cls is None:
            section.refuse(f'"class" must be "", @…, $… or <…>, not {_shown(value.get("class"))}', location, key)
        text, weight = value.get("text"), value.get("weight", 1.0)
        if not isinstance(text, str):
            section.refuse(f'"text" must be a string, not {_shown(text)}', location, key)
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            section.refuse(f'"weight" must be a number, not {_shown(weight)}', location, key)
        spoken = value.get("pronunciations", [])
        if not isinstance(spoken, list | tuple) or not all(isinstance(phones, str) for phones in spoken):
            reason = f'"pronunciations" must be a list of strings such as "T AA M", not {_shown(spoken)}'
            section.refuse(reason, location, key)
        yield Entry(cls, text, _number(section, weight, location, key), tuple(spoken), location)


def _number(section: Section, weight: str | float, location: Location, key: str) -> float:
    try:
        return float(weight)
    except (ValueError, OverflowError):
        section.refuse(f"the weight {_shown(weight)} is not a number or is too large", location, key)


def _from_phrases(text: str, path: str) -> list[Section]:
    """Parse a list with one phrase per line, without classes, into a section that applies to all utterances."""
    section = Section("all", EVERYONE, Location(path))
    section.entries = [_entry(section, "", fields, location) for location, fields in _rows(text, path, 1, "phrase")]
    return [section]


def _from_tsv(text: str, path: str) -> list[Section]:
    sections: dict[tuple[Kind, str], Section] = {}
    for location, fields in _rows(text, path, 3, _COLUMNS):
        kind, name = _scope(fields[0], location)
        section = sections.setdefault((kind, name), Section(kind, name, location))
        key, value = fields[1].strip(), fields[2]
        if key in _KEYS[kind] and key != "first":
            _set(section, key, value.strip(), fields[3:], location)
        else:
            section.entries.append(_entry(section, key, fields[2:], location, _KEYS[kind]))
    return list(sections.values())


def _scope(column: str, location: Location) -> tuple[Kind, str]:
    head, colon, tail = column.partition(":")
    kind: Kind = "all" if column == EVERYONE else "utt"
    name = column
    if colon and head in ("list", "group"):
        kind, name = ("list" if head == "list" else "group"), tail
    if not name.strip() or name != name.strip():
        message = (
            f"the first column must be UTTERANCE, list:NAME, group:NAME or {EVERYONE}, without spaces around names"
        )
        raise FormatError(f"{message}, not {column!r}", location.path, line=location.line)
    return kind, name


def _set(section: Section, key: str, value: str, more: list[str], location: Location) -> None:
    """Add to a section the list, the group or the phrase file that a line of an entity file specifies."""
    if key == "file":
        first = more[0].strip() if more else ""
        if first and not (first.isascii() and first.isdigit()):
            section.refuse(f"the number of phrases must be an integer of at least 1, not {first!r}", location)
        _add_file(section, value, int(first[:12]) if first else None, location)
        return
    if any(column.strip() for column in more):
        section.refuse(f"a line with {key!r} must have three columns", location)
    if key == "lists":
        section.lists.append(value)
    elif section.group not in (None, value):
        reason = f"utterance {section.name!r} is in two groups, {section.group!r} and {value!r}"
        section.refuse(f"{reason}; keep only one of these lines", location)
    else:
        section.group = value


def _entry(section: Section, key: str, columns: list[str], location: Location, others: tuple[str, ...] = ()) -> Entry:
    """Return the entry in the columns phrase, weight and pronunciation."""
    class_name = "" if key in ("", "-") else _class_of(key)
    if class_name is None:
        keys = "".join(f", {name!r}" for name in others if name != "first")
        section.refuse(f"unknown class {key!r}; allowed classes: @…, $…, <…>, '-' for no class{keys}", location)
    text, weight, spoken = (*columns, "", "")[:3]
    factor = _number(section, weight, location, key) if weight.strip() else 1.0
    return Entry(class_name, text, factor, (spoken,) if spoken.strip() else (), location)


def _add_file(section: Section, file: object, first: object, location: Location | None = None) -> None:
    """Add the phrases of a file to a section; if `first` is a number, add at most that many phrases.

    The columns of the file are class, phrase, weight and pronunciation; the last two are optional.
    """
    if not isinstance(file, str) or not file or "\0" in file:
        section.refuse(f'"file" must be the name of a file, not {_shown(file)}', location)
    if first is not None and (isinstance(first, bool) or not isinstance(first, int) or not 1 <= first <= _FIRST_MOST):
        section.refuse(f"the number of phrases must be an integer of at least 1, not {_shown(first)}", location)
    path = file
    if section.location.path is not None:  # otherwise the content comes from `Entities.from_dict`
        try:
            path = below(file, section.location.path)
        except FormatError:
            section.refuse(
                f"the file {file!r} is not in the directory of the entity file or a subdirectory; copy it there",
                location,
            )
    elif names_url(file):
        section.refuse(f"the file {file!r} is a URL; copy it to this machine", location)
    section.files.append(path)
    entries: list[Entry] = []
    for row, fields in _rows(text_of(path, plain=True), path, 2, _LIST_COLUMNS):
        entries.append(_entry(section, fields[0].strip(), fields[1:], row))
        if len(entries) == first:
            break
    else:
        if isinstance(first, int):
            section.short_file = (
                f"{path} has only {len(entries)} phrases, but {section.label} requests the first {first}"
            )
    section.entries += entries


def _rows(text: str, path: str, least: int, columns: str) -> Iterator[tuple[Location, list[str]]]:
    """Yield (location, columns) for each line of a TSV file or phrase list, except empty lines and comments.

    Raises:
        FormatError: A line does not have `least` to `least` + 2 columns.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            fields = line.split("\t")
            if not least <= len(fields) <= least + 2:
                message = f"expected {least} to {least + 2} columns ({columns}), found {line[:60]!r}"
                raise FormatError(message, path, line=number)
            yield Location(path, number), fields


def _shown(value: object) -> str:
    """Return a description of a value for messages: the value, or only its type if it is large or nested."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    shown = "null" if value is None else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
