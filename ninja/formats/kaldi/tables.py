"""Readers for Kaldi text tables, such as ``text``, ``utt2spk`` and ``segments``: lines with a key and fields.

Only ASCII whitespace separates fields, because some vocabularies contain words with Unicode spaces.

Source: Kaldi, "Data preparation".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ninja.errors import FormatError
from ninja.files.text import line_fields, read_named

Name = str | os.PathLike[str]
Row = tuple[int, list[str]]  # line number and fields
_JSON = re.compile(r'(?:\[ ?)?\{(?: ?"|$)|\[$')
_COMMENT = ";;"  # prefix of comments in NIST formats
_TRN_ID = re.compile(r"\(([^()]+)\)")
_ID_MARK = re.compile(r"[0-9-]")
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")


def read_fields(path: Name) -> Iterator[Row]:
    """Yield ``(line number, fields)`` for each line in a file (``-``, ``ark:F``, ``F.gz`` or ``gunzip -c F |``)."""
    return fields_of(read_named(path))


def fields_of(text: str) -> Iterator[Row]:
    """Yield ``(line number, fields)`` for each line in a text."""
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), start=1):
        yield number, line_fields(line)


def read_text(path: Name) -> dict[str, list[str]]:
    """Read transcripts, keyed by utterance id, from lines ``id words`` or, in NIST's trn format, ``words (id)``.

    Raises:
        FormatError: A line is empty, an id occurs twice, or the file is empty, damaged, not UTF-8, or in JSON or
            STM format.
    """
    return text_of(list(read_fields(path)), path)


def text_of(rows: list[Row], path: Name) -> dict[str, list[str]]:
    """Parse the lines of a file as transcripts; see ``read_text``."""
    if is_stm(rows, path):
        message = "the file is in STM format, which has no utterance ids; use `ninja score` with --segments"
        raise FormatError(message, path)
    if _JSON.match(" ".join(next((fields for _, fields in rows if fields), []))):
        raise FormatError("the file is JSON, but each line must consist of an utterance id and words", path)
    transcripts: dict[str, list[str]] = {}
    for number, key, words in _trn(rows, path) if is_trn(rows, path) else _keyed(rows, path):
        if key in transcripts:
            raise FormatError(f"utterance {key!r} occurs twice", path, line=number)
        transcripts[key] = words
    if not transcripts:
        raise FormatError("the file is empty", path)
    return transcripts


def _keyed(rows: list[Row], path: Name) -> Iterator[tuple[int, str, list[str]]]:
    for number, fields in rows:
        if not fields:
            raise FormatError("the line is empty; an utterance id is needed", path, line=number)
        yield number, fields[0], fields[1:]


def _trn(rows: list[Row], path: Name) -> Iterator[tuple[int, str, list[str]]]:
    """Yield ``(line number, utterance id, words)`` for each line in NIST's trn format.

    Source: NIST SCTK, doc/infmts.htm.
    """
    for number, fields in rows:
        if not fields or fields[0].startswith(_COMMENT):
            continue
        match = _TRN_ID.fullmatch(fields[-1])
        if match is None:
            message = f"expected words and an utterance id in parentheses, found {' '.join(fields)[:60]!r}"
            raise FormatError(message, path, line=number)
        if "{" in fields:
            message = "the line has alternatives { … / … }, which are not supported; keep one"
            raise FormatError(message, path, line=number)
        yield number, match[1], fields[:-1]


def is_trn(rows: list[Row], path: Name) -> bool:
    """Return whether a file is in trn format, judging by its name or by an id in parentheses at the end of each line.

    To exclude tags such as ``(noise)``, there must be at least two lines, and ids must be distinct and contain a digit
    or a hyphen.
    """
    if _ends_in(path, ".trn"):
        return True
    lasts = [fields[-1] for _, fields in rows if fields and not fields[0].startswith(_COMMENT)]
    ids = [match[1] for last in lasts if (match := _TRN_ID.fullmatch(last)) is not None]
    return len(ids) == len(lasts) == len(set(ids)) > 1 and all(map(_ID_MARK.search, ids))


def is_stm(rows: list[Row], path: Name) -> bool:
    """Return whether a file is in STM format, judged by its name or fields (file, channel, speaker, start, end, words).

    At least one time must have a decimal point, because the words of a transcript can also be digits.
    """
    if _ends_in(path, ".stm"):
        return True
    lines = [fields for _, fields in rows if fields and not fields[0].startswith(_COMMENT)]
    return (
        bool(lines)
        and all(len(fields) > 4 and _SECONDS.fullmatch(fields[3]) and _SECONDS.fullmatch(fields[4]) for fields in lines)
        and all(float(fields[3]) < float(fields[4]) for fields in lines)
        and any("." in fields[3] or "." in fields[4] for fields in lines)
    )


def _ends_in(path: Name, extension: str) -> bool:
    return os.fspath(path).removesuffix(".gz").endswith(extension)


def read_speakers(path: Name) -> dict[str, str]:
    """Read the speaker or group of each utterance from a file such as ``utt2spk``.

    Raises:
        FormatError: A line does not consist of an utterance id and a speaker, or an id occurs twice.
    """
    return {key: speaker for _, (key, speaker) in _rows(path, "an utterance id and its speaker", 2)}


def read_segments(path: Name) -> dict[str, tuple[str, float, float]]:
    """Read ``(recording, start, end)`` for each utterance from a file such as ``segments``; times are in seconds.

    Raises:
        FormatError: A line does not have these fields, or an id occurs twice.
    """
    segments = {}
    for number, (key, recording, begin, end) in _rows(path, "an utterance id, its recording, start and end", 4):
        try:
            segments[key] = recording, float(begin), float(end)
        except ValueError as error:
            message = f"expected start and end in seconds, found {begin!r} and {end!r}"
            raise FormatError(message, path, line=number) from error
    return segments


def _rows(path: Name, columns: str, width: int) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields)`` for each non-empty line."""
    keys: set[str] = set()
    for number, fields in read_fields(path):
        if not fields:
            continue
        if len(fields) != width:
            raise FormatError(f"expected {columns}, found {' '.join(fields)[:60]!r}", path, line=number)
        if fields[0] in keys:
            raise FormatError(f"utterance {fields[0]!r} occurs twice", path, line=number)
        keys.add(fields[0])
        yield number, fields
