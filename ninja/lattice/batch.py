"""``Batch``, a sequence of lattices that are processed in one call, and threads that read and process batches."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from ninja import _core
from ninja.errors import InputError, LatticeError, NinjaError, OptionError, kind_of, starting_threads, type_name
from ninja.lattice.lattice import SLOTS, Lattice, check_lattice
from ninja.lattice.symbols import SymbolTable

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Fault = tuple[int, NinjaError]  # (number of lattices in the batch before a failed lattice, error of that lattice)
KernelResult = tuple[object, list[tuple[int, str]]]  # (new items, (index, error message) of each failed lattice)
Keyed = tuple[str, Lattice]
MAX_LATTICES = 16  # maximum number of lattices in batches that are collected from single lattices
MAX_ARCS = 5_000  # maximum number of arcs in such batches (about 1 MB with labels), except for single lattices
AHEAD = 3  # maximum number of tasks per thread that are running, waiting to run, or done before an earlier task
CREDITS = 32  # how far to read ahead, in units of CREDIT_BYTES
CREDIT_BYTES = 1 << 20
ROWS_AT_ONCE = 256  # rows that a thread computes in one call; they fit into the cache of a core
FEWEST_ROWS = 16  # minimum number of rows per call
_QUOTAS = ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us")  # quota files of cgroups, versions 2 and 1
_PERIOD = "/sys/fs/cgroup/cpu/cpu.cfs_period_us"
Task = TypeVar("Task")
Result = TypeVar("Result")
Item = TypeVar("Item")


class Batch:
    """A sequence of lattices, with errors for the lattices that could not be read or processed.

    ``ninja.read(source, batches=True)`` yields batches. Iterating creates `Lattice` objects without copying arrays.

    Attributes:
        faults: ``(number of preceding lattices in the batch, error)`` for each failed lattice.
        size: Size of the lattices in their file, in bytes.
        position: Byte offset in the file at which the last lattice ends; 0 if unknown.
        words: Symbol table that applies to lattices without a symbol table.
    """

    __slots__ = ("_items", "_keys", "_origins", "faults", "position", "size", "words")

    def __init__(
        self,
        items: object | None,
        *,
        origins: Sequence[Lattice] = (),
        words: SymbolTable | None = None,
        faults: Sequence[Fault] = (),
        size: int = 0,
        position: int = 0,
    ) -> None:
        self._items = items  # if None, created from `origins` on first use
        self._origins = origins
        self._keys: list[str] | None = None
        self.words = words
        self.faults = faults
        self.size = size
        self.position = position

    @classmethod
    def of(cls, lattices: Iterable[Lattice]) -> Batch:
        """Create a batch from lattices."""
        return cls(None, origins=tuple(lattices))

    @classmethod
    def of_entries(
        cls, entries: Iterable[tuple[str, Lattice | NinjaError]], *, size: int = 0, position: int = 0
    ) -> Batch:
        """Create a batch from ``(key, lattice or error)`` pairs; errors become faults."""
        lattices: list[Lattice] = []
        faults: list[Fault] = []
        for key, lattice in entries:
            if isinstance(lattice, NinjaError):
                faults.append((len(lattices), lattice))
            else:
                lattices.append(lattice if lattice.key == key else lattice.with_key(key))
        return cls(None, origins=lattices, faults=faults, size=size, position=position)

    @property
    def items(self) -> object:
        """The lattices in the form that the C++ kernels accept as an argument.

        Raises:
            LatticeError: The arrays of a lattice are inconsistent.
        """
        if self._items is None:
            items = _core.gathered(self._origins)
            self._items = self._items or items  # a kernel may be using the items that another thread has created
        return self._items

    @property
    def is_plain(self) -> bool:
        """Whether a kernel read the lattices from a Kaldi file; such lattices have no optional fields such as times."""
        return not self._origins

    @property
    def table(self) -> SymbolTable | None:
        """The symbol table that all lattices share.

        Raises:
            LatticeError: The lattices have different symbol tables.
        """
        tables = {id(lattice.words): lattice.words for lattice in self._origins} or {0: self.words}
        if len(tables) > 1:
            message = "the lattices of this batch have different symbol tables; process them one by one"
            raise LatticeError(message, key=self.keys[0])
        return next(iter(tables.values()))

    @property
    def is_compact(self) -> bool:
        """Whether all lattices are compact."""
        if self._items is None:
            return all(lattice.kind == "compact" for lattice in self._origins)
        return _core.all_compact(self._items)

    @property
    def num_arcs(self) -> int:
        """Total number of arcs."""
        return sum(lattice.num_arcs for lattice in self._origins) if self._items is None else _core.arcs_in(self._items)

    @property
    def keys(self) -> list[str]:
        """Keys of the lattices."""
        if self._keys is None:
            self._keys = [lattice.key for lattice in self._origins] if self._items is None else _core.keys(self._items)
        return self._keys

    def __len__(self) -> int:
        """Return the number of lattices."""
        return len(self._origins) if self._items is None else _core.count(self._items)

    def __getitem__(self, number: int) -> Lattice:
        """Return the lattice at an index, which must not be negative."""
        if self._items is None:
            return self._origins[number]
        return _core.lattice_at(self._items, number, object.__new__(Lattice), SLOTS, self.words, self._origins)

    def __iter__(self) -> Iterator[Lattice]:
        """Yield the lattices."""
        if self._items is None:
            yield from self._origins
            return
        for number in range(len(self)):
            yield self[number]

    def entries(self) -> Iterator[tuple[str, Lattice | NinjaError]]:
        """Yield ``(key, lattice or error)`` pairs in the order of the source."""
        faults = list(self.faults)
        for number, lattice in enumerate(self):
            while faults and faults[0][0] <= number:
                error = faults.pop(0)[1]
                yield error.key or "", error
            yield lattice.key, lattice
        for _, error in faults:
            yield error.key or "", error

    def map(self, function: Callable[[Lattice], Lattice]) -> Batch:
        """Apply a function to each lattice; return a batch of the results with the same faults."""
        return Batch(
            None, origins=tuple(map(function, self)), faults=self.faults, size=self.size, position=self.position
        )

    def first(self, number: int) -> Batch:
        """Return a batch that contains only the first `number` lattices, without faults."""
        return Batch.of([self[index] for index in range(number)])

    def without(self, indices: Collection[int]) -> Batch:
        """Return a batch without faults and without the lattices at these indices."""
        return Batch.of([lattice for index, lattice in enumerate(self) if index not in indices])

    def without_faults(self) -> Batch:
        """Return the batch without its faults."""
        if not self.faults:
            return self
        batch = self.like(self._items)
        batch.faults = ()
        return batch

    def with_result(self, result: KernelResult, *, several: bool = False) -> Batch:
        """Create a batch from the result that a kernel computed for these lattices; lattices that failed become faults.

        Args:
            result: The result of the kernel.
            several: Whether the kernel can return any number of lattices per input lattice, with new keys; if so, all
                faults precede the lattices.
        """
        items, failures = result
        errors = [(index, LatticeError(message, key=self.keys[index])) for index, message in failures]
        if several:
            return self._with(items, [(0, error) for _, error in [*self.faults, *errors]])
        batch = self._with(items, self.faults)
        if not errors:
            batch._keys = self._keys
            return batch
        faults = [(before, 0, error) for before, error in self.faults]
        faults += [(index, 1, error) for index, error in errors]
        num_lost = 0
        new_faults: list[Fault] = []
        for index, failed, error in sorted(faults, key=lambda fault: fault[:2]):
            new_faults.append((index - num_lost, error))
            num_lost += failed
        batch.faults = new_faults
        return batch

    def like(self, items: object) -> Batch:
        """Create a batch from the arrays that a kernel computed for these lattices, keeping the keys and faults."""
        batch = self._with(items, self.faults)
        batch._keys = self._keys
        return batch

    def _with(self, items: object | None, faults: Sequence[Fault]) -> Batch:
        return Batch(
            items, origins=self._origins, words=self.words, faults=faults, size=self.size, position=self.position
        )


Lattices = TypeVar("Lattices", Lattice, Batch)  # for operations that return the type of their argument


def as_batch(lattices: Lattice | Batch) -> Batch:
    """Return a batch unchanged, or a single lattice as a batch; raise OptionError for any other argument."""
    if isinstance(lattices, Batch):
        return lattices
    check_lattice(lattices)
    return Batch.of([lattices])


def pairs(lattices: Iterable[Keyed]) -> Iterator[Keyed]:
    """Check and yield ``(key, lattice)`` pairs; a lattice with a different key is renamed to the key of its pair.

    Raises:
        OptionError: The argument is not an iterable (raised immediately), or an item is not a ``(key, lattice)`` pair.
    """
    if isinstance(lattices, Lattice):
        advice = "pass [(lattice.key, lattice)]"
        raise OptionError(f"lattices must be (key, lattice) pairs, not a single lattice; {advice}")
    if isinstance(lattices, str | bytes) or not isinstance(lattices, Iterable):
        advice = "read a file with ninja.read"
        raise OptionError(f"lattices must be (key, lattice) pairs, not {type_name(lattices)}; {advice}")
    return _check_pairs(lattices)


def bare(lattices: Iterable[Item], *, allow_none: bool = False) -> Iterator[Item]:
    """Check and yield lattices.

    Args:
        lattices: Lattices, without keys.
        allow_none: Also yield None for missing lattices.

    Raises:
        OptionError: The argument is not an iterable of lattices; for example, an item is a ``(key, lattice)`` pair.
    """
    is_pair = isinstance(lattices, tuple) and any(isinstance(item, str) for item in lattices)
    if is_pair or not isinstance(lattices, Iterable):
        raise OptionError(f"expected an iterable of lattices, but got {kind_of(lattices)}; pass a list of lattices")
    for lattice in lattices:
        if lattice is not None or not allow_none:
            check_lattice(lattice)
        yield lattice


def collect_batches(
    lattices: Iterable[Keyed], max_arcs: int = MAX_ARCS, max_lattices: int = MAX_LATTICES
) -> Iterator[Batch]:
    """Group lattices into batches of at most `max_lattices` lattices and at most `max_arcs` arcs.

    A lattice with more than `max_arcs` arcs forms its own batch.
    """
    group: list[Lattice] = []
    arcs = 0
    try:
        for key, lattice in lattices:
            if lattice.key != key:
                lattice = lattice.with_key(key)
            if group and (arcs + lattice.num_arcs > max_arcs or len(group) == max_lattices):
                yield Batch.of(group)
                group, arcs = [], 0
            group.append(lattice)
            arcs += lattice.num_arcs
    except NinjaError:  # raised by the source; the lattices before it are valid
        if group:
            yield Batch.of(group)
        raise
    if group:
        yield Batch.of(group)


def _check_pairs(lattices: Iterable[Keyed]) -> Iterator[Keyed]:
    for pair in lattices:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], Lattice)):
            advice = "yield (lattice.key, lattice)" if isinstance(pair, Lattice) else "ninja.read yields such pairs"
            raise OptionError(f"lattices must be (key, lattice) pairs, but an item is {type_name(pair)}; {advice}")
        key, lattice = pair
        yield pair if lattice.key == key else (key, lattice.with_key(key))


def num_cores() -> int:
    """Return the number of cores that this process can use, considering its CPU affinity and its cgroup quota.

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.max; Documentation/scheduler/sched-bwc.rst.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def _quota() -> float | None:
    """Return the CPU quota of this process's cgroup in cores, or None if there is no limit."""
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


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task], jobs: int) -> Iterator[Result]:
    """Run tasks on several threads, and yield their results in the order of the tasks.

    Tasks are taken from the iterable on the caller's thread, at most `AHEAD` per thread in advance. When the generator
    is closed, threads end after their current task.

    Args:
        work: Function that computes the result of a task.
        tasks: The tasks.
        jobs: Number of threads, ≥ 1. With 1 thread or a single task, tasks run on the caller's thread.

    Raises:
        Exception: Raised by `work` or by the iterable, after the results of all earlier tasks.
    """
    if jobs == 1:
        yield from map(work, tasks)
        return
    remaining = iter(tasks)
    waiting: deque[Future[Result]] = deque()
    failure: BaseException | None = None  # raised by the iterable

    def next_tasks(count: int) -> Iterator[Task]:
        nonlocal failure
        try:
            yield from islice(remaining, count)
        except Exception as error:
            failure = error

    first = list(next_tasks(2))
    if len(first) < 2:  # no threads for a single task, because small inputs consist of a single batch
        yield from map(work, first)
        if failure is not None:
            raise failure
        return
    remaining = chain(first, remaining)
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


def read_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield batches that a background thread reads ahead.

    The thread stays at most ``CREDITS * CREDIT_BYTES`` bytes ahead, or one batch if that is larger. It ends after the
    last batch, on the first exception (which the generator raises), or shortly after the generator is closed.

    Raises:
        InputError: This process was forked after the first batch; the thread does not exist in the new process.
    """
    process = os.getpid()
    ready: SimpleQueue[Batch | BaseException | None] = SimpleQueue()
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
        except BaseException as error:  # the caller's thread raises the error
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


def _cost(batch: Batch) -> int:
    return min(CREDITS, 1 + batch.size // CREDIT_BYTES)


class RowThreads:
    """A pool of up to `count` threads (by default, one per core) that compute separate rows of the same arrays.

    The calling thread is one of these threads.
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
        """Divide the rows of arrays into slices, and call `compute` for the slices on several threads.

        Args:
            compute: Function that computes the rows in a slice.
            num_rows: Total number of rows.
            fewest: Minimum number of rows per slice, unless there are fewer rows.
        """
        if num_rows < 2 * fewest:
            if num_rows:
                compute(slice(0, num_rows))
            return
        num_pieces = -(-num_rows // ROWS_AT_ONCE)
        num_pieces = min(-(-num_pieces // self.count) * self.count, num_rows // fewest)
        edges = [num_rows * index // num_pieces for index in range(num_pieces + 1)]
        pieces = deque(slice(first, last) for first, last in pairwise(edges))

        def work() -> None:
            while pieces:
                try:
                    piece = pieces.popleft()
                except IndexError:  # another thread has taken the last piece
                    return
                compute(piece)

        self._run_on(min(self.count, num_pieces), work)

    def _run_on(self, count: int, work: Callable[[], None]) -> None:
        """Call a function in `count` threads concurrently and raise its first error."""
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
