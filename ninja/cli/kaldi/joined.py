"""What the commands that join archives by key share: their sources, who lacks what, and the exit code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ninja.cli.options import lattice_output, resume
from ninja.cli.places import check_places, check_stdin
from ninja.cli.reading import Reading, named, opened, reading_options
from ninja.errors import LatticeError
from ninja.lattice import Kind, Lattice
from ninja.log import Log
from ninja.parallel.pipeline import Each, Keyed

if TYPE_CHECKING:
    from ninja.io.lookup import Lookup

Joining = Callable[[Lattice, Sequence["Lattice | None"]], Lattice]


@dataclass(slots=True)
class Joined:
    """One command's run over the lattices of one source, and those of others with the same keys."""

    reading: Reading
    others: tuple[str, ...]
    strict: bool
    missing: dict[str, list[str]] = field(default_factory=dict)  # keys that each other source lacks

    def write(
        self,
        target: str,
        function: Joining,
        *,
        resume: bool = False,
        needed: bool = False,
        kind: Kind | None = None,
    ) -> None:
        """Write what the function makes of each lattice and those of the same key, say what came of it, and end.

        Args:
            target: Archive to write.
            function: Given a lattice of the first source, and of each other its lattice or None.
            resume: Go on with what stands there already.
            needed: A lattice that another source lacks fails, rather than that the function goes without.
            kind: Kind of the lattices written.
        """
        reading = self.reading
        check_places([target], self.others, reading)
        with ExitStack() as stack:
            lookups = [stack.enter_context(reading.lookup(source)) for source in self.others]

            def stage(lattices: Keyed, log: Log) -> Iterator[tuple[str, Lattice]]:
                partners: list[Lattice | None] = []

                def found(entries: Keyed) -> Iterator[tuple[str, Lattice]]:
                    for key, lattice in entries:
                        partners[:] = self._look_up(key, lookups)
                        yield key, lattice

                def join(lattice: Lattice) -> Lattice:
                    for source, partner in zip(self.others, partners, strict=True):
                        if partner is None and needed:
                            raise LatticeError(f"{source} has no lattice of this key", key=lattice.key)
                    return function(lattice, partners)

                return Each(join)(found(lattices), log)

            reading.write(target, stage, resume=resume, kind=kind)
        self._close(needed)

    def _look_up(self, key: str, lookups: list[Lookup]) -> Iterator[Lattice | None]:
        for source, lookup in zip(self.others, lookups, strict=True):
            partner = lookup.get(key)
            if partner is None:
                self.missing.setdefault(source, []).append(key)
            yield partner

    def _close(self, needed: bool) -> None:
        reading = self.reading
        for source, keys in () if needed else self.missing.items():
            reading.say(f"{len(keys)} keys are not in {source}: {named(keys)}")
            if self.strict:
                reading.log.failures.extend(LatticeError(f"not in {source}", key=key) for key in keys)
        reading.close(f"{reading.log.lattices} lattices, {reading.seconds:.1f} s")


def joins_archives(what: str, *, others: str = "OTHER...", strict: bool = False) -> Callable[..., Any]:
    """Give a command its sources and the options of reading, handed to it as one ``Joined``.

    Args:
        what: The help of ``-o``.
        others: Name of the arguments behind the first source; one ends in ``...`` if there may be many.
        strict: Offer ``--strict``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.argument("first")
        @click.argument("others", nargs=-1 if others.endswith("...") else 1, required=True, metavar=others)
        @lattice_output(what)
        @resume
        @reading_options()
        @functools.wraps(command)
        def collected(first: str, others: str | tuple[str, ...], strict: bool = False, **options: Any) -> None:
            beside = (others,) if isinstance(others, str) else others
            check_stdin([first, *beside])
            reading, rest = opened((first,), options, beside=beside)
            command(Joined(reading, beside, strict), **rest)

        if not strict:
            return collected
        text = "End with exit code 1 if an archive lacks a key of the first."
        return click.option("--strict", is_flag=True, help=text)(collected)

    return decorate
