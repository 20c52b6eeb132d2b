"""``ninja depth`` and ``ninja depth-per-frame``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ninja.cli.options import output_file
from ninja.cli.reading import Reading, reads_lattices
from ninja.parallel.pipeline import Each

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ninja.lattice import Lattice


def crossings(lattice: Lattice) -> npt.NDArray[np.int32]:
    """Count the arcs that cross each frame."""
    from ninja import graph

    return graph.depth_per_frame(lattice)


@click.command()
@output_file("Text file for the depths, or ark:FILE")
@reads_lattices
def depth(reading: Reading, output_file: str) -> None:
    """Print the mean number of arcs that cross a frame of each lattice.

    One line for each: its key and its depth. The depth of all together goes to stderr.

    \b
    Example:
      ninja depth lat.ark.gz
    """
    from ninja.io.number_tables import NumberWriter

    crossed = frames = 0
    with NumberWriter(output_file) as table:
        for key, found in reading.results(Each(crossings), to_stdout=output_file == "-"):
            table.number(key, int(found.sum()) / len(found) if len(found) else 0.0)
            crossed += int(found.sum())
            frames += len(found)
    reading.close(f"{reading.log.lattices} lattices, overall depth {crossed / max(frames, 1):.7g}")


@click.command()
@output_file("Text file for the counts, or ark:FILE")
@reads_lattices
def depth_per_frame(reading: Reading, output_file: str) -> None:
    """Print how many arcs of each lattice cross each frame.

    One line for each: its key and a count for each frame.

    \b
    Example:
      ninja depth-per-frame lat.ark.gz
    """
    from ninja.io.number_tables import NumberWriter

    with NumberWriter(output_file) as table:
        for key, found in reading.results(Each(crossings), to_stdout=output_file == "-"):
            table.integers(key, found)
    reading.close(f"{reading.log.lattices} lattices, {reading.seconds:.1f} s")
