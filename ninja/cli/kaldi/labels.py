"""``ninja project``, ``rmali``, ``reverse`` and ``topsort``: the same costs, other labels or another order."""

from __future__ import annotations

from functools import partial

import click

from ninja.cli.options import lattice_output, resume
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import rewrite, switch
from ninja.lattice import Lattice


@click.command()
@lattice_output()
@switch("--project-output", True, "Keep the words, else the transition ids.")
@resume
@reads_lattices
def project(reading: Reading, output_file: str, project_output: bool, resume: bool) -> None:
    """Make lattices of words alone, or of transition ids alone.

    Each arc of the result has the same number as word and as transition id, as in Kaldi's Lattice.

    \b
    Examples:
      ninja project lat.ark.gz -o words.ark.gz
      ninja project lat.ark.gz --project-output=false -o ids.ark.gz
    """
    rewrite(reading, output_file, partial(projected, project_output=project_output), resume=resume)


def projected(lattice: Lattice, *, project_output: bool) -> Lattice:
    """Make a lattice of words or of labels, if it has any."""
    from ninja import graph
    from ninja.lattice.times import check_labelled

    if not project_output:
        check_labelled(lattice)
    return graph.project(lattice, project_output=project_output)


@click.command()
@lattice_output()
@resume
@reads_lattices
def rmali(reading: Reading, output_file: str, resume: bool) -> None:
    """Remove the alignments of lattices.

    Times are lost with them.

    \b
    Example:
      ninja rmali lat.ark.gz -o small.ark.gz
    """
    from ninja import graph

    rewrite(reading, output_file, graph.remove_alignments, resume=resume, kind="compact")


@click.command()
@lattice_output()
@resume
@reads_lattices
def reverse(reading: Reading, output_file: str, resume: bool) -> None:
    """Reverse lattices, for language models that read backwards.

    \b
    Example:
      ninja reverse lat.ark.gz -o backwards.ark.gz
    """
    from ninja import graph

    rewrite(reading, output_file, graph.reverse, resume=resume)


def unchanged(lattice: Lattice) -> Lattice:
    """Return the lattice itself: readers have sorted its states already."""
    return lattice


@click.command()
@lattice_output()
@resume
@reads_lattices
def topsort(reading: Reading, output_file: str, resume: bool) -> None:
    """Sort the states of lattices topologically.

    A lattice with a cycle is reported and left out. Every other command writes sorted lattices, too.

    \b
    Example:
      ninja topsort lat.ark.gz -o sorted.ark.gz
    """
    rewrite(reading, output_file, unchanged, resume=resume)
