"""The classes `RescoreRequest` and `CorrectRequest`, and functions that parse their fields."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ninja.formats.nbest.json_lists import loaded
from ninja.lm.ngram.classes import is_class
from ninja.serve.problems import Problem

MAX_N = 1000  # maximum number of hypotheses in a response
MAX_KEY = 1024  # maximum number of characters of a key
NO_CLASS = "phrases"  # name for phrases without a class, as in entity files
JSON_FORMAT = "json"
DESCRIPTIONS = {
    "lattice": "The lattice as text, for text formats.",
    "lattice_base64": "The lattice in base64, for binary or compressed formats.",
    "nbest": "Hypotheses, instead of a lattice: objects with `text`, and `score` or `am_score` and `lm_score` "
    "(natural-log probabilities).",
    "key": "Utterance id.",
    "format": "Format of the lattice.  [default: detected from the content]",
    "to": "Format of the response.  [default: a JSON document with the schema `Answer`]",
    "n": "Maximum number of hypotheses in the response.",
    "entities": "Phrases for this request: a list, or an object that maps classes, such as `@name`, to lists. A phrase "
    "is a string, or an object with `text` and `weight`.",
    "lists": "Names of the server's phrase lists to use.",
    "deadline_ms": "Milliseconds after which the best answer so far is returned; `complete` is false if the search "
    "had not ended.",
}
CORRECT_DESCRIPTIONS = {
    "transcript": "The transcript: the JSON document of a recogniser, or the text of a file.",
    "format": "Format of the transcript.  [default: detected from the content]",
    "entities": DESCRIPTIONS["entities"],
    "lists": DESCRIPTIONS["lists"],
}


@dataclass(frozen=True, slots=True)
class RescoreRequest:
    """A lattice or an n-best list, and options for rescoring it; `DESCRIPTIONS` explains the fields."""

    body: bytes  # content of a file
    format: str | None = None
    key: str | None = None
    to: str | None = None
    n: int = 5
    entities: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # by class
    lists: tuple[str, ...] = ()
    deadline_ms: float | None = None


@dataclass(frozen=True, slots=True)
class CorrectRequest:
    """A transcript, and phrases for correcting it; `CORRECT_DESCRIPTIONS` explains the fields."""

    body: bytes  # content of a file
    format: str | None = None
    entities: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # by class
    lists: tuple[str, ...] = ()
    is_value: bool = False  # the transcript was a JSON value, and is returned as one


def check_phrases(entities: Mapping[str, Sequence[Any]], most: int) -> None:
    """Raise `Problem` if a request contains too many phrases; the phrases of named lists are not counted."""
    if (count := sum(map(len, entities.values()))) > most:
        raise Problem(413, f"the request has {count} phrases; at most {most} are allowed")


def from_query(body: bytes, query: Sequence[tuple[str, str]]) -> RescoreRequest:
    """Create a request from a lattice in the body and options in the query string of the URL.

    Raises:
        Problem: A parameter is unknown, occurs twice, or has an invalid value.
    """
    return RescoreRequest(body, **checked(_query_values(query, ("key", "format", "to", "n", "deadline_ms"))))


def correction_from_query(body: bytes, query: Sequence[tuple[str, str]]) -> CorrectRequest:
    """Create a request from a transcript in the body and options in the query string of the URL.

    Raises:
        Problem: A parameter is unknown, occurs twice, or has an invalid value.
    """
    return CorrectRequest(body, **checked(_query_values(query, ("format",))))


def _query_values(query: Sequence[tuple[str, str]], known: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in query:
        if name in ("list", "phrase"):
            values.setdefault({"list": "lists", "phrase": "entities"}[name], []).append(text)
        elif name not in known:
            raise Problem(400, f"unknown query parameter {name!r:.80}; allowed: {', '.join(known)}, list, phrase")
        elif name in values:
            raise Problem(400, f"the query parameter {name} is given twice; specify it once")
        else:
            values[name] = _number(name, text) if name in ("n", "deadline_ms") else text
    return values


def from_json(content: bytes) -> RescoreRequest:
    """Create a request from a JSON object with the fields of `DESCRIPTIONS`.

    Raises:
        Problem: The content is not JSON, or a field is unknown, missing or invalid.
    """
    values = json_values(content, DESCRIPTIONS)
    sources = [name for name in ("lattice", "lattice_base64", "nbest") if name in values]
    if len(sources) != 1:
        message = f"the request contains {' and '.join(sources) or 'no lattice'}"
        raise Problem(400, f"{message}; specify exactly one of lattice, lattice_base64 and nbest")
    return RescoreRequest(content_of(sources[0], values.pop(sources[0]), values), **checked(values))


def correction_from_json(content: bytes) -> CorrectRequest:
    """Create a request from a JSON object with the fields of `CORRECT_DESCRIPTIONS`.

    Raises:
        Problem: The content is not JSON, or a field is unknown, missing or invalid.
    """
    values = json_values(content, CORRECT_DESCRIPTIONS)
    transcript = values.pop("transcript", None)
    if isinstance(transcript, str):
        return CorrectRequest(transcript.encode("utf-8", "surrogatepass"), **checked(values))
    if not isinstance(transcript, dict | list):
        name = "transcript is missing" if transcript is None else f"transcript is {shown(transcript)}"
        raise Problem(400, f"{name}; it must be text, an object or a list")
    try:
        content = json.dumps(transcript, allow_nan=False).encode()
    except ValueError:
        raise Problem(400, "transcript contains a number that is too large") from None
    return CorrectRequest(content, **checked(values), is_value=True)


def json_values(content: bytes, known: Collection[str]) -> dict[str, Any]:
    """Parse a JSON object, check its field names, and return the fields that are not null."""
    try:
        entry, has_double = loaded(content.decode("utf-8"))
    except ValueError as error:
        raise Problem(400, f"the content is not JSON: {str(error)[:80]}") from None
    if not isinstance(entry, dict):
        raise Problem(400, f"expected a JSON object, found {shown(entry)}")
    if has_double:
        raise Problem(400, "an object contains a field twice; specify each field once")
    if unknown := [name for name in entry if name not in known]:
        raise Problem(400, f"unknown field {unknown[0]!r:.80}; allowed fields: {', '.join(known)}")
    return {name: value for name, value in entry.items() if value is not None}


def content_of(name: str, value: Any, values: dict[str, Any]) -> bytes:
    """Return the lattice in a request field as the content of a file."""
    if name == "nbest":
        if not isinstance(value, list):
            raise Problem(400, f"nbest is {shown(value)}, but must be a list of hypotheses")
        if values.setdefault("format", JSON_FORMAT) != JSON_FORMAT:
            raise Problem(
                400, f"format is {values['format']!r:.80}, but the format of nbest is always json; omit format"
            )
        key = values.get("key", "")
        return json.dumps({"key": key if isinstance(key, str) and key else "utterance", "nbest": value}).encode()
    if not isinstance(value, str):
        raise Problem(400, f"{name} is {shown(value)}, but must be text")
    return value.encode("utf-8", "surrogatepass") if name == "lattice" else from_base64(name, value)


def from_base64(name: str, text: str) -> bytes:
    """Decode a field in base64; raise `Problem` if it is malformed."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Problem(400, f"{name} is not base64: {error}") from None


def _number(name: str, text: str) -> Any:
    try:
        return int(text) if name == "n" else float(text)
    except ValueError:
        raise Problem(400, f"{name} is {text!r:.80}, but must be a number") from None


def checked(values: dict[str, Any]) -> dict[str, Any]:
    """Check the fields of a request and return their values.

    Raises:
        Problem: A value is invalid.
    """
    checks: dict[str, Callable[[Any], Any]] = {
        "key": lambda value: _text("key", value, MAX_KEY),
        "format": lambda value: _text("format", value, 80),
        "to": lambda value: _text("to", value, 80),
        "n": _n,
        "entities": _entities,
        "lists": _lists,
        "deadline_ms": _deadline,
    }
    return {name: checks[name](value) for name, value in values.items()}


def _text(name: str, value: Any, most: int) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= most:
        raise Problem(400, f"{name} is {shown(value)}, but must be a string of 1 to {most} characters")
    if any(0xD800 <= ord(char) < 0xE000 for char in value):
        raise Problem(400, f"{name} contains a surrogate, which UTF-8 cannot encode; remove it")
    return value


def _n(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_N:
        raise Problem(400, f"n is {shown(value)}, but must be an integer from 1 to {MAX_N}")
    return value


def _deadline(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Problem(400, f"deadline_ms is {shown(value)}, but must be a number")
    if not 0 < value < math.inf:
        raise Problem(400, f"deadline_ms is {shown(value)}, but must be a finite number above 0")
    return min(float(value), 1e9)


def _lists(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise Problem(400, f"lists is {shown(value)}, but must be a list of names")
    return tuple(dict.fromkeys(value))


def _entities(value: Any) -> dict[str, list[Any]]:
    """Return the phrases by class; other fields of entity files are refused, because they may refer to files."""
    if isinstance(value, list):
        value = {NO_CLASS: value}
    if not isinstance(value, dict):
        allowed = "a list of phrases, or an object that maps classes to lists of phrases"
        raise Problem(400, f"entities is {shown(value)}, but must be {allowed}")
    for name, phrases in value.items():
        if name != NO_CLASS and not is_class(name):
            raise Problem(
                400, f"entities contains {name!r:.80}, which is neither a class (@…, $…, <…>) nor {NO_CLASS!r}"
            )
        if not isinstance(phrases, list):
            raise Problem(400, f"the phrases of {name!r:.80} are {shown(phrases)}, but must be a list")
    return value


def shown(value: Any) -> str:
    """Return a shortened representation of a value for a message."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    return "null" if value is None else f"{value!r:.60}"
