"""Files with a record of an utterance on each line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TypeVar

from ninja.errors import FormatError
from ninja.files import text as utf8

Value = TypeVar("Value")


class RecordError(Exception):
    """An invalid line; ``read_records`` adds the file and the line number."""


def read_records(
    path: str | os.PathLike[str], parser: Callable[[str], Callable[[str], tuple[str, Value]]]
) -> dict[str, Value]:
    """Read the record of each utterance, by its id; ``.gz`` is decompressed.

    `parser` takes the whole text and returns a function from a line to an utterance id and a value.
    """
    text = utf8.read(path)
    if not text:
        raise FormatError("the file is empty", path)
    parse = parser(text)
    records: dict[str, Value] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            key, value = parse(line.rstrip("\r"))
        except RecordError as error:
            raise FormatError(str(error), path, line=number) from error.__cause__
        if key in records:
            raise FormatError(f"utterance {key!r} occurs twice", path, line=number)
        records[key] = value
    return records


def parse_json(text: str) -> object:
    """Parse JSON within a record."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{text[:60]!r} is not JSON: {error}") from error
