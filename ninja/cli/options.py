"""Options that several commands share, options made of the fields of an options dataclass, and the files they name."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection
from copy import copy
from typing import Any, Literal

import click
from click.core import ParameterSource

from ninja.cli.commands import WITHOUT_SHARDS
from ninja.cli.console import ARGUMENTS, VALUES
from ninja.cli.files import InputFile, LatticeFile, Lattices, OutputFile, check_stdin, guard
from ninja.errors import OptionError

Command = Callable[..., Any]
LAST_SECTIONS = ("Input and output", "Running")


def reads(
    name: str,
    text: str,
    *names: str,
    load: Callable[[str], object] | None = None,
    kind: InputFile | None = None,
    **given: Any,
) -> Callable[[Command], Command]:
    """Add an option for a file that is read, by the command or, for it, by a function ``load``."""
    return click.option(name, *names, type=kind or InputFile(load), help=text, **given)


def writes(
    name: str, text: str, *names: str, kind: OutputFile | None = None, **given: Any
) -> Callable[[Command], Command]:
    """Add an option for a file that is written."""
    return click.option(name, *names, type=kind or OutputFile(), help=text, **given)


class ShardType(click.ParamType):
    """One of the equal parts of a run, ``i/n``."""

    name = "i/n"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Understand it."""
        from ninja.pipeline.plan import Shard

        return Shard.parse(value)


def _shard() -> click.Option:
    """Make the option ``--shard``."""
    text = "Do one of n equal parts; ninja gather joins them.  [job arrays: docs/howto/cluster.md]"
    option = click.Option(["--shard"], type=ShardType(), metavar="i/n", help=text)
    vars(option)["section"] = LAST_SECTIONS[1]
    return option


def _ray() -> click.Option:
    """Make the option ``--ray``."""
    text = "Run shards on a Ray cluster: that of this machine, a new one of its cores, or that at an address."
    option = click.Option(["--ray"], is_flag=False, flag_value="auto", metavar="[HOST:PORT]", help=text)
    vars(option)["section"] = LAST_SECTIONS[1]
    return option


class Several(click.ParamType):
    """Values with a separator between, as a tuple; ``what`` names them in messages."""

    name = "list"

    def __init__(self, kind: Callable[[str], object], what: str, separator: Literal[",", ":"] = ",") -> None:
        self.kind = kind
        self.what = what
        self.separator = separator

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[object, ...]:
        """Split the list."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self.kind(each) for each in str(value).split(self.separator)) if value else ()
        except ValueError:
            name = parameter.opts[0] if parameter else "a value"
            between = {",": "with commas between", ":": "between colons"}[self.separator]
            raise OptionError(f"{name} is {value!r}, but must be {self.what} {between}") from None


class Sectioned(click.Command):
    """A command with help in sections that checks its files and resolves ``--inv-acoustic-scale``.

    One that writes lattices or texts of lattices, each from one lattice, has ``--shard`` and ``--ray``.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        reads = any(isinstance(each.type, Lattices) and isinstance(each, click.Argument) for each in self.params)
        writes = any(isinstance(each.type, OutputFile) for each in self.params)
        if reads and writes and self.name not in WITHOUT_SHARDS:
            self.params += [_shard(), _ray()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None:
                last = "Options" if parameter in self.params else LAST_SECTIONS[-1]  # --help is click's own
                sections.setdefault(getattr(parameter, "section", last), []).append(record)
        for title in sorted(sections, key=lambda title: title in LAST_SECTIONS and 1 + LAST_SECTIONS.index(title)):
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; refuse an option of one value that is given more than once."""
        ctx.meta[ARGUMENTS] = tuple(args)
        parser = self.make_parser(ctx)
        single = [each for each in self.params if isinstance(each, click.Option) and takes_one_value(each)]
        for each in single:
            several = copy(each)
            several.multiple = True
            several.add_to_parser(parser, ctx)  # in place of the option itself
        values, _, _ = parser.parse_args(list(args))
        for each in single:
            if len(given := values.get(each.name, ())) > 1:
                times = "twice" if len(given) == 2 else f"{len(given)} times"
                advice = getattr(each.type, "several", None) or "give it once"
                raise OptionError(f"{each.opts[0]} is given {times}: {' and '.join(map(str, given))}; {advice}")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with its files checked and loaded; of both acoustic scales it sees the factor only."""
        with guard(self, ctx.params):
            check_stdin(self, ctx.params)
            ctx.meta[VALUES] = dict(ctx.params)
            shard, address = ctx.params.pop("shard", None), ctx.params.pop("ray", None)
            if address is not None:
                from ninja.cli.cluster import run_on_cluster

                return run_on_cluster(ctx, address, shard)
            if shard is None:
                return self.run(ctx)
            from ninja.cli.shards import run_in_shard

            return run_in_shard(ctx, shard, lambda: self.run(ctx))

    def run(self, ctx: click.Context) -> Any:
        """Run the command, whose files are checked."""
        ctx.params.pop("config", None)  # its options are here
        for each in self.params:
            load = getattr(each.type, "load", None)
            if load is not None and ctx.params[name := each.name or ""] is not None:
                ctx.params[name] = load(ctx.params[name])
        self._invert_scale(ctx)
        return super().invoke(ctx)

    def _invert_scale(self, ctx: click.Context) -> None:
        """Make --inv-acoustic-scale the acoustic scale."""
        inverse = ctx.params.pop("inv_acoustic_scale", None)
        if typed(["inv_acoustic_scale"]):
            if typed(["acoustic_scale"]):
                raise click.UsageError("--acoustic-scale cannot be used with --inv-acoustic-scale")
            several = inverse if isinstance(inverse, tuple) else (inverse,)
            if 0.0 in several:
                raise click.UsageError("--inv-acoustic-scale is 0, which has no inverse")
            factors = tuple(1.0 / each for each in several)
            ctx.params["acoustic_scale"] = factors if isinstance(inverse, tuple) else factors[0]


class ListsFormats(Sectioned):
    """A command whose help lists the formats."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the formats."""
        from ninja.formats.format import formats

        super().format_options(ctx, formatter)
        rows = []
        for each in formats():
            only = "" if each.read and each.write else "only read" if each.read else "only written"
            about = "; ".join(filter(None, (each.about, ", ".join(each.extensions), only)))
            rows.append((", ".join((each.name, *each.aliases)), about))
        with formatter.section("Formats"):
            formatter.write_dl(rows)


def command(function: Command) -> Sectioned:
    """Make a command of a function, whose help shows its options in sections."""
    return click.command(cls=Sectioned)(function)


def section(title: str, *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Put options under a title in the help: these, or, without any, those below that have no section yet."""

    def add(function: Command) -> Command:
        elsewhere = list(getattr(function, "__click_params__", ())) if options else []
        for decorate in reversed(options):
            function = decorate(function)
        for parameter in getattr(function, "__click_params__", ()):
            if parameter not in elsewhere:
                vars(parameter).setdefault("section", title)
        return function

    return add


# Kaldi's decode.sh multiplies acoustic costs of chain models by --post-decode-acwt, 10 in its recipes.
USUAL_SCALE = "0.1 is usual, 1 for chain models decoded without --post-decode-acwt 10"
acoustic_scale = click.option("--acoustic-scale", default=1.0, help=f"Factor of acoustic costs; {USUAL_SCALE}.")
inv_acoustic_scale = click.option("--inv-acoustic-scale", "--lmwt", default=1.0, help="Inverse of --acoustic-scale.")
lm_scale = click.option("--lm-scale", default=1.0, help="Factor of graph costs.")
word_penalty = click.option("--word-penalty", "--word-ins-penalty", default=0.0, help="Cost added for each word.")
jobs = click.option("--jobs", type=click.IntRange(1), help="Threads.  [default: all cores; of `ninja context`, 1]")


class Switch(click.Option):
    """An option given as Kaldi's are, ``--name=true`` or ``--name=false``; the group completes a bare one."""

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return the text behind the help: the default as it is typed."""
        extra = super().get_help_extra(ctx)
        if "default" in extra:
            extra["default"] = extra["default"].lower()
        return extra


def switch(name: str, default: bool, text: str) -> Callable[[Command], Command]:
    """Add an option that is true or false."""
    return click.option(name, cls=Switch, type=click.BOOL, default=default, metavar="BOOL", help=text)


def output_file(what: str, kind: OutputFile | None = None) -> Callable[[Command], Command]:
    """Add ``-o``, for results that go to stdout without it."""
    option = writes("-o", f"{what}; - is stdout.", "--output-file", kind=kind, default="-")
    return section(LAST_SECTIONS[0], option)


def lattice_output(
    what: str = "File for the lattices", *, resume: bool = True, each_input: bool = True
) -> Callable[[Command], Command]:
    """Add ``-o`` for lattices, and how they are written; the command takes these options as ``destination``.

    Args:
        what: Their description.
        each_input: Each input file may have an output of its own, see ``ninja.cli.parts``.
        resume: The command can go on with an output.
    """
    several = "; one for each input as lat.JOB.gz or folder/" if each_input else ""
    options: list[Callable[[Command], Command]] = [
        output_file(
            f"{what}: an archive, a wspecifier such as ark,t:FILE, or any format by its ending{several}",
            LatticeFile(each_input=each_input),
        ),
        click.option("--to", metavar="FORMAT[:OPTION=VALUE,...]", help="Output format.  [default: by extension]"),
        click.option(
            "--lossy",
            type=click.Choice(["allow", "refuse"]),
            default="allow",
            help="Warn of what the format cannot hold, or fail lattices that would lose it.",
        ),
        writes("--words-out", "Write the symbol table of the lattices' words here."),
    ]
    if resume:
        text = "Keep the output of a run that is interrupted, and continue it next time."
        options.append(section(LAST_SECTIONS[1], click.option("--resume", is_flag=True, help=text)))
    return section(LAST_SECTIONS[0], *options)


def from_fields(options: type[Any], *, skip: Collection[str] = (), prefix: str = "") -> Callable[[Command], Command]:
    """Add an option for each field of an options dataclass, of the same name, type, default and help.

    Args:
        options: The dataclass; a base with a ``section`` names that of its own fields in the help.
        skip: Fields without an option.
        prefix: Put before each name, with an underscore.
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
                (kind,) = (each for each in typing.get_args(kind) if each is not type(None))
            given: dict[str, Any] = {"type": kind}
            choices = field.metadata.get("choices") or (
                typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
            )
            if choices:
                given = {"type": click.Choice(choices)}
            elif kind is bool:
                given = {"is_flag": True}
            name = f"{prefix}_{field.name}" if prefix else field.name
            given |= {"default": field.default, "help": field.metadata["help"]}
            option = click.option(f"--{name.replace('_', '-')}", name, **given)
            command = section(sections[field.name], option)(command) if sections else option(command)
        return command

    return add


def takes_one_value(option: click.Option) -> bool:
    """Tell whether an option has one value, neither none, as a flag, nor as many as are given."""
    return not (option.multiple or option.is_flag or option.count)


def typed(names: Collection[str]) -> list[str]:
    """Return those of some options that stand on the command line, spelled as there, sorted."""
    context = click.get_current_context()
    return sorted(
        each.opts[0]
        for each in context.command.params
        if each.name in names and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    )
