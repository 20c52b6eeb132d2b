"""The option ``--ray``, which runs a command in shards on a Ray cluster and joins the results."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, replace
from typing import NoReturn

import click
from click.core import ParameterSource

from ninja.cli.main import ARGUMENTS, Console
from ninja.cli.shards import CommandWork, plan_of, report
from ninja.errors import FormatError, InputError, OptionError
from ninja.libraries import installed_version, needed_for
from ninja.lm.load import cache_models
from ninja.pipeline.cluster import run
from ninja.pipeline.join import join_shards, remove_shards
from ninja.pipeline.plan import Plan, Shard
from ninja.pipeline.record import Record, read_plan
from ninja.pipeline.shard import Work

COMPRESSED, UNCOMPRESSED = 32e6, 512e6  # bytes per shard, about a minute of rescoring; see docs/scale.md
SHARDS_PER_WORKER = 8  # minimum; with many small shards, workers finish at about the same time
MAX_SHARDS = 100_000
_ADDRESS = re.compile(r"auto|[\w.-]+:\d+|\[[\da-f:]+\]:\d+")


@dataclass(frozen=True, slots=True)
class Start:
    """Callable that prepares a worker process and returns the function that runs a command on a shard."""

    command: CommandWork
    folder: str  # working folder of the command
    version: str  # version of Ninja

    def __call__(self) -> Work:
        """Check the node, and return the function that runs the command on a shard.

        Raises:
            OptionError: A different version of Ninja is installed on this node.
            InputError: The working folder does not exist on this node.
        """
        node = os.uname().nodename
        if (version := installed_version()) != self.version:
            raise OptionError(
                f"{node} has Ninja {version}, but the run was started with {self.version}; install that version"
            )
        try:
            os.chdir(self.folder)
        except OSError as error:
            message = f"{node} cannot access this folder, which all nodes must share: {error.strerror}"
            raise InputError(message, self.folder) from error
        cache_models()
        return self.command


def run_on_cluster(context: click.Context, address: str, shard: Shard | None) -> NoReturn:
    """Run a command in shards on a cluster, join the results, and exit.

    Args:
        address: ``HOST:PORT`` of the cluster, or ``auto``.
        shard: Value of ``--shard``; must be None.

    Raises:
        OptionError: The command cannot run in shards, or no cluster is reachable.
        WorkerError: A shard failed repeatedly.
    """
    if shard is not None:
        raise OptionError("--ray cannot be used with --shard")
    if not _ADDRESS.fullmatch(address):
        raise OptionError(
            f"--ray is {address!r}, but must be HOST:PORT; to use it without a value, make it the last argument"
        )
    with needed_for("--ray"):
        from ninja.pipeline.ray_cluster import connected, has_gpus, num_actors
    console = Console()
    plan = plan_of(context, 1)
    has_jobs = context.get_parameter_source("jobs") is not ParameterSource.DEFAULT
    cores = context.params.get("jobs", 1) if has_jobs else 1
    devices = str(context.params.get("device", "")).split(",")
    gpus = sum(device.strip().startswith("cuda") for device in devices)
    jobs = () if has_jobs or "jobs" not in context.params else ("--jobs", "1")
    command = CommandWork((context.info_name or "", *jobs, *context.meta[ARGUMENTS]))
    start = Start(command, os.getcwd(), plan.version)
    with connected(None if address == "auto" else address):
        if devices == ["auto"] and has_gpus():
            console.note("the GPUs of the cluster are not used; --device cuda uses one GPU per worker")
        plan = replace(plan, shards=_num_shards(plan, num_actors(cores, gpus)))
        with console.progress("lattices") as bar:
            done = 0

            def show(record: Record) -> None:
                nonlocal done
                done += 1
                if bar is not None:
                    bar.step(f"shard {record.shard}/{record.of}", share=done / plan.shards)

            run(plan, start, cluster=address, cores=cores, gpus=gpus, on_record=show)
    joined = join_shards(plan.folder)
    remove_shards(joined)
    report(joined)


def _num_shards(plan: Plan, workers: int) -> int:
    """Return the number of shards of the interrupted run or, if there is none, a number based on the input size."""
    try:
        return read_plan(plan.folder).shards
    except FormatError:  # no interrupted run
        pass
    assert plan.units is not None
    size = sum(
        unit.size / (COMPRESSED if unit.table.place.path.endswith(".gz") else UNCOMPRESSED) for unit in plan.units
    )
    return min(MAX_SHARDS, max(math.ceil(size), SHARDS_PER_WORKER * workers))
