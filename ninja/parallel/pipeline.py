"""A stream of lattices through a function: results in order, in bounded memory, each lattice's failure its own."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ninja.errors import LatticeError, NinjaError, OptionError, WorkerError
from ninja.lattice import Lattice

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

    from ninja.lattice.symbols import SymbolTable

Keyed = Iterable[tuple[str, Lattice]]
OnError = Callable[[NinjaError], None]
Result = TypeVar("Result")
Output = TypeVar("Output", covariant=True)

WAITING_PER_WORKER = 2  # batches that stand ready for each worker, or wait for their turn behind a slower one
LATTICES_PER_BATCH = 256
SECONDS_TO_STOP = 2.0  # for workers that were told to end


class Stage(Protocol[Output]):
    """A step that takes lattices and gives a result for each, in order, unless it reports that one's failure.

    With more than one worker it must be picklable. If it has a ``report``, that tells what its last call came to.
    """

    def __call__(self, lattices: Keyed, on_error: OnError | None) -> Iterator[tuple[str, Output]]:
        """Yield ``(key, result)`` for each lattice; without `on_error`, raise a failure instead of reporting it."""
        ...


@dataclass(frozen=True, slots=True)
class Each(Generic[Result]):
    """The stage that applies a function of one lattice to each."""

    function: Callable[[Lattice], Result]

    def __call__(self, lattices: Keyed, on_error: OnError | None) -> Iterator[tuple[str, Result]]:
        """Yield what the function returns for each lattice."""
        for key, lattice in lattices:
            try:
                result = self.function(lattice)
            except OptionError as error:
                error.key = None  # it would be as wrong for any other
                raise
            except MemoryError as error:
                failure: NinjaError = LatticeError("it takes more memory than there is; prune it first", key=key)
                if on_error is None:
                    raise failure from error
            except NinjaError as error:
                failure = error
                failure.key = failure.key or key
                if on_error is None:
                    raise
            else:
                yield key, result
                continue
            on_error(failure)


@dataclass(slots=True)
class Counts:
    """What a stream has come to so far."""

    lattices: int = 0  # results given
    skipped: int = 0  # lattices left out because their results stood already
    failures: list[NinjaError] = field(default_factory=list)


def stream(
    lattices: Keyed,
    stage: Stage[Result],
    *,
    jobs: int = 1,
    batch_arcs: int = 200_000,
    done: Collection[str] = (),
    on_error: OnError | None = None,
    counts: Counts | None = None,
    on_batch: Callable[[Any], None] | None = None,
) -> Iterator[tuple[str, Result]]:
    """Yield the stage's result for each lattice, in input order.

    Args:
        lattices: Read as they are needed, never all at once.
        stage: What is done to them; ``Each(function)`` for a function of one lattice.
        jobs: Worker processes; with 1 all is done in this one.
        batch_arcs: Arcs in all workers' hands at once (one larger lattice is a batch of its own).
        done: Keys whose lattices are left out; each as often as it stands there.
        on_error: Called with each lattice's failure, in the main process; without it the first one is raised.
        counts: Counted up while the stream is read.
        on_batch: Called with the stage's ``report``, where it keeps one: at the end, or after each batch of a worker.

    Raises:
        OptionError: `jobs` or `batch_arcs` is below 1.
        NinjaError: A lattice failed and there is no `on_error`.
        WorkerError: A worker process died, killed for its memory for example.
    """
    if jobs < 1:
        raise OptionError(f"jobs is {jobs}, but must be at least 1")
    if batch_arcs < 1:
        raise OptionError(f"batch_arcs is {batch_arcs}, but must be at least 1")
    counts = Counts() if counts is None else counts

    def report(failure: NinjaError) -> None:
        counts.failures.append(failure)
        if on_error is not None:
            on_error(failure)

    reported = None if on_error is None else report
    left = _without(lattices, done, counts) if done else lattices
    results = stage(left, reported) if jobs == 1 else _in_workers(left, stage, jobs, batch_arcs, reported, on_batch)
    for pair in results:
        counts.lattices += 1
        yield pair
    if jobs == 1 and on_batch is not None and getattr(stage, "report", None) is not None:
        on_batch(stage.report)  # type: ignore[attr-defined]


def _without(lattices: Keyed, done: Collection[str], counts: Counts) -> Iterator[tuple[str, Lattice]]:
    left = Counter(done)  # keys may repeat
    for key, lattice in lattices:
        if left[key] > 0:
            left[key] -= 1
            counts.skipped += 1
        else:
            yield key, lattice


Batch = list[tuple[str, Lattice]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a worker gives back for a batch."""

    results: list[tuple[str, Any]]
    failures: list[NinjaError]
    report: Any  # the stage's own of this batch, None where it keeps none


def _in_workers(
    lattices: Keyed,
    stage: Stage[Result],
    jobs: int,
    batch_arcs: int,
    on_error: OnError | None,
    on_batch: Callable[[Any], None] | None,
) -> Iterator[tuple[str, Result]]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    from ninja.io.batches import num_cores

    batches = _batches(lattices, max(1, batch_arcs // (jobs * WAITING_PER_WORKER)))
    first = next(batches, None)
    if first is None:
        return
    words = first[0][1].words
    threads = max(1, num_cores() // jobs)
    # Spawned, not forked: a fork of a process with threads, torch's or the reader's, may hang.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _start, (stage, words, threads, on_error is not None))
    waiting: deque[Future[_Answer]] = deque()

    def results(answer: _Answer) -> Iterator[tuple[str, Result]]:
        for failure in answer.failures:
            assert on_error is not None
            on_error(failure)
        if on_batch is not None and answer.report is not None:
            on_batch(answer.report)
        for key, result in answer.results:
            yield key, _attach(result, words)

    try:
        with _interrupts_held():
            waiting.append(pool.submit(_work, _bare(first, words)))
        for batch in batches:
            waiting.append(pool.submit(_work, _bare(batch, words)))
            if len(waiting) >= jobs * WAITING_PER_WORKER:
                yield from results(waiting.popleft().result())
        while waiting:
            yield from results(waiting.popleft().result())
    except BrokenProcessPool as error:
        raise WorkerError(
            f"one of {jobs} worker processes died, perhaps for want of memory; use fewer --jobs or a smaller batch"
        ) from error
    finally:
        _stop(pool)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let the processes started meanwhile ignore Ctrl-C from their first instruction on; it is ours to handle."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler or signal.SIG_DFL)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the workers at once: whoever leaves the stream early does not want what they still compute."""
    workers = list((getattr(pool, "_processes", None) or {}).values())
    manager: threading.Thread | None = getattr(pool, "_executor_manager_thread", None)
    results, calls = getattr(pool, "_result_queue", None), getattr(pool, "_call_queue", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()
    # A worker that ends within an answer leaves half of it in the pipe: with our own end of it closed, too, whoever
    # waits for the rest is told that nobody will write it.
    _close(results, "_writer")
    if manager is None:
        return
    # As it ends, Python writes without a lock to a pipe of this thread, which may be closing it just then.
    manager.join(SECONDS_TO_STOP)
    if manager.is_alive():  # older Pythons wait until somebody takes the next batch (gh-94777)
        _close(calls, "_reader")
        manager.join(SECONDS_TO_STOP)


def _close(queue: Any, end: str) -> None:
    connection = getattr(queue, end, None)
    if connection is not None:
        connection.close()


def _batches(lattices: Keyed, batch_arcs: int) -> Iterator[Batch]:
    batch: Batch = []
    arcs = 0
    for pair in lattices:
        if batch and (arcs + pair[1].num_arcs > batch_arcs or len(batch) == LATTICES_PER_BATCH):
            yield batch
            batch, arcs = [], 0
        batch.append(pair)
        arcs += pair[1].num_arcs
    if batch:
        yield batch


# The symbol table is shared by all lattices: each worker gets it once, not with every batch.


def _bare(batch: Batch, words: SymbolTable | None) -> Batch:
    if words is None:
        return batch
    return [(key, lattice.with_words(None) if lattice.words is words else lattice) for key, lattice in batch]


@dataclass(frozen=True, slots=True)
class _Wordless:
    """A lattice that has no symbol table, rather than the one that each worker has."""

    lattice: Lattice


def _attach(result: Any, words: SymbolTable | None) -> Any:
    """Give lattices their symbol table back, also those in a list or tuple."""
    if isinstance(result, Lattice):
        return result.with_words(words) if result.words is None else result
    if isinstance(result, _Wordless):
        return result.lattice
    if type(result) in (list, tuple):
        return type(result)(_attach(each, words) for each in result)
    return result


_stage: Stage[Any]
_words: SymbolTable | None
_tolerant: bool


def _start(stage: Stage[Any], words: SymbolTable | None, threads: int, tolerant: bool) -> None:
    """Make this process a worker."""
    global _stage, _words, _tolerant
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    _stage, _words, _tolerant = stage, words, tolerant


def _work(batch: Batch) -> _Answer:
    failures: list[NinjaError] = []
    whole = ((key, _attach(lattice, _words)) for key, lattice in batch)
    results = [(key, _detached(result)) for key, result in _stage(whole, failures.append if _tolerant else None)]
    return _Answer(results, failures, getattr(_stage, "report", None))


def _detached(result: Any) -> Any:
    if isinstance(result, Lattice):
        if result.words is None:
            return _Wordless(result) if _words is not None else result
        return result.with_words(None) if result.words is _words else result
    if type(result) in (list, tuple):
        return type(result)(_detached(each) for each in result)
    return result
