"""Units of a CTC model, one per column of its matrices: letters, pieces of words or words, and the blank."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError
from ninja.files import text as utf8
from ninja.lattice.arrays import frozen
from ninja.libraries import needed_for

Scheme = Literal["letters", "pieces", "wordpieces", "words"]

INSIDE, BEGINS, BOUNDARY, NEVER = range(4)  # as in ext/ctc/ctc_problem.hpp
MARK = "▁"  # sentencepiece's word boundary
LARGEST_VOCABULARY = 1 << 24  # larger numbers in a file are damage


@dataclass(frozen=True, slots=True, eq=False)
class CtcUnits:
    """The units of a model in the order of its columns; `ctc_units` makes them."""

    names: tuple[str, ...]
    text: tuple[str, ...]  # that each adds to its word
    kind: npt.NDArray[np.uint8]  # [units]: INSIDE, BEGINS, BOUNDARY or NEVER
    blank: int


def ctc_units(
    names: Sequence[str],
    blank: int | str,
    scheme: Scheme = "letters",
    *,
    boundary: str | None = None,
    never: Iterable[str] = (),
) -> CtcUnits:
    """Make the units of a model from the names of its columns.

    Args:
        names: Name of each column, in their order.
        blank: Number (-1: the last) or name of the blank.
        scheme: How units make words. "letters": words end at the boundary; "pieces": a unit that starts with ``▁``
            begins a word, as in sentencepiece, and ``▁`` alone only ends one; "wordpieces": a unit begins a word unless
            it starts with ``##``; "words": each unit is a word.
        boundary: The unit between words, for "letters" only; without it a lexicon must separate words.
        never: Units that are no part of words, such as ``<s>``.

    Raises:
        OptionError: The blank, the boundary or a unit of ``never`` is none of the units, or the scheme is unknown.
    """
    known = {name: number for number, name in enumerate(names)}
    if isinstance(blank, str):
        blank = _place(known, blank, "the blank")
    if not -len(names) <= blank < len(names):
        raise OptionError(f"the blank is unit {blank}, but there are {len(names)} units")
    if boundary is not None and scheme != "letters":
        raise OptionError(f"a boundary ({boundary!r}) belongs to letters; {scheme} mark the begin of words themselves")
    text = list(names)
    kind = np.full(len(names), BEGINS if scheme == "words" else INSIDE, np.uint8)
    if scheme == "pieces":
        text = [name.replace(MARK, "") for name in names]
        kind[[name.startswith(MARK) for name in names]] = BEGINS
        kind[[name != "" and not rest for name, rest in zip(names, text, strict=True)]] = BOUNDARY
    elif scheme == "wordpieces":
        text = [name.removeprefix("##") for name in names]
        kind[[not name.startswith("##") for name in names]] = BEGINS
    elif scheme not in ("letters", "words"):
        raise OptionError(f"scheme is {scheme!r}, but must be letters, pieces, wordpieces or words")
    if boundary is not None:
        kind[_place(known, boundary, "the boundary")] = BOUNDARY
    for name in never:
        kind[_place(known, name, "a unit that is not a part of words")] = NEVER
    kind[blank] = NEVER
    return CtcUnits(tuple(names), tuple(text), frozen(kind), blank % len(names))


def read_unit_names(path: str | os.PathLike[str]) -> list[str]:
    """Read the names of a model's columns in the order of their numbers, which must run from 0 without a gap.

    The file is a ``tokens.txt`` (a name and its number per line), a list of names numbered from 0, or a JSON object of
    names and numbers, as Hugging Face's ``vocab.json``; the format is detected from the content.
    """
    name = os.fspath(path)
    content = utf8.read(name)
    if content.lstrip()[:1] == "{":
        try:
            entries = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not JSON: {error}", name) from error
        if not all(isinstance(number, int) for number in entries.values()):
            raise FormatError("the object must give a number to each name", name)
        return _in_order([(unit, number, None) for unit, number in entries.items()], name)
    rows = [row.rstrip("\r") for row in content.removesuffix("\n").split("\n")]
    numbered: list[tuple[str, int, int | None]] = []
    for line, row in enumerate(rows, start=1):
        unit, blank, number = row.rstrip(" \t").replace("\t", " ").rpartition(" ")
        if not blank or not number.isascii() or not number.isdigit() or not unit.rstrip(" "):
            break
        numbered.append((unit.rstrip(" "), int(number[:18]), line))
    if len(numbered) == len(rows):
        return _in_order(numbered, name)
    if numbered:
        raise FormatError(f"expected a name and its number, found {row[:60]!r}", name, line=len(numbered) + 1)
    return rows


def sentencepiece_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the pieces of a sentencepiece model in the order of their numbers.

    If the blank follows them, as in NeMo's models, append its name.
    """
    name = os.fspath(path)
    with needed_for("a sentencepiece model", name):
        import sentencepiece
    content = utf8.content(name)
    try:
        model = sentencepiece.SentencePieceProcessor(model_proto=content)
        return [model.id_to_piece(number) for number in range(model.get_piece_size())]
    except (RuntimeError, ValueError, TypeError) as error:
        raise FormatError("not a sentencepiece model", name) from error


def _place(known: dict[str, int], name: str, role: str) -> int:
    if name not in known:
        raise OptionError(f"{role} is {name!r}, but no unit has that name; the first ones are {list(known)[:8]}")
    return known[name]


def _in_order(entries: list[tuple[str, int, int | None]], path: str) -> list[str]:
    names: dict[int, str] = {}
    for name, number, line in entries:
        if not 0 <= number < LARGEST_VOCABULARY:
            raise FormatError(f"{name!r} has the number {number}", path, line=line)
        if names.setdefault(number, name) != name:
            raise FormatError(f"{number} is the number of {names[number]!r} and of {name!r}", path, line=line)
    for number in range(len(names)):
        if number not in names:
            raise FormatError(f"no name has the number {number}; names are numbered from 0 without a gap", path)
    return [names[number] for number in range(len(names))]
