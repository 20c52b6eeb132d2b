"""A stage over many lattices: threads, order, failures, outputs that appear whole, shards."""

from ninja.io.inputs import Inputs
from ninja.io.scales import ChosenScales
from ninja.log import Log
from ninja.pipeline.cluster import run as run_shards
from ninja.pipeline.execution import Summary, run, stream
from ninja.pipeline.outputs import Output, TextOutput
from ninja.pipeline.stages import BatchStage, OnBatches, OnLattices, StreamStage

__all__ = [
    "BatchStage",
    "ChosenScales",
    "Inputs",
    "Log",
    "OnBatches",
    "OnLattices",
    "Output",
    "StreamStage",
    "Summary",
    "TextOutput",
    "run",
    "run_shards",
    "stream",
]
