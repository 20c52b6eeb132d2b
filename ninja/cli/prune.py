"""The command ``ninja prune``, which removes arcs outside a beam."""

from __future__ import annotations

from functools import partial

import click

from ninja.cli.main import current_console
from ninja.cli.options import command, lattice_output
from ninja.cli.source import reads_lattices, scales, write
from ninja.errors import counted
from ninja.graph.prune import prune as remove_arcs
from ninja.io.inputs import Inputs
from ninja.lattice import Scales
from ninja.pipeline import Output
from ninja.pipeline.execution import OnBatches


@command
@click.option("--beam", default=10.0, help="Keep arcs on paths whose scaled cost is within this beam of the best path.")
@scales
@lattice_output("Output for the pruned lattices")
@reads_lattices
def prune(inputs: Inputs, destination: Output, beam: float, scales: Scales) -> None:
    """Remove arcs outside a beam from lattices.

    The scales are used only to compare paths; the costs are written unscaled.

    \b
    Example:
      ninja prune lat.ark.gz --beam 6 --acoustic-scale 0.1 -o pruned.ark.gz
    """
    arcs = write(OnBatches(partial(remove_arcs, beam=beam, scales=scales)), inputs, destination).arcs
    current_console().close_counting(f", {counted(arcs, 'arc')} left")
