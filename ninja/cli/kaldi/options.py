"""Options that several of Kaldi's programs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from ninja.cli.console import Console
from ninja.cli.options import reads
from ninja.errors import OptionError, SymbolError
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.lattice.symbols import SymbolTable

model_option = reads("--model", "Transition model (final.mdl).", required=True, load=read_transition_model)
ali_option = reads("--ali", "Reference alignments, in transition ids.", required=True)
word_symbol_table_option = reads("--word-symbol-table", "Print words on stderr, too.")


class PhoneList(click.ParamType):
    """Ids with colons between, as in Kaldi."""

    name = "ids"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[int, ...]:
        """Split the list."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(each) for each in str(value).split(":") if each)
        except ValueError:
            self.fail(f"{value!r} is no list of ids such as 1:2:3", parameter, context)


def parsed_weights(text: str | None) -> list[float] | None:
    """Parse ``--lat-weights``.

    Raises:
        OptionError: They are no numbers.
    """
    if text is None:
        return None
    try:
        return [float(weight) for weight in text.split(":")]
    except ValueError:
        raise OptionError(f"--lat-weights is {text!r}, but must be numbers between colons, as in 0.6:0.4") from None


def shown_words(console: Console, path: str | None) -> Callable[[str, Sequence[int]], None]:
    """Return the function that shows the words of a key on stderr, as Kaldi does with ``--word-symbol-table``.

    Args:
        console: Where they are shown.
        path: Symbol table; None: nothing is shown.
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
