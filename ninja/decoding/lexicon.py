"""Lexicons of a CTC search: the words allowed, and their spellings in units."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.decoding.units import BEGINS, BOUNDARY, NEVER, CtcUnits
from ninja.errors import FormatError, SymbolError
from ninja.formats.kaldi.tables import read_fields


@dataclass(frozen=True, slots=True, eq=False)
class CtcLexicon:
    """Spellings as a tree; state 0 is the root, and the children of a state are ordered by their units."""

    child_begin: npt.NDArray[np.int64]  # [states + 1]
    unit: npt.NDArray[np.int32]  # [children]
    child: npt.NDArray[np.int32]  # [children], the state it leads to
    is_word: npt.NDArray[np.uint8]  # [states]
    words: dict[int, tuple[str, ...]]  # those whose spelling ends in a state


_NONE = np.zeros(0, np.int32)
NO_LEXICON = CtcLexicon(np.zeros(1, np.int64), _NONE, _NONE, np.zeros(0, np.uint8), {})  # any words are allowed


def ctc_lexicon(spellings: Iterable[tuple[str, Sequence[str]]], units: CtcUnits, path: str | None = None) -> CtcLexicon:
    """Make a lexicon of words and their spellings.

    Args:
        spellings: A word and the names of its units, once for each spelling. A boundary at the end of a spelling, as
            flashlight's lexicons have it, is left out.

    Raises:
        SymbolError: A spelling has a unit that the model lacks, or that cannot stand there.
        FormatError: A spelling is empty, or there is none at all.
    """
    known = {name: number for number, name in enumerate(units.names)}
    kind = units.kind.tolist()
    children: list[dict[int, int]] = [{}]
    words: dict[int, list[str]] = {}
    for line, (word, names) in enumerate(spellings, start=1):
        numbers = [known.get(name, -1) for name in names]
        if -1 in numbers:
            missing = names[numbers.index(-1)]
            raise SymbolError(f"{word!r} is spelled with {missing!r}, which is no unit of the model", path, line=line)
        if numbers and kind[numbers[-1]] == BOUNDARY:
            numbers.pop()
        if not numbers:
            raise FormatError(f"{word!r} has an empty spelling", path, line=line)
        for place, number in enumerate(numbers):
            if kind[number] in (BOUNDARY, NEVER) or (place and kind[number] == BEGINS):
                message = f"{word!r} is spelled with {units.names[number]!r} in a place where it cannot stand"
                raise SymbolError(message, path, line=line)
        state = 0
        for number in numbers:
            below = children[state].setdefault(number, len(children))
            if below == len(children):
                children.append({})
            state = below
        said = words.setdefault(state, [])
        if word not in said:
            said.append(word)
    if not words:
        raise FormatError("there are no words", path)
    pairs = [pair for each in children for pair in sorted(each.items())]
    is_word = np.zeros(len(children), np.uint8)
    is_word[list(words)] = 1
    return CtcLexicon(
        np.cumsum([0, *map(len, children)]),
        np.array([number for number, _ in pairs], np.int32),
        np.array([below for _, below in pairs], np.int32),
        is_word,
        {state: tuple(said) for state, said in words.items()},
    )


def read_ctc_lexicon(path: str | os.PathLike[str], units: CtcUnits) -> CtcLexicon:
    """Read a lexicon: on each line a word and its units, as Kaldi and flashlight have it; ``.gz`` is unpacked.

    Raises:
        FormatError: A line without units.
        SymbolError: A unit that the model lacks, or that cannot stand there.
    """
    rows = (fields or [""] for _, fields in read_fields(path))
    return ctc_lexicon(((word, spelling) for word, *spelling in rows), units, os.fspath(path))


def spelled_by_letters(words: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return words with their letters as spellings."""
    return [(word, list(word)) for word in words]
