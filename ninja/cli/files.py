"""Types of the arguments and options that name files, and the one check that no output replaces an input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import click

from ninja.errors import NinjaError, OptionError
from ninja.files.guard import Guard, guarded
from ninja.files.output import part_of, target
from ninja.files.place import Table
from ninja.files.remote import is_remote
from ninja.io import folder
from ninja.io.scales_beside import scales_path
from ninja.io.sources import tables
from ninja.io.symbol_tables import table_beside
from ninja.pipeline.outputs import names_job

STDIN, STDOUT = "/dev/stdin", "/dev/stdout"


class InputFile(click.ParamType):
    """A file that is read, or several: a folder, a list, a pattern, one of Kaldi's names.

    Args:
        load: Reads it for the command, once all files are checked.
    """

    name = "file"

    def __init__(self, load: Callable[[str], object] | None = None) -> None:
        self.load = load

    def files(self, name: str) -> Iterator[str]:
        """Yield the paths of the files; what a list or a script file names is known when it is read."""
        if os.path.isdir(name):
            yield from self.files_of_folder(name)
            return
        for table in _tables(name):
            if table.kind == "folder":  # a remote one
                yield from self.files_of_folder(table.place.path)
                continue
            yield STDIN if table.place.path == "-" else table.place.path

    def files_of_folder(self, name: str) -> Iterator[str]:
        """Yield the paths of all files below a folder."""
        for place, _, names in os.walk(name):
            yield from (os.path.join(place, each) for each in names)


class Lattices(InputFile):
    """A source of lattices."""

    name = "source"

    def files_of_folder(self, name: str) -> Iterator[str]:
        """Yield the paths of the files that are read as lattices."""
        yield from folder.lattice_files(name)


class OutputFile(click.ParamType):
    """A file that is written; ``-`` is the standard output.

    Args:
        allow_folder: The name may be that of a folder.
    """

    name = "file"

    def __init__(self, *, allow_folder: bool = False) -> None:
        self._allow_folder = allow_folder

    def check(self, name: str) -> None:
        """Refuse a name that is none of one file in a folder that is there.

        Raises:
            OptionError: It is.
        """
        if names_job(name):
            raise OptionError(f"{name}: JOB numbers files of lattices, but these results are one file; leave JOB out")
        if not self._allow_folder and (name.endswith(os.sep) or os.path.isdir(name)):
            raise OptionError(f"{name} is a folder, but these results are one file; name that")
        for path in self.targets(name):
            if not is_remote(path) and not os.path.isdir(parent := os.path.dirname(os.path.realpath(path))):
                raise OptionError(f"{name}: there is no folder {parent}; make it first")

    def targets(self, name: str) -> list[str]:
        """Return the paths of the files that are written, beside temporary ones and what is named by keys."""
        chosen = target(name)
        paths = [chosen.archive] if chosen.script is None else [chosen.archive, chosen.script]
        return [STDOUT if path == "-" else path for path in paths]


class LatticeFile(OutputFile):
    """A file or a folder of lattices that are written, or several files.

    Args:
        each_input: Each input file may have one.
    """

    def __init__(self, *, each_input: bool = False) -> None:
        super().__init__()
        self.several = "for one output of each input: -o folder/ or -o out/lat.JOB.gz" if each_input else None

    def check(self, name: str) -> None:
        """Leave it to their writer to make a folder, or to say that there is none."""

    def targets(self, name: str) -> list[str]:
        """Return the paths of the files, and those of the symbol table and the scales which may go beside them."""
        first, *others = super().targets(name)
        return [first, *others] if first == STDOUT else [first, *others, table_beside(first), scales_path(first)]


class OutputFolder(OutputFile):
    """A folder of files that are written; it is made."""

    name = "dir"

    def check(self, name: str) -> None:
        """Accept any name."""


def guard(command: click.Command, values: dict[str, Any]) -> AbstractContextManager[None]:
    """Refuse outputs of a command that are its inputs, or one and the same; watch over its files while it runs.

    Args:
        command: Its arguments and options say by their types which files they name.
        values: The value of each of them.

    Raises:
        OptionError: An output is read, two are one file, or its name is not that of one file.
    """
    read = [(kind, name) for kind, name in _named(command, values) if isinstance(kind, InputFile)]
    found = Guard(lambda: (path for kind, name in read for path in kind.files(name)))
    written: set[str] = set()
    for kind, name in _named(command, values):
        if not isinstance(kind, OutputFile):
            continue
        kind.check(name)
        for path in kind.targets(name):
            place = os.path.realpath(path) if path != STDOUT else path
            if place in written and path != os.devnull:
                raise OptionError(f"{name}: two results would go there; give each a file of its own")
            written.add(place)
            found.write(path)
            found.write(part_of(path))
    return guarded(found)


def _named(command: click.Command, values: dict[str, Any]) -> Iterator[tuple[click.ParamType, str]]:
    """Yield the type and each value of the arguments and options that name files."""
    for each in command.params:
        if isinstance(each.type, InputFile | OutputFile) and each.name in values:
            value = values[each.name]
            for name in value if isinstance(value, tuple) else (value,):
                if name is not None:
                    yield each.type, name


def check_stdin(command: click.Command, values: dict[str, Any]) -> None:
    """Refuse to read the standard input twice, however it is spelled."""
    sources = [name for kind, name in _named(command, values) if isinstance(kind, InputFile)]
    if sum(is_stdin(name) for name in sources) > 1:
        raise OptionError("the standard input, -, can be one of the archives only")


def is_stdin(source: str) -> bool:
    """Tell whether a source is the standard input, however it is spelled."""
    return any(table.place.path in ("-", STDIN) and table.place.command is None for table in _tables(source))


def _tables(name: str) -> list[Table]:
    """Return what a name stands for, without what a command makes; nothing where reading it will fail."""
    try:
        found = tables(name, allow_pipes=True)  # commands are only understood here, not run
    except NinjaError:
        return []
    return [table for table in found if table.place.command is None]
