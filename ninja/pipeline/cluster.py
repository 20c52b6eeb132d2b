"""Run the remaining shards of a plan in this process or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable

from ninja.libraries import needed_for
from ninja.pipeline.plan import Plan, Shard
from ninja.pipeline.record import Record, read_record
from ninja.pipeline.shard import Work, missing, run_shard


def run(
    plan: Plan,
    start: Callable[[], Work],
    *,
    cluster: str | None = None,
    cores: int = 1,
    gpus: float = 0,
    on_record: Callable[[Record], None] = lambda record: None,
) -> list[Record]:
    """Run the incomplete shards of a plan; `ninja.pipeline.join.join_shards` joins their outputs.

    On a cluster, each actor calls `start` once to load the models, and then runs shards. If a worker dies or a shard
    fails with an error that may be temporary, the shard is run again on any node, up to three times in total. The
    plan's folder and the sources must be on a file system that all nodes share.

    Args:
        plan: See `ninja.pipeline.shard`.
        start: Function that is called in each worker and returns the function that processes a `Part`. It is pickled
            and sent to the workers.
        cluster: Address of a Ray cluster (``HOST:PORT``). "auto" uses the cluster that runs on this machine, or starts
            a local one. None runs the shards in this process.
        cores: Number of cores per actor; each actor should use this number of threads.
        gpus: Number of GPUs per actor.
        on_record: Function that is called with the record of each completed shard.

    Returns:
        The records of all shards, in order.

    Raises:
        OptionError: The folder contains shards of a different plan, or the cluster cannot be reached.
        WorkerError: Shards failed repeatedly; the message lists them. All other shards are complete.
        NinjaError: An error applies to all shards, or a shard that runs in this process failed.
        DependencyError: Ray is not installed.
    """
    shards = missing(plan)
    if shards and cluster is None:
        work = start()
        for shard in shards:
            on_record(run_shard(plan, shard, work))
    elif shards and cluster is not None:
        with needed_for("a cluster"):
            from ninja.pipeline.ray_cluster import run_on_ray
        run_on_ray(plan, shards, start, None if cluster == "auto" else cluster, cores, gpus, on_record)
    records = [read_record(plan, Shard(number, plan.shards)) for number in range(1, plan.shards + 1)]
    return [record for record in records if record is not None]
