"""Join the outputs from shards into the outputs of one run."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from ninja.errors import FormatError, OutputError, all_failed, named
from ninja.files.output import PartFile as Output
from ninja.files.output import target
from ninja.files.stream import is_file, is_remote
from ninja.pipeline.plan import SUFFIX, PartOutput, Plan, Shard, shard_folder_of
from ninja.pipeline.record import Record, read_plan, read_record
from ninja.pipeline.shard import remove_stale_attempts
from ninja.pipeline.shard_folder import ShardFolder

_ROW = re.compile(rb"(\S+) [^ ].*:([0-9]{1,18})")  # line of a script file: key, file, offset


@dataclass(frozen=True, slots=True)
class JoinedRun:
    """The plan, the records and the outputs of a run whose shards have been joined."""

    plan: Plan
    records: tuple[Record, ...]
    outputs: tuple[str, ...]  # paths of the joined files

    @property
    def lattices(self) -> int:
        """Number of lattices that have a result."""
        return sum(record.lattices for record in self.records)


def join_shards(name: str) -> JoinedRun:
    """Check the files of all shards, and join them in the order of the sources.

    Archives and text files, compressed or not, are concatenated; script files refer to the joined archive; symbol
    tables and scale files, which must be equal in all shards, are copied. Each output is written completely or not at
    all, next to the shard folder, which is kept.

    Args:
        name: Output that was set with ``-o``, or the shard folder of this output.

    Returns:
        A `JoinedRun` with the plan, the record of each shard, and the paths of the joined files.

    Raises:
        FormatError: Shards are missing, or files differ from their records; the message lists the shards to run again.
        OptionError: The folder contains shards of several plans.
        OutputError: An output cannot be written, or would replace a file that the user did not specify.
    """
    folder = name.rstrip("/") if name.rstrip("/").endswith(SUFFIX) else shard_folder_of(name)
    plan = read_plan(folder)
    records = _records(plan)
    if not any(record.lattices for record in records):
        failed = sum(len(record.failures) for record in records)
        raise FormatError(f"{all_failed(failed)}; no output is written", folder)
    outputs: list[str] = []
    with ExitStack() as stack:
        files: list[Output] = []

        def create(path: str) -> Output:
            _refuse_unnamed(plan, path)
            file = Output(path)
            stack.callback(file.abandon, keep=False)
            files.append(file)
            return file

        for output in plan.outputs:
            _join(plan, output, records, create(target(output.name).archive))
            if (script := target(output.name).script) is not None:
                create(script).write(b"".join(_script(plan, output, records)))
        for path, content in _shared_files(plan, records).items():
            create(path).write(content)
        for file in files:
            file.finish()
            outputs.append(file.name)
        stack.pop_all()
    remove_stale_attempts(ShardFolder(folder))
    return JoinedRun(plan, tuple(records), tuple(outputs))


def remove_shards(run: JoinedRun) -> None:
    """Remove the shard folder and all files in it, including the records and the plan."""
    folder = run.plan.folder
    if is_remote(folder):
        ShardFolder(folder).remove_all()
        return
    os.rename(folder, f"{folder}.joined")  # if this process is killed, the remaining files do not look like shards
    shutil.rmtree(f"{folder}.joined")


def _refuse_unnamed(plan: Plan, path: str) -> None:
    """Raise `OutputError` if a file exists and its name does not begin with the name of the specified output."""
    stem = os.path.basename(plan.folder).partition(".")[0]
    if os.path.basename(path).partition(".")[0] != stem and is_file(path):
        message = "already exists and would be overwritten, because plan.json lists it as an output; move it elsewhere"
        raise OutputError(message, path)


def _records(plan: Plan) -> list[Record]:
    records = [read_record(plan, Shard(number, plan.shards)) for number in range(1, plan.shards + 1)]
    missing = [str(number) for number, record in enumerate(records, start=1) if record is None]
    if missing:
        count = f"shard {missing[0]}" if len(missing) == 1 else f"{len(missing)} shards"
        message = f"{count} of {plan.shards} must still be run: {named(missing)} (--shard {missing[0]}/{plan.shards})"
        raise FormatError(message, plan.folder)
    return [record for record in records if record is not None]


def _join(plan: Plan, output: PartOutput, records: list[Record], file: Output) -> None:
    """Write the concatenated shard files of an output, or the first file if all must be equal; verify checksums."""
    archive = os.path.basename(target(output.name).archive)
    first: str | None = None  # checksum of the first part
    for record in records:
        name = f"{_stem(record)}.{archive}"
        part = record.parts.get(name)
        if part is None:
            continue
        if output.kind == "same" and first is not None:
            if part.sha256 != first:
                raise _differing(plan, name)
            continue
        first = first or part.sha256
        digest = hashlib.sha256()
        for block in ShardFolder(plan.folder).blocks(name):
            digest.update(block)
            file.write(block)
        if digest.hexdigest() != part.sha256:
            raise _changed(plan, record, name)


def _script(plan: Plan, output: PartOutput, records: list[Record]) -> Iterator[bytes]:
    """Yield the lines of a script file for the joined archive."""
    chosen = target(output.name)
    assert chosen.script is not None
    begin = 0
    for record in records:
        name = f"{_stem(record)}.{os.path.basename(chosen.script)}"
        if name not in record.parts:
            continue
        content = _read(plan, record, name)
        for line in content.splitlines(keepends=False):
            row = _ROW.fullmatch(line)
            if row is None:
                raise _changed(plan, record, name)
            yield b"%s %s:%d\n" % (row[1], os.fsencode(chosen.archive), begin + int(row[2]))
        begin += record.parts[f"{_stem(record)}.{os.path.basename(chosen.archive)}"].size


def _shared_files(plan: Plan, records: list[Record]) -> dict[str, bytes]:
    """Map the path of each symbol table and scale file to its content, which must be equal in all shards."""
    contents: dict[str, bytes] = {}
    folder = os.path.dirname(target(plan.outputs[0].name).archive)
    for record in records:
        for name, part in record.parts.items():
            if part.option is not None:
                continue
            content = _read(plan, record, name)
            path = os.path.join(folder, name.removeprefix(f"{_stem(record)}."))
            if contents.setdefault(path, content) != content:
                raise _differing(plan, name)
    return contents


def _read(plan: Plan, record: Record, name: str) -> bytes:
    content = b"".join(ShardFolder(plan.folder).blocks(name))
    if hashlib.sha256(content).hexdigest() != record.parts[name].sha256:
        raise _changed(plan, record, name)
    return content


def _stem(record: Record) -> str:
    return Shard(record.shard, record.of).name


def _changed(plan: Plan, record: Record, name: str) -> FormatError:
    advice = f"remove it and run --shard {record.shard}/{record.of} again"
    return FormatError(f"does not match the record of its shard; {advice}", ShardFolder(plan.folder).place(name))


def _differing(plan: Plan, name: str) -> OutputError:
    return OutputError("differs between shards; run all shards with --words", ShardFolder(plan.folder).place(name))
