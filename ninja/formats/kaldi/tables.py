"""Kaldi's text tables: lines of a key and fields, as in ``text``, ``utt2spk`` and ``segments``.

Fields are parted by ASCII blanks only, as some vocabularies hold words with Unicode spaces in them.

Source: Kaldi, "Data preparation".
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ninja.errors import FormatError
from ninja.files.text import read_named

Name = str | os.PathLike[str]


def read_fields(path: Name) -> Iterator[tuple[int, list[str]]]:
    """Yield number, from 1, and fields of each line; ``-``, ``ark:F``, ``.gz`` and ``gunzip -c F |`` are understood."""
    text = read_named(path)
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), start=1):
        yield number, [field for field in line.replace("\t", " ").rstrip("\r").split(" ") if field]


def read_text(path: Name) -> dict[str, list[str]]:
    """Read transcripts in the form of ``text``: on each line an utterance id and its words.

    Raises:
        FormatError: A line is empty, an id occurs twice, the file holds nothing, is not UTF-8 or damaged.
    """
    transcripts: dict[str, list[str]] = {}
    for number, fields in read_fields(path):
        if not fields:
            raise FormatError("the line is empty; an utterance id is needed", path, line=number)
        key, *words = fields
        if key in transcripts:
            raise FormatError(f"utterance {key!r} occurs twice", path, line=number)
        transcripts[key] = words
    if not transcripts:
        raise FormatError("the file is empty", path)
    return transcripts


def read_speakers(path: Name) -> dict[str, str]:
    """Read the speaker, or group, of each utterance in the form of ``utt2spk``.

    Raises:
        FormatError: A line is not an utterance id and a speaker, or an id occurs twice.
    """
    return {key: speaker for _, (key, speaker) in _rows(path, "an utterance id and its speaker", 2)}


def read_segments(path: Name) -> dict[str, tuple[str, float, float]]:
    """Read the recording, begin and end in seconds of each utterance in the form of ``segments``.

    Raises:
        FormatError: A line is something else, or an id occurs twice.
    """
    segments = {}
    for number, (key, recording, begin, end) in _rows(path, "an utterance id, its recording, begin and end", 4):
        try:
            segments[key] = recording, float(begin), float(end)
        except ValueError as error:
            raise FormatError(f"{begin!r} or {end!r} is no number of seconds", path, line=number) from error
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
