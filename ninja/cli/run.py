"""A function over the lattices of a source, to an output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NoReturn, TypeVar

from ninja.cli import writing
from ninja.cli.options import Destination, text_output
from ninja.cli.source import Source
from ninja.errors import LatticeError
from ninja.lattice import Kind, Lattice
from ninja.parallel.pipeline import Each, Keyed, Stage, stream

Result = TypeVar("Result")
BATCH_ARCS = 200_000


def run(
    function: Callable[[Lattice], Lattice], source: Source, destination: Destination, *, kind: Kind | None = None
) -> NoReturn:
    """Write what the function makes of each lattice, say how many there were, and end the command."""
    write(Each(function), source, destination, kind=kind)
    source.console.close_counting()


def run_lines(function: Callable[[Lattice], str], source: Source, output_file: str) -> None:
    """Write the lines that the function makes of each lattice to a text file."""
    with text_output(output_file) as stream:
        for _, lines in results(Each(function), source, to_stdout=output_file == "-"):
            stream.write(lines)


def results(
    stage: Stage[Result],
    source: Source,
    lattices: Keyed | None = None,
    *,
    to_stdout: bool = False,
    done: Collection[str] = (),
    batch_arcs: int = BATCH_ARCS,
    may_be_empty: bool = False,
) -> Iterator[tuple[str, Result]]:
    """Yield the stage's result for each lattice, showing progress on a terminal.

    Args:
        stage: What is done to the lattices.
        source: Where they come from, and how failures are treated.
        lattices: The lattices of the source where they are not simply all of them.
        to_stdout: The results are printed on stdout.
        done: Keys that are left out, each as often as it stands there.
        batch_arcs: Arcs in all workers' hands at once.
        may_be_empty: It is no failure if there is no lattice at all.

    Raises:
        LatticeError: There is not a single result: an output that stood already is better than an empty one.
    """
    console = source.console
    found = stream(
        source.lattices() if lattices is None else lattices,
        stage,
        jobs=source.jobs,
        batch_arcs=batch_arcs,
        done=done,
        log=console.log,
    )
    with console.progress("lattices", to_stdout=to_stdout) as bar:
        for key, result in found:
            if bar is not None:
                bar.step(key)
            yield key, result
    log = console.log
    if log.lattices or log.skipped or (may_be_empty and not log.failures):
        return
    if log.failures:
        raise LatticeError(f"not one lattice of {len(log.failures)} could be used; nothing is written")
    raise LatticeError(f"there is no lattice in {', '.join(source.places)}; nothing is written")


def write(
    stage: Stage[Lattice],
    source: Source,
    destination: Destination,
    lattices: Keyed | None = None,
    *,
    kind: Kind | None = None,
    batch_arcs: int = BATCH_ARCS,
    on_result: Callable[[Lattice], None] | None = None,
    may_be_empty: bool = False,
) -> int:
    """Write the stage's lattices to a file of any format, a terminal gets text; return how many arcs they have."""
    console = source.console
    arcs = untimed = 0
    timed: dict[str, bool] = {}  # by the key: whether a lattice came with times, not labels

    def noted() -> Iterator[tuple[str, Lattice]]:
        for key, lattice in source.lattices() if lattices is None else lattices:
            if key in timed:
                console.repeated.append(key)
            timed[key] = lattice.time is not None or timed.get(key, False)
            yield key, lattice

    with writing.opened(destination, source, kind=kind) as taking:
        for _, lattice in results(
            stage,
            source,
            noted(),
            to_stdout=destination.output_file == "-",
            done=taking.keys_done,
            batch_arcs=batch_arcs,
            may_be_empty=may_be_empty,
        ):
            if not taking.take(lattice):
                console.log.lattices -= 1
                continue
            arcs += lattice.num_arcs
            untimed += lattice.time is None and not lattice.ali.size and timed.get(lattice.key, False)
            if on_result is not None:
                on_result(lattice)
    if untimed:
        console.say(f"the times of {untimed} lattices are lost: states of different times became one")
    return arcs
