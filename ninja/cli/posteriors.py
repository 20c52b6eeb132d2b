"""``ninja posteriors``, ``arc-post``, ``depth`` and ``depth-per-frame``."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
import numpy as np

from ninja import graph
from ninja.cli.options import command, output_file, reads, switch
from ninja.cli.run import results, run_lines
from ninja.cli.scales import scales
from ninja.cli.source import Source, reads_lattices
from ninja.formats.arc_table import Runs, rows_text, words_column
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.io.number_tables import NumberWriter
from ninja.lattice import Lattice, Scales
from ninja.lattice.transition_model import TransitionModel
from ninja.parallel.pipeline import Each


def arc_lines(lattice: Lattice, min_post: float, scales: Scales) -> str:
    """Return a line for each arc of at least a posterior."""
    probability = graph.posteriors(lattice, scales)
    arcs = np.flatnonzero(probability >= min_post)
    time = graph.state_times(lattice)
    start = time[lattice.src[arcs]]
    columns = [
        start,
        time[lattice.dst[arcs]] - start,
        probability[arcs],
        words_column(lattice.word[arcs], lattice.words),
        Runs(lattice.ali, lattice.ali_begin[arcs], lattice.ali_begin[arcs + 1], "_", may_lack=True),
    ]
    return rows_text(lattice.key, len(arcs), columns)


@command
@click.option("--min-post", type=click.FloatRange(0, 1), default=0.0001, help="Leave out arcs less probable than this.")
@scales
@output_file("Text file for the lines")
@reads_lattices
def posteriors(source: Source, output_file: str, min_post: float, scales: Scales) -> None:
    """Print the posterior of each arc of lattices.

    One line for each, with tabs between: key, first frame, number of frames, probability, word (or its id where --words
    is not given), transition ids.

    \b
    Example:
      ninja posteriors lat.ark.gz --words words.txt --acoustic-scale 0.1
    """
    source.spell()
    run_lines(partial(arc_lines, min_post=min_post, scales=scales), source, output_file)
    source.console.close()


def posterior_lines(
    lattice: Lattice, min_post: float, scales: Scales, alignment: bool, model: TransitionModel | None
) -> str:
    """Return Kaldi's line for each arc above a posterior."""
    if model is not None:
        model.check(lattice)
    lattice = graph.to_compact(lattice)  # arcs with all labels of their words
    probability = graph.posteriors(lattice, scales)
    arcs = np.flatnonzero(probability > min_post)
    begin, end, time = lattice.ali_begin[arcs], lattice.ali_begin[arcs + 1], graph.state_times(lattice)
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
@scales
@switch("--print-alignment", False, "Print the transition ids of each arc.")
@click.option("--min-post", type=click.FloatRange(0, 1), default=0.0001, help="Leave out arcs of no higher posterior.")
@reads("--model", "Transition model (final.mdl); print the phones that end in each arc.", load=read_transition_model)
@output_file("Text file for the lines")
@reads_lattices
def arc_post(source: Source, output_file: str, print_alignment: bool, **given: Any) -> None:
    """Print the posterior of each arc of lattices, as Kaldi does.

    One line for each, with tabs between: key, first frame, number of frames, posterior, word (its id where --words is
    not given), transition ids with commas between, phones with blanks between.

    \b
    Example:
      ninja arc-post lat.ark.gz --acoustic-scale 0.1 -o post.txt
    """
    run_lines(partial(posterior_lines, alignment=print_alignment, **given), source, output_file)
    source.console.close()


@command
@output_file("Text file for the depths, or ark:FILE")
@reads_lattices
def depth(source: Source, output_file: str) -> None:
    """Print the mean number of arcs that cross a frame of each lattice.

    One line for each: its key and its depth. The depth of all together goes to stderr.

    \b
    Example:
      ninja depth lat.ark.gz
    """
    crossed = frames = 0
    with NumberWriter(output_file) as table:
        for key, found in results(Each(graph.depth_per_frame), source, to_stdout=output_file == "-"):
            table.number(key, int(found.sum()) / len(found) if len(found) else 0.0)
            crossed += int(found.sum())
            frames += len(found)
    source.console.close(f"{source.console.log.lattices} lattices, overall depth {crossed / max(frames, 1):.7g}")


@command
@output_file("Text file for the counts, or ark:FILE")
@reads_lattices
def depth_per_frame(source: Source, output_file: str) -> None:
    """Print how many arcs of each lattice cross each frame.

    One line for each: its key and a count for each frame.

    \b
    Example:
      ninja depth-per-frame lat.ark.gz
    """
    with NumberWriter(output_file) as table:
        for key, found in results(Each(graph.depth_per_frame), source, to_stdout=output_file == "-"):
            table.integers(key, found)
    source.console.close_counting()
