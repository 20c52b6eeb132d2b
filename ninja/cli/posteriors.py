"""The commands ``ninja posteriors``, ``ninja arc-post``, ``ninja depth`` and ``ninja depth-per-frame``."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
import numpy as np

from ninja import graph
from ninja.cli.main import current_console
from ninja.cli.options import command, output_file, reads, switch
from ninja.cli.source import reads_lattices, results, run_lines, scales
from ninja.errors import counted
from ninja.formats.arc_table import Column, Runs, row_texts, words_column
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.io.inputs import Inputs
from ninja.io.number_tables import NumberWriter
from ninja.lattice import Scales, times
from ninja.lattice.arrays import offsets
from ninja.lattice.batch import Batch
from ninja.lattice.transition_model import TransitionModel
from ninja.pipeline.stages import OnLattices


def arc_lines(batch: Batch, min_post: float, scales: Scales) -> list[str]:
    """Return the output lines for each lattice in a batch, one per arc with a posterior of at least ``min_post``."""
    arcs = graph.probable_arcs(batch, min_post, scales, labels=True)
    columns: list[Column] = [
        arcs.start,
        arcs.frames,
        arcs.posterior,
        words_column(arcs.word, batch.table),
        Runs(arcs.label, arcs.label_begin, "_", may_lack=True),
    ]
    return row_texts(batch.keys, arcs.begin, columns)


@command
@click.option(
    "--min-post",
    type=click.FloatRange(0, 1),
    default=0.0001,
    help="Omit arcs whose posterior is below this value.",
)
@scales
@output_file("Text file for the posteriors")
@reads_lattices
def posteriors(inputs: Inputs, output_file: str, min_post: float, scales: Scales) -> None:
    """Print the posterior probability of each arc.

    Each line contains, separated by tabs, the key, the first frame, the number of frames, the posterior, the word (or
    its id if there is no symbol table), and the transition ids.

    \b
    Example:
      ninja posteriors lat.ark.gz --words words.txt --acoustic-scale 0.1
    """
    inputs.needs_words = True
    run_lines(partial(arc_lines, min_post=min_post, scales=scales), inputs, output_file)
    current_console().close()


def posterior_lines(
    batch: Batch, min_post: float, scales: Scales, alignment: bool, model: TransitionModel | None
) -> list[str]:
    """Return the lines for each lattice in Kaldi's format, one per arc with a posterior above ``min_post``.

    Args:
        alignment: Also print the transition ids of each arc.
        model: Transition model, which is required for printing the phones that end on each arc; None omits the phones.
    """
    if model is not None:
        for lattice in batch:
            model.check(lattice)
    batch = graph.to_compact(batch)  # in compact lattices, each arc has all transition ids of its word
    above = float(np.nextafter(min_post, np.inf))
    arcs = graph.probable_arcs(batch, above, scales, labels=alignment or model is not None)
    columns: list[Column] = [
        arcs.start,
        arcs.frames,
        arcs.posterior.astype(np.float32),
        words_column(arcs.word, batch.table),
    ]
    if alignment:
        columns.append(Runs(arcs.label, arcs.label_begin, ","))
    if model is not None:
        ends_phone = model.is_final[arcs.label]
        phones = model.phone[arcs.label[ends_phone]].astype(np.int32)
        columns.append(Runs(phones, offsets(ends_phone)[arcs.label_begin], " "))
    return row_texts(batch.keys, arcs.begin, columns)


@command
@scales
@switch("--print-alignment", False, "Print the transition ids of each arc.")
@click.option(
    "--min-post",
    type=click.FloatRange(0, 1),
    default=0.0001,
    help="Print only arcs whose posterior is above this value.",
)
@reads(
    "--model", "Transition model (final.mdl); also print the phones that end on each arc.", load=read_transition_model
)
@output_file("Text file for the posteriors")
@reads_lattices
def arc_post(inputs: Inputs, output_file: str, print_alignment: bool, **options: Any) -> None:
    """Print the posterior probability of each arc, like Kaldi's lattice-arc-post.

    Each line contains, separated by tabs, the key, the first frame, the number of frames, the posterior, and the word
    (or its id if there is no symbol table). --print-alignment adds the transition ids, separated by commas; --model
    adds the phones, separated by spaces.

    \b
    Example:
      ninja arc-post lat.ark.gz --acoustic-scale 0.1 -o post.txt
    """
    run_lines(partial(posterior_lines, alignment=print_alignment, **options), inputs, output_file)
    current_console().close()


@command
@output_file("Text file for the depths, or ark:FILE for a binary table")
@reads_lattices
def depth(inputs: Inputs, output_file: str) -> None:
    """Print the depth of each lattice (the mean number of arcs that cross a frame).

    Each line contains a key and the depth. The depth over all lattices is printed on stderr.

    \b
    Example:
      ninja depth lat.ark.gz
    """
    crossed = frames = 0
    with NumberWriter(output_file) as table:
        for key, (crossings, length) in results(OnLattices(times.crossings), inputs, to_stdout=output_file == "-"):
            table.number(key, crossings / length if length else 0.0)
            crossed += crossings
            frames += length
    current_console().close(f"{counted(inputs.log.lattices, 'lattice')}, overall depth {crossed / max(frames, 1):.7g}")


@command
@output_file("Text file for the counts, or ark:FILE for a binary table")
@reads_lattices
def depth_per_frame(inputs: Inputs, output_file: str) -> None:
    """Print the number of arcs that cross each frame of each lattice.

    Each line contains a key and the number of arcs at each frame.

    \b
    Example:
      ninja depth-per-frame lat.ark.gz
    """
    with NumberWriter(output_file) as table:
        for key, counts in results(OnLattices(graph.depth_per_frame), inputs, to_stdout=output_file == "-"):
            table.integers(key, counts)
    current_console().close_counting()
