"""What verbs named after Kaldi's programs share: options that are true or false, a function for each lattice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ninja.parallel.pipeline import Each

if TYPE_CHECKING:
    from ninja.cli.reading import Reading
    from ninja.lattice import Kind, Lattice

Command = Callable[..., Any]


class Switch(click.Option):
    """An option that is given as Kaldi's are, ``--name=true`` or ``--name=false``; the group completes a bare one."""

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what follows the help text: the default as it is typed."""
        extra = super().get_help_extra(ctx)
        if "default" in extra:
            extra["default"] = extra["default"].lower()
        return extra


def switch(name: str, default: bool, text: str) -> Callable[[Command], Command]:
    """Add an option that is true or false."""
    return click.option(
        name, cls=Switch, type=click.BOOL, default=default, show_default=True, metavar="BOOL", help=text
    )


def rewrite(
    reading: Reading,
    output_file: str,
    function: Callable[[Lattice], Lattice],
    *,
    resume: bool = False,
    kind: Kind | None = None,
) -> None:
    """Write what the function makes of each lattice, say how many there were, and end the command."""
    reading.write(output_file, Each(function), resume=resume, kind=kind)
    reading.close(f"{reading.log.lattices} lattices, {reading.seconds:.1f} s")
