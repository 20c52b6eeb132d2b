"""One shard of a run: what every worker calls, of a job array or of a cluster.

The contract. A `Plan` says what is done: the sources, the command with its options, the number of shards, the outputs
and the folder of their parts. Work is any function of a `Part`: it reads the part's tables, writes the part's outputs
under the names that the part says, and returns an `Outcome`; it is where the model is held. Then

    record = run_shard(plan, Shard(3, 8), work)

- returns the record that stands there, without work, if the shard is done by the same plan;
- raises `OptionError` if the folder holds parts of another plan: results are never mixed;
- else works in a folder of its own (its name has host and process), renames what is written there into the folder of
  the parts, and writes the record last. Nothing is left of an attempt that fails or is ended by a signal; what one
  that was killed leaves, the next attempt of the shard on that host removes, and `gather`.

It may be called anywhere, any number of times, by several workers at once with the same shard: contents are the same,
the last one that ends replaces them. A shard without any source has a record and no parts. Plan, part and record are
plain values that can be sent to other processes. A lattice that fails stands in the record and is no exception; an
exception means that the shard is not done and may be tried again. ``missing(plan)`` lists the shards that must still
run, ``ninja.pipeline.gather.gather`` checks and joins the parts when there are none.
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
from ninja.files.place import Table
from ninja.pipeline.parts import BLOCK, Parts
from ninja.pipeline.plan import Plan, Shard, renamed
from ninja.pipeline.record import (
    Failure,
    PartFile,
    Record,
    read_record,
    settle_plan,
    write_record,
)

_ATTEMPT = re.compile(r"\.(\d+-of-\d+)\.(.+)-(\d+)-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Part:
    """The share of one shard in a run."""

    shard: Shard
    tables: tuple[Table, ...]  # what is read, in this order; at least one
    folder: str  # that the outputs are written into, with what goes beside them
    outputs: dict[str, str]  # by the option of each output: the name to write under, in the form of the output's


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a part."""

    lattices: int  # results
    failures: tuple[Failure, ...] = ()
    keys: str = ""  # checksum of the keys read


Work = Callable[[Part], Outcome]


def run_shard(plan: Plan, shard: Shard, work: Work) -> Record:
    """Do the work of a shard and write its record, unless it is done already.

    Raises:
        OptionError: The folder holds parts of another plan.
        OutputError: A part or the record cannot be written.
        NinjaError: What the work raises.
    """
    folder = Parts(plan.folder)
    folder.make()
    settle_plan(plan)
    remove_dead_attempts(folder, shard)
    if (done := read_record(plan, shard)) is not None:
        return done
    begin = time.monotonic()
    host = socket.gethostname()
    attempt = os.path.join(folder.attempts, f".{shard.name}.{host}-{os.getpid()}-{secrets.token_hex(4)}")

    def within(path: str) -> str:
        return os.path.join(attempt, f"{shard.name}.{os.path.basename(path)}")

    try:
        with reported(attempt):
            os.mkdir(attempt)
        tables = plan.tables(shard)
        outcome = Outcome(0, keys=hashlib.sha256().hexdigest())
        if tables:
            outputs = {each.option: renamed(each.name, within) for each in plan.outputs}
            outcome = work(Part(shard, tables, attempt, outputs))
        parts = _written(plan, shard, attempt)
        settle_plan(plan)  # another may have been begun meanwhile, while no shard was done
        if (done := read_record(plan, shard)) is not None:  # another worker was faster
            return done
        folder.remove(f"{shard.name}.json")  # of parts that are no longer as it says
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


def missing(plan: Plan) -> list[Shard]:
    """Return the shards that are not done.

    Raises:
        OptionError: The folder holds parts of another plan.
    """
    shards = (Shard(number, plan.shards) for number in range(1, plan.shards + 1))
    return [shard for shard in shards if read_record(plan, shard) is None]


def remove_dead_attempts(folder: Parts, shard: Shard | None = None) -> None:
    """Remove what killed attempts left of a folder of parts.

    Args:
        shard: Of this shard, by processes of this host that are no more; None: of all shards and hosts.
    """
    for entry in list(os.scandir(folder.attempts)) if os.path.isdir(folder.attempts) else ():
        found = _ATTEMPT.fullmatch(entry.name)
        if shard is None:
            if found or (entry.name.startswith(".plan.json.") and entry.is_file()):
                (shutil.rmtree(entry.path, ignore_errors=True) if found else os.remove(entry.path))
        elif found and found[1] == shard.name and found[2] == socket.gethostname() and not _lives(int(found[3])):
            shutil.rmtree(entry.path, ignore_errors=True)


def checksum(path: str) -> str:
    """Return the sha256 of a file's bytes."""
    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()


def _written(plan: Plan, shard: Shard, attempt: str) -> dict[str, PartFile]:
    """Return the files that an attempt wrote."""
    options: dict[str, str] = {}
    for each in plan.outputs:
        options |= {f"{shard.name}.{name}": each.option for name in each.names}
    found = {}
    with reported(attempt):
        for name in sorted(os.listdir(attempt)):
            path = os.path.join(attempt, name)
            found[name] = PartFile(options.get(name), os.path.getsize(path), checksum(path))
    return found


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
