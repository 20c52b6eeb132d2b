"""``ninja show`` and ``ninja report``: pages for browsers."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from ninja.cli.console import current_console
from ninja.cli.files import Lattices
from ninja.cli.options import command, jobs, output_file, reads
from ninja.cli.run import results
from ninja.cli.scales import scales, shared_scales
from ninja.cli.source import build_inputs, reading_options, reads_lattices_alone
from ninja.errors import FormatError, InputError, NinjaError, OptionError
from ninja.evaluate import read_text
from ninja.files.output import text_output
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice, Scales
from ninja.libraries import needed_for
from ninja.lm.load import load
from ninja.log import Log
from ninja.pipeline.stages import OnLattices
from ninja.show import Comparison, Drawing, Outcomes, ShowOptions, compare, draw, lattice_page, report_page

NAMED = 5  # keys that a message lists


@command
@click.option("--key", help="Key of the lattice to show.  [default: the only one]")
@reads("--ref", "Reference transcripts; the path with the fewest errors is marked.")
@click.option("--max-arcs", type=click.IntRange(1), default=5000, help="Draw at most this many arcs.")
@click.option("--frame-shift", type=float, help="Seconds of a frame, to show times in seconds.")
@reads("--context-model", "Show what it adds to words with --entities, beside --rnnlm; default: the shipped one.")
@reads("--entities", "With --context-model: the phrases.")
@reads("--rnnlm", "With --context-model: the language model.  [default: shipped]")
@scales
@output_file("Page to write, such as lattice.html")
@reads_lattices_alone
def show(
    inputs: Inputs,
    key: str | None,
    ref: str | None,
    context_model: str | None,
    entities: str | None,
    rnnlm: str | None,
    output_file: str,
    **given: Any,
) -> None:
    """Write a page that shows a lattice as a graph, for any browser.

    The page needs no network. Time runs to the right; an arc is the darker and wider the more probable it is, and shows
    its figures when it is clicked. The best path is marked, and with --ref the oracle path, too.

    \b
    Example:
      ninja show lat.ark.gz --key utterance-7 --words words.txt --ref text --acoustic-scale 0.1 -o lattice.html
    """
    options = ShowOptions(**given)
    reference = None
    inputs.spell()
    if ref is not None:
        inputs.need_table()
    if (context_model is None) != (entities is None):
        raise OptionError("--context-model and --entities go together; give both, or none")
    if context_model is None and rnnlm is not None:
        raise OptionError("--rnnlm: of use with --context-model only")
    lattice = _chosen(inputs, key)
    if ref is not None:
        reference = read_text(ref).get(lattice.key)
        if reference is None:
            raise FormatError("there is no reference of this key; leave out --ref to do without", ref, key=lattice.key)
    drawing = draw(lattice, reference, options)
    if context_model is not None and entities is not None:
        drawing = _with_context(drawing, context_model, entities, rnnlm, inputs)
    with text_output(output_file) as stream:
        stream.write(lattice_page(drawing))
    if said := drawing.left_out():
        current_console().say(f"{lattice.key}: {said}")


def _with_context(drawing: Drawing, model: str, entities: str, rnnlm: str | None, inputs: Inputs) -> Drawing:
    """Add what a context model gives each arc."""
    with needed_for("a context model", model):
        from ninja.context.pointer_scores import pointer_scores
        from ninja.context.settings import Context
        from ninja.context.stage import Contextual

    stage = Contextual(Context(entities, context_model=model))
    found = pointer_scores(drawing.lattice, stage, load(rnnlm), drawing.options.scales, inputs.log)
    return replace(drawing, gain=found.gain, copied=found.copied)


def _chosen(inputs: Inputs, key: str | None) -> Lattice:
    """Return the lattice of a key, or the only one; with a key, failures of others are only reported."""
    seen: list[Lattice] = []

    def tolerated(failure: NinjaError) -> None:
        if failure.key == key:
            raise failure
        current_console().say(f"failed: {failure}")

    for found, lattice in inputs.read(inputs.places, None if key is None else tolerated):
        if found == key:
            return lattice
        if len(seen) <= NAMED:
            seen.append(lattice)
        elif key is None:
            break
    more = ", …" if len(seen) > NAMED else ""
    names = ", ".join(lattice.key for lattice in seen[:NAMED])
    listed = f"there are {names}{more}" if seen else "there is none at all"
    if key is not None:
        raise InputError(f"no lattice has the key {key!r}; {listed}", inputs.places[0])
    if not seen:
        raise InputError("there is no lattice in it", inputs.places[0])
    if len(seen) > 1:
        raise OptionError(f"{inputs.places[0]}: say with --key which lattice to show; {listed}")
    return seen[0]


Sides = tuple[Inputs, Inputs]


@command
@click.argument("before", type=Lattices())
@click.argument("after", type=Lattices())
@reads("--ref", "Reference transcripts.", required=True)
@click.option("--lattices", type=click.IntRange(0), default=10, help="Draw this many gains and losses.")
@click.option("--max-arcs", type=click.IntRange(1), default=300, help="Draw at most this many arcs of each.")
@click.option("--frame-shift", type=float, help="Seconds of a frame, to show times in seconds.")
@shared_scales("before", "after")
@click.option("--strict", is_flag=True, help="Exit with 1 where references or lattices are missing.")
@output_file("Page to write, such as report.html")
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
    """Write a page that compares lattices before and after rescoring with the references.

    BEFORE and AFTER are lattices of the same utterances, compared at the same scales: those given, else those noted
    beside either of them. The page, for any browser and without a network, shows word and oracle error rates, how they
    changed, the utterances that gained and lost most with their alignments and lattices, and a table of all. References
    without lattices and lattices without references are listed and counted.

    \b
    Example:
      ninja report lat.ark.gz rescored.ark.gz --ref text --words words.txt --acoustic-scale 0.1 -o report.html
    """
    if lattices and "-" in (before, after):
        raise click.UsageError("lattices that are shown are read twice: give a file for -, or --lattices 0")
    references = read_text(ref)
    first: Inputs = build_inputs((before,), how)["inputs"]
    first.need_table()
    second = first.like((after,), current_console().attach(Log()))
    found = [dict(results(OnLattices(Outcomes(references, scales)), inputs)) for inputs in (first, second)]
    failed = [[failure.key or failure.path or "?" for failure in inputs.log.failures] for inputs in (first, second)]
    comparison = compare(references, found[0], found[1], (failed[0], failed[1]))
    drawing = ShowOptions(scales, max_arcs, frame_shift)
    shown = _drawings(comparison, (first, second), references, drawing, lattices)
    with text_output(output_file) as stream:
        stream.write(report_page(comparison, shown, (os.path.basename(before), os.path.basename(after)), scales))
    rates, oracles, console = comparison.rates, comparison.oracle_rates, current_console()
    console.say(
        f"{len(comparison.utterances)} utterances, WER {rates[0].wer:.2f} % before and {rates[1].wer:.2f} % after, "
        f"oracle {oracles[0].wer:.2f} % and {oracles[1].wer:.2f} %; both at {scales}"
    )
    for absence in comparison.absences:
        console.say(f"{len(absence.keys)} {absence.what}")
    first.log.failures += second.log.failures
    console.close(failed=strict and bool(comparison.absences))


def _drawings(
    comparison: Comparison, sides: Sides, references: dict[str, list[str]], options: ShowOptions, count: int
) -> dict[str, tuple[Drawing | None, Drawing | None]]:
    """Read again the lattices that are shown, and draw them."""
    keys = {each.key for each in [*comparison.gained[:count], *comparison.lost[:count]]}
    if not keys:
        return {}

    def passed_over(failure: NinjaError) -> None:
        """Pass over failures that the first reading reported."""

    drawn: list[dict[str, Drawing]] = []
    for side in sides:
        found: dict[str, Drawing] = {}
        for key, lattice in side.read(side.places, passed_over):
            if key in keys:
                found[key] = draw(lattice, references[key], options)
            if len(found) == len(keys):
                break
        drawn.append(found)
    return {key: (drawn[0].get(key), drawn[1].get(key)) for key in sorted(keys)}
