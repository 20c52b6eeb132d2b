"""Options that several commands share, and options made of the fields of an options dataclass."""

from __future__ import annotations

import dataclasses
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import click
from click.core import ParameterSource

from ninja.errors import OptionError

Command = Callable[..., Any]


def scales(command: Command) -> Command:
    """Add the scales under which paths are compared."""
    for decorate in (
        click.option("--word-penalty", type=float, default=0.0, show_default=True, help="Cost added for each word."),
        click.option("--lm-scale", type=float, default=1.0, show_default=True, help="Factor of graph costs."),
        click.option(
            "--acoustic-scale",
            type=float,
            default=1.0,
            show_default=True,
            help="Factor of acoustic costs; 0.1 is usual for models that are not chain models.",
        ),
    ):
        command = decorate(command)
    return command


def output_file(what: str) -> Callable[[Command], Command]:
    """Add ``-o``, for results that go to stdout without it."""
    return click.option("-o", "--output-file", metavar="FILE", default="-", help=f"{what}; - is stdout.  [default: -]")


def lattice_output(what: str = "File for the lattices") -> Callable[[Command], Command]:
    """Add ``-o`` for lattices, and how they are written: ``Reading`` takes these options to itself."""

    def add(command: Command) -> Command:
        for decorate in (
            click.option("--words-out", metavar="FILE", help="Write the symbol table of the lattices' words, too."),
            click.option(
                "--lossy",
                type=click.Choice(["allow", "refuse"]),
                default="allow",
                show_default=True,
                help="Name what a format cannot hold, or fail lattices that would lose it.",
            ),
            click.option(
                "--to",
                metavar="FORMAT[:OPTION=VALUE,...]",
                help="Format to write.  [default: as the ending of -o says; a Kaldi archive]",
            ),
            output_file(f"{what}: an archive, a wspecifier such as ark,t:FILE, or any format by its ending"),
        ):
            command = decorate(command)
        return command

    return add


def resume(command: Command) -> Command:
    """Add ``--resume``."""
    text = "Keep what was written if the run is cut short, and go on after it the next time."
    return click.option("--resume", is_flag=True, help=text)(command)


def from_fields(
    options: type[Any], help_of: Mapping[str, str], *, skip: tuple[str, ...] = (), prefix: str = ""
) -> Callable[[Command], Command]:
    """Add an option for each field of an options dataclass, of the same name, type and default.

    Args:
        options: The dataclass; its annotations are plain types, Literals, or one of these or None.
        help_of: Help of each field.
        skip: Fields that the command offers in its own way, or not at all.
        prefix: Put before each name, with an underscore, where the command has options of the same names.
    """
    kinds = typing.get_type_hints(options)

    def add(command: Command) -> Command:
        for field in reversed(dataclasses.fields(options)):
            if field.name in skip:
                continue
            kind = kinds[field.name]
            if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
                (kind,) = (each for each in typing.get_args(kind) if each is not type(None))
            given: dict[str, Any] = {"type": kind}
            if typing.get_origin(kind) is typing.Literal:
                given = {"type": click.Choice(typing.get_args(kind))}
            elif kind is bool:
                given = {"is_flag": True}
            shown = field.default is not None and kind is not bool
            name = f"{prefix}_{field.name}" if prefix else field.name
            decorate = click.option(
                f"--{name.replace('_', '-')}",
                name,
                default=field.default,
                show_default=shown,
                help=help_of[field.name],
                **given,
            )
            command = decorate(command)
        return command

    return add


def typed(names: Collection[str]) -> list[str]:
    """Return those of some options that stand on the command line, spelled as there, sorted."""
    context = click.get_current_context()
    return sorted(
        each.opts[0]
        for each in context.command.params
        if each.name in names and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    )


def check_files(outputs: Iterable[str | None], inputs: Iterable[object] = ()) -> None:
    """Refuse, before anything is computed, files to write that are one and the same, are read, or have no folder.

    Raises:
        OptionError: Names the file.
    """
    read = {os.path.realpath(path) for path in inputs if isinstance(path, str | os.PathLike) and path != "-"}
    written: set[str] = set()
    for path in outputs:
        if path is None:
            continue
        place = path if path == "-" else os.path.realpath(path)
        if place in written:
            raise OptionError(f"{path}: two results would go there; give each a file of its own")
        if place in read:
            raise OptionError(f"{path} is read and would be written over; give the result another name")
        if path != "-" and not os.path.isdir(os.path.dirname(place)):
            raise OptionError(f"{path}: there is no folder {os.path.dirname(place)}")
        written.add(place)


@contextmanager
def text_output(path: str) -> Iterator[TextIO]:
    """Open a text file for results, ``-`` for stdout; a file appears under its name only when it is complete.

    Raises:
        OptionError: A wspecifier of two files; ``ark:F`` and ``ark,t:F``, as Kaldi's users type them, are the file F.
    """
    from ninja.io.targets import target

    chosen = target(path)
    if chosen.script is not None:
        raise OptionError(f"{path!r} names two files, but these results are one text; name one")
    if chosen.archive == "-":
        yield sys.stdout
        return
    from ninja.files.output import opened_as_text

    with opened_as_text(chosen.archive) as stream:
        yield stream
