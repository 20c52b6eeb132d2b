"""Options that several commands share, options made of the fields of an options dataclass, and the files they name.

Functions import what opens files when they are called: `ninja COMMAND --help` need not wait for it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TextIO

import click
from click.core import ParameterSource

from ninja.errors import NinjaError, OptionError
from ninja.files.output import opened_as_text, target
from ninja.lattice import Scales

Command = Callable[..., Any]
LAST_SECTIONS = ("Input and output", "Running")


@dataclasses.dataclass(frozen=True, slots=True)
class Destination:
    """The lattices a command writes: where, and how."""

    output_file: str
    to: str | None = None  # the format, with its options; None: by the extension
    lossy: Literal["allow", "refuse"] = "allow"
    words_out: str | None = None  # file for the symbol table of the lattices written
    resume: bool = False  # go on after what stands there already


class FileOption(click.Option):
    """An option for a file that is read or, if it ``writes``, a result; ``load`` reads it for the command."""

    def __init__(
        self, names: Any, *, writes: bool = False, load: Callable[[str], object] | None = None, **given: Any
    ) -> None:
        super().__init__(names, **{"metavar": "FILE", **given})
        self.writes = writes
        self.load = load


def reads(name: str, text: str, *names: str, **given: Any) -> Callable[[Command], Command]:
    """Add an option for a file that is read, by the command or, for it, by a function ``load``."""
    return click.option(name, *names, cls=FileOption, help=text, **given)


def writes(name: str, text: str, *names: str) -> Callable[[Command], Command]:
    """Add an option for a file that is written."""
    return click.option(name, *names, cls=FileOption, writes=True, help=text)


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
    """A command with help in sections that checks its files and resolves ``--inv-acoustic-scale``."""

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

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with its files checked and loaded; of both acoustic scales it sees the factor only."""
        self._check_files(ctx.params)
        for each in self.params:
            if isinstance(each, FileOption) and each.load and ctx.params[name := each.name or ""] is not None:
                ctx.params[name] = each.load(ctx.params[name])
        inverse = ctx.params.pop("inv_acoustic_scale", 1.0)
        if inverse != 1.0:
            if ctx.params["acoustic_scale"] != 1.0:
                raise click.UsageError("--acoustic-scale cannot be used with --inv-acoustic-scale")
            if inverse == 0.0:
                raise click.UsageError("--inv-acoustic-scale is 0, which has no inverse")
            ctx.params["acoustic_scale"] = 1.0 / inverse
        return super().invoke(ctx)

    def _check_files(self, given: dict[str, Any]) -> None:
        """Refuse results that would go to one file, or over a file that is read; lattices may replace their source."""
        files = {each.name or "": each.writes for each in self.params if isinstance(each, FileOption)}
        arguments = [given[each.name or ""] for each in self.params if isinstance(each, click.Argument)]
        lattices_alone = "to" in given and len(arguments) == 1
        if not any(given[name] for name in files if not (lattices_alone and name == "output_file")):
            return
        read = [*arguments, *(given[name] for name, written in files.items() if not written), given.get("words")]
        check_places([given[name] for name, written in files.items() if written], read)


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


acoustic_scale = click.option("--acoustic-scale", default=1.0, help="Factor of acoustic costs.")
inv_acoustic_scale = click.option("--inv-acoustic-scale", default=1.0, help="Inverse of --acoustic-scale.")
lm_scale = click.option("--lm-scale", default=1.0, help="Factor of graph costs.")
word_penalty = click.option("--word-penalty", default=0.0, help="Cost added for each word.")
jobs = click.option("--jobs", type=click.IntRange(1), default=1, help="Worker processes.")


def _scales(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add scales under which paths are compared, handed to the command together as ``scales``."""

    def add(function: Command) -> Command:
        @functools.wraps(function)
        def collected(acoustic_scale: float, lm_scale: float = 1.0, word_penalty: float = 0.0, **options: Any) -> Any:
            return function(scales=Scales(acoustic_scale, lm_scale, word_penalty), **options)

        return section("Scales", *options)(collected)

    return add


scales = _scales(
    click.option("--acoustic-scale", default=1.0, help="Factor of acoustic costs; 0.1 is usual without chain models."),
    lm_scale,
    word_penalty,
)
two_scales = _scales(acoustic_scale, lm_scale)
all_scales = _scales(acoustic_scale, inv_acoustic_scale, lm_scale, word_penalty)


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


def output_file(what: str) -> Callable[[Command], Command]:
    """Add ``-o``, for results that go to stdout without it."""
    option = click.option("-o", "--output-file", cls=FileOption, writes=True, default="-", help=f"{what}; - is stdout.")
    return section(LAST_SECTIONS[0], option)


def lattice_output(what: str = "File for the lattices", *, resume: bool = True) -> Callable[[Command], Command]:
    """Add ``-o`` for lattices, and how they are written; the command takes these options as ``destination``."""
    options = [
        output_file(f"{what}: an archive, a wspecifier such as ark,t:FILE, or any format by its ending"),
        click.option("--to", metavar="FORMAT[:OPTION=VALUE,...]", help="Output format.  [default: by extension]"),
        click.option(
            "--lossy",
            type=click.Choice(["allow", "refuse"]),
            default="allow",
            help="Warn of what the format cannot hold, or fail lattices that would lose it.",
        ),
        click.option("--words-out", metavar="FILE", help="Write the symbol table of the lattices' words here."),
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
            if typing.get_origin(kind) is typing.Literal:
                given = {"type": click.Choice(typing.get_args(kind))}
            elif kind is bool:
                given = {"is_flag": True}
            name = f"{prefix}_{field.name}" if prefix else field.name
            given |= {"default": field.default, "help": field.metadata["help"]}
            option = click.option(f"--{name.replace('_', '-')}", name, **given)
            command = section(sections[field.name], option)(command) if sections else option(command)
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
    """Refuse, before anything is computed, files to write that are one and the same, are read, or have no folder."""
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


def check_places(outputs: Iterable[str | None], inputs: Iterable[object]) -> None:
    """Refuse, before anything is computed, results that would go to one file, or over a file that is read."""
    written: list[str | None] = []
    for name in outputs:
        if name is not None and (chosen := target(name)).archive != os.devnull:
            written += [chosen.archive, chosen.script]
    read = [name for each in inputs for name in (each if isinstance(each, tuple) else [each])]
    whole = any(name is not None and os.path.exists(name) for name in written)  # else no list can name them
    check_files(written, [path for name in read if isinstance(name, str) for path in _paths(name, whole=whole)])


def check_stdin(sources: Iterable[str]) -> None:
    """Refuse to read the standard input twice, however it is spelled."""
    if sum(is_stdin(name) for name in sources) > 1:
        raise OptionError("the standard input, -, can be one of the archives only")


def is_stdin(source: str) -> bool:
    """Tell whether a source is the standard input, however it is spelled."""
    return "-" in _paths(source)


def _paths(name: str, *, whole: bool = False) -> list[str]:
    """Return the files that a source names, - for the standard input; none where reading it will fail.

    Args:
        name: The source.
        whole: Also those that a list of files names.
    """
    from ninja.io.sources import open_tables, tables

    if name == "-":  # what it lists is not looked at before it is read
        return ["-"]
    try:
        # Commands are only understood here, not run.
        found = tables(name, allow_pipes=True)
        if whole and any(table.kind == "any" for table in found) and not any(table.place.command for table in found):
            found += [table for table, _ in open_tables([table.place.path for table in found])]
        places = [table.place for table in found]
    except NinjaError:
        return []
    return ["-" if place.path == "/dev/stdin" else place.path for place in places if place.command is None]


@contextmanager
def text_output(path: str) -> Iterator[TextIO]:
    """Open a text file for results, ``-`` for stdout; a file appears under its name only when it is complete.

    Like Kaldi's users, ``ark:F`` and ``ark,t:F`` mean the file F.
    """
    chosen = target(path)
    if chosen.script is not None:
        raise OptionError(f"{path!r} names two files, but these results are one text; name one")
    if chosen.archive == "-":
        yield sys.stdout
        return
    with opened_as_text(chosen.archive) as stream:
        yield stream
