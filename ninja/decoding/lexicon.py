"""The class `CtcLexicon`: the words that a CTC search allows, and their spellings in units."""

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
    """A prefix tree of spellings; state 0 is the root, and the children of a state are sorted by unit."""

    child_begin: npt.NDArray[np.int64]  # [states + 1]
    unit: npt.NDArray[np.int32]  # [children]
    child: npt.NDArray[np.int32]  # [children], state of the child
    is_word: npt.NDArray[np.uint8]  # [states]
    words: dict[int, tuple[str, ...]]  # words by the state in which their spelling ends


_NONE = np.zeros(0, np.int32)
NO_LEXICON = CtcLexicon(np.zeros(1, np.int64), _NONE, _NONE, np.zeros(0, np.uint8), {})  # allows any word


def ctc_lexicon(spellings: Iterable[tuple[str, Sequence[str]]], units: CtcUnits, path: str | None = None) -> CtcLexicon:
    """Create a lexicon.

    Args:
        spellings: ``(word, unit names)`` for each spelling. A boundary at the end of a spelling, as in flashlight
            lexicons, is ignored.
        units: Units of the model.
        path: Path of the lexicon, for messages.

    Raises:
        SymbolError: A spelling contains a unit that is not in the model, or that is not allowed at its position.
        FormatError: A spelling is empty, or there are no spellings.
    """
    known = {name: number for number, name in enumerate(units.names)}
    kind = units.kind.tolist()
    children: list[dict[int, int]] = [{}]
    words: dict[int, list[str]] = {}
    for line, (word, names) in enumerate(spellings, start=1):
        numbers = [known.get(name, -1) for name in names]
        if -1 in numbers:
            missing = names[numbers.index(-1)]
            raise SymbolError(
                f"{word!r} is spelled with {missing!r}, which is not a unit of the model", path, line=line
            )
        if numbers and kind[numbers[-1]] == BOUNDARY:
            numbers.pop()
        if not numbers:
            raise FormatError(f"{word!r} has an empty spelling; write its units after the word", path, line=line)
        for position, number in enumerate(numbers):
            if kind[number] in (BOUNDARY, NEVER) or (position and kind[number] == BEGINS):
                message = f"in the spelling of {word!r}, {units.names[number]!r} is not allowed as unit {position + 1}"
                raise SymbolError(message, path, line=line)
        state = 0
        for number in numbers:
            below = children[state].setdefault(number, len(children))
            if below == len(children):
                children.append({})
            state = below
        alike = words.setdefault(state, [])
        if word not in alike:
            alike.append(word)
    if not words:
        raise FormatError("the lexicon contains no words", path)
    pairs = [pair for of_state in children for pair in sorted(of_state.items())]
    is_word = np.zeros(len(children), np.uint8)
    is_word[list(words)] = 1
    return CtcLexicon(
        np.cumsum([0, *map(len, children)]),
        np.array([number for number, _ in pairs], np.int32),
        np.array([below for _, below in pairs], np.int32),
        is_word,
        {state: tuple(alike) for state, alike in words.items()},
    )


def read_ctc_lexicon(path: str | os.PathLike[str], units: CtcUnits) -> CtcLexicon:
    """Read a Kaldi or flashlight lexicon, optionally compressed with gzip; each line contains a word and its units.

    Raises:
        FormatError: A line has no units.
        SymbolError: A spelling contains a unit that is not in the model, or that is not allowed at its position.
    """
    rows = (fields or [""] for _, fields in read_fields(path))
    return ctc_lexicon(((word, spelling) for word, *spelling in rows), units, os.fspath(path))


def spelled_by_letters(words: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return ``(word, letters)`` pairs, for `ctc_lexicon`."""
    return [(word, list(word)) for word in words]
