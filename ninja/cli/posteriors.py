"""``ninja posteriors``."""

from __future__ import annotations

from functools import partial

import click
import numpy as np

from ninja import graph
from ninja.cli.options import command, output_file, scales
from ninja.cli.run import run_lines
from ninja.cli.source import Source, reads_lattices
from ninja.formats.rows import Runs, rows_text, words_column
from ninja.lattice import Lattice, Scales


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
    lines = partial(arc_lines, min_post=min_post, scales=scales)
    run_lines(lines, source, output_file)
    source.console.close()
