"""Apply a stage to input lattices in order, and write the results.

`RunLoop.write` opens the output, reads batches from a `_Source`, applies the stage to them on threads (`_chunks`), and
passes the results to a `LatticeSink`, which writes them.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any, NamedTuple, TypeVar

from ninja.errors import MAX_JOBS, LatticeError, Log, NinjaError, OptionError, Summary, SymbolError, all_failed, counted
from ninja.files.output import text_output
from ninja.files.stream import is_read_once
from ninja.io.earlier_attempt import Done
from ninja.io.inputs import Inputs, Output, TextOutput
from ninja.io.word_tables import write_table
from ninja.io.writer import KaldiWriter, LatticeWriter, OutputSettings
from ninja.io.writing import open_writer
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch, collect_batches, in_order, num_cores
from ninja.lattice.lattice import ListLattice
from ninja.pipeline.file_outputs import output_folder, write_each
from ninja.pipeline.lost_fields import LostFields
from ninja.pipeline.originals import in_source_format, original_paths
from ninja.pipeline.stages import (
    BatchStage,
    Pairs,
    StreamStage,
    ThreadedStage,
    WordCheckingStage,
    as_batch_of,
    call_safely,
)

Result = TypeVar("Result")
Stage = BatchStage[Result] | StreamStage[Result]
Progress = Callable[[str, int, float | None], None]  # key, number of lattices done, fraction of the inputs read
Read = Callable[[Inputs], Pairs]


def run(
    inputs: Inputs,
    stage: Stage[Any],
    output: Output | TextOutput,
    *,
    jobs: int | None = None,
    read: Read | None = None,
    on_result: Callable[[Any], None] | None = None,
    progress: Progress | None = None,
    may_be_empty: bool = False,
) -> Summary:
    """Apply a stage to input lattices and write the results.

    The output is written completely or not at all. If the log of the inputs has an ``on_error``, lattices with errors
    are skipped and reported in the summary; otherwise the first error is raised.

    Args:
        inputs: Sources of lattices, read once and in order.
        stage: A function wrapped in `OnBatches` or `OnLattices`, a ``ninja.Rescorer``, or any other stage.
        output: An output for lattices (one file, or one for each input file), or for lines if the results are strings.
        jobs: Number of threads, 1 to 4096; None uses all cores.
        read: Function that yields ``(key, lattice)`` for each lattice to process; its argument is either all inputs or
            the inputs for a single file. None reads all lattices with ``Inputs.lattices``.
        on_result: Function that is called in order with each result (a lattice or a string of lines) after the result
            is passed to the output.
        progress: Function that is called with the last key, the number of lattices done, and the fraction of the inputs
            read, in [0, 1] or None if unknown.
        may_be_empty: Write an empty output instead of raising an error if the inputs contain no lattices.

    Returns:
        Counts, failures and notes of this run; ``inputs.log`` covers all runs on these inputs.

    Raises:
        LatticeError: There are no results.
        OutputError: The output cannot be written.
        OptionError: An argument is invalid, or the options contradict each other.
    """
    if not isinstance(inputs, Inputs):
        raise OptionError(f"inputs has type {type(inputs).__name__}, but must be ninja.pipeline.Inputs(name)")
    if not isinstance(output, Output | TextOutput):
        kind = type(output).__name__
        raise OptionError(f"output has type {kind}, but must be ninja.pipeline.Output(name) or TextOutput(name)")
    check_stage(stage)
    start, log = time.perf_counter(), inputs.log
    lattices, skipped = log.lattices, log.skipped
    failures, repeated, notes = len(log.failures), len(log.repeated), len(log.notes)
    loop = RunLoop(jobs, read, on_result, progress, may_be_empty)
    with reading(stage, log, read) as loop.read:
        if isinstance(output, TextOutput):
            with text_output(output.name) as text:
                for _, lines in loop.results(inputs, stage):
                    text.write(lines)
                    if on_result is not None:
                        on_result(lines)
        else:
            inputs.needs_words |= output.resolved.writes_words
            if output.is_per_file:
                with output_folder(output):
                    write_each(output, inputs, partial(loop.write, stage), may_be_empty=may_be_empty)
            else:
                loop.write(stage, inputs, output, may_be_empty=may_be_empty)
    return Summary(
        log.lattices - lattices,
        loop.written,
        loop.arcs,
        tuple(log.failures[failures:]),
        log.skipped - skipped,
        tuple(log.repeated[repeated:]),
        tuple(log.notes[notes:]),
        time.perf_counter() - start,
    )


def reading(stage: object, log: Log, read: Read | None) -> AbstractContextManager[Read | None]:
    """Return a context manager that provides a function for reading lattices and checks that the models know the words.

    If the stage has no models, or the caller passes a `read` function, the context manager provides `read` unchanged.
    """
    return log.checking_words(stage) if read is None and isinstance(stage, WordCheckingStage) else nullcontext(read)


@dataclass(slots=True)
class RunLoop:
    """The options, the counts and the main loop of a run."""

    jobs: int | None
    read: Read | None
    on_result: Callable[[Any], None] | None
    progress: Progress | None
    may_be_empty: bool | None
    threads: int = field(init=False)
    written: int = 0
    arcs: int = 0

    def __post_init__(self) -> None:
        if self.jobs is not None and not 1 <= self.jobs <= MAX_JOBS:
            raise OptionError(f"jobs is {self.jobs}, but must be between 1 and {MAX_JOBS}")
        self.threads = self.jobs or num_cores()

    def results(self, inputs: Inputs, stage: Stage[Result], done: Done | None = None) -> Iterator[tuple[str, Result]]:
        """Yield ``(key, result)`` for each lattice that `done` does not skip."""
        log = inputs.log
        counts = log.counts
        with closing(self._chunks(_Source(inputs, self.read, done), stage, None)) as chunks:
            for chunk in chunks:
                for key, result in chunk.entries():
                    if isinstance(result, NinjaError):
                        log.fail(result, key)
                    else:
                        log.lattices += 1
                        self._show(log, chunk)
                        yield key, result
        _refuse_nothing(inputs, counts, may_be_empty=self.may_be_empty)

    def write(self, stage: Stage[Lattice], inputs: Inputs, output: Output, *, may_be_empty: bool) -> None:
        """Apply the stage to the inputs, and write the results to one output."""
        log = inputs.log
        counts = log.counts
        is_expanding = getattr(stage, "is_expanding", False)
        with open_output(output, inputs) as sink:
            if self.threads > 1:
                sink.writer.write_on_thread()
            source = _Source(inputs, self.read, sink.writer.done, sink.note_source)
            with closing(self._chunks(source, stage, sink)) as chunks:
                for chunk in chunks:
                    lattices = self._write_chunk(chunk, log, sink)
                    log.lattices += min(chunk.num_lattices, lattices) if is_expanding else lattices
                    self._show(log, chunk)
            if not sink.has_originals:
                _refuse_nothing(inputs, counts, may_be_empty=may_be_empty)

    def _write_chunk(self, chunk: _Chunk, log: Log, sink: LatticeSink) -> int:
        """Write the results in a chunk and return the number of lattices written."""
        batch = chunk.results if isinstance(chunk.results, Batch) else Batch.of_entries(chunk.results)
        if batch.faults and not {error.key for _, error in batch.faults}.isdisjoint(batch.keys):
            # Write one by one, because a resumed run must know which of the lattices with a key failed.
            return sum(self._write_batch(Batch.of_entries([entry]), None, log, sink) for entry in batch.entries())
        return self._write_batch(batch, chunk.prepared, log, sink)

    def _write_batch(self, batch: Batch, prepared: Any, log: Log, sink: LatticeSink) -> int:
        for before, error in batch.faults:
            if log.on_error is None and before:
                sink.take_all(batch.first(before), None)
            log.fail(error)
        written = sink.take_all(batch.without_faults(), prepared)
        if self.on_result is not None:
            for lattice in written:
                self.on_result(lattice)
        self.written += len(written)
        self.arcs += written.num_arcs
        return len(written)

    def _chunks(
        self,
        source: _Source,
        stage: Stage[Any],
        sink: LatticeSink | None,
    ) -> Generator[_Chunk, None, None]:
        """Yield the results for batches, or for single lattices, in input order."""
        inputs, log = source.inputs, source.inputs.log
        if not isinstance(stage, BatchStage):
            if isinstance(stage, ThreadedStage) and self.threads > 1:
                results = stage.on_threads(source.lattices(), log, self.threads)
            else:
                results = stage(source.lattices(), log)
            for key, result in results:
                yield _Chunk([(key, result)], None, 1, source.share_of(key), key)
            return

        def work(task: tuple[Batch, float | None]) -> tuple[_Chunk | BaseException, Log]:
            batch, share = task
            part = type(log)(on_error=_keep)
            try:
                results = stage.apply(batch, part)
                prepared = None
                if sink is not None:
                    if not isinstance(results, Batch):
                        raise TypeError(
                            f"{type(stage).__name__} must return a Batch, because the output writes lattices"
                        )
                    prepared = sink.writer.prepared(results.without_faults())
                num_failed = len(results.faults) if isinstance(results, Batch) else 0
                return _Chunk(results, prepared, len(batch) - num_failed, share, batch.keys[-1]), part
            except BaseException as error:  # the loop below raises it in order, after merging the log
                return error, part

        tasks = ((batch, inputs.share) for batch in source.batches())
        with closing(in_order(work, tasks, self.threads)) as chunks:  # type: ignore[type-var]
            for chunk, part in chunks:
                log.merge(part)
                if isinstance(chunk, BaseException):
                    raise chunk
                yield chunk

    def _show(self, log: Log, chunk: _Chunk) -> None:
        if self.progress is not None:
            self.progress(chunk.key, log.lattices + log.skipped, chunk.share)


def _refuse_nothing(inputs: Inputs, before: tuple[int, int], *, may_be_empty: bool | None) -> None:
    """Raise `LatticeError` if there are no results beyond the counts `before`, unless an empty output is allowed."""
    done, failed = (count - previous for count, previous in zip(inputs.log.counts, before, strict=True))
    if done or may_be_empty is None or (may_be_empty and not failed) or inputs.tables is not None:
        return
    if failed:
        raise LatticeError(f"{all_failed(failed)}; no output is written")
    sources = f"{', '.join(inputs.places)}: " if inputs.places else ""
    raise LatticeError(f"{sources}found no lattices; no output is written")


def _keep(error: NinjaError) -> None:
    """Do nothing; with this function as its ``on_error``, a log stores failures instead of raising them."""


class _Chunk(NamedTuple):
    """The results for a batch or for one lattice."""

    results: Any  # a batch, or (key, result or error) pairs
    prepared: Any  # content of the output, see LatticeWriter.prepared
    num_lattices: int  # input lattices processed without a failure
    share: float | None  # fraction of the inputs' bytes that were read up to here
    key: str  # key of the last lattice

    def entries(self) -> Iterator[tuple[str, Any]]:
        return self.results.entries() if isinstance(self.results, Batch) else iter(self.results)


class _Source:
    """Source of the input lattices that are not done yet; duplicate keys are added to the log.

    Args:
        inputs: Inputs of the run.
        read: See `run`.
        done: Lattices to skip; None skips no lattices.
        on_lattice: Function that is called with each lattice that is not skipped.
    """

    def __init__(
        self,
        inputs: Inputs,
        read: Read | None,
        done: Done | None,
        on_lattice: Callable[[Lattice], None] = lambda lattice: None,
    ) -> None:
        self.inputs = inputs
        self._read = read
        self._done = done
        self._on_lattice = on_lattice
        self._keys: set[str] = set()
        self._shares: deque[tuple[str, float | None]] = deque()  # lattices without a result yet

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        log = self.inputs.log
        for key, lattice in self._pairs():
            self._note([key])
            if self._done is not None and self._done.skips(key):
                log.skipped += 1
                continue
            if lattice.key != key:
                lattice = lattice.with_key(key)
            self._shares.append((key, self.inputs.share))
            self._on_lattice(lattice)
            yield key, lattice

    def batches(self) -> Iterator[Batch]:
        for batch in self.inputs.batches() if self._read is None else collect_batches(self._pairs()):
            keys = batch.keys
            self._note(keys)
            if self._done is not None:
                skipped = {index for index, key in enumerate(keys) if self._done.skips(key)}
                self.inputs.log.skipped += len(skipped)
                batch = batch.without(skipped) if skipped else batch
            if not batch.is_plain:
                for lattice in batch:
                    self._on_lattice(lattice)
            if len(batch):
                yield batch

    def share_of(self, key: str) -> float | None:
        """Return the fraction of the inputs that had been read when the lattice with this key was read."""
        while self._shares:
            lattice_key, share = self._shares.popleft()
            if lattice_key == key:
                return share
        return None

    def _pairs(self) -> Pairs:
        return self.inputs.lattices() if self._read is None else self._read(self.inputs)

    def _note(self, keys: list[str]) -> None:
        """Add each repeated key to the log."""
        distinct = set(keys)
        if len(distinct) == len(keys) and self._keys.isdisjoint(distinct):
            self._keys |= distinct
            return
        for key in keys:
            if key in self._keys:
                self.inputs.log.repeated.append(key)
            self._keys.add(key)


class OnBatches:
    """Batch stage that applies a function to batches.

    Args:
        function: Function that accepts a batch, and returns a batch or a sequence with a result for each lattice. If it
            raises a ``NinjaError`` or ``MemoryError``, it is called again for each lattice separately, so that errors
            affect only the lattices that cause them.
        is_expanding: Whether the function can return any number of lattices for each input lattice.
    """

    __slots__ = ("function", "is_expanding")

    def __init__(self, function: Callable[[Batch], Any], *, is_expanding: bool = False) -> None:
        self.function = function
        self.is_expanding = is_expanding

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Any]]:
        """Call the function for a batch."""
        try:
            results = self.function(batch)
        except (NinjaError, MemoryError):
            return as_batch_of([(lattice.key, call_safely(self._apply_to_one, lattice)) for lattice in batch])
        return results if isinstance(results, Batch) else list(zip(batch.keys, results, strict=True))

    def _apply_to_one(self, lattice: Lattice) -> Any:
        results = self.function(Batch.of([lattice]))
        return results if isinstance(results, Batch) else results[0]


def check_stage(stage: object) -> None:
    """Raise `OptionError` if an object, such as a plain function of a lattice or a batch, is not a stage."""
    if isinstance(stage, BatchStage):
        return
    try:
        is_stage = "log" in signature(stage).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        is_stage = False
    if not is_stage:
        name = getattr(stage, "__name__", type(stage).__name__)
        raise OptionError(f"stage is {name}, but must be OnBatches(function), OnLattices(function) or another stage")


@dataclass(slots=True, eq=False)
class LatticeSink:
    """An open output; lattices that cannot be written are added to the failures of the run."""

    writer: LatticeWriter
    inputs: Inputs  # failures are added to their log
    has_originals: bool  # whether the output is a copy of the input files in which only the words are replaced
    lost: LostFields | None = None  # None while no input lattice has fields that a stage may lose
    num_failures: int = 0  # number of failures in the log that the writer has been told about

    def note_source(self, lattice: Lattice) -> None:
        """Record which fields of an input lattice a stage could lose."""
        if lattice.time is not None or isinstance(lattice, ListLattice):
            self.lost = self.lost or LostFields(self.writer.format)
            self.lost.note_source(lattice)

    def take(self, lattice: Lattice) -> bool:
        """Write a lattice and return whether it could be written."""
        self._note_failures()
        try:
            self.writer.write(lattice if self.lost is None else self.lost.restored(lattice))
        except NinjaError as error:
            table_error = self.inputs.table_error
            if table_error is not None and isinstance(error, SymbolError) and lattice.words is None:
                raise table_error from error
            if error.key is None:  # the whole output fails
                raise
            self.inputs.log.fail(error)
            return False
        if self.lost is not None:
            self.lost.note_result(lattice)
        return True

    def take_all(self, batch: Batch, prepared: Any) -> Batch:
        """Write a batch and return the lattices written; `prepared` is the result of ``writer.prepared``, or None."""
        self._note_failures()
        if prepared is not None and self.writer.write_all(batch, prepared):
            if self.lost is not None and not batch.is_plain:
                for lattice in batch:
                    self.lost.note_result(lattice)
            return batch
        failed = {index for index, lattice in enumerate(batch) if not self.take(lattice)}
        return batch.without(failed) if failed else batch

    def _note_failures(self) -> None:
        """Tell the writer which lattices have failed since the last call, except lattices that could not be read."""
        failures = self.inputs.log.failures
        for error in failures[self.num_failures :]:
            if error.key is not None and id(error) not in self.inputs.unread:
                self.writer.note_failure(error.key)
        self.num_failures = len(failures)


@contextmanager
def open_output(output: Output, inputs: Inputs) -> Iterator[LatticeSink]:
    """Open one output in a ``with`` block; on a terminal, lattices are written as text.

    When the output is complete, notes about fields that could not be written are added to the log.

    Raises:
        OptionError: The name is invalid, or specifies several outputs.
    """
    if output.is_per_file:
        raise OptionError(f"{output.name}: the command writes a single output; specify a file")
    log = inputs.log
    if output.to is None and not output.resolved.is_kaldi:
        output = in_source_format(output, inputs)
    if output.is_stdout and sys.stdout.isatty() and output.to is None:
        output = replace(output, name="ark,t:-")
    is_kaldi = output.resolved.is_kaldi
    format = output.resolved.format
    assert format.write is not None
    has_facts = is_kaldi and inputs.tables is None and not is_read_once(output.name)
    only = format if format.write.restores else None  # the inputs can also have other formats
    originals = original_paths(inputs, only) if format.write.rewrites_files else ()
    settings = OutputSettings.of(
        output.resolved,
        resume=output.resume,
        kind=output.kind if is_kaldi else None,
        lossy=output.lossy,
        words_out=output.words_out,
        scales=output.scales,
        chosen=output.scales_for(inputs),
        run=output.facts(inputs) if has_facts else None,
        guard=output.guard,
        originals=originals,
    )
    writer = KaldiWriter(settings) if is_kaldi and not settings.resume else open_writer(settings)
    inputs.needs_words |= output.resolved.writes_words
    try:
        with writer:
            if writer.resumed is not None:
                log.note(writer.resumed)
            sink = LatticeSink(writer, inputs, has_originals=bool(originals))
            yield sink
    except BaseException as error:
        if writer.num_saved and not isinstance(error, OptionError):
            saved = counted(writer.num_saved, "lattice was", "lattices were")
            log.note(f"{saved} saved; run the same command with --resume to continue")
        raise
    if output.words_out is not None and writer.words_path is None and (table := inputs.table()) is not None:
        write_table(table, output.words_out, output.guard)
        writer.words_path = output.words_out
    for note in (*writer.notes(), *(sink.lost.notes() if sink.lost is not None else ())):
        log.note(note)
    log.lists_repeated |= writer.repeated
