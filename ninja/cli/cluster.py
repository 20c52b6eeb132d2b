"""``--ray``: one command in shards on a Ray cluster, whose parts are joined."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, replace
from typing import NoReturn

import click
from click.core import ParameterSource

from ninja.cli.console import ARGUMENTS, Console
from ninja.cli.shards import CommandWork, plan_of, report
from ninja.errors import FormatError, InputError, OptionError
from ninja.libraries import installed_version, needed_for
from ninja.lm.load import hold_models
from ninja.pipeline.cluster import run
from ninja.pipeline.gather import gather, remove
from ninja.pipeline.plan import Plan, Shard
from ninja.pipeline.record import Record, read_plan
from ninja.pipeline.shard import Work

PACKED, PLAIN = 32e6, 512e6  # bytes of a shard, a minute of rescoring; see docs/scale.md
EACH = 8  # shards of each worker at least, so that none waits long for the last
MOST = 100_000
_ADDRESS = re.compile(r"auto|[\w.-]+:\d+|\[[\da-f:]+\]:\d+")


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a command's work in another process."""

    command: CommandWork
    folder: str  # in which the command was called
    version: str

    def __call__(self) -> Work:
        """Return the work on a part.

        Raises:
            OptionError: Another version is installed here.
            InputError: The folder is not here.
        """
        here = os.uname().nodename
        if (version := installed_version()) != self.version:
            raise OptionError(f"{here} has Ninja {version}, but the run was begun with {self.version}")
        try:
            os.chdir(self.folder)
        except OSError as error:
            message = f"is not there on {here}, but all nodes must share it: {error.strerror}"
            raise InputError(message, self.folder) from error
        hold_models()
        return self.command


def run_on_cluster(context: click.Context, address: str, shard: Shard | None) -> NoReturn:
    """Run the command of a context in shards on a cluster, join their parts, and end it.

    Raises:
        OptionError: It has no shards, or no cluster answers.
        WorkerError: Shards were given up.
    """
    if shard is not None:
        raise OptionError("--ray makes the shards itself: leave --shard out")
    if not _ADDRESS.fullmatch(address):
        raise OptionError(f"--ray is {address!r}, but must be HOST:PORT; without one, let --ray stand last")
    with needed_for("--ray"):
        from ninja.pipeline.ray_cluster import connected, has_gpus, num_actors
    console = Console()
    plan = plan_of(context, 1)
    given = context.get_parameter_source("jobs") is not ParameterSource.DEFAULT
    cores = context.params.get("jobs", 1) if given else 1
    devices = str(context.params.get("device", "")).split(",")
    gpus = sum(device.strip().startswith("cuda") for device in devices)
    jobs = () if given or "jobs" not in context.params else ("--jobs", "1")
    command = CommandWork((context.info_name or "", *jobs, *context.meta[ARGUMENTS]))
    start = Start(command, os.getcwd(), plan.version)
    with connected(None if address == "auto" else address):
        if devices == ["auto"] and has_gpus():
            console.note("the GPUs of the cluster are left alone; --device cuda takes one for each worker")
        plan = replace(plan, shards=_number(plan, num_actors(cores, gpus)))
        with console.progress("lattices") as bar:
            done = 0

            def show(record: Record) -> None:
                nonlocal done
                done += 1
                if bar is not None:
                    bar.step(f"shard {record.shard}/{record.of}", share=done / plan.shards)

            run(plan, start, cluster=address, cores=cores, gpus=gpus, on_record=show)
    found = gather(plan.folder)
    remove(found)
    report(found)


def _number(plan: Plan, workers: int) -> int:
    """Return the number of shards: that of an attempt which was broken off, else by the size of the sources."""
    try:
        return read_plan(plan.folder).shards
    except FormatError:  # there is none
        pass
    assert plan.units is not None
    size = sum(unit.size / (PACKED if unit.table.place.path.endswith(".gz") else PLAIN) for unit in plan.units)
    return min(MOST, max(math.ceil(size), EACH * workers))
