"""Times: the frame of each state, how long a lattice is and how many arcs cross each frame."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja import _core
from ninja.errors import LatticeError
from ninja.lattice import Lattice


def state_times(lattice: Lattice) -> npt.NDArray[np.int32]:
    """Return the frame at which each state stands.

    It is the number of labels on any path to the state, or the lattice's own ``time`` where a format gave one.

    Returns:
        Frames, int32 [num_states]; -1 where no path leads.

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
    """Tell whether a lattice holds times of its words."""
    return lattice.time is not None or lattice.has_labels


def check_labelled(lattice: Lattice) -> None:
    """Refuse a lattice that has arcs, but not one label."""
    if lattice.num_arcs and not lattice.has_labels:
        raise LatticeError("it has no alignments (transition ids), which this is computed of", key=lattice.key)


def num_frames(lattice: Lattice) -> int:
    """Return the length of a lattice in frames (labels): when its last final state is over."""
    return _core.num_frames(lattice, state_times(lattice))


def depth_per_frame(lattice: Lattice) -> npt.NDArray[np.int32]:
    """Count the arcs that cross each frame, int32 [num_frames]; final states with labels count as arcs.

    Source: Kaldi, lat/lattice-functions.cc, CompactLatticeDepthPerFrame.
    """
    time = state_times(lattice)
    return _core.depth_per_frame(lattice, time, _core.num_frames(lattice, time))


def depth(lattice: Lattice) -> float:
    """Return the mean number of arcs that cross a frame; 0 if the lattice has no frames.

    Source: Kaldi, latbin/lattice-depth.cc.
    """
    crossing = depth_per_frame(lattice)
    return float(crossing.sum() / len(crossing)) if len(crossing) else 0.0
