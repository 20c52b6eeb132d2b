"""Arc posteriors, computed with the forward-backward algorithm."""

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
    """Total costs of sets of paths in the log semiring: −ln of the sum of exp(−cost) over the paths in a set."""

    alpha: npt.NDArray[np.float64]  # [num_states], cost of the paths from the start to the state; +inf if none
    beta: npt.NDArray[np.float64]  # [num_states], cost of the paths from the state to a final state; +inf if none
    total: float  # cost of all paths from the start to a final state


def posteriors(lattice: Lattice, scales: Scales = Scales()) -> npt.NDArray[np.float64]:
    """Compute the posterior of each arc: the probability that the arc is on the true path, based on total costs.

    Returns:
        Probabilities in [0, 1], float64 [num_arcs]; 0 for arcs that are on no complete path.

    Raises:
        LatticeError: No path leads from the start to a final state.

    Source: Kaldi, latbin/lattice-arc-post.cc, for the definition.
    """
    return _graph.posteriors(lattice, scales)[0]


class PathPosteriors(NamedTuple):
    """Probabilities that the true path contains an arc, ends in a state, or contains a state.

    The probability of a state is the probability of ending there plus the probabilities of the arcs that leave it.
    """

    arc: npt.NDArray[np.float64]  # [num_arcs], probability that the true path contains the arc
    final: npt.NDArray[np.float64]  # [num_states], probability that the true path ends in the state
    state: npt.NDArray[np.float64]  # [num_states], probability that the true path contains the state

    def conditional(self, state: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        """Return the probability of each arc, given that the true path contains the arc's source or destination.

        Args:
            state: The source or the destination of each arc, [num_arcs].
        """
        total = self.state[state]
        return np.divide(self.arc, total, out=np.zeros_like(total), where=total > 0.0)


def path_posteriors(lattice: Lattice, scales: Scales = Scales()) -> PathPosteriors:
    """Compute the posteriors of arcs, final states and states; see `posteriors`."""
    of_arc, of_final = _graph.posteriors(lattice, scales)
    return PathPosteriors(of_arc, of_final, np.bincount(lattice.src, of_arc, lattice.num_states) + of_final)


class ProbableArcs(NamedTuple):
    """The arcs of a batch whose posteriors reach a threshold, grouped by lattice."""

    begin: npt.NDArray[np.int64]  # [num_lattices + 1]; the arcs of lattice i are begin[i] : begin[i + 1]
    start: npt.NDArray[np.int32]  # [num_arcs], first frame
    frames: npt.NDArray[np.int32]  # [num_arcs], duration in frames
    posterior: npt.NDArray[np.float64]  # [num_arcs]
    word: npt.NDArray[np.int32]  # [num_arcs]
    label: npt.NDArray[np.int32]  # empty without ``labels``; arc i has label[label_begin[i] : label_begin[i + 1]]
    label_begin: npt.NDArray[np.int64]  # [num_arcs + 1]


def probable_arcs(batch: Batch, least: float, scales: Scales = Scales(), *, labels: bool = False) -> ProbableArcs:
    """Find the arcs with a posterior of at least `least` in each lattice of a batch; arcs keep their order.

    Args:
        batch: Lattices with times.
        least: Minimum posterior of the returned arcs.
        scales: Scales that define the total cost.
        labels: Also return the alignment labels of the arcs.

    Raises:
        LatticeError: A lattice has no path from the start to a final state, or its times are inconsistent.
    """
    failed, arrays = _graph.probable_arcs(batch, scales, least, labels)
    if failed >= 0:
        posteriors(batch[failed], scales)
        state_times(batch[failed])
        raise AssertionError("a kernel reported that a lattice failed, but returned no error")
    return ProbableArcs(*arrays)


def forward_backward(lattice: Lattice, scales: Scales = Scales()) -> ForwardBackward:
    """Compute the total cost of all paths to each state, of all paths from each state, and of all complete paths.

    The posterior of an arc is ``exp(total - alpha[src] - cost - beta[dst])``.

    Raises:
        LatticeError: No path leads from the start to a final state.
    """
    return ForwardBackward(*_graph.forward_backward(lattice, scales))
