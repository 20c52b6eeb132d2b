"""The units of a CTC model, one per output column: letters, subword pieces or words, and the blank."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError
from ninja.files.stream import content_of, text_of
from ninja.lattice.lattice import frozen
from ninja.libraries import needed_for

Scheme = Literal["letters", "pieces", "wordpieces", "words"]

INSIDE, BEGINS, BOUNDARY, NEVER = range(4)  # the same numbers as in ext/ctc/ctc_problem.hpp
MARK = "▁"  # sentencepiece's word boundary
LARGEST_VOCABULARY = 1 << 24  # a file that contains a larger number must be damaged


@dataclass(frozen=True, slots=True, eq=False)
class CtcUnits:
    """The units of a model, in the order of its columns; created by `ctc_units`."""

    names: tuple[str, ...]
    text: tuple[str, ...]  # text that each unit appends to its word
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
    """Create the units of a model from the names of its columns.

    Args:
        names: Names of the columns.
        blank: Name of the blank, or its 0-based column; -1 is the last column.
        scheme: How units form words. "letters": words end at the boundary; "pieces": a unit that starts with ``▁``
            begins a word, as in sentencepiece, and ``▁`` alone only ends a word; "wordpieces": a unit begins a word
            unless it starts with ``##``; "words": each unit is a word.
        boundary: Unit between words, only for "letters"; without it, only a lexicon can separate words.
        never: Units that are never part of words, such as ``<s>``.

    Raises:
        OptionError: The blank, the boundary or a unit in ``never`` is not a unit, the scheme is unknown, or the names
            have no order, as in a vocabulary of Hugging Face (``tokenizer.get_vocab()``).
    """
    if isinstance(names, Mapping):
        advice = "pass sorted(units, key=units.get)"
        raise OptionError(f"units is a {type(names).__name__}, which is not in the order of the columns; {advice}")
    if (wrong := next((name for name in names if not isinstance(name, str)), None)) is not None:
        raise OptionError(f"a unit is {wrong!r:.60}, but must be a str")
    known = {name: number for number, name in enumerate(names)}
    if isinstance(blank, str):
        blank = _column(known, blank, "the blank")
    if not isinstance(blank, int | np.integer):
        raise OptionError(f"the blank is {blank!r:.60}, but must be a column or the name of a unit")
    if not -len(names) <= blank < len(names):
        raise OptionError(f"the blank is column {blank}, but there are only {len(names)} units")
    if boundary is not None and scheme != "letters":
        raise OptionError(
            f"the boundary {boundary!r} can be used only with letters, because the names of {scheme} determine where "
            "words begin; omit it"
        )
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
        kind[_column(known, boundary, "the boundary")] = BOUNDARY
    for name in never:
        kind[_column(known, name, "a unit that is never part of words")] = NEVER
    kind[blank] = NEVER
    return CtcUnits(tuple(names), tuple(text), frozen(kind), blank % len(names))


def read_unit_names(path: str | os.PathLike[str]) -> list[str]:
    """Read the names of a model's columns, ordered by number.

    The file is a ``tokens.txt`` (a name and its number per line), a list of names (one per line), or a JSON object that
    maps names to numbers, such as Hugging Face's ``vocab.json``; the format is detected from the content.

    Raises:
        FormatError: The file is damaged, or the numbers are not contiguous from 0.
    """
    name = os.fspath(path)
    content = text_of(name)
    if content.lstrip()[:1] == "{":
        try:
            entries = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not valid JSON: {error}", name) from error
        if not all(type(number) is int for number in entries.values()):  # a bool is an int, too
            raise FormatError("the JSON object must map each unit to its column number", name)
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
        raise FormatError(f"expected a unit and its column number, found {row[:60]!r}", name, line=len(numbered) + 1)
    return rows


def sentencepiece_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the pieces in a sentencepiece model, ordered by number.

    If the blank follows the pieces, as in NeMo models, the caller must append its name.

    Raises:
        FormatError: The file is not a sentencepiece model.
        DependencyError: The sentencepiece library is not installed.
    """
    name = os.fspath(path)
    with needed_for("a sentencepiece model", name):
        import sentencepiece
    content = content_of(name)
    try:
        model = sentencepiece.SentencePieceProcessor(model_proto=content)
        return [model.id_to_piece(number) for number in range(model.get_piece_size())]
    except (RuntimeError, ValueError, TypeError) as error:
        raise FormatError("not a sentencepiece model", name) from error


def _column(known: dict[str, int], name: str, role: str) -> int:
    if name not in known:
        raise OptionError(f"{role} is {name!r}, but no unit has this name; the first units are {list(known)[:8]}")
    return known[name]


def _in_order(entries: list[tuple[str, int, int | None]], path: str) -> list[str]:
    names: dict[int, str] = {}
    for name, number, line in entries:
        if not 0 <= number < LARGEST_VOCABULARY:
            raise FormatError(f"the column number of {name!r} is {number}, which is out of range", path, line=line)
        if names.setdefault(number, name) != name:
            raise FormatError(f"{names[number]!r} and {name!r} have the same column number, {number}", path, line=line)
    for number in range(len(names)):
        if number not in names:
            raise FormatError(f"no unit has the column number {number}; number the units from 0 without gaps", path)
    return [names[number] for number in range(len(names))]
