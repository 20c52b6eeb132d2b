"""Biasing lists: for each utterance the words its recogniser was told to expect, and the rare ones in its reference."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ninja.evaluate.records import RecordError, parse_json, read_records

_FIELDS = ("utt", "text", "rare", "bias")
_COLUMNS = "an utterance id, its text, the JSON list of its rare words and the JSON biasing list, parted by tabs"


@dataclass(frozen=True, slots=True)
class BiasingList:
    """The biasing list of one utterance."""

    rare: frozenset[str]  # rare words of the reference: errors on these, and only these, are biased errors
    bias: tuple[str, ...] = ()  # the whole list, with words that are not said; no score depends on it
    text: tuple[str, ...] | None = None  # words said, where the file holds them


def read_biasing(path: str | os.PathLike[str]) -> dict[str, BiasingList]:
    """Read the biasing lists of a test set, by utterance id; ``.gz`` is unpacked.

    Two forms, told apart by the first character. The benchmark's table has a line for each utterance: its id, its
    text, the rare words in the text as a JSON list, the biasing list as another (which may be left out), parted by
    tabs. JSON lines hold the same as ``{"utt": …, "rare": […], "bias": […], "text": …}``, the last two optional.

    Raises:
        FormatError: A line does not hold these, a word is none, an id occurs twice, the file is empty, not UTF-8 or
            damaged.
        InputError: The file cannot be read.

    Source: facebookresearch/fbai-speech, is21_deep_bias, README.
    """
    return read_records(path, lambda text: _object if text.lstrip().startswith("{") else _columns)


def _columns(row: str) -> tuple[str, BiasingList]:
    fields = row.split("\t")
    if len(fields) not in (3, 4) or not fields[0]:
        raise RecordError(f"expected {_COLUMNS}; found {row[:60]!r}")
    found: dict[str, object] = {"utt": fields[0], "text": fields[1]}
    for field, content in zip(("rare", "bias"), fields[2:], strict=False):
        found[field] = parse_json(content)
    return _checked(found)


def _object(row: str) -> tuple[str, BiasingList]:
    found = parse_json(row)
    if not isinstance(found, dict):
        raise RecordError(f"expected a JSON object with {', '.join(_FIELDS)}; found {row[:60]!r}")
    if unknown := [field for field in found if field not in _FIELDS]:
        raise RecordError(f"unknown key {unknown[0]!r}; known are {', '.join(_FIELDS)}")
    return _checked(found)


def _checked(found: Mapping[str, object]) -> tuple[str, BiasingList]:
    for field in ("utt", "rare"):
        if field not in found:
            what = "the utterance id" if field == "utt" else "the rare words said"
            raise RecordError(f"{field!r} is missing; give {what}")
    key, text = found["utt"], found.get("text")
    if not isinstance(key, str) or not key:
        raise RecordError(f"the utterance id is {key!r}, but must be a string that is not empty")
    if text is not None and not isinstance(text, str):
        raise RecordError(f"the text of {key!r} is {text!r}, but must be a string")
    rare, bias = (_words(found.get(field, []), field) for field in ("rare", "bias"))
    return key, BiasingList(frozenset(rare), tuple(bias), None if text is None else tuple(text.split()))


def _words(found: object, field: str) -> list[str]:
    if not isinstance(found, list):
        raise RecordError(f"{field!r} is no list, but {str(found)[:60]!r}")
    for word in found:
        # Errors are counted word by word: one with a blank in it would never be found.
        if not isinstance(word, str) or word.split() != [word]:
            raise RecordError(f"{field!r} holds {word!r}, which is not one word; give the words of phrases one by one")
    return found
