"""``ninja arc-post``."""

from __future__ import annotations

from functools import partial

import click
import numpy as np

from ninja.cli.options import command, output_file, switch, two_scales
from ninja.cli.places import check_places
from ninja.cli.run import run_lines
from ninja.cli.source import Source, reads_lattices
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.formats.rows import Runs, rows_text, words_column
from ninja.graph import posteriors, state_times, to_compact
from ninja.lattice import Lattice, Scales
from ninja.lattice.transition_model import TransitionModel


def posterior_lines(
    lattice: Lattice,
    min_post: float,
    scales: Scales,
    alignment: bool,
    model: TransitionModel | None,
) -> str:
    """Return Kaldi's line for each arc above a posterior."""
    if model is not None:
        model.check(lattice)
    lattice = to_compact(lattice)  # arcs with all labels of their words
    probability = posteriors(lattice, scales)
    arcs = np.flatnonzero(probability > min_post)
    begin, end, time = lattice.ali_begin[arcs], lattice.ali_begin[arcs + 1], state_times(lattice)
    start = time[lattice.src[arcs]]
    columns = [
        start,
        end - begin if lattice.time is None else time[lattice.dst[arcs]] - start,
        probability[arcs].astype(np.float32),
        words_column(lattice.word[arcs], lattice.words),
    ]
    if alignment:
        columns.append(Runs(lattice.ali, begin, end, ","))
    if model is not None:
        ends_phone = model.is_final[lattice.ali]
        before = np.concatenate([[0], np.cumsum(ends_phone)])
        phones = model.phone[lattice.ali[ends_phone]].astype(np.int32)
        columns.append(Runs(phones, before[begin], before[end], " "))
    return rows_text(lattice.key, len(arcs), columns)


@command
@two_scales
@switch("--print-alignment", False, "Print the transition ids of each arc.")
@click.option("--min-post", type=click.FloatRange(0, 1), default=0.0001, help="Leave out arcs of no higher posterior.")
@click.option("--model", metavar="FILE", help="Transition model (final.mdl); print the phones that end in each arc.")
@output_file("Text file for the lines")
@reads_lattices
def arc_post(
    source: Source,
    output_file: str,
    scales: Scales,
    print_alignment: bool,
    min_post: float,
    model: str | None,
) -> None:
    """Print the posterior of each arc of lattices, as Kaldi does.

    One line for each, with tabs between: key, first frame, number of frames, posterior, word (its id where --words is
    not given), transition ids with commas between, phones with blanks between.

    \b
    Example:
      ninja arc-post lat.ark.gz --acoustic-scale 0.1 -o post.txt
    """
    transitions = None if model is None else read_transition_model(model)
    check_places([output_file], [model], source)
    lines = partial(
        posterior_lines,
        min_post=min_post,
        scales=scales,
        alignment=print_alignment,
        model=transitions,
    )
    run_lines(lines, source, output_file)
    source.console.close()
