"""``ninja posteriors``."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ninja.cli.options import output_file, scales, text_output
from ninja.cli.reading import Reading, reads_lattices
from ninja.lattice import Lattice
from ninja.parallel.pipeline import Each


@dataclass(frozen=True, slots=True)
class ArcLines:
    """The function from a lattice to one printed line for each probable arc, picklable."""

    min_post: float
    acoustic_scale: float
    lm_scale: float
    word_penalty: float

    def __call__(self, lattice: Lattice) -> str:
        """Compute the posteriors and print them."""
        import numpy as np

        from ninja.formats.rows import Runs, rows_text, words_column
        from ninja.graph import posteriors, state_times

        probability = posteriors(lattice, self.acoustic_scale, self.lm_scale, self.word_penalty)
        arcs = np.flatnonzero(probability >= self.min_post)
        time = state_times(lattice)
        start = time[lattice.src[arcs]]
        columns = [
            start,
            time[lattice.dst[arcs]] - start,
            probability[arcs],
            words_column(lattice.word[arcs], lattice.words),
            Runs(lattice.ali, lattice.ali_begin[arcs], lattice.ali_begin[arcs + 1], "_", may_lack=True),
        ]
        return rows_text(lattice.key, len(arcs), columns)


@click.command()
@output_file("Text file for the lines")
@click.option(
    "--min-post",
    type=click.FloatRange(0, 1),
    default=0.0001,
    show_default=True,
    help="Leave out arcs less probable than this.",
)
@scales
@reads_lattices
def posteriors(
    reading: Reading, output_file: str, min_post: float, acoustic_scale: float, lm_scale: float, word_penalty: float
) -> None:
    """Print the posterior of each arc of lattices.

    One line for each, with tabs between: key, first frame, number of frames, probability, word (or its id where --words
    is not given), transition ids.

    \b
    Example:
      ninja posteriors lat.ark.gz --words words.txt --acoustic-scale 0.1
    """
    with text_output(output_file) as stream:
        for _, lines in reading.results(
            Each(ArcLines(min_post, acoustic_scale, lm_scale, word_penalty)), to_stdout=output_file == "-"
        ):
            stream.write(lines)
    reading.close()
