"""Application of a function to the lattices of a source, and outputs of commands."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from ninja.cli.options import Destination, text_output
from ninja.cli.parts import parts
from ninja.cli.source import Source
from ninja.cli.written import LatticeOutput, open_output
from ninja.errors import LatticeError, NinjaError, VocabularyError
from ninja.files.output import target
from ninja.io.scales_beside import refuse_other_scales
from ninja.lattice import Kind, Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.list_lattice import ListLattice
from ninja.log import Log
from ninja.parallel.pipeline import (
    ARCS_ON_A_THREAD,
    ON_A_THREAD,
    Apart,
    Each,
    EachBatch,
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
    stage: Each[Lattice] | EachBatch, source: Source, destination: Destination, *, kind: Kind | None = None
) -> NoReturn:
    """Write the stage's lattices, report their number, and end the command."""
    write(stage, source, destination, kind=kind)
    source.console.close_counting()


def run_lines(function: Callable[[Batch], Sequence[str]], source: Source, output_file: str) -> None:
    """Write the lines that the function makes of each lattice of a batch to a text file."""
    with text_output(output_file) as stream:
        stream.writelines(lines for _, lines in batch_results(function, source, to_stdout=output_file == "-"))


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
        jobs=source.threads if isinstance(stage, Each | EachBatch | Apart | ThreadedStage) else source.workers,
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


class Written(NamedTuple):
    """Counts of the lattices and arcs written."""

    results: int  # lattices
    arcs: int  # of them all

    def __add__(self, other: Written) -> Written:  # type: ignore[override]
        """Add two numbers of each."""
        return Written(self.results + other.results, self.arcs + other.arcs)


def write(
    stage: Stage[Lattice],
    source: Source,
    destination: Destination,
    lattices: Callable[[Source], Keyed] | None = None,
    *,
    may_be_empty: bool = False,
    **how: Any,
) -> Written:
    """Write the stage's lattices to a file of any format, a terminal gets text; return how many were written.

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
    written = Written(0, 0)
    for number, (part, output) in enumerate(found):
        source.console.output = number
        try:
            written += _write_one(stage, part, output, lattices, may_be_empty=True, **how)
        except (LatticeError, VocabularyError) as error:
            if error.key is not None or source.on_error == "raise":
                raise
            error.path = error.path or output.output_file  # an input with nothing to be used, unlike others
            source.console.log.fail(error)
    if not any(_counts(source)) and not may_be_empty:
        raise LatticeError(f"there is no lattice in {', '.join(source.places)}")
    return written


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
) -> Written:
    """Write one output."""
    with open_output(destination, source, kind=kind) as taking:
        times = _Times()
        if isinstance(stage, Each | EachBatch | Apart) and on_result is None:
            written = _write_batches(stage, source, taking, lattices, times, may_be_empty=may_be_empty)
        else:
            written = _write_each(
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
    if times.lost_records:
        source.console.say(f"other fields of {times.lost_records} n-best lists are not written: their paths changed")
    return written


class _Times:
    """Counts lattices that had times, not labels, and whose results have neither; and lists whose fields are lost."""

    def __init__(self) -> None:
        self.lost = self.lost_records = 0
        self._timed: dict[str, bool] = {}  # by the key
        self._recorded: set[str] = set()  # keys

    def read(self, lattice: Lattice) -> None:
        self._timed[lattice.key] = lattice.time is not None or self._timed.get(lattice.key, False)
        if isinstance(lattice, ListLattice) and lattice.record and lattice.record.others:
            self._recorded.add(lattice.key)

    def written(self, lattice: Lattice) -> None:
        self.lost += lattice.time is None and not lattice.ali.size and self._timed.get(lattice.key, False)
        self.lost_records += lattice.key in self._recorded and not isinstance(lattice, ListLattice)


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
) -> Written:
    """Write the lattices of any stage."""
    number = arcs = 0

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
        number += 1
        arcs += lattice.num_arcs
        times.written(lattice)
        if on_result is not None:
            on_result(lattice)
    return Written(number, arcs)


def _write_batches(
    stage: Each[Lattice] | EachBatch | Apart[Lattice],
    source: Source,
    taking: LatticeOutput,
    lattices: Callable[[Source], Keyed] | None,
    times: _Times,
    *,
    may_be_empty: bool,
) -> Written:
    """Write what a function makes of each lattice, on threads."""
    log = source.console.log
    before = _counts(source)
    number = arcs = 0
    several = isinstance(stage, EachBatch) and stage.several

    def work(batch: Batch, part: Log) -> tuple[Batch, Any, int]:
        made = stage.on(batch, part)
        return made, taking.prepared(made), len(batch) - len(part.failures) if several else len(made)

    pairs = None if lattices is None else lattices(source)
    read = _noted(source, pairs, Counter(taking.keys_done), times.read)
    for made, prepared, done in _worked(work, source, read, to_stdout=taking.is_stdout):
        written = taking.take_all(made, prepared)
        log.lattices += min(done, len(written))
        number += len(written)
        arcs += written.num_arcs
        for lattice in () if made.is_plain else written:
            times.written(lattice)
    _refuse_nothing(source, before, may_be_empty=may_be_empty)
    return Written(number, arcs)


def batch_results(
    function: Callable[[Batch], Sequence[Result]], source: Source, lattices: Keyed | None = None, *, to_stdout: bool
) -> Iterator[tuple[str, Result]]:
    """Yield what a function makes of each lattice of a batch, as `results` does.

    Args:
        function: Returns the result of each lattice; where it raises an error, it is called for each of them alone. It
            is called on several threads at once.
        source: Where the lattices come from, and how failures are treated.
        lattices: The lattices of the source where they are not simply all of them.
        to_stdout: The results are printed on stdout.
    """
    log = source.console.log
    before = _counts(source)
    alone = Each(lambda lattice: function(Batch.of([lattice]))[0])

    def work(batch: Batch, part: Log) -> list[tuple[str, Result | NinjaError]]:
        found: Sequence[Result | NinjaError]
        try:
            found = function(batch)
        except (NinjaError, MemoryError):
            found = [alone.tried(lattice) for lattice in batch]
        return list(zip(batch.keys, found, strict=True))

    for found in _worked(work, source, _noted(source, lattices, Counter(), None), to_stdout=to_stdout):
        for key, result in found:
            if isinstance(result, NinjaError):
                log.fail(result, key)
            else:
                log.lattices += 1
                yield key, result
    _refuse_nothing(source, before, may_be_empty=False)


def _noted(
    source: Source, pairs: Keyed | None, done: Counter[str], on_lattice: Callable[[Lattice], None] | None
) -> Iterator[Batch]:
    """Yield the batches of a source, without what is done; note keys that come again.

    Args:
        source: Where they come from.
        pairs: Its lattices where they are not simply all of them.
        done: How often each key is done already.
        on_lattice: Called with each lattice that is not simply one of Kaldi's.
    """
    console = source.console
    seen: set[str] = set()
    groups = () if pairs is None else grouped(pairs, ARCS_ON_A_THREAD, ON_A_THREAD)
    for batch in source.batches() if pairs is None else (Batch.of(each for _, each in group) for group in groups):
        keys = batch.keys
        own = set(keys)
        if len(own) == len(keys) and seen.isdisjoint(own):
            seen.update(own)
        else:
            for key in keys:
                if key in seen:
                    console.repeated.append(key)
                seen.add(key)
        left = batch
        if done:
            left = _left_of(batch, keys, done)
            console.log.skipped += len(keys) - len(left)
        if on_lattice is not None and not left.is_plain:
            for lattice in left:
                on_lattice(lattice)
        if len(left):
            yield left


Task = tuple[Batch, float | None]  # and the share of the sources read with it


def _worked(
    work: Callable[[Batch, Log], Result], source: Source, batches: Iterator[Batch], *, to_stdout: bool
) -> Iterator[Result]:
    """Yield what `work` makes of each batch, on threads, in their order, showing progress on a terminal."""
    console, log = source.console, source.console.log

    def on_thread(task: Task) -> tuple[Task, Result | None, Log, BaseException | None]:
        part = type(log)(on_error=keep if log.on_error is not None else None)
        try:
            return task, work(task[0], part), part, None
        except BaseException as error:  # raised once the log is merged
            return task, None, part, error

    with console.progress("lattices", to_stdout=to_stdout) as bar:
        tasks = ((batch, source.share) for batch in batches)
        for (batch, share), result, part, error in in_order(on_thread, tasks, source.threads):
            log.merge(part)
            if error is not None:
                raise error
            yield result  # type: ignore[misc]
            if bar is not None:
                bar.step(batch.keys[-1], log.lattices + log.skipped, share=share)


def _left_of(batch: Batch, keys: list[str], done: Counter[str]) -> Batch:
    """Return a batch without the lattices that are done, each as often as its key is."""
    found: set[int] = set()
    for place, key in enumerate(keys):
        if done[key] > 0:
            done[key] -= 1
            found.add(place)
    return batch.without(found) if found else batch
