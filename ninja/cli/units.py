"""Options for the output units of a CTC model, and for the allowed words."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import click

from ninja.cli.options import reads, section
from ninja.decoding.lexicon import CtcLexicon, ctc_lexicon, read_ctc_lexicon, spelled_by_letters
from ninja.decoding.units import BEGINS, INSIDE, MARK, CtcUnits, Scheme, ctc_units, read_unit_names, sentencepiece_names
from ninja.errors import FormatError, OptionError
from ninja.files.stream import text_of

BLANKS = ("<blk>", "<blank>")
SPACES = (" ", "|", "<space>")
NEVER = ("<s>", "</s>", "<sos/eos>", "<pad>", "<eps>")


def unit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add options for CTC units; the command receives ``units`` (`CtcUnits`) and ``lexicon`` (`CtcLexicon` or None)."""

    @section(
        "Units",
        reads("--tokens", "File with the unit names: tokens.txt, vocab.json, or a text file with one name per line."),
        click.option("--letters", metavar="TEXT", help="Use the characters of TEXT as units."),
        reads("--sentencepiece", "SentencePiece model whose pieces are the units."),
        click.option(
            "--blank",
            metavar="UNIT",
            help="Name of the blank, or its column, counted from 0; -1 is the last unit. If the blank is an extra last "
            f"column without a unit name, set --blank to the number of units.  [default: {' or '.join(BLANKS)}]",
        ),
        click.option("--space", metavar="UNIT", help="Unit that separates words.  [default: a space, | or <space>]"),
        click.option(
            "--never",
            metavar="UNIT",
            multiple=True,
            help=f"Unit that is never part of a word; may be given several times.  [default: {', '.join(NEVER)}]",
        ),
        click.option(
            "--scheme",
            type=click.Choice(["letters", "pieces", "wordpieces", "words"]),
            help="Word-boundary markers: --space between words (letters), ▁ at the beginning of a word (pieces), ## in "
            "units that continue a word (wordpieces), or none, because each unit is a word (words).  "
            "[default: detected from ▁ and ##, else letters]",
        ),
    )
    @section(
        "Words",
        reads("--lexicon", "Allow only the words in FILE; each line contains a word and its units."),
        reads("--word-list", "Allow only the words in FILE, one per line. Every character of a word must be a unit."),
    )
    @functools.wraps(command)
    def with_units(
        tokens: str | None,
        letters: str | None,
        sentencepiece: str | None,
        lexicon: str | None,
        word_list: str | None,
        **options: Any,
    ) -> None:
        names = unit_names(tokens, letters, sentencepiece)
        if lexicon is not None and word_list is not None:
            raise OptionError("--lexicon cannot be used with --word-list")
        scheme = {name: options.pop(name) for name in ("blank", "space", "never", "scheme")}
        units = make_units(names, has_lexicon=lexicon is not None or word_list is not None, **scheme)
        command(units=units, lexicon=_lexicon(units, lexicon, word_list), **options)

    return with_units


def unit_names(tokens: str | None, letters: str | None, sentencepiece: str | None) -> list[str]:
    """Return the name of each CTC unit, in the order of the columns of the network's output.

    Args:
        tokens: Value of ``--tokens``.
        letters: Value of ``--letters``.
        sentencepiece: Value of ``--sentencepiece``.

    Raises:
        OptionError: Not exactly one of the options is set, or ``--letters`` is empty or contains duplicates.
    """
    options = {"--tokens": tokens, "--letters": letters, "--sentencepiece": sentencepiece}
    named = [option for option, value in options.items() if value is not None]
    if not named:
        raise OptionError(f"the unit names are missing; specify one of {', '.join(options)}")
    if len(named) > 1:
        raise OptionError(f"{' and '.join(named)} cannot be used together; specify one of them")
    if tokens is not None:
        return read_unit_names(tokens)
    if sentencepiece is not None:
        return sentencepiece_names(sentencepiece)
    names = list(cast(str, letters))
    if not names:
        raise OptionError("--letters is empty")
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise OptionError(f"--letters contains {duplicate!r} twice; remove one of them")
    return names


def make_units(
    names: Sequence[str],
    blank: str | None,
    space: str | None,
    never: Sequence[str],
    scheme: Scheme | None,
    *,
    has_lexicon: bool,
) -> CtcUnits:
    """Build the CTC units for the columns of a network's output; unset options are determined from the unit names.

    Args:
        names: Unit name of each column.
        has_lexicon: Whether words come from a lexicon. If so, no unit needs to separate words, and unit names can
            contain whitespace.
    """
    column = _blank(names, blank)
    names = [*names, ""] if column == len(names) else names
    if scheme is None and space is None:
        marks: list[tuple[str, Scheme]] = [(MARK, "pieces"), ("##", "wordpieces")]
        scheme = next((kind for mark, kind in marks if any(name.startswith(mark) for name in names)), None)
    scheme = scheme or "letters"
    if scheme == "letters" and space is None:
        spaces = [name for name in SPACES if name in names and names[column] != name]
        if len(spaces) > 1:
            raise OptionError(f"{' and '.join(map(repr, spaces))} can both separate words; choose one with --space")
        if not spaces and not has_lexicon:
            raise OptionError("the unit between words is unknown; specify it with --space, or specify a lexicon")
        space = spaces[0] if spaces else None
    units = ctc_units(names, column, scheme, boundary=space, never=never or [name for name in NEVER if name in names])
    for unit, (text, kind) in enumerate(zip(units.text, units.kind.tolist(), strict=True)):
        if not has_lexicon and kind in (INSIDE, BEGINS) and (not text or any(char in text for char in " \t\r\n")):
            raise OptionError(
                f"unit {unit}, {names[unit]!r}, cannot be part of a word; specify it with --space or --never"
            )
    return units


def _blank(names: Sequence[str], blank: str | None) -> int:
    """Return the column of the blank in the network's output, counted from 0.

    The column is ``len(names)`` if the blank is an extra last column without a unit name.
    """
    if blank is None:
        blanks = [name for name in BLANKS if name in names]
        if len(blanks) != 1:
            raise OptionError("cannot tell which unit is the blank; specify its name or column with --blank")
        return names.index(blanks[0])
    if blank in names:
        return names.index(blank)
    sign = blank.startswith("-")
    if not blank[sign:].isascii() or not blank[sign:].isdigit():
        first = list(names[:8])
        raise OptionError(f"the blank is {blank!r}, but no unit has this name; the first units are {first}")
    column = int(blank[:19])
    if not -len(names) <= column <= len(names):
        raise OptionError(
            f"the blank is column {column}, but there are {len(names)} units; specify a column from {-len(names)} "
            f"to {len(names)}"
        )
    return column % len(names) if column < len(names) else column


def _lexicon(units: CtcUnits, lexicon: str | None, word_list: str | None) -> CtcLexicon | None:
    """Return the allowed words, or None if all words are allowed."""
    if lexicon is not None:
        return read_ctc_lexicon(lexicon, units)
    if word_list is None:
        return None
    words = [row.strip(" \t\r") for row in text_of(word_list).removesuffix("\n").split("\n")]
    for line, word in enumerate(words, start=1):
        if " " in word or "\t" in word:
            raise FormatError(f"expected one word, found {word[:60]!r}", word_list, line=line)
    return ctc_lexicon(spelled_by_letters(words), units, word_list)
