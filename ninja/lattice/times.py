"""Times: the frame of each state, the length of a lattice and the number of arcs that cross each frame."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja import _core
from ninja.errors import LatticeError
from ninja.lattice import Lattice

MOST_FRAMES = 1 << 20  # limit of frames of an array, ...
FRAMES_EACH = 1 << 10  # ... plus this for each arc and label


def state_times(lattice: Lattice) -> npt.NDArray[np.int32]:
    """Return the frame of each state.

    It is the number of labels on any path to the state, or the ``time`` of the lattice if it has one.

    Returns:
        Frames, int32 [num_states]; -1 for unreachable states.

    Raises:
        LatticeError: Two paths to a state differ in length, or an arc ends before it begins.

    Source: Kaldi, lat/lattice-functions.cc, CompactLatticeStateTimes.
    """
    if lattice.time is not None:
        arc = _core.first_backward_arc(lattice, lattice.time)
        if arc >= 0:
            raise LatticeError(f"arc {arc} ends before it begins, by the times of its states", key=lattice.key)
        return lattice.time
    time, arc = _core.state_times(lattice)
    if arc >= 0:
        labels, dst = int(lattice.ali_begin[arc + 1] - lattice.ali_begin[arc]), int(lattice.dst[arc])
        src = int(np.searchsorted(lattice.arc_begin, arc, side="right")) - 1
        raise LatticeError(
            f"state {dst} is at frame {time[dst]} by one path, but at frame {time[src] + labels} by arc {arc}; "
            "its alignments are damaged or do not count frames",
            key=lattice.key,
        )
    return time


def is_timed(lattice: Lattice) -> bool:
    """Tell whether a lattice has times of words."""
    return lattice.time is not None or lattice.has_labels


def check_labelled(lattice: Lattice) -> None:
    """Raise LatticeError for a lattice with arcs, but without labels."""
    if lattice.num_arcs and not lattice.has_labels:
        raise LatticeError("it has no alignments (transition ids), which are needed here", key=lattice.key)


def num_frames(lattice: Lattice) -> int:
    """Return the length of a lattice in frames: the end of its last final state."""
    return _core.num_frames(lattice, state_times(lattice))


def depth_per_frame(lattice: Lattice) -> npt.NDArray[np.int32]:
    """Count the arcs that cross each frame, int32 [num_frames]; final states with labels count as arcs.

    Raises:
        LatticeError: The times contradict each other, or there are far more frames than arcs and labels (more than 1024
            for each plus 1048576), so that a number in a file would set the memory.

    Source: Kaldi, lat/lattice-functions.cc, CompactLatticeDepthPerFrame.
    """
    time = state_times(lattice)
    frames = _core.num_frames(lattice, time)
    if frames > MOST_FRAMES + FRAMES_EACH * (lattice.num_arcs + len(lattice.ali) + len(lattice.final_ali)):
        raise LatticeError(
            f"its times reach frame {frames}, but it has only {lattice.num_arcs} arcs, too few for a count at each "
            "frame; are the times and the frame shift right?",
            key=lattice.key,
        )
    return _core.depth_per_frame(lattice, time, frames)


def crossings(lattice: Lattice) -> tuple[int, int]:
    """Return the sum of ``depth_per_frame`` and the number of frames, without a limit of frames."""
    time = state_times(lattice)
    frames = _core.num_frames(lattice, time)
    return _core.num_crossings(lattice, time, frames), frames


def depth(lattice: Lattice) -> float:
    """Return the mean number of arcs that cross a frame; 0 if the lattice has no frames.

    Source: Kaldi, latbin/lattice-depth.cc.
    """
    crossed, frames = crossings(lattice)
    return crossed / frames if frames else 0.0
