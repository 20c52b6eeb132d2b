"""Options shared by commands, and options that are created from dataclass fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import click

from ninja.cli.command import LAST_SECTIONS, Command, InputFile, LatticeFile, OutputFile, Sectioned
from ninja.cli.main import current_console
from ninja.errors import MAX_JOBS, OptionError
from ninja.files.names import names_url
from ninja.files.output import text_output, toml_text
from ninja.lattice.lattice import checked_shift

DEFAULT_FRAME_SHIFT = 0.01  # seconds, as in Kaldi's tools


def reads(
    name: str,
    text: str,
    *names: str,
    load: Callable[[str], object] | None = None,
    kind: InputFile | None = None,
    **attributes: Any,
) -> Callable[[Command], Command]:
    """Add an option for an input file; if ``load`` is set, the command receives the loaded file instead of its name."""
    return click.option(name, *names, type=kind or InputFile(load), help=text, **attributes)


def writes(
    name: str, text: str, *names: str, kind: OutputFile | None = None, **attributes: Any
) -> Callable[[Command], Command]:
    """Add an option for an output file."""
    return click.option(name, *names, type=kind or OutputFile(), help=text, **attributes)


class ListType(click.ParamType):
    """Parameter type for lists of values; a list is converted to a tuple.

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
        """Convert a string with separators to a tuple of values; a tuple is returned unchanged."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(map(self.parse, str(value).split(self.separator))) if value else ()
        except ValueError:
            name = parameter.opts[0] if parameter else "a value"
            separator = {",": "commas", ":": "colons"}[self.separator]
            raise OptionError(f"{name} is {value!r}, but must be {self.description} separated by {separator}") from None


class ListsFormats(Sectioned):
    """Command that lists the formats at the end of its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help for the options, followed by a list of the file formats."""
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
    """Create a command from a function."""
    return click.command(cls=Sectioned)(function)


def section(title: str, *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add options to a help section; if none are passed, move all options that have no section into this section."""

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
USUAL_SCALE = "typically 0.1, or 1 for Kaldi chain models decoded without --post-decode-acwt 10"
acoustic_scale = click.option("--acoustic-scale", default=1.0, help=f"Factor applied to acoustic costs; {USUAL_SCALE}.")
inv_acoustic_scale = click.option("--inv-acoustic-scale", "--lmwt", default=1.0, help="Inverse of --acoustic-scale.")
lm_scale = click.option("--lm-scale", default=1.0, help="Factor applied to graph costs.")
word_penalty = click.option("--word-penalty", "--word-ins-penalty", default=0.0, help="Cost added per word.")
KNOWN_SHIFT = "[default: the frame shift of the lattices if known, else 0.01]"
jobs = click.option("--jobs", type=click.IntRange(1, MAX_JOBS), help="Number of threads.  [default: all cores]")


def frame_shift_option(text: str) -> Callable[[Command], Command]:
    """Add ``--frame-shift``, in seconds.

    Args:
        text: Help text of the option.
    """

    def checked(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
        return None if value is None else checked_shift(value)

    return click.option("--frame-shift", type=float, callback=checked, help=text)


class Switch(click.Option):
    """Boolean option in Kaldi's syntax, ``--name=true`` or ``--name=false``.

    The command group replaces ``--name`` without a value with ``--name=true``.
    """

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return click's extra items for the help, with the default written as ``true`` or ``false``."""
        extra = super().get_help_extra(ctx)
        if "default" in extra:
            extra["default"] = extra["default"].lower()
        return extra


def switch(name: str, default: bool, text: str) -> Callable[[Command], Command]:
    """Add a boolean option in Kaldi's syntax."""
    return click.option(name, cls=Switch, type=click.BOOL, default=default, metavar="[BOOL]", help=text)


def output_file(
    description: str, kind: OutputFile | None = None, advice: str = "", *, required: bool = False
) -> Callable[[Command], Command]:
    """Add ``-o``, which defaults to stdout unless it is required.

    Args:
        description: Beginning of the help text of ``-o``.
        kind: Parameter type of the option.  [default: any output file]
        advice: End of the help text, with a leading space.
        required: Require the option, for a command that cannot write to stdout.
    """
    stdout, default = ("", {"required": True}) if required else ("; - is stdout", {"default": "-"})
    option = writes("-o", f"{description}{stdout}.{advice}", "--output-file", kind=kind, **default)
    return section(LAST_SECTIONS[0], option)


def lattice_output(
    description: str = "Output for the lattices", *, resume: bool = True, per_input: bool = True, required: bool = False
) -> Callable[[Command], Command]:
    """Add ``-o`` for lattices and the other output options; the command receives them as ``destination``.

    Args:
        description: Beginning of the help text of ``-o``.
        resume: Add ``--resume``, which continues an unfinished output.
        per_input: Allow a separate output for each input file; see `Output.is_per_file`.
        required: See `output_file`.
    """
    options: list[Callable[[Command], Command]] = [
        output_file(
            f"{description}: an archive, a wspecifier such as ark,t:FILE, or a file whose extension selects the format",
            LatticeFile(per_input=per_input),
            " To write one output per input, use lat.JOB.gz or folder/." if per_input else "",
            required=required,
        ),
        click.option(
            "--to", metavar="FORMAT[:OPTION=VALUE,...]", help="Output format.  [default: inferred from the extension]"
        ),
        click.option(
            "--lossy",
            type=click.Choice(["allow", "refuse"]),
            default="allow",
            help="Treatment of fields that the format cannot store: drop them with a warning (allow), or report "
            "an error for each lattice that contains them (refuse).",
        ),
        writes("--words-out", "Write the symbol table of the words to FILE."),
    ]
    if resume:
        text = (
            "Keep the partial output if the run is interrupted, and continue from the partial output of an earlier run."
        )
        options.append(section(LAST_SECTIONS[1], click.option("--resume", is_flag=True, help=text)))
    return section(LAST_SECTIONS[0], *options)


def from_fields(
    options: type[Any],
    *,
    skip: Collection[str] = (),
    prefix: str = "",
    defaults: Mapping[str, str] = {},
    param_types: Mapping[str, click.ParamType] = {},
) -> Callable[[Command], Command]:
    """Add an option for each field of an options dataclass, with the name, type, default and help of the field.

    Args:
        options: The dataclass. If a base class has an attribute ``section``, its fields are listed in that section.
        skip: Names of fields for which no option is added.
        prefix: First part of the option names, such as ``ngram`` in ``--ngram-order``.
        defaults: Texts that the help shows instead of the default values, by field name.
        param_types: Parameter types that replace the types of fields, by field name.
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
            attributes: dict[str, Any] = {"type": param_types.get(field.name, kind)}
            choices = field.metadata.get("choices") or (
                typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
            )
            if choices:
                attributes = {"type": click.Choice(choices)}
            elif kind is bool:
                attributes = {"is_flag": True}
            name = f"{prefix}_{field.name}" if prefix else field.name
            help = field.metadata["help"]
            if field.name in defaults:
                help = f"{help.partition('  [default:')[0]}  [default: {defaults[field.name]}]"
            attributes |= {"default": field.default, "help": help}
            if "[default:" in help:
                attributes["show_default"] = False
            option = click.option(f"--{name.replace('_', '-')}", name, **attributes)
            command = section(sections[field.name], option)(command) if sections else option(command)
        return command

    return add


def write_config(path: str, values: Mapping[str, Any], comments: list[str]) -> None:
    """Write option values to a TOML file that begins with comments; option names are written with underscores.

    An option whose value contains a URL is written as a comment and printed, because ``--config`` rejects URLs.
    """
    of_urls = {name: items for name, value in values.items() if any(map(names_url, items := _strings(value)))}
    if of_urls:
        flags = [
            part for name, items in of_urls.items() for item in items for part in (f"--{name.replace('_', '-')}", item)
        ]
        import shlex  # only for this comment

        comments = [*comments, f"URLs are allowed only on the command line; add {shlex.join(flags)}"]
        current_console().say(f"{path}: {comments[-1]}")
    with text_output(path) as output:
        output.write(toml_text({name: value for name, value in values.items() if name not in of_urls}, comments))


def _strings(value: Any) -> list[str]:
    """Return the strings in an option value, which can be a list."""
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
