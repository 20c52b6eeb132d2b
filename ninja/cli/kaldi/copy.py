"""``ninja copy`` and ``ninja copy-backoff``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ninja import graph
from ninja.cli.convert import unchanged
from ninja.cli.options import Destination, command, lattice_output, reads, switch
from ninja.cli.places import check_stdin
from ninja.cli.run import write
from ninja.cli.source import Source, opened, reading_options, reads_lattices
from ninja.io.selection import read_keys
from ninja.lattice import Kind, Lattice
from ninja.log import Log
from ninja.parallel.pipeline import Each, Keyed


@command
@switch("--write-compact", True, "Write Kaldi's CompactLattice, else its Lattice.")
@reads("--include", "Copy only keys that are the first field of a line here.")
@reads("--exclude", "Leave out keys that are the first field of a line here.")
@switch("--ignore-missing", False, "Exit with 0 even if no lattice was copied.")
@click.option("--strict", is_flag=True, help="Exit with 1 if SOURCE lacks a key of --include or --exclude.")
@lattice_output()
@reads_lattices
def copy(
    source: Source,
    destination: Destination,
    write_compact: bool,
    include: str | None,
    exclude: str | None,
    ignore_missing: bool,
    strict: bool,
) -> None:
    """Copy lattices, all or those of some keys, to another archive or form.

    Listed keys that SOURCE lacks are named.

    \b
    Examples:
      ninja copy lat.ark.gz --include dev.keys -o dev.ark.gz
      ninja copy lat.ark.gz --write-compact=false -o ark,t:lat.txt
    """
    if include is not None and exclude is not None:
        raise click.UsageError("--include cannot be used with --exclude")
    listed = include or exclude
    keys = [] if listed is None else read_keys(listed)
    wanted = frozenset(keys)
    seen = set()

    def selected() -> Iterator[tuple[str, Lattice]]:
        for key, lattice in source.lattices():
            seen.add(key)
            if listed is None or (key in wanted) == (include is not None):
                yield key, lattice

    stage = Each(graph.to_compact if write_compact else unchanged)
    kind: Kind = "compact" if write_compact else "raw"
    write(stage, source, destination, selected(), kind=kind, may_be_empty=ignore_missing)
    unknown = [key for key in keys if key not in seen]
    console, log = source.console, source.console.log
    console.say_keys(unknown, f"keys of {listed} are not in {' '.join(source.places)}")
    nothing = log.lattices + log.skipped == 0 and not ignore_missing
    message = f"{log.lattices} lattices copied, {console.seconds:.1f} s"
    console.close(message, failed=nothing or (strict and bool(unknown)))


@command
@click.argument("first")
@click.argument("second")
@lattice_output(resume=False)
@reading_options()
def copy_backoff(first: str, second: str, **options: Any) -> None:
    """Copy lattices, those of a second archive where it has them.

    The keys are those of FIRST.

    \b
    Example:
      ninja copy-backoff complete.ark.gz better.ark.gz -o lat.ark.gz
    """
    given = opened((first,), options, beside=(second,))
    source, destination = given["source"], given["destination"]
    check_stdin([first, second])
    backed_off = 0

    def chosen(lattices: Keyed, log: Log) -> Iterator[tuple[str, Lattice]]:
        nonlocal backed_off
        for key, lattice in lattices:
            other = others.get(key)
            backed_off += other is None
            yield key, lattice if other is None else other

    with source.lookup(second) as others:
        write(chosen, source, destination)
        left_over = list(others.rest())
    better = source.console.log.lattices - backed_off
    source.console.say(f"{backed_off} of the lattices are those of {first}, {better} those of {second}")
    source.console.say_keys(left_over, f"keys of {second} are not in {first} and were left out")
    source.console.close_counting()
