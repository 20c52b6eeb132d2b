"""Random paths through a lattice."""

from __future__ import annotations

import numpy as np

from ninja import _graph
from ninja.errors import OptionError
from ninja.graph.connect import connect
from ninja.lattice import Lattice


def random_paths(lattice: Lattice, n: int, seed: int = 0) -> list[Lattice]:
    """Draw n paths, each as a lattice: at every state all ways on are equally probable, whatever they cost.

    The same path may be drawn again. The same seed and key give the same paths.

    Raises:
        OptionError: ``n`` is below 1.
        LatticeError: No path leads from the start to a final state.

    Source: OpenFst, randgen.h, UniformArcSelector, as Kaldi's lattice-to-nbest ``--random`` uses it.
    """
    if n < 1:
        raise OptionError(f"n is {n}, but must be 1 or more")
    whole = connect(lattice)
    final = whole.is_final
    random = np.random.default_rng([seed % 2**32, *whole.key.encode("utf-8", "surrogateescape")])
    drawn = []
    for _ in range(n):
        state, arcs = 0, []
        while True:
            begin, end = int(whole.arc_begin[state]), int(whole.arc_begin[state + 1])
            chosen = begin + int(random.integers(end - begin + bool(final[state])))
            if chosen == end:
                break
            arcs.append(chosen)
            state = int(whole.dst[chosen])
        drawn.append(_graph.path_lattice(whole, np.asarray(arcs, np.int64)))
    return drawn
