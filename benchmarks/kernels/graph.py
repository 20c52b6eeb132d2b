"""Speed of lattice operations: million arcs per second of CPU time on one core, the archive read beforehand.

python -m benchmarks.kernels graph ../shared/data/korean/lat.ark.gz --acoustic-scale 1.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.command import EXAMPLES, KOREAN, argument, command, option
from benchmarks.measure import cpu_seconds
from benchmarks.tables import head, row, show
from ninja import graph
from ninja.io import read
from ninja.lattice import Lattice, Scales

ARCHIVE = KOREAN / "lat.ark.gz"
REPEATS = 5


def rows(archive: Path, scale: float) -> Iterator[str]:
    """Measure; yield the rows of the table."""
    lattices = [lattice for _, lattice in read(archive)]
    num_arcs, scales = sum(lattice.num_arcs for lattice in lattices), Scales(scale)
    kernels: dict[str, Callable[[Lattice], object]] = {
        **{f"prune, beam {beam}": partial(graph.prune, beam=beam, scales=scales) for beam in (4, 6, 10)},
        "connect": graph.connect,
        "best path": partial(graph.best_path, scales=scales),
        "posteriors": partial(graph.posteriors, scales=scales),
        "forward-backward": partial(graph.forward_backward, scales=scales),
        "depth limit 10": lambda lattice: graph.limit_depth(lattice, 10, scale),
        "100-best": lambda lattice: graph.nbest(lattice, 100, scales),
    }
    yield from head(f"{len(lattices)} lattices, {num_arcs} arcs", "CPU s", "M arcs/s", "µs a lattice")
    for name, kernel in kernels.items():
        seconds = cpu_seconds(lambda kernel=kernel: list(map(kernel, lattices)), REPEATS)
        yield row(name, f"{seconds:.4f}", f"{num_arcs / seconds / 1e6:.1f}", f"{seconds / len(lattices) * 1e6:.1f}")


@command
@argument("archive", default=ARCHIVE if ARCHIVE.exists() else EXAMPLES / "lat.ark.gz")
@option("--acoustic-scale", default=1.0)
def main(archive: Path, acoustic_scale: float) -> None:
    show(rows(archive, acoustic_scale))
