"""The options of reading, and the inputs that they make."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import click

from ninja.cli.commands import WITH_SCALED_COSTS
from ninja.cli.console import FACTS, INPUTS, TABLES, current_console
from ninja.cli.files import Lattices
from ninja.cli.options import Command, given_on_command_line, jobs, reads, section
from ninja.errors import NinjaError, OptionError
from ninja.files.place import SPECIFIER
from ninja.io.inputs import Inputs
from ninja.io.reader import Reading
from ninja.io.run_facts import Facts
from ninja.io.writer import KALDI, format_of, spells_words
from ninja.lattice import Lattice, Scales
from ninja.pipeline import Output

WORDS_HELP = "Symbol table: a word and its id on each line."
BESIDE_HELP = f"{WORDS_HELP}  [default: words.txt beside the source]"
READING = ("words", "format", "encoding", "allow_pipes")  # options of `Inputs`
WRITING = ("to", "lossy", "words_out", "resume")  # options of `Output`


def reads_lattices(command: Command) -> Command:
    """Give a command the source argument and the options of reading, handed to it as ``inputs``.

    A command that writes lattices gets those options as ``destination``.
    """
    return _reads(reading_options(jobs)(command))


def reads_lattices_alone(command: Command) -> Command:
    """Do the same for a command that one process must do."""
    return _reads(reading_options()(command))


def _reads(command: Command) -> Command:
    @click.argument("source", nargs=-1, required=True, type=Lattices())
    @functools.wraps(command)
    def collected(source: tuple[str, ...], **options: Any) -> None:
        _refuse_output_as_source(source)
        command(**build_inputs(source, options))

    return collected


def reading_options(*running: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add the options of reading, and some that say how a command runs; see `build_inputs`."""
    text = "Skip lattices that fail (exit code 1 at the end), or stop at the first."
    return section(
        "Input and output",
        reads("--words", BESIDE_HELP),
        click.option(
            "--from",
            "format",
            metavar="FORMAT[:OPTION=VALUE,...]",
            help="Format of the sources.  [default: recognised by content]",
        ),
        click.option("--encoding", default="utf-8", help="Encoding of the sources' text."),
        section(
            "Running",
            *running,
            click.option("--on-error", type=click.Choice(["skip", "raise"]), default="skip", help=text),
            click.option("--allow-pipes", is_flag=True, help="Run a command typed as a source ('ark:command |')."),
        ),
    )


def build_inputs(names: tuple[str, ...], options: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return a command's arguments with the options of reading as ``inputs``, and those of writing as ``destination``.

    Args:
        names: Names of the lattices, as the user typed them.
        options: Arguments of the command.
        others: More attributes of the inputs.
    """
    arguments = dict(options)
    console = current_console()
    console.jobs = arguments.pop("jobs", None)
    console.tolerant = arguments.pop("on_error", "skip") == "skip"
    chosen = {name: arguments.pop(name) for name in READING if name in arguments}
    if console.jobs == 1:
        chosen["read_ahead"] = False
    if "to" in arguments:
        output = build_output(arguments)
        others["spells_output"] = lambda: spells_words(output.name, output.to)
        arguments["destination"] = output
    inputs = Inputs(names, log=console.use_log(console.log), watch=watch_reading, **(chosen | others))
    meta = click.get_current_context().meta
    if TABLES in meta and INPUTS not in meta:
        inputs.tables, inputs.digest = meta[TABLES], sha256()
        meta[INPUTS] = inputs
    elif "destination" in arguments:
        _gather_facts(inputs.places, arguments["destination"])
    return arguments | {"inputs": inputs}


def build_output(options: dict[str, Any]) -> Output:
    """Return the output that a command's options name, which are taken out of them."""
    chosen = {name: options.pop(name) for name in WRITING if name in options}
    is_scaled = click.get_current_context().command.name in WITH_SCALED_COSTS
    scales = None if is_scaled else _scales()
    return Output(options.pop("output_file"), **chosen, scales=scales, keeps_scales=not is_scaled, facts_of=_facts_of)


def _gather_facts(names: tuple[str, ...], output: Output) -> None:
    """Gather the facts of a run with one Kaldi archive as output before its inputs are read: they are opened once."""
    with contextlib.suppress(NinjaError):  # writing raises the same
        if not output.is_per_file and format_of(output.name, output.to)[0].name in KALDI:
            _facts_of(names)


def _facts_of(names: tuple[str, ...]) -> Facts | None:
    """Return the facts of the run of the current command for some inputs; they are gathered once."""
    from ninja.cli.facts import run_facts  # it imports the planning of shards

    known: dict[tuple[str, ...], Facts | None] = click.get_current_context().meta.setdefault(FACTS, {})
    if names not in known:
        known[names] = run_facts(names)
    return known[names]


def _scales() -> Scales | None:
    """Return the scales by which the running command compares paths, if it does."""
    values = click.get_current_context().params
    if values.get("acoustic_scale") is None:
        return None
    return Scales(values["acoustic_scale"], values.get("lm_scale", 1.0), values.get("word_penalty", 0.0))


def watch_reading(reading: Reading) -> Iterator[tuple[str, Lattice]]:
    """Yield lattices as they are read, and show their number unless that of results is shown."""
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


def _refuse_output_as_source(places: tuple[str, ...]) -> None:
    """Refuse Kaldi's way of calling, ``ark:IN ark:OUT``: OUT would be read as a second source.

    Raises:
        OptionError: Says how it is done here.
    """
    writes = any(each.name == "output_file" for each in click.get_current_context().command.params)
    are_specifiers = len(places) == 2 and all(SPECIFIER.fullmatch(each) for each in places)
    if writes and are_specifiers and not given_on_command_line(["output_file"]):
        raise OptionError(
            f"is {places[1]} meant to be written? Outputs are named with -o; to read both, name them without 'ark:'"
        )
