"""Application of a function to the lattices of a source, and outputs of commands."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import click

from ninja.cli.options import Destination, text_output
from ninja.cli.parts import is_parted, parts
from ninja.cli.source import Source
from ninja.errors import LatticeError, NinjaError, OptionError, SymbolError
from ninja.files.output import target
from ninja.files.place import STDIN as STDOUT
from ninja.io import writer as files
from ninja.io.lattice_writer import LatticeWriter
from ninja.io.scales_beside import ChosenScales, find_scales, refuse_other_scales
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
    before = _counts(source)
    seen: set[str] = set()
    shares: deque[tuple[str, float | None]] = deque()  # of the sources, as their lattices were read

    def noted() -> Iterator[tuple[str, Lattice]]:
        for key, lattice in source.lattices() if lattices is None else lattices:
            if console.bar is not None:
                shares.append((key, source.share))
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
                bar.step(key, share=_share(shares, key))
            yield key, result
    done_now, failed = (now - then for now, then in zip(_counts(source), before, strict=True))
    if done_now or (may_be_empty and not failed) or source.shard is not None:
        return
    if failed:
        raise LatticeError(f"not one lattice of {failed} could be used; nothing is written")
    raise LatticeError(f"there is no lattice in {', '.join(source.places)}; nothing is written")


def _counts(source: Source) -> tuple[int, int]:
    """Return how many lattices of a run are done, and how many failed."""
    log = source.console.log
    return log.lattices + log.skipped, len(log.failures)


def _share(shares: deque[tuple[str, float | None]], key: str) -> float | None:
    """Return how much had been read with the lattice of a result; those that failed before it are forgotten."""
    while shares:
        read, share = shares.popleft()
        if read == key:
            return share
    return None


def write(
    stage: Stage[Lattice],
    source: Source,
    destination: Destination,
    lattices: Callable[[Source], Keyed] | None = None,
    *,
    may_be_empty: bool = False,
    **how: Any,
) -> int:
    """Write the stage's lattices to a file of any format, a terminal gets text; return how many arcs they have.

    Args:
        stage: Makes them of those of the source.
        source: Where these come from.
        destination: One output, or one for each input file; see `parts`.
        lattices: The lattices of the source, or of one of its files, where they are not simply all of them.
        may_be_empty: It is no failure if there is no lattice at all.
        how: Options of `_write_one`.
    """
    found = parts(source, destination)
    if len(found) == 1:
        ((source, destination),) = found
        return _write_one(stage, source, destination, lattices, may_be_empty=may_be_empty, **how)
    for _, output in found:
        if output.resume and output.chosen is not None:  # before any of them is written
            refuse_other_scales(target(output.output_file).archive, output.chosen)
    arcs = 0
    for number, (part, output) in enumerate(found):
        source.console.output = number
        try:
            arcs += _write_one(stage, part, output, lattices, may_be_empty=True, **how)
        except LatticeError as error:
            if error.key is not None or source.on_error == "raise":
                raise
            error.path = output.output_file  # an input with nothing to be used, which others need not be
            source.console.log.fail(error)
    if not any(_counts(source)) and not may_be_empty:
        raise LatticeError(f"there is no lattice in {', '.join(source.places)}")
    return arcs


def _write_one(
    stage: Stage[Lattice],
    source: Source,
    destination: Destination,
    lattices: Callable[[Source], Keyed] | None,
    *,
    may_be_empty: bool,
    kind: Kind | None = None,
    batch_arcs: int = BATCH_ARCS,
    on_result: Callable[[Lattice], None] | None = None,
) -> int:
    """Write one output; return how many arcs its lattices have."""
    console = source.console
    arcs = untimed = 0
    timed: dict[str, bool] = {}  # by the key: whether a lattice came with times, not labels

    def noted() -> Iterator[tuple[str, Lattice]]:
        for key, lattice in source.lattices() if lattices is None else lattices(source):
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


SCALED = ("scale", "combine", "add-penalty")  # commands that write costs with their scales in them


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
        OptionError: The target makes no sense, or names several outputs.
    """
    if is_parted(destination):
        raise OptionError(f"{destination.output_file}: this command has one output; name a file")
    name, words_out = destination.output_file, destination.words_out
    if name == STDOUT and sys.stdout.isatty() and destination.to is None:
        name = "ark,t:-"
    chosen = destination.chosen or _chosen(source)
    is_kaldi = format_of(name, destination.to)[0].name in KALDI
    writer = files.write(
        name,
        resume=destination.resume,
        kind=kind if is_kaldi else None,
        to=destination.to,
        lossy=destination.lossy,
        words_out=words_out,
        scales=_scales(),
        chosen=chosen,
    )
    source.spelled_output = source.spelled_output or (lambda: spells_words(name, destination.to))
    try:
        with writer:
            if writer.resumed is not None:
                source.console.say(writer.resumed)
            yield LatticeOutput(writer, source)
    except BaseException as error:
        if writer.kept and not isinstance(error, OptionError):
            number = "1 lattice is" if writer.kept == 1 else f"{writer.kept} lattices are"
            source.console.say(f"{number} kept; the same command with --resume goes on from there")
        raise
    if words_out is not None and writer.words_path is None and (table := source.table()) is not None:
        write_table(table, words_out)
        writer.words_path = words_out
    for note in writer.notes():
        source.console.note(note)
    if writer.repeated:
        source.console.repeated.clear()  # that is said


def _chosen(source: Source) -> ChosenScales | None:
    """Return the scales beside the source, which go on with its lattices unless the command writes scaled costs."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name in SCALED:
        return None
    try:
        return find_scales(source.places, allow_pipes=True)  # no command is run for it
    except OptionError as error:
        source.console.say(f"{error.message.split(';')[0]}: no scales are written beside the output")
        return None


def _scales() -> Scales | None:
    """Return the scales by which the running command compares paths, if it does."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name in SCALED or context.params.get("acoustic_scale") is None:
        return None
    given = context.params
    return Scales(given["acoustic_scale"], given.get("lm_scale", 1.0), given.get("word_penalty", 0.0))
