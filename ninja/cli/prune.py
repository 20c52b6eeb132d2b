"""``ninja prune``."""

from __future__ import annotations

from functools import partial

import click

from ninja.cli.options import Destination, command, lattice_output
from ninja.cli.run import write
from ninja.cli.scales import scales
from ninja.cli.source import Source, reads_lattices
from ninja.graph.prune import prune as remove_arcs
from ninja.lattice import Scales
from ninja.parallel.pipeline import EachBatch


@command
@click.option("--beam", default=10.0, help="Keep what is within this cost of the best path.")
@scales
@lattice_output("The pruned lattices")
@reads_lattices
def prune(source: Source, destination: Destination, beam: float, scales: Scales) -> None:
    """Remove the arcs of lattices that lie outside a beam.

    Costs are written as they were: the scales serve the comparison only.

    \b
    Example:
      ninja prune lat.ark.gz --beam 6 --acoustic-scale 0.1 -o pruned.ark.gz
    """
    arcs = write(EachBatch(partial(remove_arcs, beam=beam, scales=scales)), source, destination).arcs
    source.console.close_counting(f"lattices, {arcs} arcs left")
