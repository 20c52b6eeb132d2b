"""A stage over many lattices: results in input order, in bounded memory, on threads or in several processes."""

from __future__ import annotations

import io
import os
import pickle
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from ninja.errors import LatticeError, NinjaError, OptionError, WorkerError
from ninja.files.cores import num_cores
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.keyed import pairs
from ninja.lattice.symbols import SymbolTable
from ninja.log import Log
from ninja.parallel.threads import in_order

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

Keyed = Iterable[tuple[str, Lattice]]
Result = TypeVar("Result")
Output = TypeVar("Output", covariant=True)

BATCHES_PER_WORKER = 2  # in its hands, ready for it, or waiting behind a slower one
LATTICES_PER_BATCH = 256
SECONDS_TO_STOP = 2.0  # for workers that were told to end


class Stage(Protocol[Output]):
    """A step that gives a result for each lattice, in order; it must be picklable to run in worker processes."""

    def __call__(self, lattices: Keyed, log: Any) -> Iterator[tuple[str, Output]]:
        """Yield ``(key, result)`` for each lattice; failures and notes go to the log, a `Log` of the stage's kind."""
        ...


@runtime_checkable
class ThreadedStage(Stage[Output], Protocol[Output]):
    """A stage that spreads its work over threads of this process itself."""

    def on_threads(self, lattices: Keyed, log: Any, num_threads: int) -> Iterator[tuple[str, Output]]:
        """Yield the results as a call of the stage does."""
        ...


@dataclass(frozen=True, slots=True)
class Each(Generic[Result]):
    """The stage that applies a function of one lattice to each.

    Args:
        function: Called on several threads at once.
    """

    function: Callable[[Lattice], Result]

    def __call__(self, lattices: Keyed, log: Log) -> Iterator[tuple[str, Result]]:
        """Yield the function's result for each lattice."""
        for key, lattice in lattices:
            result = self.tried(lattice)
            if isinstance(result, NinjaError):
                log.fail(result, key)
            else:
                yield key, result

    def tried(self, lattice: Lattice) -> Result | NinjaError:
        """Return the function's result for a lattice, or what is wrong with it."""
        try:
            return self.function(lattice)
        except OptionError as error:
            error.key = None  # it would be as wrong for any other
            raise
        except MemoryError:
            return LatticeError("it takes more memory than there is; prune it first")
        except NinjaError as error:
            return error

    def on(self: Each[Lattice], batch: Batch, log: Log) -> Batch:
        """Return the function's lattices for a batch."""
        return Batch.of([made for _, made in self(((lattice.key, lattice) for lattice in batch), log)])


@dataclass(frozen=True, slots=True)
class Apart(Generic[Result]):
    """A stage that treats each lattice by itself, so that threads may share its work.

    Args:
        stage: Called on several threads at once, each time for some lattices and with a log of their own.
        whole: Does the same to a whole batch in one call; returns None where a lattice needs more than that.
    """

    stage: Stage[Result]
    whole: Callable[[Batch], Batch | None] | None = None

    def __call__(self, lattices: Keyed, log: Log) -> Iterator[tuple[str, Result]]:
        """Yield the stage's result for each lattice."""
        return self.stage(lattices, log)

    def on(self: Apart[Lattice], batch: Batch, log: Log) -> Batch:
        """Return the stage's lattices for a batch."""
        if self.whole is not None and (made := self.whole(batch)) is not None:
            return made
        return Batch.of([made for _, made in self(((lattice.key, lattice) for lattice in batch), log)])


@dataclass(frozen=True, slots=True)
class EachBatch:
    """The stage that applies a function of a batch of lattices.

    Args:
        function: Takes a batch and returns one, with what failed among its faults; called on several threads at once.
        several: It makes any number of lattices of one.
    """

    function: Callable[..., Any]  # overloaded functions are of no narrower type
    several: bool = False

    def __call__(self, lattices: Keyed, log: Log) -> Iterator[tuple[str, Lattice]]:
        """Yield the function's lattices."""
        for group in grouped(lattices, ARCS_ON_A_THREAD, LATTICES_PER_BATCH):
            for lattice in self.on(Batch.of([lattice for _, lattice in group]), log):
                yield lattice.key, lattice

    def on(self, batch: Batch, log: Log) -> Batch:
        """Return the function's lattices for a batch."""
        made: Batch = self.function(batch)
        for _, error in made.faults:
            log.fail(error)
        return made.without_faults()


def stream(
    lattices: Keyed,
    stage: Stage[Result],
    *,
    jobs: int = 1,
    processes: bool | None = None,
    batch_arcs: int = 200_000,
    done: Collection[str] = (),
    log: Log | None = None,
) -> Iterator[tuple[str, Result]]:
    """Yield the stage's result for each lattice, in input order.

    Args:
        lattices: Read as they are needed, never all at once.
        stage: ``Each(function)`` for a function of one lattice.
        jobs: Workers; with 1 all is done by the caller's thread.
        processes: Workers are processes, to which lattices are sent, rather than threads; None: threads for `Each` and
            `ThreadedStage`, processes for other stages, which take several lattices at once.
        batch_arcs: Arcs in all processes' hands at once (one larger lattice is a batch of its own).
        done: Keys whose lattices are left out; each as often as it stands there.
        log: Of the stage's kind; filled while the stream is read, and with the logs of the workers.

    Raises:
        OptionError: `jobs` or `batch_arcs` is below 1, or threads cannot share the stage.
        NinjaError: A lattice failed and the log has no `on_error`.
        WorkerError: A worker process died, killed for its memory for example.
    """
    if jobs < 1:
        raise OptionError(f"jobs is {jobs}, but must be at least 1")
    if batch_arcs < 1:
        raise OptionError(f"batch_arcs is {batch_arcs}, but must be at least 1")
    log = Log() if log is None else log
    lattices = pairs(lattices)
    left = _without(lattices, done, log) if done else lattices
    if jobs == 1:
        results = stage(left, log)
    elif isinstance(stage, Each | EachBatch | Apart) and not processes:
        results = _on_threads(left, stage, jobs, log)
    elif isinstance(stage, ThreadedStage) and not processes:
        results = stage.on_threads(left, log, jobs)
    elif processes is False:
        raise OptionError("a stage that takes several lattices at once cannot be shared by threads; use processes")
    else:
        results = _in_workers(left, stage, jobs, batch_arcs, log)
    for pair in results:
        log.lattices += 1
        yield pair


def _without(lattices: Keyed, done: Collection[str], log: Log) -> Iterator[tuple[str, Lattice]]:
    left = Counter(done)  # keys may repeat
    for key, lattice in lattices:
        if left[key] > 0:
            left[key] -= 1
            log.skipped += 1
        else:
            yield key, lattice


ON_A_THREAD = 16  # lattices of a task, at most, ...
ARCS_ON_A_THREAD = 20_000  # ... and arcs, unless one lattice has more


def _on_threads(lattices: Keyed, stage: Stage[Result], jobs: int, log: Log) -> Iterator[tuple[str, Result]]:
    def work(batch: Sequence[tuple[str, Lattice]]) -> tuple[list[tuple[str, Result]], Log, BaseException | None]:
        part = type(log)(on_error=keep if log.on_error is not None else None)
        results: list[tuple[str, Result]] = []
        try:
            for pair in stage(batch, part):
                results.append(pair)
        except BaseException as error:  # raised once the results before it are given
            return results, part, error
        return results, part, None

    batches = grouped(lattices, ARCS_ON_A_THREAD, ON_A_THREAD)
    with closing(in_order(work, batches, jobs)) as found:  # type: ignore[type-var]
        for results, part, error in found:
            log.merge(part)
            yield from results
            if error is not None:
                raise error


def keep(error: NinjaError) -> None:
    """Leave a failure in the log."""


Group = list[tuple[str, Lattice]]


def _in_workers(
    lattices: Keyed, stage: Stage[Result], jobs: int, batch_arcs: int, log: Log
) -> Iterator[tuple[str, Result]]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    batches = grouped(lattices, max(1, batch_arcs // (jobs * BATCHES_PER_WORKER)), LATTICES_PER_BATCH)
    first = next(batches, None)
    if first is None:
        return
    words = first[0][1].words
    known = 0 if words is None else len(words)
    sent = SymbolTable.growing(words.since(0)[:known]) if words is not None and words.grows else words
    worker = Worker(stage, sent, known, type(log), log.on_error is not None, max(1, num_cores() // jobs))
    # Spawned, not forked: a fork of a process with threads, torch's or the reader's, may hang.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _start, (worker,))
    waiting: deque[Future[bytes]] = deque()

    def packed(batch: Group) -> bytes:
        return _packed((words.since(known) if words is not None and words.grows else [], batch), words)

    def results(answer: bytes) -> Iterator[tuple[str, Result]]:
        found, part = _unpacked(answer, words)
        log.merge(part)
        yield from found

    try:
        with _interrupts_held():
            waiting.append(pool.submit(_work, packed(first)))
        for batch in batches:
            waiting.append(pool.submit(_work, packed(batch)))
            if len(waiting) >= jobs * BATCHES_PER_WORKER:
                yield from results(waiting.popleft().result())
        while waiting:
            yield from results(waiting.popleft().result())
    except BrokenProcessPool as error:
        raise WorkerError(
            f"one of {jobs} worker processes died, perhaps out of memory; use fewer --jobs or a smaller batch"
        ) from error
    finally:
        _stop(pool)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let the processes started meanwhile ignore Ctrl-C from their first instruction on; this process handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler or signal.SIG_DFL)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the workers at once, without waiting for their results."""
    workers = list((getattr(pool, "_processes", None) or {}).values())
    manager: threading.Thread | None = getattr(pool, "_executor_manager_thread", None)
    results, calls = getattr(pool, "_result_queue", None), getattr(pool, "_call_queue", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()
    # A worker that ends within an answer leaves half of it in the pipe: with our own end of it closed, too, the
    # reader of the rest is told that the pipe has ended.
    _close(results, "_writer")
    if manager is None:
        return
    # As it ends, Python writes without a lock to a pipe of this thread, which may be closing it just then.
    manager.join(SECONDS_TO_STOP)
    if manager.is_alive():  # older Pythons wait until the next batch is taken (gh-94777)
        _close(calls, "_reader")
        manager.join(SECONDS_TO_STOP)


def _close(queue: Any, end: str) -> None:
    connection = getattr(queue, end, None)
    if connection is not None:
        connection.close()


def grouped(lattices: Keyed, batch_arcs: int, most: int) -> Iterator[Group]:
    """Yield lattices in groups of so many arcs, or one larger lattice, and of `most` lattices."""
    batch: Group = []
    arcs = 0
    try:
        for pair in lattices:
            if batch and (arcs + pair[1].num_arcs > batch_arcs or len(batch) == most):
                yield batch
                batch, arcs = [], 0
            batch.append(pair)
            arcs += pair[1].num_arcs
    except NinjaError:  # of the source: what comes before is sound
        if batch:
            yield batch
        raise
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class Worker:
    """Arguments of a worker process."""

    stage: Stage[Any]
    words: SymbolTable | None  # of the lattices; sent once, and with each batch what it took in since
    known: int  # entries that it had
    log_type: type[Log]
    tolerant: bool  # failures are kept in the log, not raised
    threads: int


_worker: Worker


def _start(worker: Worker) -> None:
    """Make this process a worker."""
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("OMP_NUM_THREADS", str(worker.threads))
    _worker = worker


def _end_with_parent() -> None:
    """End this process once its parent is dead: one that was killed could not end it."""
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(batch: bytes) -> bytes:
    """Return the results of a batch and the log of it, pickled."""
    log = _worker.log_type(on_error=keep if _worker.tolerant else None)
    words = _worker.words
    new, lattices = _unpacked(batch, words)
    if words is not None and new:
        words.merge(new[len(words) - _worker.known :])
    results = list(_worker.stage(lattices, log))
    log.on_error = None
    return _packed((results, log), words)


class _Pickler(pickle.Pickler):
    """Pickles lattices without the symbol table that both processes have."""

    def __init__(self, file: io.BytesIO, words: SymbolTable | None) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._words = words

    def persistent_id(self, value: object) -> str | None:
        return "words" if value is self._words and value is not None else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, words: SymbolTable | None) -> None:
        super().__init__(file)
        self._words = words

    def persistent_load(self, name: str) -> SymbolTable | None:
        return self._words


def _packed(value: object, words: SymbolTable | None) -> bytes:
    file = io.BytesIO()
    _Pickler(file, words).dump(value)
    return file.getvalue()


def _unpacked(content: bytes, words: SymbolTable | None) -> Any:
    return _Unpickler(io.BytesIO(content), words).load()
