"""The option ``--normalizer``, and the lexical forms of words that it selects."""

from __future__ import annotations

import click

from ninja.cli.main import current_console
from ninja.lattice.text import AUTO, NORMALIZER_HELP, LexicalForms

normalizer_option = click.option("--normalizer", default=AUTO, show_default=False, help=NORMALIZER_HELP)


def lexical_forms(name: str) -> LexicalForms:
    """Return the lexical forms for a value of ``--normalizer``; if the choice is automatic, print it.

    Raises:
        NinjaError: See `make_normalizer`.
    """
    console = current_console()
    return LexicalForms(name, lambda line: console.log.note(line))  # `console.log` may be replaced later
