"""``ninja union`` and ``ninja combine``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from ninja.cli.kaldi.joined import Joined, joins_archives
from ninja.cli.switches import switch
from ninja.errors import LatticeError, OptionError
from ninja.lattice import Lattice


@dataclass(frozen=True, slots=True)
class Uniting:
    """Unites a lattice with those of the same key."""

    acoustic_scale: float
    determinize: bool
    max_arcs: int

    def __call__(self, first: Lattice, others: Sequence[Lattice | None]) -> Lattice:
        """Unite what is there."""
        from ninja.graph import union

        lattices = [first, *(lattice for lattice in others if lattice is not None)]
        try:
            return union(lattices, self.acoustic_scale, determinize=self.determinize, max_arcs=self.max_arcs)
        except LatticeError as error:
            if self.determinize and "more than" in error.message:
                error.message += " (--determinize=false keeps all paths, and needs no such work)"
            raise


@click.command()
@joins_archives("The united lattices", strict=True)
@click.option(
    "--acoustic-scale", type=float, default=1.0, show_default=True, help="Factor of acoustic costs, to compare paths."
)
@switch("--determinize", True, "Keep the best path of each word sequence only.")
@click.option(
    "--max-arcs",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="A union that takes more arcs, or as much work, fails.",
)
def union(
    joined: Joined, output_file: str, acoustic_scale: float, determinize: bool, max_arcs: int, resume: bool
) -> None:
    """Unite the lattices of several archives.

    Each lattice of FIRST is united with those of the same key in the others. A key that another archive
    lacks goes without it, and is listed. Archives in the same order are read once, side by side.

    \b
    Example:
      ninja union den.ark num.ark -o union.ark
    """
    joined.write(output_file, Uniting(acoustic_scale, determinize, max_arcs), resume=resume)


@dataclass(frozen=True, slots=True)
class Combining:
    """Combines the lattices of several systems."""

    weights: tuple[float, ...]
    acoustic_scale: float
    lm_scale: float
    exponents: bool

    def __call__(self, first: Lattice, others: Sequence[Lattice | None]) -> Lattice:
        """Combine what is there; weights of what is not are left out, and the others stay as they are."""
        from ninja.graph import combine

        return combine([first, *others], self.weights, self.acoustic_scale, self.lm_scale, exponents=self.exponents)


@click.command()
@joins_archives("The combined lattices", strict=True)
@click.option("--acoustic-scale", type=float, default=1.0, show_default=True, help="Factor of acoustic costs.")
@click.option(
    "--inv-acoustic-scale", type=float, default=1.0, show_default=True, help="One over --acoustic-scale, instead of it."
)
@click.option("--lm-scale", type=float, default=1.0, show_default=True, help="Factor of graph costs.")
@click.option("--lat-weights", metavar="W:W...", help="Weight of each archive.  [default: all the same]")
@switch("--exp-weights", False, "Weights are exponents of probabilities rather than factors.")
def combine(
    joined: Joined,
    output_file: str,
    acoustic_scale: float,
    inv_acoustic_scale: float,
    lm_scale: float,
    lat_weights: str | None,
    exp_weights: bool,
    resume: bool,
) -> None:
    """Combine the lattices of several systems for consensus decoding.

    The paths of each system's lattice together get the probability of its weight, and all are united. Scales stay in
    the result, of which only the sum of both costs means something: decode it with all scales 1. A key that another
    archive lacks goes without it, and is listed.

    \b
    Example:
      ninja combine a.ark b.ark --acoustic-scale 0.1 --lat-weights 0.6:0.4 -o both.ark
    """
    from ninja.graph.combine import check_weights

    if inv_acoustic_scale != 1.0:
        if acoustic_scale != 1.0 or inv_acoustic_scale == 0.0:
            raise OptionError(f"--inv-acoustic-scale is {inv_acoustic_scale}: give one of both scales, other than 0")
        acoustic_scale = 1.0 / inv_acoustic_scale
    weights = check_weights(_weights(lat_weights), 1 + len(joined.others))
    joined.write(output_file, Combining(weights, acoustic_scale, lm_scale, exp_weights), resume=resume)


def _weights(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(weight) for weight in text.split(":")]
    except ValueError:
        raise OptionError(f"--lat-weights is {text!r}, but must be numbers between colons, as in 0.6:0.4") from None
