"""Lattice statistics for discriminative training: boosting, frame posteriors and expected frame accuracies."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError, OptionError, check_count
from ninja.graph.connect import connect
from ninja.graph.posteriors import forward_backward, path_posteriors
from ninja.graph.scale import check_costs
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import owners
from ninja.lattice.lattice import frozen
from ninja.lattice.times import num_frames, state_times
from ninja.lattice.transition_model import TransitionModel

Costs = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


def boost(
    lattice: Lattice,
    alignment: Ints,
    phone_of: Ints,
    b: float = 0.05,
    silence_phones: Collection[int] = (),
    max_silence_error: float = 0.0,
) -> Lattice:
    """Subtract ``b`` from the graph costs for each frame whose phone differs from the reference (boosted MMI).

    Args:
        lattice: A lattice whose labels are transition ids.
        alignment: Transition id for each frame in the reference, int32 [num_frames].
        phone_of: Phone for each transition id, int32 [num_transition_ids + 1]; element 0 is not used.
        b: Boosting factor: the graph cost that is subtracted for each wrong frame.
        silence_phones: Phones with a reduced error: where the lattice has one of these phones and the reference has
            another phone, the frame counts as ``max_silence_error`` errors.
        max_silence_error: Number of errors for such a frame, from 0 (as in the paper) to 1 (as for other phones).

    Returns:
        The connected lattice with new graph costs.

    Raises:
        OptionError: ``b``, ``max_silence_error`` or a silence phone is out of range.
        LatticeError: A transition id is out of range, a path and the reference differ in length, or a cost exceeds the
            range of float32.

    Source: Povey et al. 2008, "Boosted MMI for model and feature-space discriminative training"; Kaldi,
    lat/lattice-functions.cc, LatticeBoost.
    """
    if not math.isfinite(b):
        raise OptionError(f"b is {b}, but must be finite")
    if not 0.0 <= max_silence_error <= 1.0:
        raise OptionError(f"max_silence_error is {max_silence_error}, but must be between 0 and 1")
    lattice = connect(lattice)
    time = _times_of_reference(lattice, alignment)
    for name, ids in (("lattice", lattice.ali), ("lattice", lattice.final_ali), ("alignment", alignment)):
        bad = np.flatnonzero((ids < 1) | (ids >= len(phone_of)))
        if bad.size:
            raise LatticeError(
                f"the {name} has the transition id {ids[bad[0]]}, but the transition ids of the model are 1 to "
                f"{len(phone_of) - 1}; use the model that created the lattice",
                key=lattice.key,
            )
    reference = phone_of[alignment]
    silences = _phones(silence_phones)

    def boosted(cost: Costs, begin: npt.NDArray[np.int64], ids: Ints, start: Any) -> Costs:
        owner, frame = _owners_and_frames(begin, start)
        phone = phone_of[ids]
        error = np.where(np.isin(phone, silences), max_silence_error, 1.0) * (phone != reference[frame])
        with np.errstate(over="ignore"):  # check_costs raises
            return frozen(cost - b * np.bincount(owner, error, start.size), np.float32)

    final_graph = boosted(lattice.final_graph, lattice.final_ali_begin, lattice.final_ali, time)
    graph = boosted(lattice.graph, lattice.ali_begin, lattice.ali, time[lattice.src])
    return check_costs(lattice.replace(graph=graph, final_graph=final_graph), lattice)


@dataclass(frozen=True, slots=True, eq=False)
class FramePosteriors:
    """The labels (transition ids) in each frame, with their posteriors."""

    begin: npt.NDArray[np.int64]  # [num_frames + 1]; entries of frame t are begin[t] : begin[t + 1]
    label: Ints  # [num_entries], increasing within a frame
    posterior: Floats  # [num_entries], never 0; ``accuracy_posteriors`` can return negative values
    total: float  # natural log-likelihood of all paths; for ``accuracy_posteriors``, expected number of correct frames


def frame_posteriors(lattice: Lattice, scales: Scales = Scales()) -> FramePosteriors:
    """Compute the posterior of each label at each frame: the probability that the true path has this label there.

    Returns:
        Probabilities (they sum to 1 in every frame that all paths contain), and the log-likelihood.

    Raises:
        LatticeError: No path leads from the start to a final state, or the times are inconsistent.

    Source: Kaldi, lat/lattice-functions.cc, LatticeForwardBackward.
    """
    lattice = connect(lattice)
    posterior = path_posteriors(lattice, scales)
    log_likelihood = 0.0 - forward_backward(lattice, scales).total  # never -0.0
    return _by_frame(lattice, posterior.arc, posterior.final, log_likelihood)


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
    """Compute the MPE or sMBR posterior of each label at each frame.

    The posterior is the probability of the label at the frame, multiplied by a difference: the expected number of
    correct frames on paths through the label, minus the expected number on all paths.

    Args:
        lattice: A lattice whose labels are transition ids.
        alignment: Transition id for each frame in the reference, int32 [num_frames].
        model: The transition model.
        criterion: A frame is correct if it has the same phone ("mpfe") or the same pdf ("smbr") as the reference.
        scales: Scales that define the total cost.
        silence_phones: Phones whose frames are never correct, unless ``one_silence_class`` is set.
        one_silence_class: Treat silence phones as one class: any silence phone is correct where the reference has one.

    Returns:
        Posteriors (negative values are possible), and the expected number of correct frames.

    Raises:
        OptionError: ``criterion`` is neither "mpfe" nor "smbr", or a silence phone is out of range.
        LatticeError: A transition id is out of range, a path and the reference differ in length, or no path leads from
            the start to a final state.

    Source: Povey 2003, "Discriminative training for large vocabulary speech recognition", chapter 6; Kaldi,
    lat/lattice-functions.cc, LatticeForwardBackwardMpeVariants.
    """
    if criterion not in ("mpfe", "smbr"):
        raise OptionError(f"criterion is {criterion!r}, but must be one of mpfe, smbr")
    lattice = connect(lattice)
    model.check(lattice)
    if bad := [label for label in alignment.tolist() if not 1 <= label <= model.num_transition_ids]:
        raise model.label_error(lattice.key, bad[0], "the alignment")
    time = _times_of_reference(lattice, alignment)
    silences = np.isin(model.phone, _phones(silence_phones))
    unit_of = model.pdf if criterion == "smbr" else model.phone

    def num_correct(begin: npt.NDArray[np.int64], ids: Ints, start: Ints) -> Floats:
        owner, frame = _owners_and_frames(begin, start)
        reference = alignment[frame]
        correct = unit_of[ids] == unit_of[reference]
        if one_silence_class:
            correct |= silences[ids] & silences[reference]
        else:
            correct &= ~silences[ids]
        return np.bincount(owner, correct.astype(np.float64), start.size).astype(np.float64)

    src, dst, begin = lattice.src, lattice.dst, lattice.arc_begin
    of_arc = num_correct(lattice.ali_begin, lattice.ali, time[src])
    of_final = num_correct(lattice.final_ali_begin, lattice.final_ali, time)
    posterior = path_posteriors(lattice, scales)
    forward, backward = posterior.conditional(dst), posterior.conditional(src)
    is_probable = posterior.state > 0.0
    end = np.divide(posterior.final, posterior.state, out=np.zeros(lattice.num_states), where=is_probable)
    before, after = np.zeros(lattice.num_states), end * of_final  # expected accuracies
    for state in range(lattice.num_states):
        arcs = slice(int(begin[state]), int(begin[state + 1]))
        np.add.at(before, dst[arcs], forward[arcs] * (before[state] + of_arc[arcs]))
    for state in range(lattice.num_states - 1, -1, -1):
        arcs = slice(int(begin[state]), int(begin[state + 1]))
        after[state] += (backward[arcs] * (of_arc[arcs] + after[dst[arcs]])).sum()
    total = float(after[0])
    of_arc = posterior.arc * (before[src] + of_arc + after[dst] - total)
    return _by_frame(lattice, of_arc, posterior.final * (before + of_final - total), total)


def _phones(ids: Collection[int]) -> npt.NDArray[np.int64]:
    """Return phone ids in ascending order.

    Raises:
        OptionError: An id is out of the range of Kaldi's labels.
    """
    for phone in ids:
        check_count("a silence phone", phone, least=0, most=2**31 - 1)
    return np.asarray(sorted(ids), np.int64)


def _times_of_reference(lattice: Lattice, alignment: Ints) -> Ints:
    """Return the frame of each state, int32 [num_states], and check that all paths are as long as the alignment.

    Raises:
        LatticeError: A path and the alignment differ in length.
    """
    lattice = lattice.replace(time=None)  # count labels; ignore the times from the lattice file
    frames, time = num_frames(lattice), state_times(lattice)
    if frames != len(alignment):
        raise LatticeError(f"the lattice has {frames} frames, but the alignment has {len(alignment)}", key=lattice.key)
    ends = np.flatnonzero(lattice.is_final)
    if (time[ends] + np.diff(lattice.final_ali_begin)[ends] != frames).any():
        raise LatticeError(f"not all paths have the {frames} frames of the alignment", key=lattice.key)
    return time


def _owners_and_frames(begin: npt.NDArray[np.int64], start: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """Return the arc (or final state) and the frame of each label.

    Args:
        begin: Offsets of the labels of each arc (or final state).
        start: First frame of each arc (or final state).
    """
    owner = owners(begin)
    return owner, start[owner].astype(np.int64) + np.arange(owner.size) - begin[owner]


def _by_frame(lattice: Lattice, of_arc: Floats, of_final: Floats, total: float) -> FramePosteriors:
    """Sum the values of arcs and final states for each label at each frame.

    Args:
        lattice: A lattice with labels.
        of_arc: Values of arcs; the value of an arc is added for each of its labels, [num_arcs].
        of_final: Values of final states; the value of a state is added for each of its labels, [num_states].
        total: Value of `FramePosteriors.total`.
    """
    lattice = lattice.replace(time=None)  # count labels; ignore the times from the lattice file
    time, frames = state_times(lattice), num_frames(lattice)
    share, frame = [], []
    for begin, start, value in (
        (lattice.ali_begin, time[lattice.src], of_arc),
        (lattice.final_ali_begin, time, of_final),
    ):
        owner, at = _owners_and_frames(begin, start)
        share.append(value[owner])
        frame.append(at)
    label = np.concatenate([lattice.ali, lattice.final_ali])
    width = int(label.max(initial=0)) + 1
    cell, inverse = np.unique(np.concatenate(frame) * width + label, return_inverse=True)
    summed = np.bincount(inverse, np.concatenate(share), cell.size).astype(np.float64)
    cell, summed = cell[summed != 0.0], summed[summed != 0.0]
    begin = np.searchsorted(cell, np.arange(frames + 1) * width)
    return FramePosteriors(begin, (cell % width).astype(np.int32), summed, total)
