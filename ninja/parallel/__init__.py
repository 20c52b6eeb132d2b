"""A stage over many lattices: processes, order, failures."""

from ninja.log import Log
from ninja.parallel.cluster import run
from ninja.parallel.pipeline import Each, Stage, stream

__all__ = ["Each", "Log", "Stage", "run", "stream"]
