"""Speed of lattice operations: million arcs per second of CPU time on one core, the archive read beforehand.

    python -m benchmarks.kernels graph [ARCHIVE] [--acoustic-scale 1.0] [--output docs/results.md]

The rows with a figure of Kaldi, which includes reading the archive, are written to the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.command import EXAMPLES, KOREAN, argument, command, option, output
from benchmarks.measure import cpu_seconds
from benchmarks.tables import head, put, row, show
from ninja import graph
from ninja.io import read
from ninja.lattice import Lattice, Scales

ARCHIVE = KOREAN / "lat.ark.gz"
REPEATS = 5
KALDI = {
    "prune": 0.27,
    "best path": 0.24,
    "posteriors": 0.35,
    "100-best": 4.86,
}  # CPU seconds of its programs, with reading


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
    yield from head(f"{len(lattices)} lattices, {num_arcs} arcs", "M arcs/s", "CPU s", "Kaldi, CPU s with reading")
    for name, kernel in kernels.items():
        seconds = cpu_seconds(lambda kernel=kernel: list(map(kernel, lattices)), REPEATS)
        kaldi = KALDI.get(name.partition(",")[0], "") if archive == ARCHIVE else ""
        yield row(name, f"{num_arcs / seconds / 1e6:.1f}", f"{seconds:.3f}", kaldi)


@command
@argument("archive", default=ARCHIVE if ARCHIVE.exists() else EXAMPLES / "lat.ark.gz")
@option("--acoustic-scale", default=1.0)
@output
def main(archive: Path, acoustic_scale: float, output: Path | None) -> None:
    lines = show(rows(archive, acoustic_scale))
    put(output, "graph", [*lines[:2], *(line for line in lines[2:] if not line.endswith("|  |"))])
