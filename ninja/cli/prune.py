"""``ninja prune``."""

from __future__ import annotations

from functools import partial

import click

from ninja.cli.options import Destination, command, inv_acoustic_scale, lattice_output, scales, section
from ninja.cli.run import write
from ninja.cli.source import Source, reads_lattices
from ninja.lattice import Lattice, Scales
from ninja.parallel.pipeline import Each


def pruned(lattice: Lattice, beam: float, max_arcs_per_frame: int | None, scales: Scales) -> Lattice:
    """Prune a lattice by a beam, then by depth where that is wanted."""
    from ninja.graph import limit_depth, prune

    result = prune(lattice, beam, scales)
    return result if max_arcs_per_frame is None else limit_depth(result, max_arcs_per_frame, scales.acoustic)


@command
@click.option("--beam", default=10.0, help="Keep what is within this cost of the best path.")
@click.option(
    "--max-arcs-per-frame", type=click.IntRange(1), help="Keep at most this many arcs at each frame, the best ones."
)
@scales
@section("Scales", inv_acoustic_scale)
@lattice_output("The pruned lattices")
@reads_lattices
def prune(
    source: Source,
    destination: Destination,
    beam: float,
    max_arcs_per_frame: int | None,
    acoustic_scale: float,
    lm_scale: float,
    word_penalty: float,
) -> None:
    """Remove the arcs of lattices that lie outside a beam.

    Costs are written as they were: the scales serve the comparison only.

    \b
    Example:
      ninja prune lat.ark.gz --beam 6 --acoustic-scale 0.1 -o pruned.ark.gz
    """
    scales = Scales(acoustic_scale, lm_scale, word_penalty)
    stage = Each(partial(pruned, beam=beam, max_arcs_per_frame=max_arcs_per_frame, scales=scales))
    arcs = write(stage, source, destination)
    source.console.close_counting(f"lattices, {arcs} arcs left")
