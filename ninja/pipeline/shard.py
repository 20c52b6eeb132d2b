"""Run one shard, as each worker of a job array or a cluster does.

A `Plan` describes the sources, the command and its options, the number of shards, the outputs, and the shard folder.
The work is a function of a `Part`: it reads the tables of the part, writes its outputs under the names in the part, and
returns an `Outcome`. Then

    record = run_shard(plan, Shard(3, 8), work)

- returns the existing record without any work if this shard of the plan is already complete;
- raises `OptionError` if the folder contains shards of a different plan;
- otherwise works in a folder named after the host and the process, moves the files to the shard folder, and writes
  the record last. An attempt that fails or is terminated by a signal leaves no files. The files of a killed attempt are
  removed by the next attempt at the shard on that host, or by `join_shards`.

Several workers can run the same shard concurrently; they write identical files, and the files written last remain. A
shard without sources has a record, but no files. Plans, parts and records can be sent to other processes. Lattices that
fail are listed in the record; an exception means that the shard can be tried again. ``missing(plan)`` lists the shards
that must still run, and ``ninja.pipeline.join.join_shards`` joins the completed shards.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from ninja.files.output import reported
from ninja.files.stream import Table, open_raw
from ninja.pipeline.plan import Plan, Shard, renamed
from ninja.pipeline.record import (
    Failure,
    Record,
    ShardFile,
    read_record,
    settle_plan,
    write_record,
)
from ninja.pipeline.shard_folder import BLOCK, ShardFolder

_ATTEMPT = re.compile(r"\.(\d+-of-\d+)\.(.+)-(\d+)-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Part:
    """The sources and outputs of one shard."""

    shard: Shard
    tables: tuple[Table, ...]  # sources in order, at least one
    folder: str  # folder of the outputs
    outputs: dict[str, str]  # command-line option → path or wspecifier of the output in this shard


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of processing the sources of a shard: the number of lattices, the failures and a checksum of keys."""

    lattices: int  # number of lattices with a result
    failures: tuple[Failure, ...] = ()
    keys: str = ""  # checksum of the keys read


Work = Callable[[Part], Outcome]


def run_shard(plan: Plan, shard: Shard, work: Work) -> Record:
    """Run a shard and write its record, unless the shard is complete.

    Args:
        plan: Plan of the run.
        shard: The shard.
        work: Function that processes the sources in a `Part`, writes its outputs, and returns an `Outcome`.

    Returns:
        The record of the shard.

    Raises:
        OptionError: The folder contains shards of a different plan.
        OutputError: An output or the record cannot be written.
        NinjaError: `work` raised this error.
    """
    folder = ShardFolder(plan.folder)
    settle_plan(plan)
    remove_stale_attempts(folder, shard)
    if (done := read_record(plan, shard)) is not None:
        return done
    begin = time.monotonic()
    host = socket.gethostname()
    attempt = os.path.join(folder.attempts, f".{shard.name}.{host}-{os.getpid()}-{secrets.token_hex(4)}")

    def within(path: str) -> str:
        return os.path.join(attempt, f"{shard.name}.{os.path.basename(path)}")

    try:
        with reported(attempt):
            os.makedirs(attempt)
        tables = plan.tables(shard)
        outcome = Outcome(0, keys=hashlib.sha256().hexdigest())
        if tables:
            outputs = {output.option: renamed(output.name, within) for output in plan.outputs}
            outcome = work(Part(shard, tables, attempt, outputs))
        parts = _files(plan, shard, attempt)
        settle_plan(plan)  # another run may have replaced the plan while no shard was complete
        if (done := read_record(plan, shard)) is not None:  # another worker was faster
            return done
        folder.remove(f"{shard.name}.json")  # remove an invalid record
        for name in parts:
            folder.take(os.path.join(attempt, name), name)
        seconds = round(time.monotonic() - begin, 3)
        record = Record(
            plan.digest,
            shard.number,
            shard.of,
            outcome.lattices,
            outcome.failures,
            outcome.keys,
            parts,
            host,
            seconds,
            plan.version,
        )
        write_record(plan, record, attempt)
        return record
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
        folder.tidy()


def missing(plan: Plan) -> list[Shard]:
    """Return the shards of a plan that are not complete.

    Raises:
        OptionError: The folder contains shards of a different plan.
    """
    shards = (Shard(number, plan.shards) for number in range(1, plan.shards + 1))
    return [shard for shard in shards if read_record(plan, shard) is None]


def remove_stale_attempts(folder: ShardFolder, shard: Shard | None = None) -> None:
    """Remove files that were left behind by killed attempts to run a shard.

    Args:
        folder: Shard folder.
        shard: Shard whose files are removed if the attempt's process ran on this host and has ended. None removes the
            files of all attempts, including attempts that are still running, and unfinished copies of the plan.
    """
    for entry in list(os.scandir(folder.attempts)) if os.path.isdir(folder.attempts) else ():
        match = _ATTEMPT.fullmatch(entry.name)
        if shard is None and match is None and entry.name.startswith(".plan.json.") and entry.is_file():
            os.remove(entry.path)
        elif match is None:
            continue
        elif shard is None or (
            (match[1], match[2]) == (shard.name, socket.gethostname()) and not _lives(int(match[3]))
        ):
            shutil.rmtree(entry.path, ignore_errors=True)


def checksum(path: str) -> str:
    """Return the SHA-256 digest of the content of a file or URL, as hexadecimal digits."""
    digest = hashlib.sha256()
    with open_raw(path) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _files(plan: Plan, shard: Shard, attempt: str) -> dict[str, ShardFile]:
    """Return, by name, the files that an attempt to run the shard has written to the folder `attempt`."""
    options: dict[str, str] = {}
    for output in plan.outputs:
        options |= {f"{shard.name}.{name}": output.option for name in output.names}
    files = {}
    with reported(attempt):
        for name in sorted(os.listdir(attempt)):
            path = os.path.join(attempt, name)
            files[name] = ShardFile(options.get(name), os.path.getsize(path), checksum(path))
    return files


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
