"""The parts of a run in shards, checked and joined into the outputs of one run."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from ninja.errors import FormatError, OutputError, named
from ninja.files import remote
from ninja.files.output import PartFile as Output
from ninja.files.output import target
from ninja.pipeline.parts import Parts
from ninja.pipeline.plan import SUFFIX, PartOutput, Plan, Shard, parts_folder
from ninja.pipeline.record import Record, read_plan, read_record
from ninja.pipeline.shard import remove_dead_attempts

_ROW = re.compile(rb"(\S+) [^ ].*:([0-9]{1,18})")  # of a script file: key, file, offset


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was joined."""

    plan: Plan
    records: tuple[Record, ...]
    written: tuple[str, ...]  # files

    @property
    def lattices(self) -> int:
        """Number of results."""
        return sum(record.lattices for record in self.records)


def gather(name: str) -> Gathered:
    """Check the parts of all shards and join them, in the order of the sources, into the files that one run writes.

    Archives and texts are joined byte by byte (packed ones by their gzip members), script files get the joined
    archive's name and places; symbol tables and scales, which are the same in all parts, are copied. Each output
    appears whole or not at all, beside the folder of the parts. The parts stay.

    Args:
        name: An output that was named with ``-o``, or the folder of its parts.

    Returns:
        The plan, the record of each shard, and the files that were written.

    Raises:
        FormatError: Shards are missing, or parts are not as their records say; the message says which to run again.
        OptionError: Parts of several plans.
        OutputError: An output cannot be written, or would replace a file that the user did not name.
    """
    folder = name.rstrip("/") if name.rstrip("/").endswith(SUFFIX) else parts_folder(name)
    plan = read_plan(folder)
    records = _records(plan)
    if not any(record.lattices for record in records):
        failed = sum(len(record.failures) for record in records)
        raise FormatError(f"not one lattice of {failed} could be used; nothing is written", folder)
    written: list[str] = []
    with ExitStack() as stack:
        files: list[Output] = []

        def opened(path: str) -> Output:
            _refuse_unnamed(plan, path)
            file = Output(path)
            stack.callback(file.abandon, keep=False)
            files.append(file)
            return file

        for output in plan.outputs:
            _join(plan, output, records, opened(target(output.name).archive))
            if (script := target(output.name).script) is not None:
                opened(script).write(b"".join(_script(plan, output, records)))
        for path, content in _beside(plan, records).items():
            opened(path).write(content)
        for file in files:
            file.finish()
            written.append(file.name)
        stack.pop_all()
    remove_dead_attempts(Parts(folder))
    return Gathered(plan, tuple(records), tuple(written))


def remove(found: Gathered) -> None:
    """Remove the parts, their records and the plan."""
    plan = found.plan.folder
    if not remote.is_remote(plan):
        os.rename(plan, f"{plan}.joined")  # at once: what is left of it, if this is killed, is no folder of parts
        shutil.rmtree(f"{plan}.joined")
    else:
        Parts(plan).remove_all()


def _refuse_unnamed(plan: Plan, path: str) -> None:
    """Refuse to replace a file unless its name shares the stem of the output's, which the user typed."""
    stem = os.path.basename(plan.folder).partition(".")[0]
    if os.path.basename(path).partition(".")[0] != stem and remote.is_file(path):
        raise OutputError("is there already, and only plan.json names it; move it away", path)


def _records(plan: Plan) -> list[Record]:
    found = {number: read_record(plan, Shard(number, plan.shards)) for number in range(1, plan.shards + 1)}
    lacking = [str(number) for number, record in found.items() if record is None]
    if lacking:
        count = f"shard {lacking[0]}" if len(lacking) == 1 else f"{len(lacking)} shards"
        message = f"{count} of {plan.shards} still to be run: {named(lacking)} (--shard {lacking[0]}/{plan.shards})"
        raise FormatError(message, plan.folder)
    return [record for record in found.values() if record is not None]


def _join(plan: Plan, output: PartOutput, records: list[Record], file: Output) -> None:
    """Write the parts of an output one after the other, and check their checksums meanwhile."""
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
        found = hashlib.sha256()
        for block in Parts(plan.folder).blocks(name):
            found.update(block)
            file.write(block)
        if found.hexdigest() != part.sha256:
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


def _beside(plan: Plan, records: list[Record]) -> dict[str, bytes]:
    """Return the files beside the outputs, with their contents, which must be the same in all parts."""
    found: dict[str, bytes] = {}
    place = os.path.dirname(target(plan.outputs[0].name).archive)
    for record in records:
        for name, part in record.parts.items():
            if part.option is not None:
                continue
            content = _read(plan, record, name)
            path = os.path.join(place, name.removeprefix(f"{_stem(record)}."))
            if found.setdefault(path, content) != content:
                raise _differing(plan, name)
    return found


def _read(plan: Plan, record: Record, name: str) -> bytes:
    content = b"".join(Parts(plan.folder).blocks(name))
    if hashlib.sha256(content).hexdigest() != record.parts[name].sha256:
        raise _changed(plan, record, name)
    return content


def _stem(record: Record) -> str:
    return Shard(record.shard, record.of).name


def _changed(plan: Plan, record: Record, name: str) -> FormatError:
    advice = f"remove it and run --shard {record.shard}/{record.of} again"
    return FormatError(f"is not as its record says; {advice}", Parts(plan.folder).place(name))


def _differing(plan: Plan, name: str) -> OutputError:
    return OutputError("differs between shards; give the words of all with --words", Parts(plan.folder).place(name))
