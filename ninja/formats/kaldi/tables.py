"""Kaldi text tables: lines of a key and fields, as in ``text``, ``utt2spk`` and ``segments``.

Fields are separated by ASCII blanks only, as some vocabularies have words with Unicode spaces.

Source: Kaldi, "Data preparation".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ninja.errors import FormatError
from ninja.files.text import read_named

Name = str | os.PathLike[str]
Row = tuple[int, list[str]]  # line number and fields
_COMMENT = ";;"  # in formats of NIST
_TRN_ID = re.compile(r"\(([^()]+)\)")
_ID_MARK = re.compile(r"[0-9-]")
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")


def read_fields(path: Name) -> Iterator[Row]:
    """Yield number, from 1, and fields of each line; ``-``, ``ark:F``, ``.gz`` and ``gunzip -c F |`` are accepted."""
    return fields_of(read_named(path))


def fields_of(text: str) -> Iterator[Row]:
    """Yield number, from 1, and fields of each line."""
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), start=1):
        yield number, [field for field in line.replace("\t", " ").rstrip("\r").split(" ") if field]


def read_text(path: Name) -> dict[str, list[str]]:
    """Read transcripts: on each line an utterance id and its words, or NIST's trn, words and ``(id)``.

    Raises:
        FormatError: A line is empty, an id occurs twice, the file holds nothing, is not UTF-8 or damaged; or it is STM.
    """
    return text_of(list(read_fields(path)), path)


def text_of(rows: list[Row], path: Name) -> dict[str, list[str]]:
    """Return the transcripts of the lines of a file; see ``read_text``."""
    if is_stm(rows, path):
        message = "this is STM, whose lines have no utterance ids; `ninja score` takes it with --segments"
        raise FormatError(message, path)
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
    """Yield number, utterance id and words of each line of the trn format of NIST.

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
            raise FormatError("the line gives alternatives { … / … }, which are not read; keep one", path, line=number)
        yield number, match[1], fields[:-1]


def is_trn(rows: list[Row], path: Name) -> bool:
    """Tell by the name or the lines of a file whether it is trn: each line ends in an id in parentheses.

    To exclude tags such as ``(noise)``, there must be two lines, and ids must differ and have a digit or a hyphen.
    """
    if _ends_in(path, ".trn"):
        return True
    lasts = [fields[-1] for _, fields in rows if fields and not fields[0].startswith(_COMMENT)]
    ids = [match[1] for last in lasts if (match := _TRN_ID.fullmatch(last)) is not None]
    return len(ids) == len(lasts) == len(set(ids)) > 1 and all(map(_ID_MARK.search, ids))


def is_stm(rows: list[Row], path: Name) -> bool:
    """Tell by the name or the lines of a file whether it is STM: file, channel, speaker, begin, end, words.

    As words may be digits, at least one time must have a decimal point.
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
    """Read the speaker, or group, of each utterance from a file like ``utt2spk``.

    Raises:
        FormatError: A line is not an utterance id and a speaker, or an id occurs twice.
    """
    return {key: speaker for _, (key, speaker) in _rows(path, "an utterance id and its speaker", 2)}


def read_segments(path: Name) -> dict[str, tuple[str, float, float]]:
    """Read the recording, begin and end in seconds of each utterance from a file like ``segments``.

    Raises:
        FormatError: A line has other fields, or an id occurs twice.
    """
    segments = {}
    for number, (key, recording, begin, end) in _rows(path, "an utterance id, its recording, begin and end", 4):
        try:
            segments[key] = recording, float(begin), float(end)
        except ValueError as error:
            raise FormatError(f"{begin!r} or {end!r} is not a number of seconds", path, line=number) from error
    return segments


def _rows(path: Name, columns: str, width: int) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each line that is not empty."""
    seen: set[str] = set()
    for number, fields in read_fields(path):
        if not fields:
            continue
        if len(fields) != width:
            raise FormatError(f"expected {columns}, found {' '.join(fields)[:60]!r}", path, line=number)
        if fields[0] in seen:
            raise FormatError(f"utterance {fields[0]!r} occurs twice", path, line=number)
        seen.add(fields[0])
        yield number, fields
