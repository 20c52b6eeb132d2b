"""Times and depth of lattices, as `ninja.lattice` computes them, under the name of this package."""

from ninja.lattice.times import depth, depth_per_frame, num_frames, state_times

__all__ = ["depth", "depth_per_frame", "num_frames", "state_times"]
