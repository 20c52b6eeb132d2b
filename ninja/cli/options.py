"""Options shared by commands, options made from dataclass fields, and the base class of the commands."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, Literal

import click
from click.core import ParameterSource

from ninja.cli.commands import COMMANDS
from ninja.cli.console import ARGUMENTS
from ninja.cli.files import CommandFiles, InputFile, LatticeFile, Lattices, OutputFile
from ninja.errors import OptionError
from ninja.files.names import names_url
from ninja.files.output import text_output
from ninja.files.text import read_toml, toml_text

Command = Callable[..., Any]
# Options that a file may not set, like outputs: they run commands, overwrite files or use other machines.
COMMAND_LINE_ONLY = {"allow_pipes", "endpoint_cache", "ray", "resume", "shard"}
LAST_SECTIONS = ("Input and output", "Running")


def reads(
    name: str,
    text: str,
    *names: str,
    load: Callable[[str], object] | None = None,
    kind: InputFile | None = None,
    **attributes: Any,
) -> Callable[[Command], Command]:
    """Add an option for an input file; if ``load`` is set, the command gets its return value instead of the name."""
    return click.option(name, *names, type=kind or InputFile(load), help=text, **attributes)


def writes(
    name: str, text: str, *names: str, kind: OutputFile | None = None, **attributes: Any
) -> Callable[[Command], Command]:
    """Add an option for an output file."""
    return click.option(name, *names, type=kind or OutputFile(), help=text, **attributes)


class ShardType(click.ParamType):
    """A shard of a run, ``i/n``."""

    name = "i/n"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Parse a shard."""
        from ninja.pipeline.plan import Shard

        return Shard.parse(value)


def _shard_options() -> list[click.Option]:
    """Return the options ``--shard`` and ``--ray``."""
    shard = "Process shard i of n, and join the results with `ninja gather`.  [job arrays: docs/howto/cluster.md]"
    ray = (
        "Run in shards on a Ray cluster: the one at HOST:PORT, or without a value the one running on this machine, "
        "else a new local one."
    )
    options = [
        click.Option(["--shard"], type=ShardType(), metavar="i/n", help=shard),
        click.Option(["--ray"], is_flag=False, flag_value="auto", metavar="[HOST:PORT]", help=ray),
    ]
    for option in options:
        vars(option)["section"] = LAST_SECTIONS[1]
    return options


class ListType(click.ParamType):
    """A list of values, converted to a tuple.

    Args:
        parse: Function that converts one value; it raises ValueError if the value is invalid.
        description: Plural noun for the values, used in error messages.
        separator: Character between the values.
    """

    name = "list"

    def __init__(self, parse: Callable[[str], object], description: str, separator: Literal[",", ":"] = ",") -> None:
        self.parse = parse
        self.description = description
        self.separator = separator

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[object, ...]:
        """Split the list."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(map(self.parse, str(value).split(self.separator))) if value else ()
        except ValueError:
            name = parameter.opts[0] if parameter else "a value"
            separator = {",": "commas", ":": "colons"}[self.separator]
            raise OptionError(f"{name} is {value!r}, but must be {self.description} separated by {separator}") from None


class Sectioned(click.Command):
    """Command whose help has sections; checks its files and converts ``--inv-acoustic-scale`` before it runs.

    A command that processes each lattice independently also has ``--shard`` and ``--ray``.
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
        """Write the options in sections."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None:
                last = "Options" if parameter in self.params else LAST_SECTIONS[-1]  # --help is click's own
                sections.setdefault(getattr(parameter, "section", last), []).append(record)
        for title in sorted(sections, key=lambda title: title in LAST_SECTIONS and 1 + LAST_SECTIONS.index(title)):
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; raise `OptionError` if an option that takes one value occurs twice."""
        ctx.meta[ARGUMENTS] = tuple(args)
        parser = self.make_parser(ctx)
        options = [option for option in self.params if isinstance(option, click.Option) and takes_one_value(option)]
        for option in options:
            repeatable = copy(option)
            repeatable.multiple = True
            repeatable.add_to_parser(parser, ctx)  # replaces the option
        all_values, _, _ = parser.parse_args(list(args))
        for option in options:
            if len(values := all_values.get(option.name, ())) > 1:
                times = "twice" if len(values) == 2 else f"{len(values)} times"
                advice = getattr(option.type, "several", None) or "give it once"
                raise OptionError(f"{option.opts[0]} is given {times}: {' and '.join(map(str, values))}; {advice}")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Check the files and run the command, in a shard or on a cluster if requested."""
        ctx.obj = CommandFiles(self, ctx.params)
        shard, address = ctx.params.pop("shard", None), ctx.params.pop("ray", None)
        if address is not None:
            from ninja.cli.cluster import run_on_cluster

            return run_on_cluster(ctx, address, shard)
        if shard is None:
            return self.run(ctx)
        from ninja.cli.shards import run_in_shard

        return run_in_shard(ctx, shard, lambda: self.run(ctx))

    def run(self, ctx: click.Context) -> Any:
        """Load input files, resolve the acoustic scale and run the command."""
        ctx.params.pop("config", None)  # applied by its callback
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
            scales = tuple(1.0 / value for value in inverses)
            ctx.params["acoustic_scale"] = scales if isinstance(inverse, tuple) else scales[0]


class ListsFormats(Sectioned):
    """Command whose help ends with a list of the formats."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the formats."""
        from ninja.formats.format import formats

        super().format_options(ctx, formatter)
        rows = []
        for form in formats():
            limit = "" if form.read and form.write else "read-only" if form.read else "write-only"
            about = "; ".join(filter(None, (form.about, ", ".join(form.extensions), limit)))
            rows.append((", ".join((form.name, *form.aliases)), about))
        with formatter.section("Formats"):
            formatter.write_dl(rows)


def command(function: Command) -> Sectioned:
    """Turn a function into a command."""
    return click.command(cls=Sectioned)(function)


def section(title: str, *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add options to a section of the help; without options, put those added so far that have no section into it."""

    def add(function: Command) -> Command:
        other_options = list(getattr(function, "__click_params__", ())) if options else []
        for decorate in reversed(options):
            function = decorate(function)
        for parameter in getattr(function, "__click_params__", ()):
            if parameter not in other_options:
                vars(parameter).setdefault("section", title)
        return function

    return add


# Kaldi's decode.sh multiplies acoustic costs of chain models by --post-decode-acwt, 10 in its recipes.
USUAL_SCALE = "typically 0.1, or 1 for chain models decoded without --post-decode-acwt 10"
acoustic_scale = click.option("--acoustic-scale", default=1.0, help=f"Factor applied to acoustic costs; {USUAL_SCALE}.")
inv_acoustic_scale = click.option("--inv-acoustic-scale", "--lmwt", default=1.0, help="Inverse of --acoustic-scale.")
lm_scale = click.option("--lm-scale", default=1.0, help="Factor applied to graph costs.")
word_penalty = click.option("--word-penalty", "--word-ins-penalty", default=0.0, help="Cost added per word.")
jobs = click.option("--jobs", type=click.IntRange(1), help="Number of threads.  [default: all cores]")


class Switch(click.Option):
    """Boolean option in Kaldi's syntax, ``--name=true`` or ``--name=false``.

    The group of commands replaces ``--name`` without a value by ``--name=true``.
    """

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return the default in lower case, as it is written on the command line."""
        extra = super().get_help_extra(ctx)
        if "default" in extra:
            extra["default"] = extra["default"].lower()
        return extra


def switch(name: str, default: bool, text: str) -> Callable[[Command], Command]:
    """Add a boolean option in Kaldi's syntax."""
    return click.option(name, cls=Switch, type=click.BOOL, default=default, metavar="BOOL", help=text)


def output_file(description: str, kind: OutputFile | None = None, advice: str = "") -> Callable[[Command], Command]:
    """Add ``-o``, stdout by default; its help is the description, followed by the advice."""
    option = writes("-o", f"{description}; - is stdout.{advice}", "--output-file", kind=kind, default="-")
    return section(LAST_SECTIONS[0], option)


def lattice_output(
    description: str = "Output for the lattices", *, resume: bool = True, per_input: bool = True
) -> Callable[[Command], Command]:
    """Add ``-o`` for lattices and the other output options, passed to the command as ``destination``.

    Args:
        description: First words of the help of ``-o``.
        resume: Add ``--resume``, which continues an unfinished output.
        per_input: Allow a separate output for each input file, see ``ninja.pipeline.outputs``.
    """
    options: list[Callable[[Command], Command]] = [
        output_file(
            f"{description}: an archive, a wspecifier such as ark,t:FILE, or a file whose extension selects the format",
            LatticeFile(per_input=per_input),
            " To write one output per input, use lat.JOB.gz or folder/." if per_input else "",
        ),
        click.option(
            "--to", metavar="FORMAT[:OPTION=VALUE,...]", help="Output format.  [default: inferred from the extension]"
        ),
        click.option(
            "--lossy",
            type=click.Choice(["allow", "refuse"]),
            default="allow",
            help="Drop fields that the format cannot store, with a warning, or report such lattices as errors.",
        ),
        writes("--words-out", "Write the symbol table of the words to FILE."),
    ]
    if resume:
        text = "Keep the partial output of an interrupted run, and continue it in the next run."
        options.append(section(LAST_SECTIONS[1], click.option("--resume", is_flag=True, help=text)))
    return section(LAST_SECTIONS[0], *options)


def from_fields(options: type[Any], *, skip: Collection[str] = (), prefix: str = "") -> Callable[[Command], Command]:
    """Add an option for each field of an options dataclass, with its name, type, default and help.

    Args:
        options: The dataclass. If a base class has an attribute ``section``, its fields are put into that section.
        skip: Names of fields that get no option.
        prefix: First word of the option names, such as ``ngram`` for ``--ngram-order``.
    """
    kinds = typing.get_type_hints(options)
    titled: list[Any] = [kind for kind in options.__mro__ if "section" in vars(kind)]
    sections = {name: kind.section for kind in titled for name in kind.__annotations__}

    def add(command: Command) -> Command:
        for field in reversed(dataclasses.fields(options)):
            if field.name in skip:
                continue
            kind = kinds[field.name]
            if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
                (kind,) = (member for member in typing.get_args(kind) if member is not type(None))
            attributes: dict[str, Any] = {"type": kind}
            choices = field.metadata.get("choices") or (
                typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
            )
            if choices:
                attributes = {"type": click.Choice(choices)}
            elif kind is bool:
                attributes = {"is_flag": True}
            name = f"{prefix}_{field.name}" if prefix else field.name
            help = field.metadata["help"]
            attributes |= {"default": field.default, "help": help}
            if "[default:" in help:
                attributes["show_default"] = False
            option = click.option(f"--{name.replace('_', '-')}", name, **attributes)
            command = section(sections[field.name], option)(command) if sections else option(command)
        return command

    return add


def takes_one_value(option: click.Option) -> bool:
    """Return whether an option takes exactly one value."""
    return not (option.multiple or option.is_flag or option.count)


def given_on_command_line(names: Collection[str]) -> list[str]:
    """Return the flags of the named options that occur on the command line, sorted."""
    context = click.get_current_context()
    return sorted(
        option.opts[0]
        for option in context.command.params
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    )


def keeps_defaults(names: Collection[str]) -> bool:
    """Return whether neither the command line nor a file of options sets any of the named options."""
    context = click.get_current_context()
    return all(context.get_parameter_source(name) in (None, ParameterSource.DEFAULT) for name in names)


def config_of(names: Collection[str] | None, text: str) -> Callable[[Command], Command]:
    """Add ``--config``, which reads option values from a TOML file.

    Args:
        names: Options to read from the file; others in it are ignored. With None, all are read, and an option that the
            command does not have is an error.
        text: Help of the option.
    """
    return click.option(
        "--config",
        type=InputFile(),
        is_eager=True,
        callback=functools.partial(_load, only=names),
        help=text,
    )


def write_config(path: str, values: Mapping[str, Any], comments: list[str]) -> None:
    """Write option values, named with underscores, to a TOML file that begins with comments."""
    with text_output(path) as output:
        output.write(toml_text(values, comments))


def _load(
    context: click.Context, parameter: click.Parameter, path: str | None, *, only: Collection[str] | None
) -> str | None:
    if path is None:
        return None
    options = {option.name: option for option in context.command.params}
    values = {}
    table = read_toml(path)
    if only is not None and not table.keys() & set(only):
        raise OptionError(f"{path}: expected at least one of the options {', '.join(only)}, found none")
    for name, value in table.items():
        if only is not None and name not in only:
            continue
        option = options.get(name.replace("-", "_"))
        if not isinstance(option, click.Option) or option is parameter:
            raise OptionError(f"{path}: `ninja {context.info_name}` has no option {name!r}")
        if isinstance(option.type, OutputFile) or option.name in COMMAND_LINE_ONLY:
            raise OptionError(f"{path}: {name} is allowed only on the command line; use {option.opts[0]} there")
        if any(isinstance(item, str) and names_url(item) for item in (value if isinstance(value, list) else [value])):
            raise OptionError(f"{path}: {name} is {value!r}, but URLs are allowed only on the command line")
        if isinstance(value, dict) or (isinstance(value, list) and not option.multiple):
            raise OptionError(f"{path}: {name} is {value!r}, but must be a single value")
        assert option.name is not None
        values[option.name] = [value] if option.multiple and not isinstance(value, list) else value
    context.default_map = values
    return path


config = config_of(
    None, "Read options from a TOML file such as `ninja tune` writes; command-line options take precedence."
)
