"""Count the available cores, and use threads to compute in parallel, to read ahead and to write bytes."""

from __future__ import annotations

import errno
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice, pairwise
from queue import Queue, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ninja.errors import InputError, ThreadError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from ninja.files.gzip import Bytes

Task = TypeVar("Task")
Result = TypeVar("Result")
AHEAD = 3  # tasks per thread: running, waiting to run, or done and waiting for an earlier task
CREDITS = 32  # how far to read ahead, in units of CREDIT_BYTES
CREDIT_BYTES = 1 << 20
LARGEST_QUEUE = 3  # contents that wait to be written, in addition to the one that is being written
ROWS_AT_ONCE = 256  # rows per thread and step, which fit its cache
FEWEST_ROWS = 16  # minimum number of rows per piece
_QUOTAS = ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us")  # quota files of cgroups, versions 2 and 1
_PERIOD = "/sys/fs/cgroup/cpu/cpu.cfs_period_us"
_NO_THREAD = ("can't start new thread", os.strerror(errno.EAGAIN))  # messages of Python and of the kernels


def num_cores() -> int:
    """Return the number of cores that this process may use, considering its CPU affinity and its cgroup quota.

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.max; Documentation/scheduler/sched-bwc.rst.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def _quota() -> float | None:
    """Return the CPU quota of the cgroup in cores, or None if there is no limit."""
    for path in _QUOTAS:
        try:
            with open(path) as file:
                fields = file.read().split()
            if len(fields) == 1:
                with open(_PERIOD) as file:
                    fields += file.read().split()
            quota, period = (float(field) for field in fields)  # "max" is not a number
        except (OSError, ValueError):
            continue
        return quota / period if quota > 0 and period > 0 else None
    return None


class Sized(Protocol):
    """An object with a size in bytes."""

    size: int


AnySized = TypeVar("AnySized", bound=Sized)


@contextmanager
def starting_threads() -> Iterator[None]:
    """Raise `ThreadError` if a thread cannot be started in a ``with`` block."""
    try:
        yield
    except RuntimeError as error:
        if not any(reason in str(error) for reason in _NO_THREAD):
            raise
        advice = "use fewer --jobs (jobs=), or raise the process limit (ulimit -u) or that of the cgroup"
        raise ThreadError(f"cannot start a thread, because the limit of the system is reached; {advice}") from error


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task], jobs: int) -> Iterator[Result]:
    """Compute the results of tasks on several threads, and yield them in the order of the tasks.

    Tasks are drawn from the iterable on the caller's thread, at most `AHEAD` per thread in advance. When the generator
    is closed, threads end after their current task.

    Args:
        work: Function that computes the result of a task.
        tasks: The tasks.
        jobs: Number of threads, ≥ 1. With 1, or if there is a single task, tasks run on the thread of the caller.

    Raises:
        Exception: Raised by `work` or by the iterable, after the results of all earlier tasks.
    """
    if jobs == 1:
        yield from map(work, tasks)
        return
    rest = iter(tasks)
    waiting: deque[Future[Result]] = deque()
    failure: BaseException | None = None  # raised by the iterable

    def next_tasks(count: int) -> Iterator[Task]:
        nonlocal failure
        try:
            yield from islice(rest, count)
        except Exception as error:
            failure = error

    first = list(next_tasks(2))
    if len(first) < 2:  # no threads for a single task, as a small input is a single batch
        yield from map(work, first)
        if failure is not None:
            raise failure
        return
    rest = chain(first, rest)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(jobs, "ninja-worker") as pool:
        try:
            while True:
                if failure is None:
                    for task in next_tasks(AHEAD * jobs - len(waiting)):
                        with starting_threads():
                            waiting.append(pool.submit(work, task))
                if not waiting:
                    break
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failure is not None:
        raise failure


def read_ahead(batches: Iterator[AnySized]) -> Iterator[AnySized]:
    """Yield batches that a thread reads ahead, at most ``CREDITS * CREDIT_BYTES`` bytes or one batch.

    The thread ends after the last batch, at the first exception, which is raised here, or soon after the generator is
    closed.

    Raises:
        InputError: This process was forked after the first batch; the thread does not exist in the new process.
    """
    process = os.getpid()
    ready: SimpleQueue[AnySized | BaseException | None] = SimpleQueue()
    credits: SimpleQueue[bool] = SimpleQueue()  # True for each unit that may be read, False to stop
    for _ in range(CREDITS):
        credits.put(True)

    def run() -> None:
        end: BaseException | None = None
        try:
            for batch in batches:
                for _ in range(_cost(batch)):
                    if not credits.get():
                        return
                ready.put(batch)
        except BaseException as error:  # raised in the caller's thread
            end = error
        finally:
            batches.close()  # type: ignore[attr-defined]
            ready.put(end)

    thread = threading.Thread(target=run, name="ninja-read-ahead", daemon=True)
    with starting_threads():
        thread.start()
    try:
        while (batch := ready.get()) is not None and not isinstance(batch, BaseException):
            yield batch
            if os.getpid() != process:
                raise InputError("these files were opened before this process was forked; open them again")
            for _ in range(_cost(batch)):
                credits.put(True)
        if batch is not None:
            raise batch
    finally:
        for _ in range(CREDITS):
            credits.put(False)


def _cost(batch: Sized) -> int:
    return min(CREDITS, 1 + batch.size // CREDIT_BYTES)


class Buffer(Protocol):
    """Encoded bytes, which can be cleared so that the memory is reused."""

    def view(self) -> memoryview:
        """Return the bytes, which must be released before the buffer is cleared."""

    def clear(self) -> None:
        """Remove the bytes."""


class WriteQueue:
    """Writes buffers to an output in a thread, in the order of the calls to `put`.

    After an error nothing more is written; the error is raised by the next call to `put`, or by `wait`. The thread
    starts with the first buffer, and ends in `wait` and `stop`; it may start again.

    Args:
        file: The output. Others may use it only after `wait` or `stop`, until the next call to `put`.
        spare: List to which each buffer is added, cleared, once its bytes are written or, after an error, discarded.
    """

    def __init__(self, file: Bytes, spare: list[Any]) -> None:
        self._file = file
        self._spare = spare
        self._buffers: Queue[Buffer | None] = Queue(LARGEST_QUEUE)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def put(self, buffer: Buffer) -> None:
        """Add a buffer to be written; block while `LARGEST_QUEUE` other buffers are waiting."""
        if self._error is not None:
            raise self._error
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="ninja-write", daemon=True)
            with starting_threads():
                thread.start()
            self._thread = thread
        self._buffers.put(buffer)

    def wait(self) -> None:
        """Wait until all bytes are written."""
        self.stop()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Wait until all bytes are written; errors are not raised."""
        if self._thread is not None:
            self._buffers.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (buffer := self._buffers.get()) is not None:
            try:
                with buffer.view() as content:
                    if self._error is None:
                        self._file.write(content)
            except BaseException as error:  # raised in the caller's thread
                self._error = error
            buffer.clear()
            self._spare.append(buffer)


class RowThreads:
    """Up to `count` threads, by default one for each core, that compute on separate rows of a batch.

    The calling thread is one of them.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or num_cores()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def _num_helpers(self) -> int:
        return self.count - 1

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._num_helpers, "rows")
        return self._pool

    def run(self, compute: Callable[[slice], None], num_rows: int, fewest: int = FEWEST_ROWS) -> None:
        """Compute all rows of a batch on several threads, in pieces of at least `fewest` rows."""
        if num_rows < 2 * fewest:
            if num_rows:
                compute(slice(0, num_rows))
            return
        num_pieces = -(-num_rows // ROWS_AT_ONCE)
        num_pieces = min(-(-num_pieces // self.count) * self.count, num_rows // fewest)
        edges = [num_rows * place // num_pieces for place in range(num_pieces + 1)]
        pieces = deque(slice(first, last) for first, last in pairwise(edges))

        def work() -> None:
            while pieces:
                try:
                    piece = pieces.popleft()
                except IndexError:  # another thread has taken the last one
                    return
                compute(piece)

        self._run_on(min(self.count, num_pieces), work)

    def _run_on(self, count: int, work: Callable[[], None]) -> None:
        """Call a function in `count` threads at once, and raise its first error."""
        helpers = [self._started().submit(work) for _ in range(count - 1)]
        try:
            work()
        finally:  # also after an error, so that no thread writes rows that the caller reuses
            for helper in helpers:
                if not helper.cancel():  # it has started
                    helper.exception()
        for helper in helpers:
            if not helper.cancelled():
                helper.result()
