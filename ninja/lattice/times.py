"""Compute the frame of each state, the length of a lattice, and the number of arcs that cross each frame."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja import _core
from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.lattice import check_lattice

MAX_FRAMES = 1 << 20  # largest number of frames for which an array is allocated for a lattice without arcs
FRAMES_PER_ARC = 1 << 10  # increase of this limit for each arc and each label


def state_times(lattice: Lattice) -> npt.NDArray[np.int32]:
    """Return the frame of each state.

    The frames are the lattice's ``time`` field if it is set; else, a state's frame is the number of labels on any path
    to the state.

    Returns:
        Frames, int32 [num_states]; -1 for unreachable states.

    Raises:
        LatticeError: Two paths to a state differ in length, or an arc ends before it begins.

    Source: Kaldi, lat/lattice-functions.cc, CompactLatticeStateTimes.
    """
    check_lattice(lattice)
    if lattice.time is not None:
        arc = _core.first_backward_arc(lattice, lattice.time)
        if arc >= 0:
            raise LatticeError(f"arc {arc} ends before it begins, according to the state times", key=lattice.key)
        return lattice.time
    time, arc = _core.state_times(lattice)
    if arc >= 0:
        labels, dst = int(lattice.ali_begin[arc + 1] - lattice.ali_begin[arc]), int(lattice.dst[arc])
        src = int(np.searchsorted(lattice.arc_begin, arc, side="right")) - 1
        raise LatticeError(
            f"state {dst} is at frame {time[dst]} on one path, but at frame {time[src] + labels} via arc {arc}; "
            "the alignments are damaged, or do not have one label per frame",
            key=lattice.key,
        )
    return time


def is_timed(lattice: Lattice) -> bool:
    """Return whether a lattice has state times or alignments."""
    return lattice.time is not None or lattice.has_labels


def check_labelled(lattice: Lattice) -> None:
    """Raise LatticeError if a lattice has arcs, but no labels."""
    check_lattice(lattice)
    if lattice.num_arcs and not lattice.has_labels:
        raise LatticeError(
            "the lattice has no alignments (transition ids), which this operation requires", key=lattice.key
        )


def num_frames(lattice: Lattice) -> int:
    """Return the length of a lattice in frames: the largest end time of a final state.

    Raises:
        LatticeError: See `state_times`.
    """
    frames = _core.num_frames(lattice)
    if frames < 0:
        state_times(lattice)  # raises the error
    return frames


def depth_per_frame(lattice: Lattice) -> npt.NDArray[np.int32]:
    """Count the arcs that cross each frame, int32 [num_frames]; final states with labels count as arcs.

    Raises:
        LatticeError: The times are inconsistent, or there are more than 2^20 + 1024 · (arcs + labels) frames; an array
            of this size could exhaust memory.

    Source: Kaldi, lat/lattice-functions.cc, CompactLatticeDepthPerFrame.
    """
    time = state_times(lattice)
    frames = _core.num_frames(lattice)
    if frames > MAX_FRAMES + FRAMES_PER_ARC * (lattice.num_arcs + len(lattice.ali) + len(lattice.final_ali)):
        raise LatticeError(
            f"the last frame is {frames}, which is implausible for a lattice with {lattice.num_arcs} arcs; "
            "check the times and the frame shift",
            key=lattice.key,
        )
    return _core.depth_per_frame(lattice, time, frames)


def crossings(lattice: Lattice) -> tuple[int, int]:
    """Return ``(sum of depth_per_frame, number of frames)``.

    Unlike in `depth_per_frame`, the number of frames is not limited, because no array is allocated.
    """
    time = state_times(lattice)
    frames = _core.num_frames(lattice)
    return _core.num_crossings(lattice, time, frames), frames


def depth(lattice: Lattice) -> float:
    """Return the mean number of arcs that cross a frame; 0 if the lattice has no frames.

    Source: Kaldi, latbin/lattice-depth.cc.
    """
    crossed, frames = crossings(lattice)
    return crossed / frames if frames else 0.0
