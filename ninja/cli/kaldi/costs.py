"""``ninja scale``, ``ninja add-penalty`` and ``ninja limit-depth``: costs changed, and what follows from them."""

from __future__ import annotations

from functools import partial

import click

from ninja import graph
from ninja.cli import options
from ninja.cli.options import Destination, command, lattice_output
from ninja.cli.run import run
from ninja.cli.source import Source, reads_lattices
from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.times import is_timed


@command
@options.acoustic_scale
@options.inv_acoustic_scale
@options.lm_scale
@click.option("--acoustic2lm-scale", default=0.0, help="Share of the old acoustic costs added to the graph costs.")
@click.option("--lm2acoustic-scale", default=0.0, help="Share of the old graph costs added to the acoustic costs.")
@lattice_output()
@reads_lattices
def scale(
    source: Source,
    destination: Destination,
    acoustic_scale: float,
    lm_scale: float,
    acoustic2lm_scale: float,
    lm2acoustic_scale: float,
) -> None:
    """Multiply the costs of lattices, or mix graph and acoustic ones.

    Unlike the scales of other commands, these change the costs that are written.

    \b
    Example:
      ninja scale lat.ark.gz --lm-scale 0.7 --acoustic-scale 1.3 -o scaled.ark.gz
    """
    scaled = partial(
        graph.scale,
        graph_scale=lm_scale,
        acoustic_scale=acoustic_scale,
        acoustic2lm_scale=acoustic2lm_scale,
        lm2acoustic_scale=lm2acoustic_scale,
    )
    run(scaled, source, destination)


@command
@click.option("--word-ins-penalty", default=0.0, help="Natural-log cost added for each word.")
@lattice_output()
@reads_lattices
def add_penalty(source: Source, destination: Destination, word_ins_penalty: float) -> None:
    """Add a word insertion penalty to the graph costs of lattices.

    \b
    Example:
      ninja add-penalty lat.ark.gz --word-ins-penalty 0.5 -o penalised.ark.gz
    """
    run(partial(graph.add_word_penalty, penalty=word_ins_penalty), source, destination)


def limited(lattice: Lattice, max_arcs_per_frame: int, acoustic_scale: float) -> Lattice:
    """Limit the depth of a lattice that has times."""
    if lattice.num_arcs and not is_timed(lattice):
        raise LatticeError("it has neither alignments nor times, so that no arc crosses any frame", key=lattice.key)
    return graph.limit_depth(lattice, max_arcs_per_frame, acoustic_scale)


@command
@click.option("--max-arcs-per-frame", type=click.IntRange(1), default=1000, help="Most arcs that cross a frame.")
@options.acoustic_scale
@lattice_output()
@reads_lattices
def limit_depth(source: Source, destination: Destination, max_arcs_per_frame: int, acoustic_scale: float) -> None:
    """Limit how many arcs of a lattice cross any frame.

    Costs are written as they were.

    \b
    Example:
      ninja limit-depth lat.ark.gz --max-arcs-per-frame 50 --acoustic-scale 0.1 -o narrow.ark.gz
    """
    run(partial(limited, max_arcs_per_frame=max_arcs_per_frame, acoustic_scale=acoustic_scale), source, destination)
