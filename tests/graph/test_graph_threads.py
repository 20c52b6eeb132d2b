"""Thread safety of the kernels, which release the interpreter lock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ninja.graph import best_path, from_arcs, nbest, posteriors, prune
from ninja.lattice import Lattice


def random_lattice(seed: int) -> Lattice:
    random = np.random.default_rng(seed)
    num_states = int(random.integers(20, 400))
    src = np.repeat(np.arange(num_states), 5)
    dst = np.minimum(src + random.integers(1, 6, len(src)), num_states)
    word, cost = random.integers(0, 9, len(src)), random.normal(0, 2, len(src))
    return from_arcs(str(seed), src, dst, word, cost, finals={num_states: 0.0}, labels=[[1]] * len(src))


def results(lattice: Lattice) -> tuple[object, ...]:
    pruned, arc_map = prune(lattice, 3.0, return_arc_map=True)
    sequences = [path.words.tolist() for path in nbest(lattice, 20)]
    return arc_map.tolist(), pruned.dst.tolist(), best_path(lattice).arcs.tolist(), sequences, posteriors(lattice).sum()


def test_kernels_give_the_same_results_on_four_threads_as_on_one() -> None:
    lattices = [random_lattice(seed) for seed in range(60)]
    expected = [results(lattice) for lattice in lattices]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(results, lattices * 4)) == expected * 4
