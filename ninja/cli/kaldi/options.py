"""Options shared by commands that are named after Kaldi's programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from ninja.cli.main import Console
from ninja.cli.options import ListType, reads
from ninja.errors import SymbolError
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.lattice.symbols import SymbolTable

WEIGHTS = ListType(float, "numbers", ":")
model_option = reads("--model", "Transition model (final.mdl).", required=True, load=read_transition_model)
ali_option = reads("--ali", "Reference alignments (transition ids).", required=True)
lat_weights_option = click.option(
    "--lat-weights",
    type=WEIGHTS,
    metavar="W:W...",
    help="Weights of the systems, separated by colons.  [default: equal]",
)
word_symbol_table_option = reads(
    "--word-symbol-table", "Also print each key and its words on stderr, with this symbol table."
)


def parse_id(text: str) -> int:
    """Parse an id of ASCII digits; raise ValueError for other text."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


IDS = ListType(parse_id, "ids", ":")


def shown_words(console: Console, path: str | None) -> Callable[[str, Sequence[int]], None]:
    """Return a function that takes a key and word ids, and prints the key and the words on stderr.

    Args:
        console: Console that prints the words and logs the ids that are missing from the symbol table.
        path: Path of the symbol table; if None, the function prints nothing.
    """
    table = None if path is None else SymbolTable.read(path)

    def show(key: str, ids: Sequence[int]) -> None:
        if table is None:
            return
        try:
            console.say(" ".join([key, *table.spell(ids)]))
        except SymbolError as error:
            error.key = key
            console.log.fail(error)

    return show
