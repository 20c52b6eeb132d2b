"""Reader for files with one record per line; each record belongs to one utterance."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TypeVar

from ninja.errors import FormatError
from ninja.files.stream import text_of

Value = TypeVar("Value")


class RecordError(Exception):
    """Error for an invalid line; ``read_records`` adds the file and the line number."""


def read_records(
    path: str | os.PathLike[str], parser: Callable[[str], Callable[[str], tuple[str, Value]]]
) -> dict[str, Value]:
    """Read a file in which each line is the record of one utterance; gzip files are decompressed.

    Args:
        path: The file.
        parser: Function that accepts the text of the file, and returns a function that converts each line to
            ``(utterance id, value)``.

    Returns:
        The values by utterance id.

    Raises:
        FormatError: The file is empty, not UTF-8 or damaged, a line is invalid, or an id occurs twice.
    """
    text = text_of(path)
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
    """Parse a JSON value in a record; raise RecordError if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{text[:60]!r} is not JSON: {error}") from error
