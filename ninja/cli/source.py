"""Options for reading lattices, and the `Inputs` and `Output` built from the options of a command."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ninja.cli.console import current_console
from ninja.cli.files import IGNORED, MAY_CHANGE, CommandFiles, Lattices
from ninja.cli.options import Command, given_on_command_line, jobs, reads, section
from ninja.errors import OptionError
from ninja.files.place import SPECIFIER
from ninja.io.inputs import Inputs
from ninja.io.reading import Reading
from ninja.io.resume import state_of
from ninja.lattice import Lattice, Scales
from ninja.pipeline import Output

if TYPE_CHECKING:
    from ninja.cli.scales import CompletedScales

WORDS_HELP = "Symbol table with one word and its id per line."
BESIDE_HELP = f"{WORDS_HELP}  [default: words.txt next to the source]"
READING = ("words", "format", "encoding", "allow_pipes")  # options of `Inputs`
WRITING = ("to", "lossy", "words_out", "resume")  # options of `Output`


def reads_lattices(command: Command) -> Command:
    """Add the argument SOURCE and the input options, passed to the command as ``inputs``.

    The output options of a command that writes lattices are passed to it as ``destination``.
    """
    return _reads(reading_options(jobs)(command))


def reads_lattices_alone(command: Command) -> Command:
    """Add the same argument and options, without ``--jobs``, to a command that runs on one thread."""
    return _reads(reading_options()(command))


def _reads(command: Command) -> Command:
    @click.argument("source", nargs=-1, required=True, type=Lattices())
    @functools.wraps(command)
    def collected(source: tuple[str, ...], **options: Any) -> None:
        _refuse_output_as_source(source)
        command(**build_inputs(source, options))

    return collected


def reading_options(*running: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add the input options, which `build_inputs` takes, and put ``running`` into the section "Running"."""
    text = "Skip failed lattices and exit with code 1 at the end, or stop at the first failure."
    return section(
        "Input and output",
        reads("--words", BESIDE_HELP),
        click.option(
            "--from",
            "format",
            metavar="FORMAT[:OPTION=VALUE,...]",
            help="Format of the sources.  [default: detected from the content]",
        ),
        click.option("--encoding", default="utf-8", help="Text encoding of the sources."),
        section(
            "Running",
            *running,
            click.option("--on-error", type=click.Choice(["skip", "raise"]), default="skip", help=text),
            click.option("--allow-pipes", is_flag=True, help="Allow shell commands as sources ('ark:command |')."),
        ),
    )


def build_inputs(names: tuple[str, ...], options: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Build the inputs and the output of a command from its options.

    Args:
        names: Names of the sources, as on the command line.
        options: All options of the command.
        others: Further arguments of `Inputs`.

    Returns:
        Arguments of the command: ``inputs``, ``destination`` if it writes lattices, and the remaining options.
    """
    arguments = dict(options)
    files: CommandFiles = click.get_current_context().obj
    console = current_console()
    console.jobs = arguments.pop("jobs", None)
    console.tolerant = arguments.pop("on_error", "skip") == "skip"
    reading = {name: arguments.pop(name) for name in READING if name in arguments}
    if console.jobs == 1:
        reading["read_ahead"] = False
    completed: CompletedScales | None = arguments.pop("completed_scales", None)
    if completed is not None:
        reading["default_scales"] = completed.defaults
    if "to" in arguments:
        arguments["destination"] = output = build_output(arguments)
        reading["spells_words"] = output.resolved.spells_words
    inputs = Inputs(
        names,
        log=console.use_log(console.log),
        watch=watch_reading,
        guard=files.guard,
        sources=files.sources.select(names),
        **(reading | others),
    )
    if completed is not None and completed.names == names:
        inputs.scales = completed.chosen
    if files.tables is not None and files.inputs is None:
        from hashlib import sha256  # for shards only

        inputs.tables, inputs.digest = files.tables, sha256()
        files.inputs = inputs
    return arguments | {"inputs": inputs}


def build_output(options: dict[str, Any]) -> Output:
    """Build the output of a command from its options, and remove the output options from ``options``."""
    context = click.get_current_context()
    files: CommandFiles = context.obj
    writing = {name: options.pop(name) for name in WRITING if name in options}
    scales_costs = getattr(context.command, "scales_costs", False)
    output = Output(
        options.pop("output_file"),
        **writing,
        scales=None if scales_costs else _scales(options),
        keeps_scales=not scales_costs,
        command=context.command.name or "",
        guard=files.guard,
    )
    return output.with_settings(*files.settings(_states, IGNORED | MAY_CHANGE)) if output.resolved.is_kaldi else output


def _states(paths: list[str]) -> list[list[Any]]:
    return [list(state_of(path)) for path in paths]


def _scales(options: dict[str, Any]) -> Scales | None:
    """Return the scales with which a command compares paths, None if it compares none."""
    if isinstance(scales := options.get("scales"), Scales):
        return scales
    if options.get("acoustic_scale") is None:
        return None
    return Scales(options["acoustic_scale"], options.get("lm_scale", 1.0), options.get("word_penalty", 0.0))


def watch_reading(reading: Reading) -> Iterator[tuple[str, Lattice]]:
    """Yield lattices as they are read, and show their number unless the number of results is shown."""
    console = current_console()
    if console.bar is not None and not console.bar.by_reading:
        yield from reading.lattices()
        return
    with console.progress("lattices read") as new_bar:
        bar = new_bar or console.bar
        for key, lattice in reading.lattices():
            if bar is not None:
                bar.step(key, share=reading.share)
            yield key, lattice


def _refuse_output_as_source(names: tuple[str, ...]) -> None:
    """Raise `OptionError` for Kaldi's syntax ``ark:IN ark:OUT``, where OUT would be read as a second source."""
    writes = any(parameter.name == "output_file" for parameter in click.get_current_context().command.params)
    are_specifiers = len(names) == 2 and all(SPECIFIER.fullmatch(name) for name in names)
    if writes and are_specifiers and not given_on_command_line(["output_file"]):
        raise OptionError(
            f"{names[1]} would be read, not written; name the output with -o, or omit 'ark:' to read both"
        )
