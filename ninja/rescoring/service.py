"""`Service`, which batches lattices from concurrent callers and rescores them in a separate thread."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout  # an alias of the built-in class since Python 3.11
from contextlib import closing, suppress
from typing import Any
from weakref import WeakSet

from ninja.errors import BusyError, ClosedError, VocabularyError, check_range
from ninja.lattice import Lattice
from ninja.lattice.lattice import check, check_lattice
from ninja.rescoring.utterances import RescoreReport, Source, Submission, Utterance

NO_TABLE = "the lattice has no symbol table; attach its words.txt with Lattice.with_words"
IDLE_SECONDS = 5.0  # idle time after which the thread ends; the next lattice starts a new one
SECONDS_TO_STOP = 10.0  # how long the process waits at exit for the current step of a service that was not closed
CLOSED = "this Rescorer was closed before the lattice was rescored; create a new one"


class Service(Source):
    """The lattices in flight, the slots that they occupy, and the thread that rescores the lattices.

    A service is also the `Source` from which `run` reads utterances.

    Args:
        run: Function that rescores the utterances from a source and sets the results of their futures.
        reset: Function that is called before each utterance of a failed run is rescored separately.
        batch_arcs: Number of arcs at which a waiting batch starts immediately.
        max_latency: Time in seconds that a batch waits for more lattices if none is in flight.
        max_waiting: Number of slots.
    """

    def __init__(
        self,
        run: Callable[[Source, RescoreReport], Iterator[Utterance]],
        reset: Callable[[], None],
        *,
        batch_arcs: int,
        max_latency: float,
        max_waiting: int,
    ) -> None:
        super().__init__()
        self.report = RescoreReport()
        self._process = os.getpid()
        self._run = run
        self._reset = reset
        self._batch_arcs = batch_arcs
        self._max_latency = max_latency
        self._max_waiting = max_waiting
        self._changed = threading.Condition()  # guards all attributes below
        self._free = max_waiting  # number of free slots
        self._for_slot: dict[Future[None], None] = {}  # callers waiting for a slot, in order
        self._waiting: dict[Future[Lattice], tuple[Utterance, float]] = {}  # utterance and time of submission
        self._running: dict[Future[Lattice], Utterance] = {}
        self._thread: threading.Thread | None = None
        self._closed = self._aborted = False
        _services.add(self)

    # The following methods may be called from any thread.

    def utterance(self, lattice: Lattice, entities: Any, deadline: float | None) -> tuple[Utterance, Submission]:
        """Create an utterance and its future; an invalid lattice makes the future fail.

        Raises:
            OptionError: `lattice` is not a `Lattice`, or `deadline` is not above 0.
        """
        if deadline is not None:
            check_range("deadline", deadline, above=0)
        check_lattice(lattice)
        future = Submission()
        utterance = Utterance(lattice, entities, future)
        if deadline is not None:
            utterance.deadline = time.monotonic() + deadline
        try:
            check(lattice)
            if lattice.words is None:
                raise VocabularyError(NO_TABLE, key=lattice.key)
        except Exception as error:
            utterance.finish(error=error)
        return utterance, future

    @property
    def num_waiting(self) -> int:
        """Number of lattices that have been submitted, but are not in the batch yet."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Number of lattices in the batch."""
        return len(self._running)

    def slot(self) -> Future[None]:
        """Request a slot for an utterance.

        Returns:
            A future that is done once the slot is reserved. The caller must then call `put` or `release`.

        Raises:
            ClosedError: The service is closed, or was created before this process was forked.
        """
        if os.getpid() != self._process:
            raise ClosedError("this Rescorer was created before this process was forked; create a new one here")
        slot: Future[None] = Future()
        with self._changed:
            if self._closed:
                raise ClosedError(CLOSED)
            # Callbacks of futures run in the service's thread, which must not wait for itself.
            if (self._free <= 0 or self._for_slot) and threading.current_thread() is not self._thread:
                self._for_slot[slot] = None
                return slot
            self._free -= 1
        slot.set_result(None)
        return slot

    def wait_for_slot(self, timeout: float | None) -> None:
        """Wait until a slot is free, and reserve it.

        Raises:
            BusyError: No slot became free within `timeout` seconds.
            ClosedError: The service is closed, or was closed during the wait.
        """
        slot = self.slot()
        try:
            slot.result(timeout)
        except FutureTimeout:
            self.release(slot)
            raise BusyError(
                f"{self._max_waiting} lattices are in flight, and none finished within {timeout} s; "
                "submit fewer, or use a longer timeout"
            ) from None
        except BaseException:  # for example, KeyboardInterrupt
            self.release(slot)
            raise

    def release(self, slot: Future[None]) -> None:
        """Free a reserved slot, or withdraw the request for a slot that is not reserved yet."""
        with self._changed:
            self._for_slot.pop(slot, None)
        if not slot.cancel() and slot.exception() is None:
            self._free_slot()

    def put(self, utterance: Utterance) -> None:
        """Rescore an utterance in a reserved slot, which is freed when the utterance's future is done.

        Raises:
            ClosedError: The service was closed after the slot was reserved.
        """
        future = utterance.future
        assert future is not None
        future.add_done_callback(self._forget)
        with self._changed:
            if not self._closed:
                self._waiting[future] = utterance, time.monotonic()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name="ninja-rescorer", daemon=True)
                    self._thread.start()
                self._changed.notify_all()
                return
        future.cancel()
        raise ClosedError(CLOSED)

    def shut(self, timeout: float | None) -> None:
        """Reject further lattices and finish the lattices in flight; after `timeout` seconds, pending futures fail."""
        if os.getpid() != self._process:  # the lattices belong to the parent process; the lock's state is undefined
            return
        with self._changed:
            self._closed = True
            slots, self._for_slot = [*self._for_slot], {}
            thread = self._thread
            self._changed.notify_all()
        for slot in slots:
            if slot.set_running_or_notify_cancel():
                slot.set_exception(ClosedError(CLOSED))
        if thread is None or thread is threading.current_thread():
            return
        thread.join(timeout)
        if thread.is_alive():
            self._abort()

    def stop(self) -> None:
        """Fail all futures that are not done, and wait for the thread to finish its current step."""
        thread = self._thread
        self.shut(0.0)
        if thread is not None:
            thread.join(SECONDS_TO_STOP)

    def _abort(self) -> None:
        with self._changed:
            self._aborted = True
            unfinished = [*self._running.items()]
            unfinished += [(future, utterance) for future, (utterance, _) in self._waiting.items()]
            self._changed.notify_all()
        for future, utterance in unfinished:
            with suppress(InvalidStateError):  # the service's thread may have set the result meanwhile
                future.set_exception(ClosedError(CLOSED, key=utterance.key))

    def _forget(self, future: Future[Lattice]) -> None:
        """Remove an utterance whose future is done or cancelled, and free its slot."""
        with self._changed:
            self._waiting.pop(future, None)
            self._running.pop(future, None)
        self._free_slot()

    def _free_slot(self) -> None:
        with self._changed:
            self._free += 1
            slots: list[Future[None]] = []
            while self._free > 0 and self._for_slot:
                slot = next(iter(self._for_slot))
                del self._for_slot[slot]
                if slot.set_running_or_notify_cancel():
                    self._free -= 1
                    slots.append(slot)
        for slot in slots:  # outside the lock, because this runs the callbacks of the futures
            slot.set_result(None)

    # The following methods are called from the service's thread.

    def _serve(self) -> None:
        while self._has_work():
            failure: BaseException | None = None
            try:
                self._finish(self)
            except _Aborted:
                return
            except BaseException as error:  # all errors, because every future must complete
                failure = error
            if failure is not None:
                self._rescore_alone(failure)

    def _has_work(self) -> bool:
        """Return whether an utterance is waiting; if not, mark the thread as ended."""
        with self._changed:
            if not self._waiting:
                self._thread = None
            return bool(self._waiting)

    def _finish(self, source: Source) -> None:
        """Rescore the utterances from a source; the engine sets the results of their futures."""
        run = self._run(source, self.report)
        with closing(run):  # type: ignore[type-var]
            for _ in run:
                pass

    def wait(self) -> bool:
        """Wait for a lattice while the engine is idle; return False if none arrives within `IDLE_SECONDS`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, IDLE_SECONDS)
            return bool(self._waiting)

    def _poll(self) -> Utterance | None:
        """Return the utterance that has waited longest, or None if no utterance is waiting."""
        with self._changed:
            if not self._running:
                self._gather()
            if self._aborted:
                raise _Aborted
            while self._waiting:
                future = next(iter(self._waiting))
                utterance, _ = self._waiting.pop(future)
                if future.set_running_or_notify_cancel():
                    self._running[future] = utterance
                    return utterance
        return None

    def _gather(self) -> None:
        """Wait until the batch is large enough, or until its first lattice has waited for `max_latency`."""

        def is_enough() -> bool:
            if not self._waiting or self._closed or self._free <= 0:
                return True
            return sum(utterance.lattice.num_arcs for utterance, _ in self._waiting.values()) >= self._batch_arcs

        if self._waiting:
            _, submitted = next(iter(self._waiting.values()))
            self._changed.wait_for(is_enough, max(0.0, submitted + self._max_latency - time.monotonic()))

    def _rescore_alone(self, error: BaseException) -> None:
        """Rescore the utterances from a failed run one by one, so that an error affects only one utterance."""
        with self._changed:
            unfinished = [*self._running.items()]
        for future, utterance in unfinished:
            if future.done():  # the service was closed
                continue
            self._reset()
            if len(unfinished) > 1:
                try:
                    self._finish(_Single(utterance))
                    continue
                except BaseException as utterance_error:
                    error = utterance_error
            utterance.finish(error=error)


class _Single(Source):
    """Source that contains a single utterance from a failed run."""

    def __init__(self, utterance: Utterance) -> None:
        super().__init__()
        utterance.recording, utterance.history = None, ()
        self._ahead.append(utterance)

    def _poll(self) -> Utterance | None:
        self.has_ended = True
        return None


class _Aborted(Exception):
    """The service was closed before all utterances were rescored; their futures have failed."""


_services: WeakSet[Service] = WeakSet()


@atexit.register
def _stop_services() -> None:
    """Stop services that were not closed; a thread in a torch call would abort the process when Python exits."""
    for service in list(_services):
        service.stop()
