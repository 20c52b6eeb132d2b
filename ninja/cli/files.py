"""Types of arguments and options that name files, and the checks of these files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import Any

import click

from ninja.errors import NinjaError, OptionError
from ninja.files.names import Table
from ninja.files.output import part_of, target
from ninja.files.stream import Guard, is_remote
from ninja.io.companions import scales_path, table_beside
from ninja.io.inputs import Inputs
from ninja.io.sources import SourceFile, Sources, State, state_of, states_of
from ninja.pipeline.outputs import names_job

STDIN, STDOUT = "/dev/stdin", "/dev/stdout"
# Parameters that do not change the results, or whose effect is in the list of sources.
IGNORED = {"shard", "ray", "jobs", "resume", "config", "source", "first"}
MAY_CHANGE = {"batch_arcs", "backend", "device", "on_error", "allow_pipes"}  # when a run is resumed


class InputFile(click.ParamType):
    """An input: a file, a folder, a list of files, a pattern, or a Kaldi rspecifier.

    Args:
        load: Called with the name after all files are checked; the command gets its return value.
    """

    name = "file"

    def __init__(self, load: Callable[[str], object] | None = None) -> None:
        self.load = load

    def is_file(self, name: str) -> bool:
        """Return whether a value names files; other values, such as texts, are not resolved."""
        return True

    def paths(self, files: list[SourceFile]) -> Iterator[str]:
        """Yield the paths of files, including those in folders."""
        for file in files:
            if file.table.kind == "folder":
                yield from self.paths_in(file)
            else:
                yield STDIN if file.path == "-" else file.path

    def paths_in(self, folder: SourceFile) -> Iterator[str]:
        """Yield the paths of all files below a folder."""
        if is_remote(folder.path):
            yield from (file.path for file in folder.files)
        for parent, _, names in os.walk(folder.path):
            yield from (os.path.join(parent, name) for name in names)


class Lattices(InputFile):
    """An input that contains lattices."""

    name = "source"

    def paths_in(self, folder: SourceFile) -> Iterator[str]:
        """Yield the paths of the lattice files in a folder."""
        yield from (file.path for file in folder.lattice_files)


class OutputFile(click.ParamType):
    """An output file; ``-`` is stdout.

    Args:
        allow_folder: Accept the name of a folder, too.
    """

    name = "file"

    def __init__(self, *, allow_folder: bool = False) -> None:
        self._allow_folder = allow_folder

    def check(self, name: str) -> None:
        """Check that a name denotes a single file in an existing folder.

        Raises:
            OptionError: The name is a folder, or its folder does not exist.
        """
        if names_job(name):
            raise OptionError(f"{name}: JOB is allowed only in the names of lattice outputs; remove it")
        if not self._allow_folder and (name.endswith(os.sep) or os.path.isdir(name)):
            raise OptionError(f"{name} is a folder, but the output is a single file; add a file name")
        for path in self.targets(name):
            if not is_remote(path) and not os.path.isdir(parent := os.path.dirname(os.path.realpath(path))):
                raise OptionError(f"{name}: the folder {parent} does not exist; create it first")

    def targets(self, name: str) -> list[str]:
        """Return the paths of the output files, without temporary files and files that are named by keys."""
        output = target(name)
        paths = [output.archive] if output.script is None else [output.archive, output.script]
        return [STDOUT if path == "-" else path for path in paths]


class LatticeFile(OutputFile):
    """An output for lattices: one file, a folder, or several files.

    Args:
        per_input: Each input file may have a separate output.
    """

    def __init__(self, *, per_input: bool = False) -> None:
        super().__init__()
        self.several = "to write one output per input, use -o folder/ or -o out/lat.JOB.gz" if per_input else None

    def check(self, name: str) -> None:
        """Accept any name; the writer checks it."""

    def targets(self, name: str) -> list[str]:
        """Return the paths of the files, and those of the symbol table and the scale file that may be written, too."""
        first, *others = super().targets(name)
        return [first, *others] if first == STDOUT else [first, *others, table_beside(first), scales_path(first)]


class OutputFolder(OutputFile):
    """An output folder, which is created if necessary."""

    name = "dir"

    def check(self, name: str) -> None:
        """Accept any name."""


class CommandFiles:
    """The input and output files of a command, resolved and checked.

    Args:
        command: The command; the types of its parameters tell which of them name files.
        values: Value of each parameter, by name.

    Attributes:
        sources: Resolves names of inputs; each name is resolved once.
        guard: Rejects outputs that would replace an input.
        tables: The part of the input that a shard reads; None without ``--shard``.
        inputs: The inputs of the shard, set when they are built.

    Raises:
        OptionError: An output is also an input, two outputs are the same file, the name of an output is invalid, or
            several inputs are stdin.
    """

    tables: tuple[Table, ...] | None = None
    inputs: Inputs | None = None

    def __init__(self, command: click.Command, values: dict[str, Any]) -> None:
        self.command = command
        self.values = dict(values)
        self.guard = Guard(self._input_paths())
        self.sources = Sources((), allow_pipes=values.get("allow_pipes", False), guard=self.guard)
        self._check_outputs()
        is_stdin = [is_standard_input(files) for _, files in self._inputs()]
        if sum(is_stdin) > 1:
            raise OptionError("only one of the inputs can be standard input (-)")

    def settings(
        self, identity: Callable[[list[str]], Any], ignored: Collection[str] = IGNORED
    ) -> tuple[dict[str, Any], list[State]]:
        """Return the options on which the results depend.

        Args:
            identity: Return a value that identifies the content of files, given their paths.
            ignored: Names of parameters to omit.

        Returns:
            Option name → value, and the states of the lattice files that options name.
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
        except NinjaError:  # a pipe, or a source for which the reader will report an error
            return [(name, -1, -1) for name in names]

    def _contents(self, kind: InputFile, name: str, identity: Callable[[list[str]], Any]) -> list[Any]:
        files = self._files(name) if kind.is_file(name) else []
        paths = sorted(path for path in kind.paths(files) if state_of(path)[1] >= 0)
        return identity(paths) if paths else [name]

    def _named(self) -> Iterator[tuple[click.ParamType, str]]:
        """Yield the type and the value of each parameter that names a file, once per value."""
        for parameter in self.command.params:
            if isinstance(parameter.type, InputFile | OutputFile):
                value = self.values.get(parameter.name or "")
                for name in value if isinstance(value, tuple) else (value,):
                    if name is not None:
                        yield parameter.type, name

    def _files(self, name: str) -> list[SourceFile]:
        """Return the files of an input without pipes; empty for an unreadable input, whose error the reader reports."""
        return [file for file in self.sources.select((name,)).resolvable_files if file.place.command is None]

    def _input_paths(self) -> Iterator[str]:
        """Yield the paths of all inputs, including the files that file lists and script files name."""
        for kind, files in self._inputs():
            yield from kind.paths(files)
            for file in files:
                yield from (member.path for member in file.members)

    def _inputs(self) -> Iterator[tuple[InputFile, list[SourceFile]]]:
        """Yield the type and the files of each input."""
        for kind, name in self._named():
            if isinstance(kind, InputFile) and kind.is_file(name):
                yield kind, self._files(name)

    def _check_outputs(self) -> None:
        paths: set[str] = set()
        for kind, name in self._named():
            if not isinstance(kind, OutputFile):
                continue
            kind.check(name)
            for path in kind.targets(name):
                real_path = os.path.realpath(path) if path != STDOUT else path
                if real_path in paths and path != os.devnull:
                    raise OptionError(f"{name}: two outputs would be written to this file; give them different names")
                paths.add(real_path)
                self.guard.write(path)
                self.guard.write(part_of(path))


def is_standard_input(files: list[SourceFile]) -> bool:
    """Return whether any file is standard input, under any of its names."""
    return any(file.path in ("-", STDIN) and file.place.command is None for file in files)
