"""The commands ``ninja show`` and ``ninja report``, which write web pages."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from ninja.cli.command import Command, CommandFiles, Lattices, NamedFile
from ninja.cli.main import current_console
from ninja.cli.options import command, frame_shift_option, jobs, output_file, reads, section
from ninja.cli.source import (
    SCALES,
    build_inputs,
    complete,
    reading_options,
    reads_lattices_alone,
    results,
    scales,
    scales_set_by_user,
)
from ninja.errors import FormatError, InputError, Log, NinjaError, OptionError, counted
from ninja.evaluate import read_text
from ninja.files.output import text_output
from ninja.io.inputs import Inputs
from ninja.io.sources import KEYS, SCALES_ADVICE, find_scales
from ninja.lattice import Lattice, Scales
from ninja.libraries import needed_for
from ninja.lm.load import load
from ninja.pipeline.stages import OnLattices
from ninja.show import Comparison, Drawing, Outcomes, ShowOptions, compare, draw, lattice_page, report_page

NAMED = 5  # maximum number of keys in a message


@command
@click.option("--key", help="Key of the lattice; required if SOURCE contains several lattices.")
@reads("--ref", "Reference transcripts; mark the path with the fewest errors.")
@click.option("--max-arcs", type=click.IntRange(1), default=5000, help="Maximum number of arcs drawn.")
@frame_shift_option("Duration of a frame in seconds. If set, times are shown in seconds instead of frames.")
@reads("--context-model", "Context model; show its effect on words, given the phrases of --entities.", kind=NamedFile())
@reads("--entities", "With --context-model: phrases for the utterances.")
@reads("--rnnlm", "With --context-model: language model.  [default: shipped model]", kind=NamedFile())
@scales
@output_file("Output page, such as lattice.html")
@reads_lattices_alone
def show(
    inputs: Inputs,
    key: str | None,
    ref: str | None,
    context_model: str | None,
    entities: str | None,
    rnnlm: str | None,
    output_file: str,
    **values: Any,
) -> None:
    """Write a web page that shows a lattice as a graph.

    The page works offline. Time runs from left to right. Probable arcs are darker and wider; click an arc to see its
    costs. The best path is marked; with --ref, the path with the fewest errors is also marked.

    \b
    Example:
      ninja show lat.ark.gz --key utterance-7 --words words.txt --ref text --acoustic-scale 0.1 -o lattice.html
    """
    options = ShowOptions(**values)
    reference = None
    inputs.needs_words = True
    if ref is not None:
        inputs.need_table()
    if (context_model is None) != (entities is None):
        raise OptionError("--context-model and --entities must be used together")
    if context_model is None and rnnlm is not None:
        raise OptionError("--rnnlm requires --context-model")
    lattice = _select(inputs, key)
    if ref is not None:
        reference = read_text(ref).get(lattice.key)
        if reference is None:
            raise FormatError(
                "there is no reference for this key; omit --ref to show the lattice without a reference",
                ref,
                key=lattice.key,
            )
    drawing = draw(lattice, reference, options)
    if context_model is not None and entities is not None:
        drawing = _with_context(drawing, context_model, entities, rnnlm, inputs)
    with text_output(output_file) as stream:
        stream.write(lattice_page(drawing))
    if message := drawing.left_out():
        current_console().say(f"{lattice.key}: {message}")


def _with_context(drawing: Drawing, model: str, entities: str, rnnlm: str | None, inputs: Inputs) -> Drawing:
    """Add the context model's effect on each arc to a drawing."""
    with needed_for("a context model", model):
        from ninja.context.pointer_scores import pointer_scores
        from ninja.context.settings import Context
        from ninja.context.stage import Contextual

    stage = Contextual(Context(entities, context_model=model, guard=inputs.guard))
    explanation = pointer_scores(drawing.lattice, stage, load(rnnlm), drawing.options.scales, inputs.log)
    return replace(drawing, gain=explanation.gain, copied=explanation.copied)


def _select(inputs: Inputs, key: str | None) -> Lattice:
    """Return the lattice with the given key, or the only lattice if the key is None; report errors in other lattices.

    Raises:
        InputError: No lattice has the key, or there are no lattices.
        OptionError: The key is None and there are several lattices.
    """
    others: list[Lattice] = []

    def report_others(failure: NinjaError) -> None:
        if failure.key == key:
            raise failure
        current_console().say(f"failed: {failure}")

    for lattice_key, lattice in inputs.read(None if key is None else report_others):
        if lattice_key == key:
            return lattice
        if len(others) <= NAMED:
            others.append(lattice)
        elif key is None:
            break
    more = ", …" if len(others) > NAMED else ""
    names = ", ".join(lattice.key for lattice in others[:NAMED])
    keys = f"the keys are {names}{more}" if others else "the source contains no lattices"
    if key is not None:
        raise InputError(f"no lattice has the key {key!r}; {keys}", inputs.places[0])
    if not others:
        raise InputError("the source contains no lattices", inputs.places[0])
    if len(others) > 1:
        raise OptionError(f"{inputs.places[0]} contains several lattices; select one with --key ({keys})")
    return others[0]


InputPair = tuple[Inputs, Inputs]


def shared_scales(*arguments: str) -> Callable[[Command], Command]:
    """Add the scale options to a command that compares sources; a scale file next to one source applies to all sources.

    Args:
        arguments: Names of the command's arguments that are sources.
    """

    def add(function: Command) -> Command:
        @click.pass_context
        @functools.wraps(function)
        def collected(context: click.Context, /, **options: Any) -> Any:
            user_scales = {name: options.pop(name) for name in KEYS}
            files: CommandFiles = context.obj
            sources = [options[name] for name in arguments]
            from_files = {name: chosen for name in sources if (chosen := find_scales(files.sources.select((name,))))}
            if not {"acoustic_scale", "word_penalty"} <= scales_set_by_user(context):
                for first, second in itertools.pairwise(from_files.values()):
                    if first.scales != second.scales:
                        raise OptionError(f"the scale files {first.path} and {second.path} differ; {SCALES_ADVICE}")
            completed = complete(context, user_scales, (next(iter(from_files), sources[0]),))
            return function(scales=completed.scales, **options)

        return section("Scales", *SCALES)(collected)

    return add


@command
@click.argument("before", type=Lattices())
@click.argument("after", type=Lattices())
@reads("--ref", "Reference transcripts.", required=True)
@click.option(
    "--lattices",
    type=click.IntRange(0),
    default=10,
    help="Draw the lattices of the N utterances that improve most and of the N that degrade most.",
    metavar="N",
)
@click.option("--max-arcs", type=click.IntRange(1), default=300, help="Maximum number of arcs drawn per lattice.")
@frame_shift_option("Duration of a frame in seconds. If set, times are shown in seconds instead of frames.")
@shared_scales("before", "after")
@click.option("--strict", is_flag=True, help="Exit with code 1 if references or lattices are missing.")
@output_file("Output page, such as report.html")
@reading_options(jobs)
def report(
    before: str,
    after: str,
    ref: str,
    lattices: int,
    max_arcs: int,
    frame_shift: float | None,
    scales: Scales,
    strict: bool,
    output_file: str,
    **how: Any,
) -> None:
    """Write a web page that compares the errors of lattices before and after rescoring.

    BEFORE and AFTER contain lattices of the same utterances. Both are scored with the same scales, by default
    those in the file *.scales.toml next to BEFORE or AFTER. The page works offline. It shows word and oracle error
    rates and their changes, the alignments and lattices of the utterances with the largest gains and losses, and a
    table of all utterances. References without lattices and lattices without references are listed and counted.

    \b
    Example:
      ninja report lat.ark.gz rescored.ark.gz --ref text --words words.txt --acoustic-scale 0.1 -o report.html
    """
    if lattices and "-" in (before, after):
        raise click.UsageError("lattices to be drawn are read twice; use a file instead of -, or --lattices 0")
    references = read_text(ref)
    first: Inputs = build_inputs((before,), how)["inputs"]
    first.need_table()
    second = first.like((after,), current_console().attach(Log()))
    outcomes = [dict(results(OnLattices(Outcomes(references, scales)), inputs)) for inputs in (first, second)]
    failed = [[failure.key or failure.path or "?" for failure in inputs.log.failures] for inputs in (first, second)]
    comparison = compare(references, outcomes[0], outcomes[1], (failed[0], failed[1]))
    drawing = ShowOptions(scales, max_arcs, frame_shift)
    drawings = _drawings(comparison, (first, second), references, drawing, lattices)
    with text_output(output_file) as stream:
        stream.write(report_page(comparison, drawings, (os.path.basename(before), os.path.basename(after)), scales))
    rates, oracles, console = comparison.rates, comparison.oracle_rates, current_console()
    utterances = counted(len(comparison.utterances), "utterance")
    console.say(
        f"{utterances}, WER {rates[0].wer:.2f}% before and {rates[1].wer:.2f}% after, "
        f"oracle {oracles[0].wer:.2f}% and {oracles[1].wer:.2f}%, at {scales}"
    )
    for absence in comparison.absences:
        console.say(f"{absence.description}: {len(absence.keys)}")
    first.log.failures += second.log.failures
    console.close(failed=strict and bool(comparison.absences))


def _drawings(
    comparison: Comparison, inputs: InputPair, references: dict[str, list[str]], options: ShowOptions, count: int
) -> dict[str, tuple[Drawing | None, Drawing | None]]:
    """Read the lattices with the largest gains and losses again; return their drawings by key."""
    keys = {utterance.key for utterance in [*comparison.gained[:count], *comparison.lost[:count]]}
    if not keys:
        return {}

    def ignore(failure: NinjaError) -> None:
        """Ignore a failure, because it was reported when the lattices were first read."""

    before: dict[str, Drawing] = {}
    after: dict[str, Drawing] = {}
    for source, drawings in zip(inputs, (before, after), strict=True):
        for key, lattice in source.read(ignore):
            if key in keys:
                drawings[key] = draw(lattice, references[key], options)
            if len(drawings) == len(keys):
                break
    return {key: (before.get(key), after.get(key)) for key in sorted(keys)}
