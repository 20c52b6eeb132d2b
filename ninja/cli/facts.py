"""Facts of a run: the options of a command and the states of the files that it reads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import click

from ninja.cli.console import SCALES, VALUES
from ninja.cli.files import InputFile, Lattices, OutputFile
from ninja.errors import NinjaError
from ninja.io.run_facts import Facts, State, state_of
from ninja.io.scales_beside import find_scales
from ninja.io.symbol_tables import find_table
from ninja.libraries import VERSION
from ninja.pipeline.plan import units

NO_MATTER = ("shard", "ray", "jobs", "resume", "config", "source", "first")  # to the results, or told otherwise
_OF_THE_RUN = ("batch_arcs", "device", "on_error", "allow_pipes")  # may be other ones where a run goes on

Identity = Callable[[list[str]], Any]  # of the files that an option names
Archives = Callable[[tuple[str, ...]], list[State]]


def options_of(
    command: click.Command,
    values: dict[str, Any],
    places: tuple[str, ...],
    identity: Identity,
    archives: Archives,
    *,
    without: Collection[str] = NO_MATTER,
) -> tuple[dict[str, Any], list[State]]:
    """Return the options of a command, and the states of its archives beside the sources.

    Args:
        values: The value of each parameter; names of files as they were typed.
        places: The sources.
        identity: Returns values that identify files.
        archives: Returns the states of lattices beside the sources.
        without: Parameters that are left out.
    """
    options: dict[str, Any] = {}
    states: list[State] = []
    for parameter in command.params:
        name = parameter.name or ""
        if name in without or isinstance(parameter.type, OutputFile) or values.get(name) is None:
            continue
        option = parameter.opts[0].lstrip("-").replace("-", "_")
        value = values[name]
        if isinstance(parameter.type, Lattices):
            others = archives(value if isinstance(value, tuple) else (value,))
            states.extend(others)
            options[option] = len(others)
        elif isinstance(parameter.type, InputFile):
            names = value if isinstance(value, tuple) else (value,)
            options[option] = [value for path in names for value in _content(parameter.type, path, identity)]
        else:
            options[option] = value if isinstance(value, bool | int | float | str) else repr(value)
    if values.get("words") is None and (table := _table_beside(places)) is not None:
        options["words"] = identity([table])
    if (scales := _scales_beside(places)) is not None:
        options["scales"] = scales
    return options, states


def run_facts(places: tuple[str, ...]) -> Facts | None:
    """Return the facts of the run of the current command, or None outside a command.

    Args:
        places: The sources of the output.
    """
    context = click.get_current_context(silent=True)
    if context is None or VALUES not in context.meta:
        return None
    command, values = context.command, context.meta[VALUES]
    without = (*NO_MATTER, *_OF_THE_RUN)
    options, states = options_of(command, values, places, _states, _states_of_archives, without=without)
    states += _states_of_archives(places, values.get("format"))
    return {"version": VERSION, "command": command.name, "options": options, "sources": list(map(list, states))}


def _states(paths: list[str]) -> list[list[Any]]:
    return [list(state_of(path)) for path in paths]


def _states_of_archives(places: tuple[str, ...], format: str | None = None) -> list[State]:
    states: list[State] = []
    for place in places:
        try:
            states += units(place, format=format, allow_pipes=True)[1]
        except NinjaError:  # a pipe, or what reading it will say
            states.append((place, -1, -1))
    return states


def _content(kind: InputFile, name: str, identity: Identity) -> list[Any]:
    """Return the identity of the files that a name refers to, or the name if there are none."""
    paths = sorted(path for path in kind.files(name) if state_of(path)[1] >= 0)
    return identity(paths) if paths else [name]


def _table_beside(places: tuple[str, ...]) -> str | None:
    try:
        return find_table(places)
    except NinjaError:
        return None


def _scales_beside(places: tuple[str, ...]) -> str | None:
    try:
        known = click.get_current_context().meta.get(SCALES, {})
        scales = known[places] if places in known else find_scales(places, allow_pipes=True)  # runs no command
    except NinjaError:
        return None
    return None if scales is None else repr(scales.values())
