"""``ninja scale``, ``ninja add-penalty`` and ``ninja limit-depth``: costs changed, and what follows from them."""

from __future__ import annotations

from functools import partial

import click

from ninja.cli.options import lattice_output, resume
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import rewrite
from ninja.errors import LatticeError
from ninja.lattice import Lattice


@click.command()
@lattice_output()
@click.option("--acoustic-scale", type=float, default=1.0, show_default=True, help="Factor of acoustic costs.")
@click.option("--inv-acoustic-scale", type=float, default=1.0, show_default=True, help="Its inverse, given instead.")
@click.option("--lm-scale", type=float, default=1.0, show_default=True, help="Factor of graph costs.")
@click.option(
    "--acoustic2lm-scale",
    type=float,
    default=0.0,
    show_default=True,
    help="Share of the acoustic costs, as they were, that is added to the graph costs.",
)
@click.option(
    "--lm2acoustic-scale",
    type=float,
    default=0.0,
    show_default=True,
    help="Share of the graph costs, as they were, that is added to the acoustic costs.",
)
@resume
@reads_lattices
def scale(
    reading: Reading,
    output_file: str,
    acoustic_scale: float,
    inv_acoustic_scale: float,
    lm_scale: float,
    acoustic2lm_scale: float,
    lm2acoustic_scale: float,
    resume: bool,
) -> None:
    """Multiply the costs of lattices, or mix graph and acoustic ones.

    Unlike the scales of other commands, these change the costs that are written.

    \b
    Example:
      ninja scale lat.ark.gz --lm-scale 0.7 --acoustic-scale 1.3 -o scaled.ark.gz
    """
    from ninja import graph

    if inv_acoustic_scale != 1.0:
        if acoustic_scale != 1.0:
            raise click.UsageError("--acoustic-scale cannot be used with --inv-acoustic-scale")
        if inv_acoustic_scale == 0.0:
            raise click.UsageError("--inv-acoustic-scale is 0, which has no inverse")
        acoustic_scale = 1.0 / inv_acoustic_scale
    scaled = partial(
        graph.scale,
        graph_scale=lm_scale,
        acoustic_scale=acoustic_scale,
        acoustic2lm_scale=acoustic2lm_scale,
        lm2acoustic_scale=lm2acoustic_scale,
    )
    rewrite(reading, output_file, scaled, resume=resume)


@click.command()
@lattice_output()
@click.option(
    "--word-ins-penalty", type=float, default=0.0, show_default=True, help="Natural-log cost added for each word."
)
@resume
@reads_lattices
def add_penalty(reading: Reading, output_file: str, word_ins_penalty: float, resume: bool) -> None:
    """Add a word insertion penalty to the graph costs of lattices.

    \b
    Example:
      ninja add-penalty lat.ark.gz --word-ins-penalty 0.5 -o paying.ark.gz
    """
    from ninja import graph

    rewrite(reading, output_file, partial(graph.add_word_penalty, penalty=word_ins_penalty), resume=resume)


def limited(lattice: Lattice, max_arcs_per_frame: int, acoustic_scale: float) -> Lattice:
    """Limit the depth of a lattice that tells where its frames are."""
    from ninja import graph
    from ninja.lattice.times import is_timed

    if lattice.num_arcs and not is_timed(lattice):
        raise LatticeError("it has neither alignments nor times, so that no arc crosses any frame", key=lattice.key)
    return graph.limit_depth(lattice, max_arcs_per_frame, acoustic_scale)


@click.command()
@lattice_output()
@click.option(
    "--max-arcs-per-frame",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Arcs that may cross a frame; the best ones stay.",
)
@click.option(
    "--acoustic-scale", type=float, default=1.0, show_default=True, help="Factor of acoustic costs where arcs compete."
)
@resume
@reads_lattices
def limit_depth(
    reading: Reading, output_file: str, max_arcs_per_frame: int, acoustic_scale: float, resume: bool
) -> None:
    """Limit how many arcs of a lattice cross any frame.

    Costs are written as they were.

    \b
    Example:
      ninja limit-depth lat.ark.gz --max-arcs-per-frame 50 --acoustic-scale 0.1 -o narrow.ark.gz
    """
    limit = partial(limited, max_arcs_per_frame=max_arcs_per_frame, acoustic_scale=acoustic_scale)
    rewrite(reading, output_file, limit, resume=resume)
