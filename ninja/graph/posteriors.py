"""Forward-backward: posteriors of arcs."""

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
    return _graph.posteriors(lattice, scales)


class ProbableArcs(NamedTuple):
    """Arcs of at least some posterior; those of a batch's lattices one behind the other."""

    begin: npt.NDArray[np.int64]  # [lattices + 1]; the arcs of lattice i are begin[i] : begin[i + 1]
    start: npt.NDArray[np.int32]  # [arcs], frame
    frames: npt.NDArray[np.int32]  # [arcs], how long
    posterior: npt.NDArray[np.float64]  # [arcs]
    word: npt.NDArray[np.int32]  # [arcs]
    label: npt.NDArray[np.int32]  # of all arcs, on request; those of arc i are label_begin[i] : label_begin[i + 1]
    label_begin: npt.NDArray[np.int64]  # [arcs + 1]


def probable_arcs(batch: Batch, least: float, scales: Scales = Scales(), *, labels: bool = False) -> ProbableArcs:
    """Find the arcs of at least some posterior of each lattice of a batch, in their order.

    Raises:
        LatticeError: In a lattice no path leads from the start to a final state, or the times of states contradict.
    """
    failed, arrays = _graph.probable_arcs(batch, scales, least, labels)
    if failed >= 0:
        posteriors(batch[failed], scales)
        state_times(batch[failed])
        raise AssertionError("neither says what is wrong")
    return ProbableArcs(*arrays)


def forward_backward(lattice: Lattice, scales: Scales = Scales()) -> ForwardBackward:
    """Compute the cost of all paths to each state, from each state, and in total.

    An arc's posterior is ``exp(total - alpha[src] - cost - beta[dst])``. Errors are those of ``posteriors``.
    """
    return ForwardBackward(*_graph.forward_backward(lattice, scales))
