"""Transcripts in text files."""

from __future__ import annotations

import os

from ninja.errors import FormatError
from ninja.files.texts import read_whole


def read_text(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read transcripts in Kaldi's ``text`` form: on each line an utterance id and its words.

    ``.gz`` is unpacked; ``-``, ``ark:F`` and ``gunzip -c F |`` are understood.

    Raises:
        FormatError: A line is empty, an id occurs twice, the file holds nothing, is not UTF-8 or damaged.
        InputError: The file cannot be read.

    Source: Kaldi, "Data preparation", the file text.
    """
    name = os.fspath(path)
    text = read_whole(path)
    transcripts: dict[str, list[str]] = {}
    for number, row in enumerate(text.removesuffix("\n").split("\n"), start=1):
        # ASCII blanks only: some vocabularies hold words with Unicode spaces in them.
        key, *words = [field for field in row.replace("\t", " ").rstrip("\r").split(" ") if field] or [""]
        if not key:
            what = "the line is empty; an utterance id is needed" if text else "the file is empty"
            raise FormatError(what, name, line=number if text else None)
        if key in transcripts:
            raise FormatError(f"utterance {key!r} occurs twice", name, line=number)
        transcripts[key] = words
    return transcripts


def read_speakers(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the speaker of each utterance in Kaldi's ``utt2spk`` form: on each line an utterance id and a speaker's.

    Raises:
        FormatError: A line does not hold two fields, or as ``read_text``.
        InputError: The file cannot be read.

    Source: Kaldi, "Data preparation", the file utt2spk.
    """
    speakers = {}
    for number, (key, fields) in enumerate(read_text(path).items(), start=1):
        if len(fields) != 1:
            raise FormatError(
                f"expected an utterance id and its speaker, found {1 + len(fields)} fields", path, line=number
            )
        speakers[key] = fields[0]
    return speakers
