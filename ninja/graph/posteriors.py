"""Forward-backward: how probable arcs are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.graph.scale import check_scales
from ninja.lattice import Lattice


@dataclass(frozen=True, slots=True, eq=False)
class ForwardBackward:
    """Costs of all paths together, in the log semiring: −ln of the sum of exp(−cost) over them."""

    alpha: npt.NDArray[np.float64]  # [num_states], from the start to the state; +inf: no path
    beta: npt.NDArray[np.float64]  # [num_states], from the state to the end; +inf: no path
    total: float  # from the start to the end


def posteriors(
    lattice: Lattice, acoustic_scale: float = 1.0, lm_scale: float = 1.0, word_penalty: float = 0.0
) -> npt.NDArray[np.float64]:
    """Compute the probability that the true path takes each arc.

    Forward-backward in the log semiring over ``acoustic_scale * acoustic + lm_scale * graph``.

    Args:
        lattice: The lattice.
        acoustic_scale: Factor of acoustic costs; smaller flattens.
        lm_scale: Factor of graph costs.
        word_penalty: Cost added for each word.

    Returns:
        Probabilities in [0, 1], float64 [num_arcs]; 0 on arcs that no whole path takes.

    Raises:
        OptionError: A scale or the penalty is not finite.
        LatticeError: No path leads from the start to a final state.

    Source: Kaldi, latbin/lattice-arc-post.cc, for what is computed.
    """
    check_scales(acoustic_scale, lm_scale, word_penalty)
    return _graph.posteriors(lattice, acoustic_scale, lm_scale, word_penalty)


def forward_backward(
    lattice: Lattice, acoustic_scale: float = 1.0, lm_scale: float = 1.0, word_penalty: float = 0.0
) -> ForwardBackward:
    """Compute the cost of all paths to each state, from each state, and in total.

    Arguments and errors are those of ``posteriors``; an arc's posterior is
    ``exp(total - alpha[src] - cost - beta[dst])``.
    """
    check_scales(acoustic_scale, lm_scale, word_penalty)
    return ForwardBackward(*_graph.forward_backward(lattice, acoustic_scale, lm_scale, word_penalty))
