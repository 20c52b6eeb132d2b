"""Speed of the graph kernels: million arcs per second of CPU time on one core, the archive read beforehand.

Example:
    python -m benchmarks.bench_graph ../shared/data/korean/lat.ark.gz --acoustic-scale 1.0
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ninja import graph
from ninja.lattice import Lattice, Scales

REPEATS = 5
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "korean" / "lat.ark.gz"


def invented(count: int = 300) -> list[Lattice]:
    """Make lattices of about the size and shape of a real archive's, for where none is at hand."""
    random = np.random.default_rng(0)
    lattices = []
    for number in range(count):
        num_states = int(random.integers(40, 250))
        src = np.repeat(np.arange(num_states), 4)
        dst = np.minimum(src + random.integers(1, 9, len(src)), num_states)
        labels = [[1] * int(12 * (end - begin)) for begin, end in zip(src, dst, strict=True)]
        graph_cost, acoustic = random.normal(8, 1, len(src)), random.normal(0, 1, len(src))
        word = random.integers(1, 50000, len(src))
        lattice = graph.from_arcs(
            f"invented-{number}", src, dst, word, graph_cost, acoustic, finals={num_states: 0.0}, labels=labels
        )
        lattices.append(graph.connect(lattice))
    return lattices


def cpu_seconds(kernel: Callable[[Lattice], object], lattices: list[Lattice], repeats: int) -> float:
    """Least CPU time of this thread for all lattices, over some repeats."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.thread_time()
        for lattice in lattices:
            kernel(lattice)
        best = min(best, time.thread_time() - begin)
    return best


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", nargs="?", default=str(SHARED), help="lattices to measure on")
    parser.add_argument("--acoustic-scale", type=float, default=1.0)
    options = parser.parse_args(arguments)
    scale = options.acoustic_scale
    if Path(options.archive).exists():
        from ninja.io import read

        lattices = [lattice for _, lattice in read(options.archive)]
    else:
        print(f"{options.archive} is not here: measuring on invented lattices")
        lattices = invented()
    num_arcs = sum(lattice.num_arcs for lattice in lattices)
    print(f"{len(lattices)} lattices, {num_arcs} arcs, acoustic scale {scale}")

    kernels: dict[str, Callable[[Lattice], object]] = {
        "prune, beam 4": lambda lattice: graph.prune(lattice, 4.0, Scales(scale)),
        "prune, beam 6": lambda lattice: graph.prune(lattice, 6.0, Scales(scale)),
        "prune, beam 10": lambda lattice: graph.prune(lattice, 10.0, Scales(scale)),
        "connect": graph.connect,
        "best path": lambda lattice: graph.best_path(lattice, Scales(scale)),
        "posteriors": lambda lattice: graph.posteriors(lattice, Scales(scale)),
        "forward-backward": lambda lattice: graph.forward_backward(lattice, Scales(scale)),
        "depth limit 10": lambda lattice: graph.limit_depth(lattice, 10, scale),
        "100-best": lambda lattice: graph.nbest(lattice, 100, Scales(scale)),
    }
    for name, kernel in kernels.items():
        seconds = cpu_seconds(kernel, lattices, REPEATS)
        each = seconds / len(lattices) * 1e6
        print(f"{name:18} {seconds:8.4f} CPU s {num_arcs / seconds / 1e6:8.1f} M arcs/s {each:8.1f} µs a lattice")


if __name__ == "__main__":
    main()
