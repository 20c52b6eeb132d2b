"""Forward-backward: posteriors of arcs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.lattice import Lattice, Scales


@dataclass(frozen=True, slots=True, eq=False)
class ForwardBackward:
    """Costs of all paths together, in the log semiring: −ln of the sum of exp(−cost) over them."""

    alpha: npt.NDArray[np.float64]  # [num_states], from the start to the state; +inf: no path
    beta: npt.NDArray[np.float64]  # [num_states], from the state to the end; +inf: no path
    total: float  # from the start to the end


def posteriors(lattice: Lattice, scales: Scales = Scales()) -> npt.NDArray[np.float64]:
    """Compute the probability that the true path takes each arc: forward-backward over total costs.

    Returns:
        Probabilities in [0, 1], float64 [num_arcs]; 0 on arcs that no whole path takes.

    Raises:
        LatticeError: No path leads from the start to a final state.

    Source: Kaldi, latbin/lattice-arc-post.cc, for what is computed.
    """
    return _graph.posteriors(lattice, scales.acoustic, scales.lm, scales.word_penalty)


def forward_backward(lattice: Lattice, scales: Scales = Scales()) -> ForwardBackward:
    """Compute the cost of all paths to each state, from each state, and in total.

    An arc's posterior is ``exp(total - alpha[src] - cost - beta[dst])``. Errors are those of ``posteriors``.
    """
    return ForwardBackward(*_graph.forward_backward(lattice, scales.acoustic, scales.lm, scales.word_penalty))
