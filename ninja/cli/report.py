"""``ninja report``."""

from __future__ import annotations

import os
from typing import Any

import click

from ninja.cli.options import command, jobs, output_file, reads, scales, text_output
from ninja.cli.run import results
from ninja.cli.source import Source, opened, reading_options
from ninja.errors import NinjaError
from ninja.evaluate import read_text
from ninja.lattice import Scales
from ninja.parallel.pipeline import Each
from ninja.show import Comparison, Drawing, Outcomes, ShowOptions, compare, draw, report_page

Sides = tuple[Source, Source]


@command
@click.argument("before")
@click.argument("after")
@reads("--ref", "Reference transcripts.", required=True)
@click.option("--lattices", type=click.IntRange(0), default=10, help="Draw this many gains and losses.")
@click.option("--max-arcs", type=click.IntRange(1), default=300, help="Draw at most this many arcs of each.")
@click.option("--frame-shift", type=float, help="Seconds of a frame, to show times in seconds.")
@scales
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

    BEFORE and AFTER are lattices of the same utterances. The page, for any browser and without a network, shows word
    and oracle error rates, how they changed, the utterances that gained and lost most with their alignments and
    lattices, and a table of all. References without lattices and lattices without references are listed and counted.

    \b
    Example:
      ninja report lat.ark.gz rescored.ark.gz --ref text --words words.txt --acoustic-scale 0.1 -o report.html
    """
    if lattices and "-" in (before, after):
        raise click.UsageError("lattices that are shown are read twice: give a file for -, or --lattices 0")
    references = read_text(ref)
    first: Source = opened((before,), how, beside=(after,))["source"]
    second: Source = opened((after,), how, symbols=first.table())["source"]
    if first.table() is None:
        raise click.UsageError("--words is needed: the references are words, the lattices only numbers")
    outcomes = Outcomes(references, scales)
    found = [dict(results(Each(outcomes), source)) for source in (first, second)]
    failed = [
        [failure.key or failure.path or "?" for failure in source.console.log.failures] for source in (first, second)
    ]
    comparison = compare(references, found[0], found[1], (failed[0], failed[1]))
    shown = _drawings(comparison, (first, second), references, ShowOptions(scales, max_arcs, frame_shift), lattices)
    with text_output(output_file) as stream:
        stream.write(report_page(comparison, shown, (os.path.basename(before), os.path.basename(after))))
    rates, oracles = comparison.rates, comparison.oracle_rates
    first.console.say(
        f"{len(comparison.utterances)} utterances, WER {rates[0].wer:.2f} % before and {rates[1].wer:.2f} % after, "
        f"oracle {oracles[0].wer:.2f} % and {oracles[1].wer:.2f} %"
    )
    for absence in comparison.absences:
        first.console.say(f"{len(absence.keys)} {absence.what}")
    first.console.log.failures += second.console.log.failures
    first.console.close(failed=strict and bool(comparison.absences))


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
