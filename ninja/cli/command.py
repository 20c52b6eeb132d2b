"""``Sectioned``, the base class of commands, and parameter types for input and output files."""

from __future__ import annotations

import functools
import math
import os
import stat
from collections.abc import Callable, Collection, Iterator
from copy import copy
from typing import Any, Literal

import click
from click.core import ParameterSource

from ninja.cli.commands import COMMANDS
from ninja.cli.main import ARGUMENTS
from ninja.errors import LARGEST_COUNT, NinjaError, OptionError
from ninja.files.output import part_of, target
from ninja.files.stream import Guard, Table, is_remote, names_job
from ninja.formats.kaldi.archive import table_beside
from ninja.io.inputs import Inputs, State, state_of, states_of
from ninja.io.sources import SourceFile, Sources, scales_path

Command = Callable[..., Any]
LAST_SECTIONS = ("Input and output", "Running")
STDIN, STDOUT = "/dev/stdin", "/dev/stdout"
# Parameters that do not change the results, or whose values are recorded as sources.
IGNORED = {"shard", "ray", "jobs", "resume", "config", "source", "first"}
# Options that may differ when a run is resumed.
MAY_CHANGE = {"batch_arcs", "backend", "device", "on_error", "allow_pipes"}


class InputFile(click.ParamType):
    """Parameter type for inputs: a file, a folder, a file list, a pattern, or a Kaldi rspecifier.

    Args:
        load: Function that loads the file after all files are checked; the command receives the loaded value.
    """

    name = "file"

    def __init__(self, load: Callable[[str], object] | None = None) -> None:
        self.load = load

    def is_file(self, name: str) -> bool:
        """Return whether a value specifies files; the command receives other values, such as URLs, unchanged."""
        return True

    def paths(self, files: list[SourceFile]) -> Iterator[str]:
        """Yield the paths of files, including files in folders."""
        for file in files:
            if file.table.kind == "folder":
                yield from self.paths_in(file)
            else:
                yield STDIN if file.path == "-" else file.path

    def paths_in(self, folder: SourceFile) -> Iterator[str]:
        """Yield the paths of all files in a folder and its subfolders."""
        if is_remote(folder.path):
            yield from (file.path for file in folder.files)
            return
        for parent, _, names in os.walk(folder.path):
            yield from (os.path.join(parent, name) for name in names)


class NamedFile(InputFile):
    """Parameter type for a file that is opened by its name, possibly several times, so it cannot be stdin."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the name of the file unchanged."""
        if value == "-":
            self.fail("standard input cannot be read here; specify a file", parameter, context)
        return value


class Lattices(InputFile):
    """Parameter type for inputs that contain lattices."""

    name = "source"

    def paths_in(self, folder: SourceFile) -> Iterator[str]:
        """Yield the paths of the lattice files in a folder."""
        yield from (file.path for file in folder.lattice_files)


class OutputFile(click.ParamType):
    """Parameter type for output files; ``-`` is stdout.

    Args:
        allow_folder: Also accept the name of a folder.
    """

    name = "file"
    content: Literal["text", "lattices", "files"] = "text"
    is_joined = True  # whether each shard writes a part; otherwise, shards share the file

    def __init__(self, *, allow_folder: bool = False) -> None:
        self._allow_folder = allow_folder

    def check(self, name: str) -> None:
        """Check that a name specifies a single file in an existing folder.

        Raises:
            OptionError: The name contains JOB, is a folder where only files are allowed, or is in a missing folder.
        """
        if names_job(name):
            raise OptionError(f"{name}: JOB is allowed only in the names of lattice outputs; remove it")
        if not self._allow_folder and (name.endswith(os.sep) or os.path.isdir(name)):
            raise OptionError(f"{name} is a folder, but the output is a single file; add a file name")
        for path in self.targets(name):
            if not is_remote(path) and not os.path.isdir(parent := os.path.dirname(os.path.realpath(path))):
                raise OptionError(f"{name}: the folder {parent} does not exist; create it first")

    def targets(self, name: str) -> list[str]:
        """Return the paths of the output files, excluding temporary files and files that are named after keys."""
        output = target(name)
        paths = [output.archive] if output.script is None else [output.archive, output.script]
        return [STDOUT if path == "-" else path for path in paths]


class LatticeFile(OutputFile):
    """Parameter type for lattice outputs: one file, a folder, or several files.

    Args:
        per_input: Whether each input file can have a separate output.
    """

    content = "lattices"

    def __init__(self, *, per_input: bool = False) -> None:
        super().__init__()
        self.several = "to write one output per input, use -o folder/ or -o out/lat.JOB.gz" if per_input else None

    def check(self, name: str) -> None:
        """Accept any name; it is checked when the lattices are written."""

    def targets(self, name: str) -> list[str]:
        """Return the paths of the output files, and the paths of their symbol table and scale file."""
        first, *others = super().targets(name)
        return [first, *others] if first == STDOUT else [first, *others, table_beside(first), scales_path(first)]


class ModelFile(OutputFile):
    """Parameter type for the destination of a model: a file or, if allowed, a folder, but not stdout."""

    def check(self, name: str) -> None:
        """Check a name like `OutputFile.check`, and raise `OptionError` if it is stdout."""
        if STDOUT in self.targets(name):
            raise OptionError("a model cannot be written to stdout; specify the name of a file")
        super().check(name)


class OutputFolder(OutputFile):
    """Parameter type for output folders, which are created if necessary."""

    name = "dir"
    content = "files"

    def check(self, name: str) -> None:
        """Accept any name, because the folder is created if necessary."""


class CommandFiles:
    """The input and output files of a command, resolved and checked.

    Args:
        command: The command; the parameter types determine which parameters are files.
        values: Parameter values by name.

    Attributes:
        sources: Resolver for input names, which resolves each name only once.
        guard: Check that rejects outputs that would replace an input.
        tables: Input tables of the current shard; None without ``--shard``.
        inputs: Inputs of the command; None until they are built.
        reads_stdin: Whether one of the inputs is standard input.

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
        num_stdin = sum(is_standard_input(files) for _, files in self._inputs())
        self.reads_stdin = num_stdin > 0
        if num_stdin > 1:
            raise OptionError("only one of the inputs can be standard input (-)")

    def settings(
        self, identity: Callable[[list[str]], Any], ignored: Collection[str] = IGNORED
    ) -> tuple[dict[str, Any], list[State]]:
        """Return the options on which the results of the command depend.

        Args:
            identity: Function that maps a list of file paths to a value that identifies the contents of the files.
            ignored: Names of the command's parameters to omit.

        Returns:
            ``(values, states)``: the option values by option name, and the path, size and modification time of each
            lattice file that the options specify (see `State`). In ``values``, lattice files are replaced with the
            number of files, and other input files with the result of ``identity``.
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
        """Yield ``(type, value)`` for each value of each file parameter."""
        for parameter in self.command.params:
            if isinstance(parameter.type, InputFile | OutputFile):
                value = self.values.get(parameter.name or "")
                for name in value if isinstance(value, tuple) else (value,):
                    if name is not None:
                        yield parameter.type, name

    def _files(self, name: str) -> list[SourceFile]:
        """Return the files in an input, excluding pipes.

        For an unreadable input, the list is empty; the error is reported when the input is read.
        """
        return [file for file in self.sources.select((name,)).resolvable_files if file.place.command is None]

    def _input_paths(self) -> Iterator[str]:
        """Yield the paths of all input files, including the files in file lists and script files."""
        for kind, files in self._inputs():
            yield from kind.paths(files)
            for file in files:
                yield from (member.path for member in file.members)

    def _inputs(self) -> Iterator[tuple[InputFile, list[SourceFile]]]:
        """Yield ``(type, files)`` for each input."""
        for kind, name in self._named():
            if isinstance(kind, InputFile) and kind.is_file(name):
                yield kind, self._files(name)

    def outputs(self) -> Iterator[tuple[str, str, OutputFile, str]]:
        """Yield ``(parameter name, option, type, value)`` for each output that shards do not share."""
        for parameter in self.command.params:
            name, kind = parameter.name or "", parameter.type
            if isinstance(kind, OutputFile) and kind.is_joined and (value := self.values.get(name)) is not None:
                yield name, parameter.opts[0], kind, value

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
    """Return whether any of the files is standard input: a name such as ``-``, or a pipe that is open as stdin."""
    names = {"-", STDIN, "/dev/fd/0", "/proc/self/fd/0"}
    paths = [file.path for file in files if file.place.command is None]
    return any(path in names or _is_standard_pipe(path) for path in paths)


def _is_standard_pipe(path: str) -> bool:
    try:
        status = os.stat(path)
        is_pipe = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)
        return is_pipe and os.path.samestat(status, os.fstat(0))
    except (OSError, ValueError):
        return False


class ShardType(click.ParamType):
    """Parameter type for a shard, ``i/n``."""

    name = "i/n"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Parse ``i/n`` into a `Shard`."""
        from ninja.pipeline.plan import Shard

        return Shard.parse(value)


def _shard_options() -> list[click.Option]:
    """Return the options ``--shard`` and ``--ray``."""
    shard = "Process shard i of n; `ninja gather` joins the results. For job arrays, see docs/howto/cluster.md."
    ray = (
        "Run in shards on the Ray cluster at HOST:PORT. Without a value, use the Ray cluster that runs on this "
        "machine, or start a local one."
    )
    options = [
        click.Option(["--shard"], type=ShardType(), metavar="i/n", help=shard),
        click.Option(["--ray"], is_flag=False, flag_value="auto", metavar="[HOST:PORT]", help=ray),
    ]
    for option in options:
        vars(option)["section"] = LAST_SECTIONS[1]
    return options


class Sectioned(click.Command):
    """Command that divides its help into sections.

    Before the command runs, its files are checked and ``--inv-acoustic-scale`` is converted to ``--acoustic-scale``.
    A command that processes each lattice independently also has the options ``--shard`` and ``--ray``.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        reads = any(
            isinstance(parameter, click.Argument) and isinstance(parameter.type, Lattices) for parameter in self.params
        )
        writes = any(isinstance(parameter.type, OutputFile) for parameter in self.params)
        entry = COMMANDS.get(self.name or "")
        self.scales_costs = entry is not None and entry.scales_costs
        if reads and writes and (entry is None or entry.has_shards):
            self.params += _shard_options()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, divided into sections."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None:
                last = "Options" if parameter in self.params else LAST_SECTIONS[-1]  # click itself defines --help
                sections.setdefault(getattr(parameter, "section", last), []).append(record)
        for title in sorted(sections, key=lambda title: title in LAST_SECTIONS and 1 + LAST_SECTIONS.index(title)):
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; raise `OptionError` for a duplicate option or an integer of more than 64 bits."""
        ctx.meta[ARGUMENTS] = tuple(args)
        parser = self.make_parser(ctx)
        options = [option for option in self.params if isinstance(option, click.Option) and takes_one_value(option)]
        for option in options:
            repeatable = copy(option)
            repeatable.multiple = True
            repeatable.add_to_parser(parser, ctx)  # replaces the option, so that all of its values are collected
        all_values, _, _ = parser.parse_args(list(args))
        for option in options:
            if len(values := all_values.get(option.name, ())) > 1:
                times = "twice" if len(values) == 2 else f"{len(values)} times"
                advice = getattr(option.type, "several", None) or "specify it once"
                raise OptionError(f"{option.opts[0]} is given {times}: {' and '.join(map(str, values))}; {advice}")
        arguments = super().parse_args(ctx, args)
        for parameter in self.params:
            value = ctx.params.get(parameter.name or "")
            if isinstance(value, int) and abs(value) > LARGEST_COUNT:
                raise OptionError(f"{parameter.opts[0]} is {value}, but must be at most {LARGEST_COUNT}")
        return arguments

    def invoke(self, ctx: click.Context) -> Any:
        """Check the files, and run the command; if requested, run it on one shard or on a cluster."""
        shard, address = self.check_files(ctx)
        if address is not None:
            from ninja.cli.cluster import run_on_cluster

            return run_on_cluster(ctx, address, shard)
        if shard is None:
            return self.run(ctx)
        from ninja.cli.shards import run_in_shard

        return run_in_shard(ctx, shard, lambda: self.run(ctx))

    def check_files(self, ctx: click.Context) -> tuple[Any, str | None]:
        """Resolve and check the files; remove ``--shard`` and ``--ray`` from the parameters and return their values."""
        ctx.obj = CommandFiles(self, ctx.params)
        return ctx.params.pop("shard", None), ctx.params.pop("ray", None)

    def run(self, ctx: click.Context) -> Any:
        """Load the input files, resolve the acoustic scale, and run the command."""
        ctx.params.pop("config", None)  # its values are already the defaults of the other options
        for parameter in self.params:
            load = getattr(parameter.type, "load", None)
            if load is not None and ctx.params[name := parameter.name or ""] is not None:
                ctx.params[name] = load(ctx.params[name])
        self._invert_scale(ctx)
        return super().invoke(ctx)

    def _invert_scale(self, ctx: click.Context) -> None:
        inverse = ctx.params.pop("inv_acoustic_scale", None)
        if given_on_command_line(["inv_acoustic_scale"]):
            if given_on_command_line(["acoustic_scale"]):
                raise click.UsageError("--acoustic-scale cannot be used with --inv-acoustic-scale")
            inverses = inverse if isinstance(inverse, tuple) else (inverse,)
            if 0.0 in inverses:
                raise click.UsageError("--inv-acoustic-scale is 0, which has no inverse")
            if infinite := [value for value in inverses if not math.isfinite(value)]:
                raise click.UsageError(f"--inv-acoustic-scale is {infinite[0]}, but must be finite")
            scales = tuple(1.0 / value for value in inverses)
            ctx.params["acoustic_scale"] = scales if isinstance(inverse, tuple) else scales[0]


def takes_one_value(option: click.Option) -> bool:
    """Return whether an option accepts exactly one value."""
    return not (option.multiple or option.is_flag or option.count)


def given_on_command_line(names: Collection[str]) -> list[str]:
    """Return the flags of the named options that occur on the command line, in alphabetical order."""
    context = click.get_current_context()
    return sorted(
        option.opts[0]
        for option in context.command.params
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    )


def refuse_without(option: str, dependent: Collection[str]) -> None:
    """Raise `OptionError` if the command line contains options that can be used only with another option.

    Args:
        option: Flag of the required option, which is not set.
        dependent: Names of the options that require it.
    """
    if flags := given_on_command_line(dependent):
        raise OptionError(f"{', '.join(flags)} can be used only with {option}")


def refuse_all_but(names: Collection[str], reason: str) -> None:
    """Raise `OptionError`, with a reason, if the command line contains options other than the named options."""
    others = {parameter.name or "" for parameter in click.get_current_context().command.params}.difference(names)
    if flags := given_on_command_line(others):
        raise OptionError(f"{reason}; omit {', '.join(flags)}")


def keeps_defaults(names: Collection[str]) -> bool:
    """Return whether none of the named options is set on the command line or in an options file."""
    context = click.get_current_context()
    return all(context.get_parameter_source(name) in (None, ParameterSource.DEFAULT) for name in names)


def grouped(
    argument: str,
    names: Collection[str],
    make: Callable[[dict[str, Any], dict[str, Any]], object],
    *,
    always: bool = False,
) -> Callable[[Command], Command]:
    """Pass the named options to the command as one argument, which is None if no option of the group is set.

    Args:
        argument: Name of the argument.
        names: Names of the options.
        make: Function that returns the argument; it is called with the values of these options and the values of all
            other options.
        always: Call `make` even if no option is set.
    """

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def collected(**options: Any) -> Any:
            chosen = {name: options.pop(name) for name in names}
            value = make(chosen, options) if always or not keeps_defaults(names) else None
            return command(**{argument: value}, **options)

        return collected

    return add
