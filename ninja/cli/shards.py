"""``--shard i/n``: run a command on one shard of its sources."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import click

from ninja.cli.console import SHOWN
from ninja.cli.files import CommandFiles, LatticeFile, OutputFile, OutputFolder
from ninja.errors import NinjaError, OptionError, named
from ninja.files.place import STDIN as STDOUT
from ninja.io.scales import find_scales
from ninja.io.symbol_tables import find_table
from ninja.io.writer import format_of
from ninja.libraries import installed_version
from ninja.pipeline.join import JoinedRun
from ninja.pipeline.outputs import names_job
from ninja.pipeline.plan import PartOutput, Plan, Shard, shard_folder_of, units
from ninja.pipeline.record import Failure, Record
from ninja.pipeline.shard import Outcome, Part, checksum, run_shard


def run_in_shard(context: click.Context, shard: Shard, body: Callable[[], Any]) -> None:
    """Run the command of a context on one shard unless that is finished, and exit.

    Args:
        body: Runs the command.
    """
    plan = plan_of(context, shard.of)
    was_finished = True

    def work(part: Part) -> Outcome:
        nonlocal was_finished
        was_finished = False
        return run_part(context, part, body)

    record = run_shard(plan, shard, work)
    if was_finished:
        click.echo(f"ninja: shard {shard.number} of {shard.of} {_summary(record)}", err=True)
    context.exit(1 if record.failures else 0)


@dataclass(frozen=True, slots=True)
class CommandWork:
    """A command as the work of `run_shard`, in any process; it runs as with ``--shard``.

    Args:
        arguments: Arguments of ``ninja``, without ``--shard``; ``--ray`` is ignored.
    """

    arguments: tuple[str, ...]

    def plan(self, shards: int) -> Plan:
        """Return the plan of the command in shards.

        Raises:
            OptionError: Its results cannot be joined.
            click.UsageError: The arguments are wrong.
        """
        with self._context() as context:
            return plan_of(context, shards)

    def __call__(self, part: Part) -> Outcome:
        """Run the command on a part."""
        with self._context() as context:
            return run_part(context, part, lambda: cast(Any, context.command).run(context))

    def _context(self) -> click.Context:
        group = cast(click.Group, importlib.import_module("ninja.cli.main").group)
        parent = click.Context(group, info_name="ninja", **group.context_settings)
        name, command, rest = group.resolve_command(parent, list(self.arguments))
        if command is None or not any(parameter.name == "shard" for parameter in command.params):
            raise OptionError(f"{name} cannot run in shards: its result depends on all lattices")
        context = command.make_context(name, rest, parent=parent)
        context.obj = CommandFiles(command, context.params)
        context.params.pop("shard"), context.params.pop("ray")
        return context


def plan_of(context: click.Context, shards: int) -> Plan:
    """Return the plan of a command in shards.

    Raises:
        OptionError: Its results cannot be joined.
    """
    command, values = context.command, context.params
    outputs = tuple(_outputs(command, values))
    if not outputs:
        raise OptionError("--shard needs a file for its results: name it with -o")
    for name in ("strict", "carry_over"):
        if values.get(name):
            option = f"--{name.replace('_', '-')}"
            raise OptionError(f"{option} needs all lattices and cannot be used with --shard")
    files: CommandFiles = context.obj
    places = _sources(command, values)
    sources = files.sources.select(places)
    source_units, states = units(sources, format=values.get("format"))
    options, others = files.settings(_checksums)
    with contextlib.suppress(NinjaError):
        if values.get("words") is None:
            options["words"] = _checksums([find_table(places)])
    with contextlib.suppress(NinjaError):
        if (scales := find_scales(sources)) is not None:
            options["scales"] = repr(scales.values())
    states += others
    return Plan(
        shard_folder_of(outputs[0].name),
        shards,
        command.name or "",
        options,
        installed_version(),
        outputs,
        tuple(states),
        tuple(source_units),
    )


def run_part(context: click.Context, part: Part, body: Callable[[], Any]) -> Outcome:
    """Run the command of a context on a part of its sources.

    Args:
        body: Runs the command in that context.
    """
    context.params |= part.outputs
    if "resume" in context.params:
        context.params["resume"] = False
    files: CommandFiles = context.obj
    files.tables, files.inputs = part.tables, None
    with contextlib.suppress(click.exceptions.Exit):  # the end of a command; failures are in the log
        body()
    inputs = files.inputs
    assert inputs is not None
    words = inputs.table()
    if words is not None and words.grows and inputs.words is None and _has_tables(part):
        raise OptionError("--shard needs --words here: otherwise the shards would have different word ids")
    log = inputs.log
    failures = tuple(Failure(error.key, error.path, str(error)) for error in log.failures)
    return Outcome(log.lattices, failures, inputs.digest.hexdigest())


def _has_tables(part: Part) -> bool:
    """Tell whether a symbol table was written beside an output."""
    return any(name.endswith(".words.txt") for name in os.listdir(part.folder)) or "words_out" in part.outputs


def _outputs(command: click.Command, values: dict[str, Any]) -> Iterator[PartOutput]:
    """Yield the outputs of a command.

    Raises:
        OptionError: The parts of an output cannot be joined.
    """
    names: dict[str, str] = {}
    folders: dict[str, str] = {}
    for parameter in command.params:
        name = parameter.name or ""
        value = values.get(name)
        if not isinstance(parameter.type, OutputFile) or value is None:
            continue
        option = parameter.opts[0]
        if value == STDOUT:
            raise OptionError(f"--shard needs a file for its results: name it with {option}")
        if (
            isinstance(parameter.type, OutputFolder)
            or value.endswith(os.sep)
            or os.path.isdir(value)
            or names_job(value)
        ):
            raise OptionError(f"{value}: --shard writes the parts of one output; name a file with {option}")
        if isinstance(parameter.type, LatticeFile):
            form = format_of(value, values.get("to"))
            if not form.is_kaldi:
                raise OptionError(
                    f"{value}: parts of {form.format.name} cannot be joined; write an archive, then convert it"
                )
        kind = "lattices" if isinstance(parameter.type, LatticeFile) else "same" if name == "words_out" else "text"
        output = PartOutput(name, value, kind)  # type: ignore[arg-type]
        for path in OutputFile().targets(value):
            folders.setdefault(os.path.dirname(path), path)
        if len(folders) > 1:
            raise OptionError(f"{' and '.join(folders.values())} must be in the same folder with --shard")
        for base in output.names:
            if base in names:
                raise OptionError(f"{names[base]} and {value} must have different names with --shard")
            if base.startswith("."):
                raise OptionError(f"{value}: with --shard the name of a file must not begin with a dot")
            names[base] = value
        yield output


def _sources(command: click.Command, values: dict[str, Any]) -> tuple[str, ...]:
    value = values["source"] if "source" in values else values["first"]
    return value if isinstance(value, tuple) else (value,)


def _checksums(paths: list[str]) -> list[str]:
    """Return the checksum of the content of files, which is the same on all machines."""
    return [hashlib.sha256("".join(map(checksum, paths)).encode()).hexdigest()]


def _summary(record: Record) -> str:
    if not record.parts and not record.failures:
        return "has no lattices: there are too many shards"
    failed = f", {len(record.failures)} failed" if record.failures else ""
    return f"is finished: {record.lattices} lattices{failed}"


def report(gathered: JoinedRun) -> NoReturn:
    """Print the joined files and the failures of the shards, and exit."""
    failures = [failure for record in gathered.records for failure in record.failures]
    for failure in failures[:SHOWN]:
        click.echo(f"ninja: failed: {failure.message}", err=True)
    if len(failures) > SHOWN:
        keys = [failure.key or failure.path or "?" for failure in failures]
        click.echo(f"ninja: {len(keys)} failed: {named(keys)}", err=True)
    failed = f", {len(failures)} failed" if failures else ""
    files = " ".join(gathered.outputs)
    click.echo(f"ninja: {files}: {gathered.lattices} lattices of {gathered.plan.shards} shards{failed}", err=True)
    click.get_current_context().exit(1 if failures else 0)
