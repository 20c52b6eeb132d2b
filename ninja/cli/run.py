"""Application of a function to the lattices of a source, and outputs of commands."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import click

from ninja.cli.options import Destination, check_files, text_output
from ninja.cli.source import Source
from ninja.errors import LatticeError, NinjaError, OptionError, SymbolError
from ninja.files.output import target as understood
from ninja.files.place import STDIN as STDOUT
from ninja.io import writer as files
from ninja.io.lattice_writer import LatticeWriter
from ninja.io.symbol_tables import write_table
from ninja.io.writer import KALDI, format_of, spells_words
from ninja.lattice import Kind, Lattice, Scales
from ninja.parallel.pipeline import Each, Keyed, Stage, stream

Result = TypeVar("Result")
BATCH_ARCS = 200_000


def run(
    function: Callable[[Lattice], Lattice], source: Source, destination: Destination, *, kind: Kind | None = None
) -> NoReturn:
    """Write the function's result for each lattice, report their number, and end the command."""
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
    seen: set[str] = set()

    def noted() -> Iterator[tuple[str, Lattice]]:
        for key, lattice in source.lattices() if lattices is None else lattices:
            if key in seen:
                console.repeated.append(key)
            seen.add(key)
            yield key, lattice

    found = stream(
        noted(),
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
            timed[key] = lattice.time is not None or timed.get(key, False)
            yield key, lattice

    with open_output(destination, source, kind=kind) as taking:
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


SCALED = ("scale", "combine")  # commands that write costs with their scales in them


class LatticeOutput:
    """An output of a command, in which a lattice that cannot be written joins the run's failures.

    Args:
        source: Its console counts lattices that cannot be written.
    """

    def __init__(self, writer: LatticeWriter, source: Source) -> None:
        self._writer = writer
        self._source = source

    @property
    def keys_done(self) -> Counter[str]:
        """Counts of keys that are in the output already."""
        return self._writer.keys_done

    def take(self, lattice: Lattice) -> bool:
        """Write a lattice; return False if it cannot be written."""
        try:
            self._writer.write(lattice)
        except NinjaError as error:
            if self._source.unnamed is not None and isinstance(error, SymbolError) and lattice.words is None:
                raise self._source.unnamed from error
            if error.key is None or self._source.on_error == "raise":  # without a key it is the end of the output
                raise
            self._source.console.log.fail(error)
            return False
        return True


@contextmanager
def open_output(destination: Destination, source: Source, *, kind: Kind | None = None) -> Iterator[LatticeOutput]:
    """Open an output in a ``with`` block; a terminal gets text. A warning of losses follows once it is complete.

    Raises:
        OptionError: The target makes no sense, or would be written over what is read.
    """
    target, words_out = destination.output_file, destination.words_out
    if target == STDOUT and sys.stdout.isatty() and destination.to is None:
        target = "ark,t:-"
    _check_places(target, words_out, source)
    is_kaldi = format_of(target, destination.to)[0].name in KALDI
    writer = files.write(
        target,
        resume=destination.resume,
        kind=kind if is_kaldi else None,
        to=destination.to,
        lossy=destination.lossy,
        words_out=words_out,
        scales=_scales(),
    )
    source.spelled_output = source.spelled_output or (lambda: spells_words(target, destination.to))
    with writer:
        yield LatticeOutput(writer, source)
    if words_out is not None and writer.words_path is None and (table := source.table()) is not None:
        write_table(table, words_out)
        writer.words_path = words_out
    for note in writer.notes():
        source.console.say(note)
    if writer.repeated:
        source.console.repeated.clear()  # that is said


def _check_places(target: str, words_out: str | None, source: Source) -> None:
    """Refuse a script file or a symbol table that would be written over lattices."""
    chosen = understood(target)
    lattices = {os.path.realpath(each) for each in (chosen.archive, *source.places) if each != STDOUT}
    for name, what in ((chosen.script, "script file"), (words_out, "symbol table")):
        if name is not None and os.path.realpath(name) in lattices:
            raise OptionError(f"{name}: the {what} would be written over lattices; give it another name")
    if words_out is not None and chosen.script is not None:
        check_files([chosen.script, words_out])


def _scales() -> Scales | None:
    """Return the scales by which the running command compares paths, if it does."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name in SCALED or context.params.get("acoustic_scale") is None:
        return None
    given = context.params
    return Scales(given["acoustic_scale"], given.get("lm_scale", 1.0), given.get("word_penalty", 0.0))
