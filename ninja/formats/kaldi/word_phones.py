"""Readers for Kaldi's ``align_lexicon.int`` and ``word_boundary.int``."""

from __future__ import annotations

import os

import numpy as np

from ninja.errors import FormatError
from ninja.files.stream import text_of
from ninja.lattice.word_phones import KINDS, AlignLexicon, WordBoundary

LARGEST_ID = 2**31 - 4  # larger ids have special meanings in kernels


def read_align_lexicon(path: str | os.PathLike[str]) -> AlignLexicon:
    """Read an alignment lexicon, optionally gzipped; each line contains a word id, an output word id and phone ids.

    Source: Kaldi, lat/word-align-lattice-lexicon.cc, ReadLexiconForWordAlign.
    """
    name = os.fspath(path)
    entries: dict[tuple[int, ...], int] = {}
    for number, line in enumerate(text_of(name).split("\n"), start=1):
        fields = line.split()
        if not fields:
            continue
        try:
            word, put, *phones = entry = [int(field) for field in fields]
        except ValueError:
            entry = []
        if not entry or min(entry) < 0 or max(entry) > LARGEST_ID or 0 in phones:
            message = f"expected a word id, an output word id and phone ids, found {line[:60]!r}"
            raise FormatError(f"{message}; specify align_lexicon.int, not .txt", name, line=number)
        if word == 0 and not phones:
            raise FormatError("word 0 has no phones, so it would match everywhere; remove the line", name, line=number)
        if entries.setdefault((word, *phones), put) != put:
            message = f"word {word} has the same phones on an earlier line, but with the output word "
            raise FormatError(f"{message}{entries[(word, *phones)]}; remove one of the lines", name, line=number)
    if not entries:
        raise FormatError("the file has no words; check that it is align_lexicon.int", name)
    flat = [number for (word, *phones), put in entries.items() for number in (word, put, *phones)]
    begin = np.cumsum([0, *(len(key) + 1 for key in entries)])
    return AlignLexicon(np.array(flat, np.int32), begin.astype(np.int64), name)


def read_word_boundary(path: str | os.PathLike[str]) -> WordBoundary:
    """Read phone types from lines with a phone id and ``begin``, ``end``, ``internal``, ``singleton`` or ``nonword``.

    Source: Kaldi, lat/word-align-lattice.cc, WordBoundaryInfo::Init.
    """
    name = os.fspath(path)
    kind_of: dict[int, int] = {}
    for number, line in enumerate(text_of(name).split("\n"), start=1):
        fields = line.split()
        if not fields:
            continue
        is_valid = len(fields) == 2 and fields[1] in KINDS and fields[0].isdecimal() and fields[0].isascii()
        if not is_valid or not 0 < int(fields[0][:10]) < 2**27 or len(fields[0]) > 10:
            kinds = ", ".join(KINDS)
            message = f"expected a phone id and one of {kinds}, found {line[:60]!r}"
            hint = "; specify word_boundary.int, not .txt" if len(fields) == 2 and fields[1] in KINDS else ""
            raise FormatError(message + hint, name, line=number)
        phone, kind = int(fields[0]), KINDS[fields[1]]
        if kind_of.setdefault(phone, kind) != kind:
            raise FormatError(f"phone {phone} has two types; remove one of the lines", name, line=number)
    if not kind_of:
        raise FormatError("the file has no phones; check that it is word_boundary.int", name)
    return WordBoundary(name, kind_of)
