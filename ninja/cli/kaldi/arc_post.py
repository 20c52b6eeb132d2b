"""``ninja arc-post``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ninja.cli.kaldi.paths import acoustic_scale_option, lm_scale_option
from ninja.cli.options import output_file, text_output
from ninja.cli.places import check_places
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import switch
from ninja.parallel.pipeline import Each

if TYPE_CHECKING:
    from ninja.lattice import Lattice
    from ninja.lattice.transition_model import TransitionModel


@dataclass(frozen=True, slots=True)
class PosteriorLines:
    """The function from a lattice to Kaldi's line for each probable arc, picklable."""

    min_post: float
    acoustic_scale: float
    lm_scale: float
    alignment: bool
    model: TransitionModel | None

    def __call__(self, lattice: Lattice) -> str:
        """Compute the posteriors and print them."""
        import numpy as np

        from ninja.formats.rows import Runs, rows_text, words_column
        from ninja.graph import posteriors, state_times, to_compact

        if self.model is not None:
            self.model.check(lattice)
        lattice = to_compact(lattice)  # arcs with all labels of their words
        probability = posteriors(lattice, self.acoustic_scale, self.lm_scale)
        arcs = np.flatnonzero(probability > self.min_post)
        begin, end, time = lattice.ali_begin[arcs], lattice.ali_begin[arcs + 1], state_times(lattice)
        start = time[lattice.src[arcs]]
        columns = [
            start,
            end - begin if lattice.time is None else time[lattice.dst[arcs]] - start,
            probability[arcs].astype(np.float32),
            words_column(lattice.word[arcs], lattice.words),
        ]
        if self.alignment:
            columns.append(Runs(lattice.ali, begin, end, ","))
        if self.model is not None:
            ends_phone = self.model.is_final[lattice.ali]
            before = np.concatenate([[0], np.cumsum(ends_phone)])
            phones = self.model.phone[lattice.ali[ends_phone]].astype(np.int32)
            columns.append(Runs(phones, before[begin], before[end], " "))
        return rows_text(lattice.key, len(arcs), columns)


@click.command()
@output_file("Text file for the lines")
@acoustic_scale_option
@lm_scale_option
@switch("--print-alignment", False, "Print the transition ids of each arc.")
@click.option(
    "--min-post",
    type=click.FloatRange(0, 1),
    default=0.0001,
    show_default=True,
    help="Leave out arcs that are not more probable than this.",
)
@click.option("--model", metavar="FILE", help="Transition model (final.mdl); print the phones that end in each arc.")
@reads_lattices
def arc_post(
    reading: Reading,
    output_file: str,
    acoustic_scale: float,
    lm_scale: float,
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
    from ninja.formats.kaldi.transition_model import read_transition_model

    transitions = None if model is None else read_transition_model(model)
    lines_of = PosteriorLines(min_post, acoustic_scale, lm_scale, print_alignment, transitions)
    check_places([output_file], [model], reading)
    with text_output(output_file) as stream:
        for _, lines in reading.results(Each(lines_of), to_stdout=output_file == "-"):
            stream.write(lines)
    reading.close()
