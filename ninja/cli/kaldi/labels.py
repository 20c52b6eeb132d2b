"""``ninja project``, ``rmali``, ``reverse`` and ``topsort``: the same costs, other labels or another order."""

from __future__ import annotations

from functools import partial

from ninja import graph
from ninja.cli.convert import unchanged
from ninja.cli.options import Destination, command, lattice_output, switch
from ninja.cli.run import run
from ninja.cli.source import Source, reads_lattices
from ninja.lattice import Lattice
from ninja.lattice.times import check_labelled


@command
@switch("--project-output", True, "Keep the words, else the transition ids.")
@lattice_output()
@reads_lattices
def project(source: Source, destination: Destination, project_output: bool) -> None:
    """Make lattices of words alone, or of transition ids alone.

    Each arc of the result has the same number as word and as transition id, as in Kaldi's Lattice.

    \b
    Examples:
      ninja project lat.ark.gz -o words.ark.gz
      ninja project lat.ark.gz --project-output=false -o ids.ark.gz
    """
    run(partial(projected, project_output=project_output), source, destination)


def projected(lattice: Lattice, *, project_output: bool) -> Lattice:
    """Make a lattice of words or of labels, if it has any."""
    if not project_output:
        check_labelled(lattice)
    return graph.project(lattice, project_output=project_output)


@command
@lattice_output()
@reads_lattices
def rmali(source: Source, destination: Destination) -> None:
    """Remove the alignments of lattices.

    Times are lost with them.

    \b
    Example:
      ninja rmali lat.ark.gz -o small.ark.gz
    """
    run(graph.remove_alignments, source, destination, kind="compact")


@command
@lattice_output()
@reads_lattices
def reverse(source: Source, destination: Destination) -> None:
    """Reverse lattices, for language models that read backwards.

    \b
    Example:
      ninja reverse lat.ark.gz -o backwards.ark.gz
    """
    run(graph.reverse, source, destination)


@command
@lattice_output()
@reads_lattices
def topsort(source: Source, destination: Destination) -> None:
    """Sort the states of lattices topologically.

    A lattice with a cycle is reported and left out. Every other command writes sorted lattices, too.

    \b
    Example:
      ninja topsort lat.ark.gz -o sorted.ark.gz
    """
    run(unchanged, source, destination)
