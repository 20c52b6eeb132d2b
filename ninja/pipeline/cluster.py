"""Run the remaining shards of a plan, in this process or on a Ray cluster."""

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
    """Run the shards of a plan that are not done yet; `ninja.pipeline.join.join_shards` joins their files.

    On a cluster each actor calls `start` once, which loads the model, and then runs shards. A shard whose worker dies,
    or that fails with an error that another attempt may not have, is tried three times, on any node. Folder and sources
    must be on a file system that all nodes share.

    Args:
        plan: See `ninja.pipeline.shard`.
        start: Returns the work of a worker, to which it is sent.
        cluster: Address of a Ray cluster (``HOST:PORT``); "auto" for that of this machine, or a new one of its cores.
            [default: this process]
        cores: Cores of each actor, the number of threads of its work.
        gpus: GPUs of each actor.
        on_record: Called with the record of each completed shard.

    Returns:
        The records of all shards, in order.

    Raises:
        OptionError: The folder has shards of another plan, or no cluster answers.
        WorkerError: Shards failed repeatedly; the message names them. The others are done.
        NinjaError: The error applies to all shards; in this process, any error of the work.
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
