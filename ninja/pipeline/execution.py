"""``run`` and ``stream``, which apply a stage to the lattices of inputs in order; stages built from functions."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from ninja.errors import LatticeError, Log, NinjaError, OptionError, Summary, all_failed
from ninja.files.output import text_output
from ninja.files.threads import in_order, num_cores
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch, collect_batches, pairs
from ninja.pipeline.file_outputs import output_folder, write_each
from ninja.pipeline.outputs import LatticeSink, Output, TextOutput, open_output
from ninja.pipeline.stages import BatchStage, Pairs, StreamStage, ThreadedStage, WordCheckingStage

if TYPE_CHECKING:
    from ninja.rescoring.utterances import RescoreReport

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
    """Apply a stage to the lattices of inputs, and write the results.

    The output is written completely or not at all. If the log of the inputs has an ``on_error``, lattices with errors
    are skipped and reported in the summary; otherwise the first error is raised.

    Args:
        inputs: Sources of lattices, read once and in order.
        stage: `OnBatches` or `OnLattices` of a function, ``ninja.Rescorer``, or any other stage.
        output: An output for lattices (one file, or one for each input file), or for lines if the results are strings.
        jobs: Number of threads, ≥ 1; None uses all cores.
        read: Function that yields the key and the lattice of each entry to process, given the inputs or one of their
            files; None reads all with ``Inputs.lattices``.
        on_result: Called in order with each lattice, or with its lines, after it is passed to the output.
        progress: Called with the last key, the number of lattices done, and the fraction of the inputs read, in [0, 1],
            or None if it is unknown.
        may_be_empty: Write an empty output instead of raising an error if the inputs contain no lattices.

    Returns:
        Counts, failures and notes of this run; ``inputs.log`` covers all runs on these inputs.

    Raises:
        LatticeError: There are no results.
        OutputError: The output cannot be written.
        OptionError: The options contradict each other.
    """
    if not isinstance(inputs, Inputs):
        raise OptionError(f"inputs has type {type(inputs).__name__}, but must be ninja.pipeline.Inputs(name)")
    check_stage(stage)
    start, log = time.perf_counter(), inputs.log
    lattices, skipped = log.lattices, log.skipped
    failures, repeated, notes = len(log.failures), len(log.repeated), len(log.notes)
    loop = _RunLoop(jobs, read, on_result, progress, may_be_empty)
    with loop.checking_words(stage, log):
        if isinstance(output, TextOutput):
            with text_output(output.name) as text:
                for _, lines in loop.results(inputs, stage):
                    text.write(lines)
                    if on_result is not None:
                        on_result(lines)
        else:
            inputs.spells_words |= output.resolved.spells_words
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


def stream(
    inputs: Inputs | Pairs,
    stage: Stage[Result],
    *,
    jobs: int | None = None,
    read: Read | None = None,
    log: Log | None = None,
    done: Collection[str] = (),
    progress: Progress | None = None,
    may_be_empty: bool | None = None,
) -> Iterator[tuple[str, Result]]:
    """Apply a stage to lattices, and yield the key and the result of each, in input order.

    Args:
        inputs: `Inputs`, or pairs of key and lattice, which are read lazily.
        stage: See `run`.
        jobs: See `run`.
        read: See `run`.
        log: Log for pairs, filled while results are read; not allowed for `Inputs`, which have a log.
        done: Keys of lattices to skip; a key that occurs n times here skips n lattices.
        progress: See `run`.
        may_be_empty: See `run`; None also allows runs in which all lattices have errors.

    Raises:
        OptionError: `jobs` is below 1.
        NinjaError: A lattice failed and the log has no ``on_error``.
    """
    if isinstance(inputs, Inputs):
        if log is not None and log is not inputs.log:
            raise OptionError("log is allowed only for pairs of key and lattice; use Inputs(..., log=log)")
    else:
        lattices = pairs(inputs)
        inputs, read = Inputs((), log=Log() if log is None else log), lambda _: lattices
    check_stage(stage)
    return _stream(inputs, stage, _RunLoop(jobs, read, None, progress, may_be_empty), done)


def _stream(
    inputs: Inputs, stage: Stage[Result], loop: _RunLoop, done: Collection[str]
) -> Iterator[tuple[str, Result]]:
    with loop.checking_words(stage, inputs.log):
        yield from loop.results(inputs, stage, done)


@dataclass(slots=True)
class _RunLoop:
    """Options, counts and main loop of a run."""

    jobs: int | None
    read: Read | None
    on_result: Callable[[Any], None] | None
    progress: Progress | None
    may_be_empty: bool | None
    written: int = 0
    arcs: int = 0

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise OptionError(f"jobs is {self.jobs}, but must be at least 1")

    @property
    def threads(self) -> int:
        return self.jobs or num_cores()

    @contextmanager
    def checking_words(self, stage: object, log: Log) -> Iterator[None]:
        """Check in a ``with`` block how well the models of a stage cover the words of the lattices.

        Stages without models are not checked, nor are lattices that the caller reads with its own function.

        Raises:
            OptionError: The log cannot store the coverage.
            VocabularyError: Too many words are missing from a model.
        """
        if self.read is not None or not isinstance(stage, WordCheckingStage):
            yield
            return
        if not hasattr(log, "vocabulary"):
            name = type(stage).__name__
            raise OptionError(
                f"{name} requires a RescoreReport; use Inputs(..., log=ninja.RescoreReport(on_error=...))"
            )
        report = cast("RescoreReport", log)
        report.vocabulary = check = stage.vocabulary_check(report)
        self.read = check.read
        yield
        check.close()
        report.tell_coverage()

    def results(self, inputs: Inputs, stage: Stage[Result], done: Collection[str] = ()) -> Iterator[tuple[str, Result]]:
        """Yield the key and the result of each lattice, except lattices that are ``done``."""
        log = inputs.log
        counts = _counts(log)
        with closing(self._chunks(inputs, stage, Counter(done), None)) as chunks:
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
        """Write the results to one output."""
        log = inputs.log
        counts = _counts(log)
        is_expanding = getattr(stage, "is_expanding", False)
        with open_output(output, inputs) as sink:
            if self.threads > 1:
                sink.write_on_thread()
            with closing(self._chunks(inputs, stage, sink.keys_done, sink)) as chunks:
                for chunk in chunks:
                    lattices = self._write_chunk(chunk, log, sink)
                    log.lattices += min(chunk.num_lattices, lattices) if is_expanding else lattices
                    self._show(log, chunk)
            if not sink.has_originals:
                _refuse_nothing(inputs, counts, may_be_empty=may_be_empty)

    def _write_chunk(self, chunk: _Chunk, log: Log, sink: LatticeSink) -> int:
        """Write the results of a chunk, and return the number of lattices written."""
        batch = chunk.results
        if not isinstance(batch, Batch):
            lattice: Lattice = batch[0][1]
            if not sink.take(lattice):
                return 0
            if self.on_result is not None:
                self.on_result(lattice)
            self.written += 1
            self.arcs += lattice.num_arcs
            return 1
        for before, error in batch.faults:
            if log.on_error is None and before:
                sink.take_all(batch.first(before), None)
            log.fail(error)
        written = sink.take_all(batch.without_faults(), chunk.prepared)
        if self.on_result is not None:
            for lattice in written:
                self.on_result(lattice)
        self.written += len(written)
        self.arcs += written.num_arcs
        return len(written)

    def _chunks(
        self,
        inputs: Inputs,
        stage: Stage[Any],
        done: Counter[str],
        sink: LatticeSink | None,
    ) -> Generator[_Chunk, None, None]:
        """Yield the results of batches, or of single lattices, in input order."""
        source = _Source(inputs, self.read, done, None if sink is None else sink.note_source)
        log = inputs.log
        if not isinstance(stage, BatchStage):
            if isinstance(stage, ThreadedStage) and self.threads > 1:
                results = stage.on_threads(source.lattices(), log, self.threads)
            else:
                results = stage(source.lattices(), log)
            for key, result in results:
                yield _Chunk([(key, result)], None, 1, source.share_of(key), key)
            return

        def work(task: tuple[Batch, float | None]) -> tuple[_Chunk | None, Log, BaseException | None]:
            batch, share = task
            part = type(log)(on_error=_keep)
            try:
                results = stage.apply(batch, part)
                prepared = None
                if sink is not None:
                    if not isinstance(results, Batch):
                        raise TypeError(
                            f"{type(stage).__name__} must return a Batch, because the output is for lattices"
                        )
                    prepared = sink.prepared(results.without_faults())
                num_failed = len(results.faults) if isinstance(results, Batch) else 0
                return _Chunk(results, prepared, len(batch) - num_failed, share, batch.keys[-1]), part, None
            except BaseException as error:  # raised in order, after the log is merged
                return None, part, error

        tasks = ((batch, inputs.share) for batch in source.batches())
        with closing(in_order(work, tasks, self.threads)) as chunks:  # type: ignore[type-var]
            for chunk, part, error in chunks:
                log.merge(part)
                if chunk is None:
                    assert error is not None
                    raise error
                yield chunk

    def _show(self, log: Log, chunk: _Chunk) -> None:
        if self.progress is not None:
            self.progress(chunk.key, log.lattices + log.skipped, chunk.share)


def _counts(log: Log) -> tuple[int, int]:
    """Return the number of lattices done, including skipped ones, and the number of failed lattices."""
    return log.lattices + log.skipped, len(log.failures)


def _refuse_nothing(inputs: Inputs, before: tuple[int, int], *, may_be_empty: bool | None) -> None:
    """Raise `LatticeError` if there are no results and that is not allowed."""
    done, failed = (count - previous for count, previous in zip(_counts(inputs.log), before, strict=True))
    if done or may_be_empty is None or (may_be_empty and not failed) or inputs.tables is not None:
        return
    if failed:
        raise LatticeError(f"{all_failed(failed)}; no output is written")
    sources = f"{', '.join(inputs.places)}: " if inputs.places else ""
    raise LatticeError(f"{sources}found no lattices; no output is written")


def _keep(error: NinjaError) -> None:
    """Do nothing, so that the log stores a failure instead of raising it."""


class _Chunk(NamedTuple):
    """The results of a batch or of one lattice."""

    results: Any  # a batch, or pairs of key and result or error
    prepared: Any  # content of the output, see LatticeWriter.prepared
    num_lattices: int  # input lattices processed without a failure
    share: float | None  # fraction of the inputs' bytes that were read up to here
    key: str  # key of the last lattice

    def entries(self) -> Iterator[tuple[str, Any]]:
        return self.results.entries() if isinstance(self.results, Batch) else iter(self.results)


class _Source:
    """Lattices of inputs that are not done yet; adds duplicate keys to the log."""

    def __init__(
        self, inputs: Inputs, read: Read | None, done: Counter[str], on_lattice: Callable[[Lattice], None] | None
    ) -> None:
        self._inputs = inputs
        self._read = read
        self._done = Counter(done)
        self._on_lattice = on_lattice
        self._keys: set[str] = set()
        self._shares: deque[tuple[str, float | None]] = deque()  # key and share of lattices without a result yet

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        log = self._inputs.log
        for key, lattice in self._pairs():
            self._note(key)
            if self._done[key] > 0:
                self._done[key] -= 1
                log.skipped += 1
                continue
            if lattice.key != key:
                lattice = lattice.with_key(key)
            self._shares.append((key, self._inputs.share))
            if self._on_lattice is not None:
                self._on_lattice(lattice)
            yield key, lattice

    def batches(self) -> Iterator[Batch]:
        for batch in self._inputs.batches() if self._read is None else collect_batches(self._pairs()):
            keys = batch.keys
            distinct = set(keys)
            if len(distinct) == len(keys) and self._keys.isdisjoint(distinct):
                self._keys.update(distinct)
            else:
                for key in keys:
                    self._note(key)
            rest = self._without_done(batch, keys) if self._done else batch
            if self._on_lattice is not None and not rest.is_plain:
                for lattice in rest:
                    self._on_lattice(lattice)
            if len(rest):
                yield rest

    def share_of(self, key: str) -> float | None:
        """Return the fraction of the inputs that was read when the lattice of a result was read."""
        while self._shares:
            lattice_key, share = self._shares.popleft()
            if lattice_key == key:
                return share
        return None

    def _pairs(self) -> Pairs:
        return self._inputs.lattices() if self._read is None else self._read(self._inputs)

    def _note(self, key: str) -> None:
        if key in self._keys:
            self._inputs.log.repeated.append(key)
        self._keys.add(key)

    def _without_done(self, batch: Batch, keys: list[str]) -> Batch:
        """Return a batch without lattices that are done; each key is skipped as often as it is done."""
        indices: set[int] = set()
        for index, key in enumerate(keys):
            if self._done[key] > 0:
                self._done[key] -= 1
                indices.add(index)
        self._inputs.log.skipped += len(indices)
        return batch.without(indices) if indices else batch


class OnBatches:
    """Batch stage that applies a function to batches.

    Args:
        function: Takes a batch, and returns a batch or a result for each lattice. If it raises an error, it is called
            again for each lattice separately, so that errors affect only the lattices that cause them.
        is_expanding: Whether the function may return any number of lattices for each input lattice.
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
            return _as_batch([(lattice.key, call_safely(self._apply_to_one, lattice)) for lattice in batch])
        return results if isinstance(results, Batch) else list(zip(batch.keys, results, strict=True))

    def _apply_to_one(self, lattice: Lattice) -> Any:
        results = self.function(Batch.of([lattice]))
        return results if isinstance(results, Batch) else results[0]


class OnLattices(Generic[Result]):
    """Batch stage that applies a function to single lattices.

    Args:
        function: Takes a lattice, and returns a lattice or any other result; raises a `NinjaError` if it cannot.
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Lattice], Result]) -> None:
        self.function = function

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Result | NinjaError]]:
        """Call the function for each lattice of a batch."""
        return _as_batch([(lattice.key, call_safely(self.function, lattice)) for lattice in batch])


def check_stage(stage: object) -> None:
    """Raise `OptionError` if an object is not a stage, such as a plain function of a lattice or a batch."""
    if isinstance(stage, BatchStage):
        return
    try:
        is_stage = "log" in signature(stage).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        is_stage = False
    if not is_stage:
        name = getattr(stage, "__name__", type(stage).__name__)
        raise OptionError(f"stage is {name}, but must be OnBatches(function), OnLattices(function) or another stage")


def _as_batch(results: Sequence[tuple[str, Any]]) -> Batch | Sequence[tuple[str, Any]]:
    """Return a batch if all results are lattices, batches or errors, else the results unchanged.

    A lattice without a key gets the key of its input.
    """
    entries: list[tuple[str, Lattice | NinjaError]] = []
    for key, result in results:
        if isinstance(result, Batch):
            entries += result.entries()
        elif isinstance(result, NinjaError):
            entries.append((key, result))
        elif isinstance(result, Lattice):
            entries.append((result.key or key, result))
        else:
            return results
    return Batch.of_entries(entries)


def call_safely(function: Callable[[Lattice], Result], lattice: Lattice) -> Result | NinjaError:
    """Return the result of a function for a lattice, or the error that it raises.

    Raises:
        OptionError: Raised by the function; such an error applies to the whole run.
    """
    try:
        return function(lattice)
    except OptionError as error:
        error.key = None
        raise
    except MemoryError:
        return LatticeError("out of memory; prune the lattice first", key=lattice.key)
    except NinjaError as error:
        error.key = error.key or lattice.key
        return error
