"""Options of Kaldi's programs that stand for others, or only show what is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from ninja.errors import SymbolError

if TYPE_CHECKING:
    from ninja.cli.reading import Reading

inv_acoustic_scale_option = click.option(
    "--inv-acoustic-scale", type=float, default=1.0, show_default=True, help="One over --acoustic-scale, instead of it."
)
word_symbol_table_option = click.option(
    "--word-symbol-table",
    metavar="FILE",
    help="Show words on stderr, too, by this symbol table. (--words puts them in the output instead of ids.)",
)


def chosen_acoustic_scale(acoustic_scale: float, inv_acoustic_scale: float) -> float:
    """Return the factor of acoustic costs that one of both options gives.

    Raises:
        UsageError: Both are given, or the inverse is 0.
    """
    if inv_acoustic_scale == 1.0:
        return acoustic_scale
    if acoustic_scale != 1.0:
        raise click.UsageError("--acoustic-scale cannot be used with --inv-acoustic-scale")
    if inv_acoustic_scale == 0.0:
        raise click.UsageError("--inv-acoustic-scale is 0, but nothing has this inverse")
    return 1.0 / inv_acoustic_scale


def shown_words(reading: Reading, path: str | None) -> Callable[[str, Sequence[int]], None]:
    """Return the function that shows the words of a key on stderr, as Kaldi does with ``--word-symbol-table``.

    Args:
        reading: The run that says it.
        path: Symbol table; None: nothing is shown.
    """
    from ninja.lattice.symbols import SymbolTable

    table = None if path is None else SymbolTable.read(path)

    def show(key: str, ids: Sequence[int]) -> None:
        if table is None:
            return
        try:
            reading.say(" ".join([key, *table.spell(ids)]))
        except SymbolError as error:
            error.key = key
            reading.failed(error)

    return show
