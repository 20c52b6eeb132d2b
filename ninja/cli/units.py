"""Options for the units of a CTC model's columns, and for the words allowed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import click

from ninja.cli.options import reads, section
from ninja.decoding.lexicon import CtcLexicon, ctc_lexicon, read_ctc_lexicon, spelled_by_letters
from ninja.decoding.units import BEGINS, INSIDE, MARK, CtcUnits, Scheme, ctc_units, read_unit_names, sentencepiece_names
from ninja.errors import FormatError, OptionError
from ninja.files import text as utf8

BLANKS = ("<blk>", "<blank>")
SPACES = (" ", "|", "<space>")
NEVER = ("<s>", "</s>", "<sos/eos>", "<pad>", "<eps>")


def unit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options, handed to it as ``units`` and ``lexicon``."""

    @section(
        "Units",
        reads("--tokens", "Units: tokens.txt, names, or vocab.json."),
        click.option("--letters", metavar="TEXT", help="Units of the columns: characters, in their order."),
        reads("--sentencepiece", "Units of the columns: the pieces of this model."),
        click.option(
            "--blank",
            metavar="UNIT",
            help="The blank's name, or its column: from 0, -1 is the last unit, and the number of units is a column "
            f"behind them that they do not name.  [default: {' or '.join(BLANKS)}]",
        ),
        click.option("--space", metavar="UNIT", help="Unit between words.  [default: a space, | or <space>]"),
        click.option(
            "--never", metavar="UNIT", multiple=True, help=f"Never spoken; repeat it.  [default: {', '.join(NEVER)}]"
        ),
        click.option(
            "--scheme",
            type=click.Choice(["letters", "pieces", "wordpieces", "words"]),
            help="How units make words: with --space between them, begun by ▁, gone on with by ##, or each is one.  "
            "[default: by ▁ and ##, else letters]",
        ),
    )
    @section(
        "Words",
        reads("--lexicon", "Allow these words only: on each line one and its units."),
        reads("--word-list", "Allow these words only, one a line, spelled by letters."),
    )
    @functools.wraps(command)
    def collected(
        tokens: str | None,
        letters: str | None,
        sentencepiece: str | None,
        lexicon: str | None,
        word_list: str | None,
        **options: Any,
    ) -> None:
        names = unit_names(tokens, letters, sentencepiece)
        if lexicon is not None and word_list is not None:
            raise OptionError("--lexicon and --word-list both list the words; give one")
        spelled = lexicon is not None or word_list is not None
        how = {name: options.pop(name) for name in ("blank", "space", "never", "scheme")}
        units = chosen_units(names, spelled=spelled, **how)
        command(units=units, lexicon=_lexicon(units, lexicon, word_list), **options)

    return collected


def unit_names(tokens: str | None, letters: str | None, sentencepiece: str | None) -> list[str]:
    """Return the names of the columns."""
    given = {"--tokens": tokens, "--letters": letters, "--sentencepiece": sentencepiece}
    named = [option for option, value in given.items() if value is not None]
    if not named:
        raise OptionError(f"the units of the columns are missing; give one of {', '.join(given)}")
    if len(named) > 1:
        raise OptionError(f"{' and '.join(named)} both name the units of the columns; give one")
    if tokens is not None:
        return read_unit_names(tokens)
    if sentencepiece is not None:
        return sentencepiece_names(sentencepiece)
    names = list(cast(str, letters))
    if not names:
        raise OptionError("--letters is empty")
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise OptionError(f"--letters has {twice[0]!r} twice")
    return names


def chosen_units(
    names: Sequence[str],
    blank: str | None,
    space: str | None,
    never: Sequence[str],
    scheme: Scheme | None,
    *,
    spelled: bool,
) -> CtcUnits:
    """Make the units of the columns, by their usual names where not given; a lexicon may tell the spelling of words."""
    place = _blank(names, blank)
    names = [*names, ""] if place == len(names) else names
    if scheme is None and space is None:
        marks: list[tuple[str, Scheme]] = [(MARK, "pieces"), ("##", "wordpieces")]
        scheme = next((kind for mark, kind in marks if any(name.startswith(mark) for name in names)), None)
    scheme = scheme or "letters"
    if scheme == "letters" and space is None:
        found = [name for name in SPACES if name in names and names[place] != name]
        if len(found) > 1:
            raise OptionError(f"{' and '.join(map(repr, found))} may both stand between words; choose one with --space")
        if not found and not spelled:
            raise OptionError("the unit between words is unknown; name it with --space, or give a lexicon")
        space = found[0] if found else None
    unsaid = never or [name for name in NEVER if name in names]
    units = ctc_units(names, place, scheme, boundary=space, never=unsaid)
    for number, (text, kind) in enumerate(zip(units.text, units.kind.tolist(), strict=True)):
        if not spelled and kind in (INSIDE, BEGINS) and (not text or any(each in text for each in " \t\r\n")):
            message = f"unit {number}, {names[number]!r}, cannot stand within a word; is it --space, or --never said?"
            raise OptionError(message)
    return units


def _blank(names: Sequence[str], blank: str | None) -> int:
    """Return the column of the blank; the number of names, if that is a column behind them."""
    if blank is None:
        found = [name for name in BLANKS if name in names]
        if len(found) != 1:
            raise OptionError("the blank is unknown; give its name or its column with --blank")
        return names.index(found[0])
    if blank in names:
        return names.index(blank)
    sign = blank.startswith("-")
    if not blank[sign:].isascii() or not blank[sign:].isdigit():
        first = list(names[:8])
        raise OptionError(f"the blank is {blank!r}, but no unit has that name; the first ones are {first}")
    place = int(blank[:19])
    if not -len(names) <= place <= len(names):
        raise OptionError(f"the blank is column {place}, but there are {len(names)} units; at most, it follows them")
    return place % len(names) if place < len(names) else place


def _lexicon(units: CtcUnits, lexicon: str | None, word_list: str | None) -> CtcLexicon | None:
    """Return the words allowed; None: any."""
    if lexicon is not None:
        return read_ctc_lexicon(lexicon, units)
    if word_list is None:
        return None
    words = [row.strip(" \t\r") for row in utf8.read(word_list).removesuffix("\n").split("\n")]
    for line, word in enumerate(words, start=1):
        if " " in word or "\t" in word:
            raise FormatError(f"expected one word, found {word[:60]!r}", word_list, line=line)
    return ctc_lexicon(spelled_by_letters(words), units, word_list)
