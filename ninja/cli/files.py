"""Types of the arguments and options that name files, and the files of a command."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import Any

import click

from ninja.errors import NinjaError, OptionError
from ninja.files.output import Guard, part_of
from ninja.files.place import Table, is_remote, target
from ninja.io.inputs import Inputs
from ninja.io.resume import State, state_of, states_of
from ninja.io.scales import scales_path
from ninja.io.sources import SourceFile, Sources
from ninja.io.symbol_tables import table_beside
from ninja.pipeline.outputs import names_job

STDIN, STDOUT = "/dev/stdin", "/dev/stdout"
# Parameters that do not change the results, or are identified by the sources; those of the run may differ when resumed.
IGNORED = {"shard", "ray", "jobs", "resume", "config", "source", "first"}
OF_THE_RUN = {"batch_arcs", "backend", "device", "on_error", "allow_pipes"}


class InputFile(click.ParamType):
    """A file that is read, or several: a folder, a list, a pattern, a Kaldi rspecifier.

    Args:
        load: Reads the file for the command, after all files are checked.
    """

    name = "file"

    def __init__(self, load: Callable[[str], object] | None = None) -> None:
        self.load = load

    def paths(self, files: list[SourceFile]) -> Iterator[str]:
        """Yield the paths of files, also of those in folders."""
        for file in files:
            if file.table.kind == "folder":
                yield from self.paths_in(file)
            else:
                yield STDIN if file.path == "-" else file.path

    def paths_in(self, folder: SourceFile) -> Iterator[str]:
        """Yield the paths of all files below a folder."""
        if is_remote(folder.path):
            yield from (file.path for file in folder.files)
        for place, _, names in os.walk(folder.path):
            yield from (os.path.join(place, name) for name in names)


class Lattices(InputFile):
    """A source of lattices."""

    name = "source"

    def paths_in(self, folder: SourceFile) -> Iterator[str]:
        """Yield the paths of the files that are read as lattices."""
        yield from (file.path for file in folder.lattice_files)


class OutputFile(click.ParamType):
    """A file that is written; ``-`` is the standard output.

    Args:
        allow_folder: The name may be that of a folder.
    """

    name = "file"

    def __init__(self, *, allow_folder: bool = False) -> None:
        self._allow_folder = allow_folder

    def check(self, name: str) -> None:
        """Check that a name is that of one file in an existing folder.

        Raises:
            OptionError: It is not.
        """
        if names_job(name):
            raise OptionError(f"{name}: JOB numbers files of lattices, but these results are one file; leave JOB out")
        if not self._allow_folder and (name.endswith(os.sep) or os.path.isdir(name)):
            raise OptionError(f"{name} is a folder, but these results are a single file; name a file")
        for path in self.targets(name):
            if not is_remote(path) and not os.path.isdir(parent := os.path.dirname(os.path.realpath(path))):
                raise OptionError(f"{name}: there is no folder {parent}; create it first")

    def targets(self, name: str) -> list[str]:
        """Return the paths of the files that are written, without temporary files and files named by keys."""
        output = target(name)
        paths = [output.archive] if output.script is None else [output.archive, output.script]
        return [STDOUT if path == "-" else path for path in paths]


class LatticeFile(OutputFile):
    """A file or a folder of lattices that are written, or several files.

    Args:
        each_input: Each input file may have an output of its own.
    """

    def __init__(self, *, each_input: bool = False) -> None:
        super().__init__()
        self.several = "for one output of each input: -o folder/ or -o out/lat.JOB.gz" if each_input else None

    def check(self, name: str) -> None:
        """Accept any name, which the writer checks."""

    def targets(self, name: str) -> list[str]:
        """Return the paths of the files, and of the symbol table and the scales that may be written beside them."""
        first, *others = super().targets(name)
        return [first, *others] if first == STDOUT else [first, *others, table_beside(first), scales_path(first)]


class OutputFolder(OutputFile):
    """A folder of files that are written; it is created."""

    name = "dir"

    def check(self, name: str) -> None:
        """Accept any name."""


class CommandFiles:
    """The files that the arguments and options of a command name; names are resolved once, and no output is an input.

    Args:
        command: Its arguments and options show by their types which files they name.
        values: Value of each of them.

    Attributes:
        sources: The inputs.
        guard: Refuses outputs that would replace an input.
        tables: The part of the lattices that a shard reads.
        inputs: The lattices of that shard.

    Raises:
        OptionError: An output is an input, two outputs are one file, an output does not name one file, or the standard
            input is read twice.
    """

    tables: tuple[Table, ...] | None = None
    inputs: Inputs | None = None

    def __init__(self, command: click.Command, values: dict[str, Any]) -> None:
        self.command = command
        self.values = dict(values)
        self.guard = Guard(self._input_paths())
        self.sources = Sources((), allow_pipes=values.get("allow_pipes", False), guard=self.guard)
        self._check_outputs()
        is_stdin = [is_standard_input(self._files(name)) for kind, name in self._named() if isinstance(kind, InputFile)]
        if sum(is_stdin) > 1:
            raise OptionError("the standard input, -, can be one of the archives only")

    def settings(
        self, identity: Callable[[list[str]], Any], ignored: Collection[str] = IGNORED
    ) -> tuple[dict[str, Any], list[State]]:
        """Return the options that the results depend on, and the states of lattices beside the sources.

        Args:
            identity: Returns a value that identifies the content of files.
            ignored: Parameters that are left out.
        """
        options: dict[str, Any] = {}
        states: list[State] = []
        for parameter in self.command.params:
            name, kind = parameter.name or "", parameter.type
            value = self.values.get(name)
            if name in ignored or isinstance(kind, OutputFile) or value is None:
                continue
            option = parameter.opts[0].lstrip("-").replace("-", "_")
            names = value if isinstance(value, tuple) else (value,)
            if isinstance(kind, Lattices):
                others = self._states(names)
                states.extend(others)
                options[option] = len(others)
            elif isinstance(kind, InputFile):
                options[option] = [value for name in names for value in self._contents(kind, name, identity)]
            else:
                options[option] = value if isinstance(value, bool | int | float | str) else repr(value)
        return options, states

    def _states(self, names: tuple[str, ...]) -> list[State]:
        try:
            return states_of(self.sources.select(names))
        except NinjaError:  # a pipe, or a source that reading it reports
            return [(name, -1, -1) for name in names]

    def _contents(self, kind: InputFile, name: str, identity: Callable[[list[str]], Any]) -> list[Any]:
        paths = sorted(path for path in kind.paths(self._files(name)) if state_of(path)[1] >= 0)
        return identity(paths) if paths else [name]

    def _named(self) -> Iterator[tuple[click.ParamType, str]]:
        """Yield the type and each value of the arguments and options that name files."""
        for parameter in self.command.params:
            if isinstance(parameter.type, InputFile | OutputFile):
                value = self.values.get(parameter.name or "")
                for name in value if isinstance(value, tuple) else (value,):
                    if name is not None:
                        yield parameter.type, name

    def _files(self, name: str) -> list[SourceFile]:
        """Return the files of an input, without commands; none if it cannot be read, which reading it reports."""
        return [file for file in self.sources.select((name,)).resolvable_files if file.place.command is None]

    def _input_paths(self) -> Iterator[str]:
        """Yield the paths of all inputs, also of the files that lists and script files name."""
        for kind, name in self._named():
            if isinstance(kind, InputFile):
                files = self._files(name)
                yield from kind.paths(files)
                for file in files:
                    yield from (member.path for member in file.members)

    def _check_outputs(self) -> None:
        paths: set[str] = set()
        for kind, name in self._named():
            if not isinstance(kind, OutputFile):
                continue
            kind.check(name)
            for path in kind.targets(name):
                place = os.path.realpath(path) if path != STDOUT else path
                if place in paths and path != os.devnull:
                    raise OptionError(f"{name}: two results would be written there; give each a separate file")
                paths.add(place)
                self.guard.write(path)
                self.guard.write(part_of(path))


def is_standard_input(files: list[SourceFile]) -> bool:
    """Return whether any of some files is the standard input, however it is named."""
    return any(file.path in ("-", STDIN) and file.place.command is None for file in files)
