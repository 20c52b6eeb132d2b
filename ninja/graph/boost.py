"""Boosting: paths made more probable the more they differ from a reference alignment."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError, OptionError
from ninja.graph.connect import connect
from ninja.graph.scale import check_costs
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen, owners
from ninja.lattice.times import num_frames, state_times

Costs = npt.NDArray[np.float32]


def boost(
    lattice: Lattice,
    alignment: npt.NDArray[np.int32],
    phone_of: npt.NDArray[np.int32],
    b: float = 0.05,
    silence_phones: Collection[int] = (),
    max_silence_error: float = 0.0,
) -> Lattice:
    """Lower graph costs by ``b`` for each frame whose phone is not the reference's (boosted MMI).

    Args:
        lattice: The lattice; its labels are transition ids.
        alignment: Transition id of each frame of the reference, int32 [num_frames].
        phone_of: Phone of each transition id, int32 [num_transition_ids + 1]; the first is not used.
        b: Boosting factor.
        silence_phones: Phones of which a wrong one counts only ``max_silence_error``.
        max_silence_error: Error of a wrong silence phone, from 0 (the paper's) to 1 (no special treatment).

    Returns:
        The connected lattice with other graph costs.

    Raises:
        OptionError: ``b`` or ``max_silence_error`` is out of its range.
        LatticeError: A transition id the model lacks, a path without the reference's frames, or a cost too large.

    Source: Povey et al. 2008, "Boosted MMI for model and feature-space discriminative training"; Kaldi,
    lat/lattice-functions.cc, LatticeBoost.
    """
    if not math.isfinite(b):
        raise OptionError(f"b is {b}, but must be finite")
    if not 0.0 <= max_silence_error <= 1.0:
        raise OptionError(f"max_silence_error is {max_silence_error}, but must be between 0 and 1")
    lattice = connect(lattice)
    by_labels = lattice.replace(time=None)  # the labels are what is compared, not times that a format gave
    frames, time = num_frames(by_labels), state_times(by_labels)
    if frames != len(alignment):
        raise LatticeError(f"the lattice has {frames} frames, but the alignment {len(alignment)}", key=lattice.key)
    ends = np.flatnonzero(lattice.is_final)
    if (time[ends] + np.diff(lattice.final_ali_begin)[ends] != frames).any():
        raise LatticeError(f"not all paths have the {frames} frames of the alignment", key=lattice.key)
    for name, ids in (("lattice", lattice.ali), ("lattice", lattice.final_ali), ("alignment", alignment)):
        bad = np.flatnonzero((ids < 1) | (ids >= len(phone_of)))
        if bad.size:
            raise LatticeError(
                f"the {name} has the transition id {ids[bad[0]]}, but the model's are 1 to {len(phone_of) - 1}; "
                "is it the right model?",
                key=lattice.key,
            )
    reference = phone_of[alignment]
    silences = np.asarray(sorted(silence_phones), np.int64)

    def boosted(cost: Costs, begin: npt.NDArray[np.int64], ids: npt.NDArray[np.int32], start: Any) -> Costs:
        """Take b from a cost for each error in its stretch of labels, which starts at a frame."""
        owner = owners(begin)
        frame = start[owner] + np.arange(ids.size) - begin[owner]
        phone = phone_of[ids]
        error = np.where(np.isin(phone, silences), max_silence_error, 1.0) * (phone != reference[frame])
        with np.errstate(over="ignore"):  # told by its result
            return frozen(cost - b * np.bincount(owner, error, start.size), np.float32)

    final_graph = boosted(lattice.final_graph, lattice.final_ali_begin, lattice.final_ali, time)
    graph = boosted(lattice.graph, lattice.ali_begin, lattice.ali, time[lattice.src])
    return check_costs(lattice.replace(graph=graph, final_graph=final_graph), lattice)
