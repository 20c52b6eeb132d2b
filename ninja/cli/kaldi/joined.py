"""Commands that join lattices of several sources by key."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import click

from ninja.cli.console import current_console, write
from ninja.cli.files import Lattices
from ninja.cli.kaldi.options import lat_weights_option
from ninja.cli.options import Command, lattice_output, reads, section
from ninja.cli.scales import scales
from ninja.cli.source import build_inputs, reading_options, reads_lattices
from ninja.errors import LatticeError, NinjaError
from ninja.graph import combine
from ninja.graph.union import check_weights
from ninja.io.inputs import Inputs
from ninja.io.lookup import Lookup
from ninja.lattice import Lattice, Scales
from ninja.log import Log
from ninja.pipeline import Output
from ninja.pipeline.stages import Pairs, StreamStage, call_safely

Joining = Callable[[Lattice, Sequence[Any]], Lattice]  # a lattice, and that of each other source or None


@dataclass(slots=True)
class Joined:
    """A source of lattices, and other sources whose lattices are looked up by key."""

    inputs: Inputs
    others: tuple[str, ...]
    strict: bool = False
    missing: dict[str, list[str]] = field(default_factory=dict)  # source → keys that it lacks

    @contextmanager
    def stage(self, function: Joining, *, needed: bool = False) -> Iterator[StreamStage[Lattice]]:
        """Open the other sources and return the stage that joins lattices of one key.

        Args:
            function: Joins a lattice with its partners.
            needed: Lattices without a partner in each source fail.
        """
        with ExitStack() as stack:
            lookups = [stack.enter_context(self.inputs.lookup(place)) for place in self.others]

            def stage(lattices: Pairs, log: Log) -> Iterator[tuple[str, Lattice]]:
                partners: list[Lattice | None] = []

                def join(lattice: Lattice) -> Lattice:
                    for place, partner in zip(self.others, partners, strict=True):
                        if partner is None and needed:
                            raise LatticeError(f"{place} has no lattice of this key", key=lattice.key)
                    return function(lattice, partners)

                for key, lattice in lattices:
                    partners[:] = self._look_up(key, lookups)
                    result = call_safely(join, lattice)
                    if isinstance(result, NinjaError):
                        log.fail(result, key)
                    else:
                        yield key, result

            yield stage

    def write(self, function: Joining, destination: Output, *, needed: bool = False) -> NoReturn:
        """Write the result of the function for each key, and end the command."""
        with self.stage(function, needed=needed) as stage:
            write(stage, self.inputs, destination)
        if not needed:
            self.say_missing()
        current_console().close_counting()

    def say_missing(self) -> None:
        """Print the keys that another source lacks; with ``--strict``, they are failures."""
        for place, keys in self.missing.items():
            current_console().say_keys(keys, f"keys are not in {place}")
            if self.strict:
                self.inputs.log.failures.extend(LatticeError(f"not in {place}", key=key) for key in keys)

    def _look_up(self, key: str, lookups: list[Lookup]) -> Iterator[Lattice | None]:
        for place, lookup in zip(self.others, lookups, strict=True):
            partner = lookup.get(key)
            if partner is None:
                self.missing.setdefault(place, []).append(key)
            yield partner


def joins_archives(description: str, *, others: str = "OTHER...", strict: bool = False) -> Callable[[Command], Command]:
    """Give a command source arguments and options of reading as ``joined``, and its ``destination``.

    Args:
        description: Help of ``-o``.
        others: Name of the other sources in the usage line; it ends in ``...`` if there may be several.
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

        text = "Exit with 1 if an archive lacks a key of the first."
        return section("Running", click.option("--strict", is_flag=True, help=text))(collected) if strict else collected

    return decorate


def combines_systems(command: Command) -> Command:
    """Give a command its source and ``scales``; with ``--with``, the combined ``lattices`` of several systems."""

    @scales
    @section(
        "Several systems",
        reads("--with", "Lattices of another system.", "others", kind=Lattices(), multiple=True),
        lat_weights_option,
        click.option("--strict", is_flag=True, help="Exit with 1 if a source of --with lacks a key of SOURCE."),
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
        if not others and lat_weights is not None:
            raise click.UsageError("--lat-weights needs several systems; add some by --with")
        lattices = None
        if others:
            weights = check_weights(lat_weights, 1 + len(others))
            function = partial(_combined, weights=weights, scales=scales)
            lattices, scales = _all_combined(Joined(inputs, others, strict), function), Scales()
        command(inputs=inputs, lattices=lattices, scales=scales, **options)

    return collected


def _all_combined(joined: Joined, function: Joining) -> Iterator[tuple[str, Lattice]]:
    with joined.stage(function) as stage:
        yield from stage(joined.inputs.lattices(), joined.inputs.log)
    joined.say_missing()


def _combined(
    lattice: Lattice, others: Sequence[Lattice | None], weights: tuple[float, ...], scales: Scales
) -> Lattice:
    return combine([lattice, *others], weights, scales)
