"""``ninja depth`` and ``ninja depth-per-frame``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja import graph
from ninja.cli.options import command, output_file
from ninja.cli.run import results
from ninja.cli.source import Source, reads_lattices
from ninja.io.number_tables import NumberWriter
from ninja.lattice import Lattice
from ninja.parallel.pipeline import Each


def crossings(lattice: Lattice) -> npt.NDArray[np.int32]:
    """Count the arcs that cross each frame."""
    return graph.depth_per_frame(lattice)


@command
@output_file("Text file for the depths, or ark:FILE")
@reads_lattices
def depth(source: Source, output_file: str) -> None:
    """Print the mean number of arcs that cross a frame of each lattice.

    One line for each: its key and its depth. The depth of all together goes to stderr.

    \b
    Example:
      ninja depth lat.ark.gz
    """
    crossed = frames = 0
    with NumberWriter(output_file) as table:
        for key, found in results(Each(crossings), source, to_stdout=output_file == "-"):
            table.number(key, int(found.sum()) / len(found) if len(found) else 0.0)
            crossed += int(found.sum())
            frames += len(found)
    source.console.close(f"{source.console.log.lattices} lattices, overall depth {crossed / max(frames, 1):.7g}")


@command
@output_file("Text file for the counts, or ark:FILE")
@reads_lattices
def depth_per_frame(source: Source, output_file: str) -> None:
    """Print how many arcs of each lattice cross each frame.

    One line for each: its key and a count for each frame.

    \b
    Example:
      ninja depth-per-frame lat.ark.gz
    """
    with NumberWriter(output_file) as table:
        for key, found in results(Each(crossings), source, to_stdout=output_file == "-"):
            table.integers(key, found)
    source.console.close_counting()
