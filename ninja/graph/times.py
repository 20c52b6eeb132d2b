"""Times and depth of lattices, re-exported from `ninja.lattice.times`."""

from ninja.lattice.times import depth, depth_per_frame, num_frames, state_times

__all__ = ["depth", "depth_per_frame", "num_frames", "state_times"]
