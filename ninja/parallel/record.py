"""Records of the shards that are done, and the plan that they belong to, as JSON files in the folder of the parts.

``00003-of-00008.json`` stands there when shard 3 is done, ``plan.json`` from the first attempt on. A record counts if
it is of the same plan and the parts that it names have the sizes that it says.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import secrets
from dataclasses import dataclass
from typing import Any

from ninja.errors import FormatError, OptionError
from ninja.files.output import reported
from ninja.io.run_facts import difference
from ninja.parallel.parts import Parts
from ninja.parallel.plan import PartOutput, Plan, Shard

PLAN = "plan.json"
_RECORD = re.compile(r"\d+-of-\d+\.json")


@dataclass(frozen=True, slots=True)
class Failure:
    """A lattice that failed."""

    key: str | None
    path: str | None
    message: str  # with its place


@dataclass(frozen=True, slots=True)
class PartFile:
    """A file that a shard wrote."""

    option: str | None  # of the output that it is; None: it lies beside one
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Record:
    """Facts of a shard that is done."""

    plan: str  # digest
    shard: int
    of: int
    lattices: int  # results
    failures: tuple[Failure, ...]
    keys: str  # sha256 of the keys read, each with a newline behind it
    parts: dict[str, PartFile]  # by the name of each file
    host: str
    seconds: float
    version: str


def read_record(plan: Plan, shard: Shard) -> Record | None:
    """Return the record of a shard that is done; None: it must run, for the first time or again.

    Raises:
        OptionError: It was done by another plan.
    """
    parts = Parts(plan.folder)
    try:
        facts = _load(parts, f"{shard.name}.json")
        if facts is None:
            return None
        found = _record(facts)
    except (KeyError, TypeError, ValueError):
        return None  # cut short
    if found.plan != plan.digest:
        raise OptionError(_other_plan(plan.folder, "other options, sources or models"))
    return found if all(parts.size(name) == part.size for name, part in found.parts.items()) else None


def write_record(plan: Plan, record: Record, temporary: str) -> None:
    """Write a record, which appears whole.

    Args:
        temporary: Folder for it meanwhile.
    """
    path = os.path.join(temporary, "record")
    _dump(dataclasses.asdict(record), path)
    Parts(plan.folder).take(path, f"{Shard(record.shard, record.of).name}.json")


def settle_plan(plan: Plan) -> None:
    """Write the plan into its folder, or see that the one which stands there is the same.

    One of which no shard is done is replaced.

    Raises:
        OptionError: It is another one; it is said in what.
        OutputError: It cannot be written.
    """
    parts = Parts(plan.folder)
    if parts.size(PLAN) is None:
        _write_plan(plan, replace=False)
    found = read_plan(plan.folder)
    if found.digest != plan.digest:
        if any(_RECORD.fullmatch(name) for name in parts.names()):
            raise OptionError(_other_plan(plan.folder, difference(found.facts(), plan.facts())))
        _write_plan(plan, replace=True)


def _write_plan(plan: Plan, *, replace: bool) -> None:
    facts = plan.facts() | {"outputs": [dataclasses.asdict(each) for each in plan.outputs]}
    parts = Parts(plan.folder)
    temporary = os.path.join(parts.attempts, f".{PLAN}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        _dump(facts, temporary)
        parts.take(temporary, PLAN, replace=replace)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


def read_plan(folder: str) -> Plan:
    """Read the plan of a folder of parts.

    Raises:
        FormatError: There is none, or it is damaged.
    """
    try:
        facts = _load(Parts(folder), PLAN)
        if facts is None:
            raise FormatError("there is no plan.json: these are no parts of a run with --shard", folder)
        return Plan(
            folder,
            facts["shards"],
            facts["command"],
            facts["options"],
            facts["version"],
            tuple(PartOutput(**each) for each in facts["outputs"]),
            tuple((name, size, changed) for name, size, changed in facts["sources"]),
        )
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        message = "is damaged; remove the folder and run the shards again"
        raise FormatError(message, Parts(folder).place(PLAN)) from error


def _other_plan(folder: str, difference: str) -> str:
    return f"{folder} holds parts made with {difference}; remove it, or name another output"


def _record(facts: dict[str, Any]) -> Record:
    failures = tuple(Failure(**each) for each in facts.pop("failures"))
    parts = {name: PartFile(**each) for name, each in facts.pop("parts").items()}
    return Record(**facts, failures=failures, parts=parts)


def _load(parts: Parts, name: str) -> dict[str, Any] | None:
    """Return what a JSON file of a folder holds; None: it is not there."""
    if parts.size(name) is None:
        return None
    found: dict[str, Any] = json.loads(b"".join(parts.blocks(name)))
    return found


def _dump(facts: dict[str, Any], path: str) -> None:
    with reported(path), open(path, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)  # ASCII, also of names that are no UTF-8
        file.write("\n")
