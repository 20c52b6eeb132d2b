"""Read and write the plan and the records of completed shards, which are JSON files in the shard folder.

The first attempt writes ``plan.json``; a completed shard writes a record such as ``00003-of-00008.json``. A record is
valid if it belongs to the same plan and the shard's files have the recorded sizes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import secrets
from dataclasses import dataclass
from typing import Any, get_args

from ninja.errors import FormatError, OptionError
from ninja.files.output import LONGEST_NAME, dumped, reported
from ninja.formats.kaldi.archive import table_beside
from ninja.io import resume
from ninja.io.detection import SCALES_SUFFIX
from ninja.pipeline.plan import MAX_SHARDS, SUFFIX, OutputKind, PartOutput, Plan, Shard, renamed
from ninja.pipeline.shard_folder import ShardFolder

PLAN = "plan.json"
_RECORD = re.compile(r"\d+-of-\d+\.json")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed lattice and its error."""

    key: str | None
    path: str | None
    message: str  # error message, which includes the file, key and line


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A file that a shard wrote."""

    option: str | None  # command-line option that sets the output; None for a symbol table or scale file
    size: int  # in bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Record:
    """The results of a completed shard."""

    plan: str  # digest of the plan
    shard: int  # number of the shard, counted from 1
    of: int  # number of shards
    lattices: int  # number of lattices with a result
    failures: tuple[Failure, ...]
    keys: str  # sha256 of the keys read, each followed by a newline
    parts: dict[str, ShardFile]  # file name → file
    host: str  # name of the host that ran the shard
    seconds: float  # wall time
    version: str  # version of Ninja


def read_record(plan: Plan, shard: Shard) -> Record | None:
    """Return the record of a completed shard, or None if the shard must run.

    Raises:
        OptionError: The record belongs to a different plan.
    """
    parts = ShardFolder(plan.folder)
    try:
        facts = _load(parts, f"{shard.name}.json")
        if facts is None:
            return None
        record = _record(plan, shard, facts)
    except (LookupError, TypeError, ValueError):
        return None  # the file is truncated, or is not a record
    if record.plan != plan.digest:
        raise OptionError(_other_plan(plan.folder, "other options, sources or models"))
    return record if all(parts.size(name) == part.size for name, part in record.parts.items()) else None


def write_record(plan: Plan, record: Record, temporary: str) -> None:
    """Write a record atomically.

    Args:
        plan: Plan to whose shard folder the record is written.
        record: The record.
        temporary: Folder in which the file is stored until it is complete.
    """
    path = os.path.join(temporary, "record")
    _dump(dataclasses.asdict(record), path)
    ShardFolder(plan.folder).take(path, f"{Shard(record.shard, record.of).name}.json")


def settle_plan(plan: Plan) -> None:
    """Write the plan to its shard folder, or check that the folder already contains the same plan.

    A different plan is replaced if none of its shards is complete.

    Raises:
        OptionError: The folder contains a different plan with a completed shard; the message describes the
            difference.
        OutputError: The plan cannot be written.
    """
    parts = ShardFolder(plan.folder)
    if parts.size(PLAN) is None:
        _write_plan(plan, replace=False)
    existing = read_plan(plan.folder)
    if existing.digest != plan.digest:
        if any(_RECORD.fullmatch(name) for name in parts.names()):
            raise OptionError(_other_plan(plan.folder, resume.difference(existing.facts(), plan.facts())))
        _write_plan(plan, replace=True)


def _write_plan(plan: Plan, *, replace: bool) -> None:
    facts = plan.facts()
    parts = ShardFolder(plan.folder)
    parts.make()
    temporary = os.path.join(parts.attempts, f".{PLAN}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        _dump(facts, temporary)
        parts.take(temporary, PLAN, replace=replace)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


def read_plan(folder: str) -> Plan:
    """Read the plan in a shard folder.

    Raises:
        FormatError: The plan is missing or damaged.
    """
    parts = ShardFolder(folder)
    try:
        facts = _load(parts, PLAN)
        if facts is None:
            raise FormatError("contains no plan.json, so it is not the folder of a run with --shard", folder)
        return _plan(folder, facts)
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        message = "is damaged; remove the folder and run the shards again"
        raise FormatError(message, parts.place(PLAN)) from error


def _plan(folder: str, facts: dict[str, Any]) -> Plan:
    """Build a plan from an untrusted JSON object, which must list output names without folders.

    The outputs are placed next to the shard folder.
    """
    parent = os.path.dirname(folder)
    outputs = []
    for option, name, kind in facts["outputs"]:
        _check(isinstance(option, str) and isinstance(name, str) and kind in get_args(OutputKind))
        outputs.append(PartOutput(option, renamed(name, lambda base: os.path.join(parent, _base(base))), kind))
    names = [name for file in outputs for name in file.names]
    _check(len(set(names)) == len(names))
    if names[0] + SUFFIX != os.path.basename(folder):
        raise FormatError(
            f"is the plan of {names[0]!r}, so its folder must be named {names[0] + SUFFIX}", f"{folder}/{PLAN}"
        )
    sources = []
    for path, size, changed in facts["sources"]:
        _check(isinstance(path, str) and _is_number(size, least=-1) and _is_number(changed, least=-1))
        sources.append((path, size, changed))
    _check(_is_number(facts["shards"], least=1, most=MAX_SHARDS))
    _check(isinstance(facts["command"], str) and isinstance(facts["version"], str))
    _check(isinstance(facts["options"], dict))
    plan = Plan(
        folder,
        facts["shards"],
        facts["command"],
        facts["options"],
        facts["version"],
        tuple(outputs),
        tuple(sources),
    )
    _check(plan.facts() == facts)
    return plan


def _check(is_valid: bool) -> None:
    if not is_valid:
        raise ValueError


def _is_number(value: object, *, least: int = 0, most: int = 1 << 63) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _base(name: str) -> str:
    """Return a file name unchanged; raise ValueError if it contains a folder, is hidden or is too long."""
    _check(
        bool(name) and name[0] != "." and not {"/", os.sep, "\0"} & {*name} and len(os.fsencode(name)) <= LONGEST_NAME
    )
    return name


def _other_plan(folder: str, difference: str) -> str:
    return f"{folder} contains shards of a run with {difference}; remove it, or choose another output"


def _record(plan: Plan, shard: Shard, facts: dict[str, Any]) -> Record:
    """Build a record from an untrusted JSON object, which must list only files of this shard."""
    _check(isinstance(facts["parts"], dict))
    failures = tuple(Failure(**fields) for fields in facts.pop("failures"))
    for failure in failures:
        _check(isinstance(failure.message, str))
        _check(isinstance(failure.key, str | None) and isinstance(failure.path, str | None))
    options: dict[str, str | None] = {}
    for output in plan.outputs:
        for name in output.names:
            options |= {f"{name}{SCALES_SUFFIX}": None, table_beside(name): None}
        options |= dict.fromkeys(output.names, output.option)
    parts = {name: ShardFile(**fields) for name, fields in facts.pop("parts").items()}
    for name, part in parts.items():
        _check(options[name.removeprefix(f"{shard.name}.")] == part.option and name.startswith(shard.name))
        _check(_is_number(part.size) and isinstance(part.sha256, str))
    record = Record(**facts, failures=failures, parts=parts)
    _check((record.shard, record.of) == (shard.number, shard.of) and _is_number(record.lattices))
    _check(all(isinstance(text, str) for text in (record.plan, record.keys, record.host, record.version)))
    _check(isinstance(record.seconds, int | float) and not isinstance(record.seconds, bool) and record.seconds >= 0)
    return record


def _load(parts: ShardFolder, name: str) -> dict[str, Any] | None:
    """Return the content of a JSON file in a shard folder, or None if the file does not exist."""
    size = parts.size(name)
    if size is None:
        return None
    if size > resume.LARGEST:
        raise ValueError
    return resume.parsed(b"".join(parts.blocks(name)))


def _dump(facts: dict[str, Any], path: str) -> None:
    with reported(path), open(path, "wb") as file:
        file.write(dumped(facts))
