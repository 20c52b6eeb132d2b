"""``ninja prune``."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ninja.cli.kaldi.options import chosen_acoustic_scale, inv_acoustic_scale_option
from ninja.cli.options import lattice_output, resume, scales
from ninja.cli.reading import Reading, reads_lattices
from ninja.lattice import Lattice
from ninja.parallel.pipeline import Each


@dataclass(frozen=True, slots=True)
class Pruning:
    """A beam, and a limit of arcs at each frame where one is wanted."""

    beam: float
    max_arcs_per_frame: int | None
    acoustic_scale: float
    lm_scale: float
    word_penalty: float

    def __call__(self, lattice: Lattice) -> Lattice:
        """Prune a lattice."""
        from ninja.graph import limit_depth, prune

        pruned = prune(lattice, self.beam, self.acoustic_scale, self.lm_scale, self.word_penalty)
        if self.max_arcs_per_frame is None:
            return pruned
        return limit_depth(pruned, self.max_arcs_per_frame, self.acoustic_scale)


@click.command()
@lattice_output("The pruned lattices")
@click.option(
    "--beam", type=float, default=10.0, show_default=True, help="Keep what is within this cost of the best path."
)
@click.option(
    "--max-arcs-per-frame", type=click.IntRange(1), help="Keep at most this many arcs at each frame, the best ones."
)
@scales
@inv_acoustic_scale_option
@resume
@reads_lattices
def prune(
    reading: Reading,
    output_file: str,
    beam: float,
    max_arcs_per_frame: int | None,
    acoustic_scale: float,
    lm_scale: float,
    word_penalty: float,
    inv_acoustic_scale: float,
    resume: bool,
) -> None:
    """Remove the arcs of lattices that lie outside a beam.

    Costs are written as they were: the scales serve the comparison only.

    \b
    Example:
      ninja prune lat.ark.gz --beam 6 --acoustic-scale 0.1 -o pruned.ark.gz
    """
    acoustic_scale = chosen_acoustic_scale(acoustic_scale, inv_acoustic_scale)
    pruning = Pruning(beam, max_arcs_per_frame, acoustic_scale, lm_scale, word_penalty)
    arcs = reading.write(output_file, Each(pruning), resume=resume)
    reading.close(f"{reading.log.lattices} lattices, {arcs} arcs left, {reading.seconds:.1f} s")
