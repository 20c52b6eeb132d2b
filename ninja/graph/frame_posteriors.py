"""Posteriors of labels at each frame, and their share in the expected accuracy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError, OptionError
from ninja.graph.connect import connect
from ninja.graph.posteriors import forward_backward, posteriors
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import owners
from ninja.lattice.times import num_frames, state_times
from ninja.lattice.transition_model import TransitionModel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class FramePosteriors:
    """Labels (transition ids) of each frame and their posteriors."""

    begin: npt.NDArray[np.int64]  # [num_frames + 1]; entries of frame t are begin[t] : begin[t + 1]
    label: Ints  # rising within a frame
    posterior: Floats  # not 0; of accuracies either sign
    total: float  # log-likelihood of all paths together, natural log; or the expected accuracy, frames


def frame_posteriors(lattice: Lattice, scales: Scales = Scales()) -> FramePosteriors:
    """Compute the probability that the true path has each label at each frame.

    Returns:
        Probabilities, which sum to 1 at each frame that all paths have, and the log-likelihood.

    Raises:
        LatticeError: No path leads from the start to a final state, or the times contradict each other.

    Source: Kaldi, lat/lattice-functions.cc, LatticeForwardBackward.
    """
    lattice = connect(lattice)
    costs = forward_backward(lattice, scales)
    of_final = np.exp(costs.total - costs.alpha - _final_costs(lattice, scales))
    of_arc = posteriors(lattice, scales)
    return _by_frame(lattice, of_arc, of_final, -costs.total)


def accuracy_posteriors(
    lattice: Lattice,
    alignment: Ints,
    model: TransitionModel,
    criterion: Literal["mpfe", "smbr"],
    scales: Scales = Scales(),
    silence_phones: Collection[int] = (),
    *,
    one_silence_class: bool = False,
) -> FramePosteriors:
    """Compute by how much each label at each frame makes paths better than all paths are, in frames that are right.

    Args:
        lattice: The lattice; its labels are transition ids.
        alignment: Transition id of each frame of the reference, int32 [num_frames].
        model: What transition ids stand for.
        criterion: A frame is right if its phone is the reference's ("mpfe"), or its density ("smbr").
        silence_phones: Phones of which a frame is never right.
        one_silence_class: Such a frame is right where the reference has any of them.

    Returns:
        Posteriors of either sign, and the expected number of right frames.

    Raises:
        LatticeError: A transition id the model lacks, an alignment of another length than a path, no path at all.

    Source: Povey 2003, "Discriminative training for large vocabulary speech recognition", chapter 6; Kaldi,
    lat/lattice-functions.cc, LatticeForwardBackwardMpeVariants.
    """
    if criterion not in ("mpfe", "smbr"):
        raise OptionError(f"criterion is {criterion!r}, but must be one of mpfe, smbr")
    lattice = connect(lattice).replace(time=None)  # frames are counted by labels, whatever a format says
    model.check(lattice)
    if bad := [each for each in alignment.tolist() if not 1 <= each <= model.num_transition_ids]:
        raise model.refusal(lattice.key, bad[0], "the alignment")
    time = state_times(lattice)
    ends = np.flatnonzero(lattice.is_final)
    if (time[ends] + np.diff(lattice.final_ali_begin)[ends] != len(alignment)).any():
        raise LatticeError(f"not all paths have the {len(alignment)} frames of the alignment", key=lattice.key)
    silences = np.isin(model.phone, np.asarray(sorted(silence_phones), np.int64))
    kind = model.pdf if criterion == "smbr" else model.phone

    def right(begin: npt.NDArray[np.int64], ids: Ints, start: Ints) -> Floats:
        owner = owners(begin)
        wanted = alignment[start[owner] + np.arange(ids.size) - begin[owner]]
        same = kind[ids] == kind[wanted]
        counted = same | (silences[ids] & silences[wanted]) if one_silence_class else same & ~silences[ids]
        return np.bincount(owner, counted.astype(np.float64), start.size).astype(np.float64)

    src, dst, begin = lattice.src, lattice.dst, lattice.arc_begin
    of_arc = right(lattice.ali_begin, lattice.ali, time[src])
    of_final = right(lattice.final_ali_begin, lattice.final_ali, time)
    costs = forward_backward(lattice, scales)
    cost = scales.of_arcs(lattice)
    final_cost = _final_costs(lattice, scales)
    forward = np.exp(costs.alpha[dst] - costs.alpha[src] - cost)  # share of an arc among those into its state
    backward = np.exp(costs.beta[src] - costs.beta[dst] - cost)  # and among those out of its state
    before, behind = np.zeros(lattice.num_states), np.exp(costs.beta - final_cost) * of_final
    for state in range(lattice.num_states):
        arcs = slice(int(begin[state]), int(begin[state + 1]))
        np.add.at(before, dst[arcs], forward[arcs] * (before[state] + of_arc[arcs]))
    for state in range(lattice.num_states - 1, -1, -1):
        arcs = slice(int(begin[state]), int(begin[state + 1]))
        behind[state] += (backward[arcs] * (of_arc[arcs] + behind[dst[arcs]])).sum()
    total = float(behind[0])
    probability = np.exp(costs.total - costs.alpha[src] - costs.beta[dst] - cost)
    final_probability = np.exp(costs.total - costs.alpha - final_cost)
    of_arc = probability * (before[src] + of_arc + behind[dst] - total)
    return _by_frame(lattice, of_arc, final_probability * (before + of_final - total), total)


def _final_costs(lattice: Lattice, scales: Scales) -> Floats:
    ends = lattice.is_final
    cost = np.full(lattice.num_states, np.inf)
    cost[ends] = scales.lm * lattice.final_graph[ends]
    cost[ends] += scales.acoustic * lattice.final_acoustic[ends].astype(np.float64)
    return cost


def _by_frame(lattice: Lattice, of_arc: Floats, of_final: Floats, total: float) -> FramePosteriors:
    """Give the value of an arc or final state to each of its labels, and sum those of the same label and frame."""
    lattice = lattice.replace(time=None)  # frames are counted by labels, whatever a format says
    time, frames = state_times(lattice), num_frames(lattice)
    share, place, labels = [], [], []
    for begin, ids, start, value in (
        (lattice.ali_begin, lattice.ali, time[lattice.src], of_arc),
        (lattice.final_ali_begin, lattice.final_ali, time, of_final),
    ):
        owner = owners(begin)
        share.append(value[owner])
        place.append(start[owner].astype(np.int64) + np.arange(ids.size) - begin[owner])
        labels.append(ids)
    label, frame, summand = np.concatenate(labels), np.concatenate(place), np.concatenate(share)
    width = int(label.max(initial=0)) + 1
    cell, inverse = np.unique(frame * width + label, return_inverse=True)
    summed = np.bincount(inverse, summand, cell.size).astype(np.float64)
    cell, summed = cell[summed != 0.0], summed[summed != 0.0]
    begin = np.searchsorted(cell, np.arange(frames + 1) * width)
    return FramePosteriors(begin, (cell % width).astype(np.int32), summed, total)
