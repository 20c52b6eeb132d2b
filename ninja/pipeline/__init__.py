"""Apply a stage to lattices in input order, on threads or in shards. An output is written completely or not at all."""

from typing import TYPE_CHECKING, Any

from ninja.errors import Log, Summary
from ninja.io.inputs import Inputs, Output, TextOutput
from ninja.io.sources import ChosenScales
from ninja.pipeline.execution import OnBatches, run
from ninja.pipeline.stages import BatchStage, OnLattices, StreamStage
from ninja.pipeline.streaming import stream

if TYPE_CHECKING:
    from ninja.pipeline.cluster import run as run_shards

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


def __getattr__(name: str) -> Any:
    """Import `run_shards` when it is first used."""
    if name != "run_shards":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ninja.pipeline.cluster import run

    return run
