"""``ninja rescore``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import click

from ninja.cli.options import from_fields, output_file, resume
from ninja.cli.reading import Reading, find_words, reads_lattices
from ninja.errors import OptionError
from ninja.lattice import Lattice
from ninja.pipeline import Rescoring
from ninja.rescore.options import RescoreOptions
from ninja.rescore.report import RescoreReport

HELP = {
    "algorithm": "Hypotheses compete on each arc or in each state.",
    "output": "Expanded lattice, input topology with replaced graph costs, or best path.",
    "lm_weight": "Share of the language model in the graph cost, 0 to 1.",
    "acoustic_scale": "Factor of acoustic costs; 1 for chain models.",
    "word_penalty": "Cost of each word while searching; never written back.",
    "unk_penalty": "Cost of a word the model lacks, beyond <unk>.  [default: ln of how many share it]",
    "max_unknown": "Refuse when a larger share of arcs carries words the model lacks.",
    "max_hyps": "Live hypotheses per arc or state; 0 is unlimited.  [default: 4 per arc, 5 per state]",
    "beam": "Keep hypotheses within this cost of the best; inf keeps all.",
    "prune_beam": "Drop arcs this far off the first pass's best path.  [default: beam + 2]",
    "merge_order": "Words of history that keep hypotheses apart; 0 is all.  [default: 5]",
    "max_active": "Live hypotheses per lattice and level; 0 is unlimited.",
    "look_ahead": "How the cost still to come is estimated.",
    "batch_arcs": "Arcs of lattices in flight at once.",
}


@click.command()
@click.option("--rnnlm", metavar="FILE", help="Language model.  [default: the shipped English model]")
@output_file("Archive for the rescored lattices, or a wspecifier such as ark,t:FILE")
@from_fields(RescoreOptions, HELP)
@click.option("--device", default="cpu", show_default=True, help="Where the model computes: cpu, cuda, cuda:1, …")
@click.option("--frame-shift", type=float, default=0.01, show_default=True, help="Seconds of a frame, for the summary.")
@resume
@reads_lattices
def rescore(
    reading: Reading, rnnlm: str | None, output_file: str, device: str, frame_shift: float, resume: bool, **chosen: Any
) -> None:
    """Rescore lattices with a neural language model.

    Without --words, words.txt or words.txt.gz beside SOURCE is taken. Without -o the rescored lattices go to stdout as
    a binary archive; if that is a terminal, the best word sequences are printed instead.

    \b
    Example:
      ninja rescore lat.ark.gz --rnnlm model.pt --words words.txt -o rescored.ark.gz
    """
    options = RescoreOptions(**chosen)
    if not frame_shift > 0:
        raise OptionError(f"frame_shift is {frame_shift}, but must be above 0")
    if reading.words is None:
        reading.words = find_words(reading.source)
        reading.say(f"words of {reading.words}")
    stage = Rescoring(rnnlm, options, device, on_coverage=lambda coverage: reading.say(f"vocabulary: {coverage}"))
    report = RescoreReport()

    def count(part: RescoreReport) -> None:
        if reading.jobs > 1 and report.coverage is None:
            reading.say(f"vocabulary: {part.coverage}")
        _add(report, part)

    if output_file == "-" and sys.stdout.isatty():
        results = reading.results(stage, True, (), options.batch_arcs, count)
        for line in _transcripts(results, options):
            click.echo(line)
    else:
        reading.write(output_file, stage, resume=resume, batch_arcs=options.batch_arcs, on_batch=count)
    spent, audio = reading.seconds, report.frames * frame_shift
    steps = f"{report.calls} LM steps of {report.scores} scores"
    sound = f", {audio:.0f} s of audio (real-time factor {spent / audio:.4f})" if audio else ""
    reading.close(
        f"{report.lattices} lattices, {report.arcs} arcs ({report.expanded_arcs} expanded), {report.histories} "
        f"histories, {steps}, {spent:.1f} s ({report.lm_seconds:.1f} s in the LM){sound}"
    )


def _add(total: RescoreReport, part: RescoreReport) -> None:
    """Count a batch's report into the total."""
    total.coverage = total.coverage or part.coverage
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, int | float):
            setattr(total, field.name, getattr(total, field.name) + value)


def _transcripts(results: Iterator[tuple[str, Lattice]], options: RescoreOptions) -> Iterator[str]:
    from ninja.graph import best_path

    for key, lattice in results:
        path = best_path(lattice, options.acoustic_scale, 1.0, options.word_penalty)
        yield " ".join([key, *(lattice.words.spell(path.words) if lattice.words else map(str, path.words))])
