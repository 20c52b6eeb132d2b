"""Kaldi's ``word_boundary.int``: where in a word each phone stands."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError
from ninja.files import text as utf8

# The numbers are those of the kernel; 0 is a phone the file lacks.
KINDS = {"begin": 1, "end": 2, "singleton": 3, "internal": 4, "nonword": 5}


@dataclass(frozen=True, slots=True, eq=False)
class WordBoundary:
    """The kind of each phone of a set whose phones tell by themselves where words begin and end."""

    path: str
    kind_of: dict[int, int]  # phone -> one of the values of KINDS

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> WordBoundary:
        """Read lines of a phone's id and ``begin``, ``end``, ``internal``, ``singleton`` or ``nonword``.

        Raises:
            FormatError: A line is anything else, a phone has two kinds, or there are no lines.
            InputError: The file cannot be read.

        Source: Kaldi, lat/word-align-lattice.cc, WordBoundaryInfo::Init.
        """
        name = os.fspath(path)
        kind_of: dict[int, int] = {}
        for number, line in enumerate(utf8.read(name).split("\n"), start=1):
            fields = line.split()
            if not fields:
                continue
            known = len(fields) == 2 and fields[1] in KINDS and fields[0].isdecimal() and fields[0].isascii()
            if not known or not 0 < int(fields[0][:10]) < 2**27 or len(fields[0]) > 10:
                kinds = ", ".join(KINDS)
                message = f"expected a phone's id and one of {kinds}, found {line[:60]!r}"
                hint = "; give word_boundary.int, not .txt" if len(fields) == 2 and fields[1] in KINDS else ""
                raise FormatError(message + hint, name, line=number)
            phone, kind = int(fields[0]), KINDS[fields[1]]
            if kind_of.setdefault(phone, kind) != kind:
                raise FormatError(f"phone {phone} is given two kinds", name, line=number)
        if not kind_of:
            raise FormatError("no phones in it; is it word_boundary.int?", name)
        return cls(name, kind_of)

    def kinds(self, phones: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        """Return the kind of each of some phones, 0 for those the file lacks, uint32 of the same shape."""
        distinct, place = np.unique(phones, return_inverse=True)
        kinds = np.array([self.kind_of.get(phone, 0) for phone in distinct.tolist()], np.uint32)
        return kinds[place].reshape(phones.shape)
