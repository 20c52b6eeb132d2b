"""All shards of a plan that are not done yet, in this process or on a Ray cluster."""

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
    """Run the shards of a plan that are not done yet; `ninja.pipeline.gather.gather` joins their parts.

    On a cluster each actor, of so many cores and GPUs, calls `start` once, which loads the model, and then does one
    shard after the other. A shard whose worker dies, or that fails with an error that another attempt may not have, is
    tried three times in all, on whatever node there is. Folder and sources must be on a file system that all share.

    Args:
        plan: What is done; see `ninja.pipeline.shard`.
        start: Makes the work in each worker; it is sent there.
        cluster: None: in this process. An address of Ray (``HOST:PORT``), or "auto": the cluster of this machine, or a
            new one of its cores.
        cores: Cores of each actor, as many as its work has threads.
        gpus: GPUs of each actor.
        on_record: Called with the record of each shard once it is done.

    Returns:
        The records of all shards, in order.

    Raises:
        OptionError: The folder holds parts of another plan, or no cluster answers.
        WorkerError: Shards were given up; the message names them. The others are done and stay.
        NinjaError: What would be as wrong for any other shard; in this process, whatever the work raises.
        DependencyError: Ray is not installed.
    """
    left = missing(plan)
    if cluster is None:
        work = start() if left else None
        for shard in left:
            assert work is not None
            on_record(run_shard(plan, shard, work))
    elif left:
        with needed_for("a cluster"):
            from ninja.pipeline.ray_cluster import run_on_ray
        run_on_ray(plan, left, start, None if cluster == "auto" else cluster, cores, gpus, on_record)
    records = [read_record(plan, Shard(number, plan.shards)) for number in range(1, plan.shards + 1)]
    return [record for record in records if record is not None]
