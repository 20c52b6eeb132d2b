"""``ninja convert``."""

from __future__ import annotations

from typing import cast

import click

from ninja.cli.options import Destination, command, lattice_output
from ninja.cli.run import run
from ninja.cli.source import Source, reads_lattices
from ninja.io.writer import KALDI, format_of
from ninja.lattice import Kind, Lattice


def unchanged(lattice: Lattice) -> Lattice:
    """Return the lattice itself: readers have sorted its states already."""
    return lattice


@command
@lattice_output()
@click.option("--kind", type=click.Choice(["compact", "raw"]), help="Kind of Kaldi lattice.  [default: as read]")
@reads_lattices
def convert(source: Source, destination: Destination, kind: str | None) -> None:
    """Convert lattices between formats.

    What SOURCE holds is found by its content, what is written by the ending of -o or by --to; docs/formats.md lists
    the formats, their options and what each cannot hold. One lattice a file goes into a folder.

    \b
    Examples:
      ninja convert lat.1.gz --to text | less
      ninja convert lat.ark.gz -o ark,scp:lat.ark,lat.scp
      ninja convert htk_lattices/ -o lat.ark --words words.txt
      ninja convert lat.ark.gz --words words.txt --to slf:base=10 -o htk_lattices
      ninja convert lat.pt -o fsts --to openfst:acoustic_scale=0.1 --lossy refuse
    """
    if kind is not None and (form := format_of(destination.output_file, destination.to)[0].name) not in KALDI:
        raise click.UsageError(f"--kind is of Kaldi's archives and cannot be used with {form}")
    run(unchanged, source, destination, kind=cast("Kind | None", kind))
