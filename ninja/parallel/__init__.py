"""A stage over many lattices: threads, processes, order, failures."""

from ninja.log import Log
from ninja.parallel.cluster import run
from ninja.parallel.pipeline import Each, EachBatch, Stage, stream

__all__ = ["Each", "EachBatch", "Log", "Stage", "run", "stream"]
