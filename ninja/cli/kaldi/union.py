"""``ninja union`` and ``ninja combine``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ninja import graph
from ninja.cli import options
from ninja.cli.kaldi.joined import Joined, joins_archives
from ninja.cli.kaldi.options import lat_weights_option
from ninja.cli.options import Destination, command, switch
from ninja.errors import LatticeError
from ninja.graph.combine import check_weights
from ninja.lattice import Lattice, Scales


@command
@options.acoustic_scale
@switch("--determinize", True, "Keep the best path of each word sequence only.")
@click.option("--max-arcs", type=click.IntRange(1), default=1_000_000, help="Fail unions of more arcs.")
@joins_archives("The united lattices", strict=True)
def union(joined: Joined, destination: Destination, acoustic_scale: float, determinize: bool, max_arcs: int) -> None:
    """Unite the lattices of several archives.

    Each lattice of FIRST is united with those of the same key in the others. A key that another archive
    lacks goes without it, and is listed. Archives in the same order are read once, side by side.

    \b
    Example:
      ninja union den.ark num.ark -o union.ark
    """

    def united(first: Lattice, others: Sequence[Lattice | None]) -> Lattice:
        lattices = [first, *(lattice for lattice in others if lattice is not None)]
        try:
            return graph.union(lattices, acoustic_scale, determinize=determinize, max_arcs=max_arcs)
        except LatticeError as error:
            if determinize and "more than" in error.message:
                error.message += " (--determinize=false keeps all paths, and needs no such work)"
            raise

    joined.write(united, destination)


@command
@options.acoustic_scale
@options.inv_acoustic_scale
@options.lm_scale
@lat_weights_option
@switch("--exp-weights", False, "Weights are exponents of probabilities rather than factors.")
@joins_archives("The combined lattices", strict=True)
def combine(
    joined: Joined,
    destination: Destination,
    acoustic_scale: float,
    lm_scale: float,
    lat_weights: tuple[float, ...] | None,
    exp_weights: bool,
) -> None:
    """Combine the lattices of several systems for consensus decoding.

    The paths of each system's lattice together get the probability of its weight, and all are united. Scales stay in
    the result, of which only the sum of both costs means something: decode it with all scales 1. A key that another
    archive lacks goes without it, and is listed.

    \b
    Example:
      ninja combine a.ark b.ark --acoustic-scale 0.1 --lat-weights 0.6:0.4 -o both.ark
    """
    weights = check_weights(lat_weights, 1 + len(joined.others))

    def combined(first: Lattice, others: Sequence[Lattice | None]) -> Lattice:
        return graph.combine([first, *others], weights, Scales(acoustic_scale, lm_scale), exponents=exp_weights)

    joined.write(combined, destination)
