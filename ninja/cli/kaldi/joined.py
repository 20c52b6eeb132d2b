"""Commands that join lattices from several sources by key."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import click

from ninja.cli.command import Command, Lattices, refuse_without
from ninja.cli.kaldi.options import lat_weights_option
from ninja.cli.main import current_console
from ninja.cli.options import lattice_output, reads, section
from ninja.cli.source import build_inputs, reading_options, reads_lattices, scales, write
from ninja.errors import LatticeError, Log, NinjaError
from ninja.graph import combine
from ninja.graph.union import check_weights
from ninja.io.inputs import Inputs
from ninja.io.lookup import Lookup
from ninja.lattice import Lattice, Scales
from ninja.pipeline import Output
from ninja.pipeline.execution import Read
from ninja.pipeline.stages import Pairs, StreamStage, call_safely

# Function that joins a lattice with the lattices from the other sources; a lattice is None if its source lacks the key.
JoinFunction = Callable[[Lattice, Sequence[Any]], Lattice]


@dataclass(slots=True)
class Joined:
    """A source of lattices, and other sources, in which lattices with the same keys are looked up."""

    inputs: Inputs
    others: tuple[str, ...]
    strict: bool = False
    missing: dict[str, list[str]] = field(default_factory=dict)  # source → keys that are missing from it

    @contextmanager
    def stage(
        self, function: JoinFunction, *, require_all: bool = False
    ) -> Iterator[tuple[Read, StreamStage[Lattice]]]:
        """Open the other sources and return ``(read, stage)``; the stage joins lattices with the same key.

        The pipeline must use ``read`` as its reader. This reader looks up every key, including keys whose
        lattices do not reach the stage because a resumed output already contains them.

        Args:
            function: Function that joins a lattice with the lattices from the other sources.
            require_all: Report an error unless every other source contains a lattice with the same key.
        """
        with ExitStack() as stack:
            lookups = [stack.enter_context(self.inputs.lookup(name)) for name in self.others]
            others: list[Lattice | None] = []  # lattices from the other sources for the last key read

            def read(inputs: Inputs) -> Pairs:
                for key, lattice in inputs.lattices():
                    others[:] = self._look_up(key, lookups)
                    yield key, lattice

            def stage(lattices: Pairs, log: Log) -> Iterator[tuple[str, Lattice]]:
                def join(lattice: Lattice) -> Lattice:
                    for name, other in zip(self.others, others, strict=True):
                        if other is None and require_all:
                            raise LatticeError(f"{name} has no lattice with this key", key=lattice.key)
                    return function(lattice, others)

                for key, lattice in lattices:
                    result = call_safely(join, lattice)
                    if isinstance(result, NinjaError):
                        log.fail(result, key)
                    else:
                        yield key, result

            yield read, stage

    def write(self, function: JoinFunction, destination: Output, *, require_all: bool = False) -> NoReturn:
        """Write the joined lattice for each key, print the keys that are missing from other sources, and exit."""
        with self.stage(function, require_all=require_all) as (read, stage):
            write(stage, self.inputs, destination, read=read)
        if not require_all:
            self.say_missing()
        current_console().close_counting()

    def say_missing(self) -> None:
        """Print the keys that are missing from other sources; with ``--strict``, add them to the failures."""
        for name, keys in self.missing.items():
            current_console().say_keys(keys, f"keys are missing from {name}", f"key is missing from {name}")
            if self.strict:
                self.inputs.log.failures.extend(LatticeError(f"missing from {name}", key=key) for key in keys)

    def _look_up(self, key: str, lookups: list[Lookup]) -> Iterator[Lattice | None]:
        for name, lookup in zip(self.others, lookups, strict=True):
            lattice = lookup.get(key)
            if lattice is None:
                self.missing.setdefault(name, []).append(key)
            yield lattice


def joins_archives(description: str, *, others: str = "OTHER...", strict: bool = False) -> Callable[[Command], Command]:
    """Add several source arguments, and options for input and output; the sources are passed as ``joined``.

    Args:
        description: Beginning of the help text of ``-o``.
        others: Name of the other sources in the usage line; it ends in ``...`` if there can be several sources.
        strict: Add ``--strict``.
    """

    def decorate(command: Command) -> Command:
        @click.argument("first", type=Lattices())
        @click.argument(
            "others", nargs=-1 if others.endswith("...") else 1, required=True, metavar=others, type=Lattices()
        )
        @lattice_output(description)
        @reading_options()
        @functools.wraps(command)
        def collected(first: str, others: str | tuple[str, ...], strict: bool = False, **options: Any) -> None:
            names = (others,) if isinstance(others, str) else others
            arguments = build_inputs((first,), options)
            command(Joined(arguments.pop("inputs"), names, strict), **arguments)

        text = "Exit with code 1 if a key of FIRST is missing from another archive."
        return section("Running", click.option("--strict", is_flag=True, help=text))(collected) if strict else collected

    return decorate


def combines_systems(command: Command) -> Command:
    """Add the argument SOURCE, the scale options, and ``--with`` for the lattices of additional systems.

    The command receives the arguments ``inputs``, ``scales`` and ``lattices``. With ``--with``, ``lattices`` yields
    combined lattices and all scales are 1; otherwise ``lattices`` is None.
    """

    @scales
    @section(
        "Several systems",
        reads(
            "--with",
            "Lattices of another system; may be given several times.",
            "others",
            kind=Lattices(),
            metavar="LATTICES",
            multiple=True,
        ),
        lat_weights_option,
        click.option(
            "--strict", is_flag=True, help="Exit with code 1 if a key of SOURCE is missing from another system."
        ),
    )
    @reads_lattices
    @functools.wraps(command)
    def collected(
        inputs: Inputs,
        scales: Scales,
        others: tuple[str, ...],
        lat_weights: tuple[float, ...] | None,
        strict: bool,
        **options: Any,
    ) -> None:
        if not others:
            refuse_without("--with", ["lat_weights", "strict"])
        lattices = None
        if others:
            weights = check_weights(lat_weights, 1 + len(others))
            function = partial(_combined, weights=weights, scales=scales)
            lattices, scales = _all_combined(Joined(inputs, others, strict), function), Scales()
        command(inputs=inputs, lattices=lattices, scales=scales, **options)

    return collected


def _all_combined(joined: Joined, function: JoinFunction) -> Iterator[tuple[str, Lattice]]:
    with joined.stage(function) as (read, stage):
        yield from stage(read(joined.inputs), joined.inputs.log)
    joined.say_missing()


def _combined(
    lattice: Lattice, others: Sequence[Lattice | None], weights: tuple[float, ...], scales: Scales
) -> Lattice:
    return combine([lattice, *others], weights, scales)
