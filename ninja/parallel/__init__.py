"""A function over many lattices: processes, order, failures."""

from ninja.parallel.pipeline import Counts, Each, Stage, stream

__all__ = ["Counts", "Each", "Stage", "stream"]
