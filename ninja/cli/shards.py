"""The option ``--shard i/n``, which runs a command on one shard of its sources."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import click

from ninja.cli.main import MAX_SHOWN, current_console
from ninja.errors import NinjaError, OptionError, counted, named
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import names_job
from ninja.formats.format import format_of
from ninja.formats.kaldi.archive import find_table
from ninja.io.sources import find_scales
from ninja.libraries import installed_version
from ninja.pipeline.join import JoinedRun
from ninja.pipeline.plan import PartOutput, Plan, Shard, shard_folder_of, units
from ninja.pipeline.record import Failure, Record
from ninja.pipeline.shard import Outcome, Part, checksum, run_shard


def run_in_shard(context: click.Context, shard: Shard, body: Callable[[], Any]) -> None:
    """Run a command on one shard, unless the shard is already complete, and exit.

    Args:
        body: Function that runs the command.
    """
    plan = plan_of(context, shard.of)
    was_finished = True

    def work(part: Part) -> Outcome:
        nonlocal was_finished
        was_finished = False
        return run_part(context, part, body)

    record = run_shard(plan, shard, work)
    if was_finished:
        current_console().say(f"shard {shard.number} of {shard.of} {_summary(record)}")
    context.exit(1 if record.failures else 0)


@dataclass(frozen=True, slots=True)
class CommandWork:
    """Callable that runs a command line on a shard, for use by `run_shard` in any process.

    Args:
        arguments: Arguments of ``ninja`` without ``--shard``; ``--ray`` is ignored.
    """

    arguments: tuple[str, ...]

    def plan(self, shards: int) -> Plan:
        """Return a plan that divides the sources of the command into shards.

        Raises:
            OptionError: The results of shards cannot be joined.
            click.UsageError: The arguments are invalid.
        """
        with self._context() as context:
            return plan_of(context, shards)

    def __call__(self, part: Part) -> Outcome:
        """Run the command on a part of its sources."""
        with self._context() as context:
            return run_part(context, part, lambda: cast(Any, context.command).run(context))

    def _context(self) -> click.Context:
        group = cast(click.Group, importlib.import_module("ninja.cli.main").group)
        parent = click.Context(group, info_name="ninja", **group.context_settings)
        name, command, remaining = group.resolve_command(parent, list(self.arguments))
        if command is None or not any(parameter.name == "shard" for parameter in command.params):
            raise OptionError(f"{name} cannot run in shards, because its results depend on all lattices")
        context = command.make_context(name, remaining, parent=parent)
        cast(Any, command).check_files(context)
        return context


def plan_of(context: click.Context, shards: int) -> Plan:
    """Return a plan that divides the sources of a command into shards.

    Args:
        context: Context of the command, with the values of its options.
        shards: Number of shards.

    Raises:
        OptionError: The command has no output file, or the results of its shards cannot be joined.
    """
    values, files = context.params, context.obj
    outputs = tuple(_outputs(context))
    if not outputs:
        raise OptionError("--shard requires an output file; specify it with -o")
    for name in ("strict", "carry_over"):
        if values.get(name):
            option = f"--{name.replace('_', '-')}"
            raise OptionError(f"{option} depends on all lattices and cannot be used with --shard")
    names = _sources(values)
    sources = files.sources.select(names)
    source_units, states = units(sources, format=values.get("format"))
    if files.reads_stdin:
        raise OptionError("standard input cannot be read by several shards; use files instead")
    options, others = files.settings(_checksums)
    with contextlib.suppress(NinjaError):
        if values.get("words") is None:
            options["words"] = _checksums([find_table(names)])
    with contextlib.suppress(NinjaError):
        if (scales := find_scales(sources)) is not None:
            options["scales"] = repr(scales.values())
    states += others
    return Plan(
        shard_folder_of(outputs[0].name),
        shards,
        context.command.name or "",
        options,
        installed_version(),
        outputs,
        tuple(states),
        tuple(source_units),
    )


def run_part(context: click.Context, part: Part, body: Callable[[], Any]) -> Outcome:
    """Run a command on one shard of its sources and return the outcome.

    Args:
        context: Context of the command. Its output options are replaced with the output options of the shard.
        part: The shard.
        body: Function that runs the command in `context`.

    Raises:
        OptionError: The shards would assign different ids to words, because there is no symbol table.
    """
    context.params |= part.outputs
    if "resume" in context.params:
        context.params["resume"] = False
    files = context.obj
    files.tables, files.inputs = part.tables, None
    with contextlib.suppress(click.exceptions.Exit):  # raised at the end of a command; failures are in the log
        body()
    inputs = files.inputs
    assert inputs is not None
    words = inputs.table()
    if words is not None and words.grows and inputs.words is None and _has_tables(part):
        raise OptionError("--shard requires --words for this input; otherwise word ids would differ between shards")
    log = inputs.log
    failures = tuple(Failure(error.key, error.path, str(error)) for error in log.failures)
    return Outcome(log.lattices, failures, inputs.digest.hexdigest())


def _has_tables(part: Part) -> bool:
    """Return whether a symbol table was written for a shard."""
    return any(name.endswith(".words.txt") for name in os.listdir(part.folder)) or "words_out" in part.outputs


def _outputs(context: click.Context) -> Iterator[PartOutput]:
    """Yield the outputs of a command.

    Raises:
        OptionError: The results of shards cannot be joined.
    """
    names: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name, option, kind, value in context.obj.outputs():
        if value == STDOUT:
            raise OptionError(f"--shard requires an output file; specify it with {option}")
        if kind.content == "files" or value.endswith(os.sep) or os.path.isdir(value) or names_job(value):
            raise OptionError(f"{value}: with --shard, the output must be a single file; specify it with {option}")
        if kind.content == "lattices":
            form = format_of(value, context.params.get("to"))
            if not form.is_kaldi:
                raise OptionError(
                    f"{value}: {form.format.name} outputs of shards cannot be joined; write an archive, then convert it"
                )
        output = PartOutput(name, value, "same" if name == "words_out" else kind.content)
        for path in kind.targets(value):
            folders.setdefault(os.path.dirname(path), path)
        if len(folders) > 1:
            raise OptionError(f"with --shard, {' and '.join(folders.values())} must be in the same folder")
        for base in output.names:
            if base in names:
                raise OptionError(f"with --shard, {names[base]} and {value} must have different names")
            if base.startswith("."):
                raise OptionError(f"{value}: with --shard, the name of an output must not begin with a dot")
            names[base] = value
        yield output


def _sources(values: dict[str, Any]) -> tuple[str, ...]:
    value = values["source"] if "source" in values else values["first"]
    return value if isinstance(value, tuple) else (value,)


def _checksums(paths: list[str]) -> list[str]:
    """Return, in a list, a single checksum for the contents of all files; it is the same on all machines."""
    return [hashlib.sha256("".join(map(checksum, paths)).encode()).hexdigest()]


def _summary(record: Record) -> str:
    if not record.parts and not record.failures:
        return "has no lattices; use fewer shards"
    failed = f", {len(record.failures)} failed" if record.failures else ""
    return f"is already complete: {counted(record.lattices, 'lattice')}{failed}"


def report(run: JoinedRun) -> NoReturn:
    """Print the joined files and the failures of the shards, and exit."""
    failures = [failure for record in run.records for failure in record.failures]
    for failure in failures[:MAX_SHOWN]:
        current_console().say(f"failed: {failure.message}")
    if len(failures) > MAX_SHOWN:
        keys = [failure.key or failure.path or "?" for failure in failures]
        current_console().say(f"{len(keys)} failed: {named(keys)}")
    failed = f", {len(failures)} failed" if failures else ""
    files = " ".join(run.outputs)
    count = f"{counted(run.lattices, 'lattice')} from {counted(run.plan.shards, 'shard')}"
    current_console().say(f"{files}: {count}{failed}")
    click.get_current_context().exit(1 if failures else 0)
