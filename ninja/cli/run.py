"""Application of a function to the lattices of a source, and outputs of commands."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from ninja.lattice.batch import Batch
from ninja.log import Log
from ninja.parallel.pipeline import (
    ARCS_ON_A_THREAD,
    ON_A_THREAD,
    Each,
    Keyed,
    Stage,
    ThreadedStage,
    grouped,
    keep,
    stream,
)
from ninja.parallel.threads import in_order

Result = TypeVar("Result")
BATCH_ARCS = 200_000


def run(
    function: Callable[[Lattice], Lattice],
    source: Source,
    destination: Destination,
    *,
    kind: Kind | None = None,
    batches: bool = False,
) -> NoReturn:
    """Write the function's result for each lattice, report their number, and end the command."""
    write(Each(function, batches), source, destination, kind=kind)
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
        jobs=source.threads if isinstance(stage, Each | ThreadedStage) else source.workers,
        batch_arcs=batch_arcs,
        done=done,
        log=console.log,
    )
    with console.progress("lattices", to_stdout=to_stdout) as bar:
        for key, result in found:
            if bar is not None:
                bar.step(key, share=_share(shares, key))
            yield key, result
    _refuse_nothing(source, before, may_be_empty=may_be_empty)


def _refuse_nothing(source: Source, before: tuple[int, int], *, may_be_empty: bool) -> None:
    """Refuse to write nothing.

    Raises:
        LatticeError: There is not a single result.
    """
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
    with open_output(destination, source, kind=kind) as taking:
        times = _Times()
        if isinstance(stage, Each) and on_result is None:
            arcs = _write_batches(stage, source, taking, lattices, times, may_be_empty=may_be_empty)
        else:
            arcs = _write_each(
                stage,
                source,
                taking,
                lattices,
                times,
                may_be_empty=may_be_empty,
                batch_arcs=batch_arcs,
                on_result=on_result,
            )
    if times.lost:
        source.console.say(f"the times of {times.lost} lattices are lost: states of different times became one")
    return arcs


class _Times:
    """Counts lattices that had times, not labels, and whose results have neither."""

    def __init__(self) -> None:
        self.lost = 0
        self._timed: dict[str, bool] = {}  # by the key

    def read(self, lattice: Lattice) -> None:
        self._timed[lattice.key] = lattice.time is not None or self._timed.get(lattice.key, False)

    def written(self, lattice: Lattice) -> None:
        self.lost += lattice.time is None and not lattice.ali.size and self._timed.get(lattice.key, False)


def _write_each(
    stage: Stage[Lattice],
    source: Source,
    taking: LatticeOutput,
    lattices: Callable[[Source], Keyed] | None,
    times: _Times,
    *,
    may_be_empty: bool,
    batch_arcs: int,
    on_result: Callable[[Lattice], None] | None,
) -> int:
    """Write the lattices of any stage; return how many arcs they have."""
    arcs = 0

    def noted() -> Iterator[tuple[str, Lattice]]:
        for key, lattice in source.lattices() if lattices is None else lattices(source):
            times.read(lattice)
            yield key, lattice

    for _, lattice in results(
        stage,
        source,
        noted(),
        to_stdout=taking.is_stdout,
        done=taking.keys_done,
        batch_arcs=batch_arcs,
        may_be_empty=may_be_empty,
    ):
        if not taking.take(lattice):
            source.console.log.lattices -= 1
            continue
        arcs += lattice.num_arcs
        times.written(lattice)
        if on_result is not None:
            on_result(lattice)
    return arcs


@dataclass(frozen=True, slots=True)
class _Done:
    """A batch that a function was applied to."""

    made: Batch
    prepared: Any  # what the output needs of it
    log: Log
    error: BaseException | None  # which ended the work on it
    last: str  # key
    share: float | None  # of the sources that had been read with it


def _write_batches(
    stage: Each[Lattice],
    source: Source,
    taking: LatticeOutput,
    lattices: Callable[[Source], Keyed] | None,
    times: _Times,
    *,
    may_be_empty: bool,
) -> int:
    """Write what a function makes of each lattice, on threads; return how many arcs that has."""
    console, log = source.console, source.console.log
    before = _counts(source)
    done = Counter(taking.keys_done)
    seen: set[str] = set()
    arcs = 0

    def left() -> Iterator[tuple[Batch, float | None]]:
        pairs = None if lattices is None else grouped(lattices(source), ARCS_ON_A_THREAD, ON_A_THREAD)
        for batch in source.batches() if pairs is None else (Batch.of(each for _, each in group) for group in pairs):
            keys = batch.keys
            own = set(keys)
            if len(own) == len(keys) and seen.isdisjoint(own):
                seen.update(own)
            else:
                for key in keys:
                    if key in seen:
                        console.repeated.append(key)
                    seen.add(key)
            if done:
                batch = _left_of(batch, keys, done)
                log.skipped += len(keys) - len(batch)
            for lattice in () if batch.is_plain else batch:
                times.read(lattice)
            if len(batch):
                yield batch, source.share

    def work(task: tuple[Batch, float | None]) -> _Done:
        batch, share = task
        part = type(log)(on_error=keep if log.on_error is not None else None)
        made, prepared, error = Batch.of(()), None, None
        try:
            made = stage.on(batch, part)
            prepared = taking.prepared(made)
        except BaseException as raised:
            error = raised
        return _Done(made, prepared, part, error, batch.keys[-1], share)

    with console.progress("lattices", to_stdout=taking.is_stdout) as bar:
        for found in in_order(work, left(), source.threads):
            log.merge(found.log)
            if found.error is not None:
                raise found.error
            written = taking.take_all(found.made, found.prepared)
            log.lattices += len(written)
            arcs += written.num_arcs
            for lattice in () if found.made.is_plain else written:
                times.written(lattice)
            if bar is not None:
                bar.step(found.last, log.lattices + log.skipped, share=found.share)
    _refuse_nothing(source, before, may_be_empty=may_be_empty)
    return arcs


def _left_of(batch: Batch, keys: list[str], done: Counter[str]) -> Batch:
    """Return a batch without the lattices that are done, each as often as its key is."""
    found: set[int] = set()
    for place, key in enumerate(keys):
        if done[key] > 0:
            done[key] -= 1
            found.add(place)
    return batch.without(found) if found else batch


SCALED = ("scale", "combine", "add-penalty")  # commands that write costs with their scales in them


class LatticeOutput:
    """An output of a command, in which a lattice that cannot be written joins the run's failures.

    Args:
        source: Its console counts lattices that cannot be written.
        is_stdout: Whether it is the standard output.
    """

    def __init__(self, writer: LatticeWriter, source: Source, *, is_stdout: bool) -> None:
        self.is_stdout = is_stdout
        self.prepared = writer.prepared
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

    def take_all(self, batch: Batch, prepared: Any) -> Batch:
        """Write a batch, as the writer prepared it; return the lattices that could be written."""
        if prepared is not None and self._writer.write_all(batch, prepared):
            return batch
        failed = {place for place, lattice in enumerate(batch) if not self.take(lattice)}
        return batch.without(failed) if failed else batch


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
            yield LatticeOutput(writer, source, is_stdout=destination.output_file == STDOUT)
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
