"""``ninja convert``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import cast

import click

from ninja.cli.options import output_file, resume
from ninja.cli.reading import Reading, reads_lattices
from ninja.errors import OutputError
from ninja.lattice import Kind, Lattice
from ninja.pipeline import Each


def unchanged(lattice: Lattice) -> Lattice:
    """Return the lattice itself."""
    return lattice


@dataclass(frozen=True, slots=True)
class Image:
    """The function from a lattice to the bytes of an OpenFst file, picklable."""

    acoustic_scale: float

    def __call__(self, lattice: Lattice) -> bytes:
        """Make the FST, its weights the total costs."""
        from ninja.formats.openfst import write_fst

        if os.sep in lattice.key or lattice.key in (".", ".."):
            raise OutputError("the key cannot name a file", key=lattice.key)
        return write_fst(lattice, acoustic_scale=self.acoustic_scale)


@click.command()
@output_file("Archive; .gz is packed; a wspecifier such as ark,t:FILE or ark,scp:FILE,FILE; a folder for openfst")
@click.option(
    "--to",
    type=click.Choice(["binary", "text", "openfst"]),
    default="binary",
    show_default=True,
    help="Kaldi's binary or text form, or an OpenFst file for each lattice.",
)
@click.option(
    "--kind", type=click.Choice(["compact", "raw"]), help="Kaldi's CompactLattice or Lattice.  [default: as read]"
)
@click.option(
    "--acoustic-scale",
    type=float,
    default=1.0,
    show_default=True,
    help="Factor of acoustic costs in an OpenFst file's weights.",
)
@resume
@reads_lattices
def convert(reading: Reading, output_file: str, to: str, kind: str | None, acoustic_scale: float, resume: bool) -> None:
    """Convert lattices between formats.

    What SOURCE holds is found by its content.

    \b
    Examples:
      ninja convert lat.1.gz --to text | less
      ninja convert lat.ark.gz -o ark,scp:lat.ark,lat.scp
      ninja convert lat.ark.gz --to openfst --acoustic-scale 0.1 -o fsts
    """
    if to == "openfst":
        if output_file == "-":
            raise click.UsageError("--to openfst writes a file for each lattice; name a folder with -o")
        if kind is not None or resume:
            raise click.UsageError(f"--to openfst cannot be used with {'--kind' if kind else '--resume'}")
        from ninja.formats.files import opened

        os.makedirs(output_file, exist_ok=True)
        for key, image in reading.results(Each(Image(acoustic_scale))):
            with opened(os.path.join(output_file, f"{key}.fst")) as file:
                file.write(image)
    else:
        if to == "text":
            if is_wspecifier(output_file):
                raise click.UsageError(f"--to text cannot be used with {output_file!r}, which says its form itself")
            output_file = f"ark,t:{output_file}"
        reading.write(output_file, Each(unchanged), resume=resume, kind=cast("Kind | None", kind))
    reading.close(f"{reading.counts.lattices} lattices, {reading.seconds:.1f} s")


def is_wspecifier(target: str) -> bool:
    """Tell whether an output is named in Kaldi's way."""
    return target.partition(":")[0].split(",")[0] in ("ark", "scp") and ":" in target
