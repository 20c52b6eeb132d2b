"""Posteriors of arcs by the forward-backward algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.times import state_times


@dataclass(frozen=True, slots=True, eq=False)
class ForwardBackward:
    """Total costs of paths in the log semiring: −ln of the sum of exp(−cost) over all of them."""

    alpha: npt.NDArray[np.float64]  # [num_states], from the start to the state; +inf if there is no path
    beta: npt.NDArray[np.float64]  # [num_states], from the state to the end; +inf if there is no path
    total: float  # from the start to the end


def posteriors(lattice: Lattice, scales: Scales = Scales()) -> npt.NDArray[np.float64]:
    """Compute the probability that the true path takes each arc: forward-backward over total costs.

    Returns:
        Probabilities in [0, 1], float64 [num_arcs]; 0 for arcs on no complete path.

    Raises:
        LatticeError: No path leads from the start to a final state.

    Source: Kaldi, latbin/lattice-arc-post.cc, for the definition.
    """
    return _graph.posteriors(lattice, scales)


class ProbableArcs(NamedTuple):
    """Arcs of a batch with at least a given posterior, lattice by lattice."""

    begin: npt.NDArray[np.int64]  # [lattices + 1]; the arcs of lattice i are begin[i] : begin[i + 1]
    start: npt.NDArray[np.int32]  # [arcs], frame
    frames: npt.NDArray[np.int32]  # [arcs], duration
    posterior: npt.NDArray[np.float64]  # [arcs]
    word: npt.NDArray[np.int32]  # [arcs]
    label: npt.NDArray[np.int32]  # only with ``labels``; those of arc i are label[label_begin[i] : label_begin[i + 1]]
    label_begin: npt.NDArray[np.int64]  # [arcs + 1]


def probable_arcs(batch: Batch, least: float, scales: Scales = Scales(), *, labels: bool = False) -> ProbableArcs:
    """Find the arcs with at least a given posterior in each lattice of a batch, in their order.

    Raises:
        LatticeError: A lattice has no path from the start to a final state, or its times contradict each other.
    """
    failed, arrays = _graph.probable_arcs(batch, scales, least, labels)
    if failed >= 0:
        posteriors(batch[failed], scales)
        state_times(batch[failed])
        raise AssertionError("neither of the two raised the error")
    return ProbableArcs(*arrays)


def forward_backward(lattice: Lattice, scales: Scales = Scales()) -> ForwardBackward:
    """Compute the total cost of all paths to each state, from each state, and from the start to the end.

    The posterior of an arc is ``exp(total - alpha[src] - cost - beta[dst])``. Errors are those of ``posteriors``.
    """
    return ForwardBackward(*_graph.forward_backward(lattice, scales))
