"""Selection of the method that combines the updates of workers."""

from __future__ import annotations

from ninja.train.parallel.blocks import Blocks
from ninja.train.parallel.gossip import Gossip
from ninja.train.parallel.sharing import Learner, SingleWorker, Synchronous
from ninja.train.parallel.workers import Workers
from ninja.train.recipe import TrainOptions


def make(learner: Learner, workers: Workers, options: TrainOptions) -> SingleWorker:
    """Create the selected method for combining the workers' updates."""
    if options.parallel in ("ma", "bmuf"):
        return Blocks(learner, workers, options)
    if options.parallel in ("adpsgd", "h-adpsgd"):
        return Gossip(learner, workers, options)
    if options.parallel == "ssgd":
        return Synchronous(learner, workers)
    return SingleWorker(learner, workers)
