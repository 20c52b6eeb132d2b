"""Command lines of the benchmarks: commands with subcommands, shared options, and where the data are."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
SHARED = Path(os.environ.get("NINJA_SHARED", ROOT.parent / "shared"))
ENGLISH, KOREAN = SHARED / "data" / "english", SHARED / "data" / "korean"

PATH = click.Path(path_type=Path)
argument = partial(click.argument, type=PATH)
option = partial(click.option, show_default=True)
path_option = partial(click.option, type=PATH)
output = path_option("--output", metavar="PAGE", help="Also write the table between its marks in this page.")
picture = path_option("--picture", metavar="FILE", help="Also draw the figure, as SVG.")


def command(function: Callable[..., Any]) -> click.Command:
    """Make a command of a function; its help is the docstring of the module."""
    text = (function.__globals__["__doc__"] or "").replace("\n\n    ", "\n\n\b\n    ")
    return click.command(help=text, context_settings={"max_content_width": 120})(function)


class Group(click.Group):
    """A command whose subcommands are the functions ``main`` of modules in its package, imported when they are run.

    Args:
        default: Subcommand of a command line that names none.
    """

    def __init__(self, package: str, *names: str, default: str | None = None) -> None:
        super().__init__(help=import_module(package).__doc__)
        self.package, self.names, self.default = package, names, default

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if self.default is not None and args[:1] not in [[name] for name in (*self.names, "--help")]:
            args = [self.default, *args]
        return super().parse_args(context, args)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.names)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return import_module(f"{self.package}.{name}").main if name in self.names else None
