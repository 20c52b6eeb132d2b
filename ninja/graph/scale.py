"""Scales and penalties: checked where they are arguments, applied where a lattice with other costs is wanted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError
from ninja.lattice import Lattice
from ninja.symbols import EPSILON

Costs = npt.NDArray[np.float32]


def check_scales(acoustic_scale: float, lm_scale: float = 1.0, word_penalty: float = 0.0) -> None:
    """Refuse scales and penalties that are not finite.

    Raises:
        OptionError: Names the option and its value.
    """
    if math.isfinite(acoustic_scale + lm_scale + word_penalty):
        return
    for name, value in (("acoustic_scale", acoustic_scale), ("lm_scale", lm_scale), ("word_penalty", word_penalty)):
        if not math.isfinite(value):
            raise OptionError(f"{name} is {value}, but must be finite")
    raise OptionError(f"acoustic_scale {acoustic_scale}, lm_scale {lm_scale}, word_penalty {word_penalty}: too large")


def scale(lattice: Lattice, graph_scale: float = 1.0, acoustic_scale: float = 1.0) -> Lattice:
    """Multiply the graph and acoustic costs of arcs and final states.

    Args:
        lattice: The lattice.
        graph_scale: Factor of graph costs; may be negative, as when an old LM is taken out.
        acoustic_scale: Factor of acoustic costs.

    Returns:
        The same lattice with other costs.

    Raises:
        OptionError: A scale is not finite.

    Source: Kaldi, lattice-scale (``--lm-scale``, ``--acoustic-scale``).
    """
    check_scales(acoustic_scale, graph_scale)
    is_final = lattice.is_final
    return replace(
        lattice,
        graph=_times(lattice.graph, graph_scale),
        acoustic=_times(lattice.acoustic, acoustic_scale),
        final_graph=_times(lattice.final_graph, graph_scale, is_final),
        final_acoustic=_times(lattice.final_acoustic, acoustic_scale, is_final),
    )


def add_word_penalty(lattice: Lattice, penalty: float) -> Lattice:
    """Add a penalty to the graph cost of every arc that carries a word.

    Args:
        lattice: The lattice.
        penalty: Natural-log cost per word; positive values make for fewer words.

    Returns:
        The same lattice with other graph costs.

    Raises:
        OptionError: The penalty is not finite.

    Source: Kaldi, lattice-add-penalty (``--word-ins-penalty``).
    """
    check_scales(1.0, 1.0, penalty)
    return lattice.with_costs(lattice.graph + np.where(lattice.word != EPSILON, np.float32(penalty), np.float32(0)))


def _times(cost: Costs, factor: float, finite: npt.NDArray[np.bool_] | None = None) -> Costs:
    """Multiply in double precision, leaving the infinite costs of other than final states as they are."""
    if finite is None:
        product = (cost * np.float64(factor)).astype(np.float32)
    else:
        product = np.where(finite, np.where(finite, cost, 0) * np.float64(factor), np.inf).astype(np.float32)
    product.flags.writeable = False
    return product
