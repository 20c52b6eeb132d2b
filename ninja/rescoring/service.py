"""`Service`: lattices of many callers, rescored in one batch by a thread of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout  # the built-in one from Python 3.11 on
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ninja.errors import BusyError, ClosedError, NinjaError, OptionError, VocabularyError
from ninja.lattice import Lattice
from ninja.lattice.keyed import refuse_pair
from ninja.lattice.lattice import check
from ninja.rescoring.carry_over import CarryOver, RecordingQueue, Utterance
from ninja.rescoring.engine import Coming, Engine
from ninja.rescoring.options import RescoreReport

NO_TABLE = "the lattice carries no symbol table; give it the words.txt it was made with, see Lattice.with_words"
IDLE_SECONDS = 5.0  # after which the thread ends; the next lattice starts another
CLOSED = "this Rescorer was closed before the lattice was rescored; open another"


@dataclass(slots=True, eq=False)
class Request:
    """A caller's lattice and the future that its result is for."""

    lattice: Lattice
    entities: Any  # phrases of this utterance, for the context stage
    future: Future[Lattice]
    come: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class LiveReport(RescoreReport):
    """Counts and notes of a service, in bounded memory: failures are for the futures of their lattices."""

    failure: NinjaError | None = None  # of the utterance that leaves the engine next

    def fail(self, error: NinjaError, key: str | None = None) -> None:
        """Keep the failure until its utterance leaves the engine, just afterwards."""
        error.key = error.key or key
        self.failure = error


class _Deliveries(RecordingQueue):
    """Gives each result out when its utterance leaves the engine, whichever came first."""

    def __init__(self, carry_over: CarryOver | None, deliver: Callable[[Utterance], None]) -> None:
        super().__init__(carry_over)
        self._deliver = deliver

    def leave(self, utterance: Utterance, words: Any) -> None:
        super().leave(utterance, words)
        self._deliver(utterance)


def is_sound(request: Request) -> bool:
    """Check a lattice in its caller's thread; what is wrong with it fails its future."""
    refuse_pair(request.lattice)
    if not isinstance(request.lattice, Lattice):
        name = type(request.lattice).__name__
        raise OptionError(f"lattice is of type {name}, but a Lattice is needed; read files with ninja.read")
    try:
        check(request.lattice)
        if request.lattice.words is None:
            raise VocabularyError(NO_TABLE, key=request.lattice.key)
    except Exception as error:
        request.future.set_exception(error)
        return False
    return True


class Service:
    """Places for lattices in flight, and the thread that rescores them.

    Args:
        prepare: Adds the context to a lattice, with its own entities.
        make_engine: Makes the engine of a run, whose first lattice is given.
        batch_arcs: Arcs of waiting lattices that are not held back for more.
        max_latency: Seconds that a lattice waits for others while nothing is rescored.
        max_waiting: Places.
    """

    def __init__(
        self,
        prepare: Callable[[Lattice, Any, RescoreReport], Lattice],
        make_engine: Callable[[Lattice, RecordingQueue, LiveReport], Engine],
        *,
        carry_over: CarryOver | None,
        batch_arcs: int,
        max_latency: float,
        max_waiting: int,
    ) -> None:
        self.report = LiveReport()
        self._process = os.getpid()
        self._prepare = prepare
        self._make_engine = make_engine
        self._carry_over = carry_over
        self._queue = _Deliveries(carry_over, self._utterance_done)
        self._batch_arcs = batch_arcs
        self._max_latency = max_latency
        self._max_waiting = max_waiting
        self._changed = threading.Condition()  # and the lock of all that follows
        self._free = max_waiting  # places
        self._for_place: dict[Future[None], None] = {}  # callers that wait for one, first come first
        self._waiting: dict[Future[Lattice], Request] = {}  # not taken by the engine yet
        self._running: dict[Future[Lattice], Request] = {}
        self._of_lattice: dict[int, Request] = {}  # running ones by the id of the lattice that the engine has
        self._thread: threading.Thread | None = None
        self._calling_back = threading.local()
        self._closed = self._aborted = False

    # The callers' side: any thread.

    def place(self) -> Future[None]:
        """Return a place for one lattice, done when it is free; give it back, or `put` a lattice there.

        Raises:
            ClosedError: The service is closed, or was left behind when this process was forked.
        """
        if os.getpid() != self._process:
            raise ClosedError("this Rescorer was opened before this process was forked; open another here")
        place: Future[None] = Future()
        with self._changed:
            if self._closed:
                raise ClosedError(CLOSED)
            # A callback of a future runs in a thread that rescores, where to wait would be to wait for itself.
            if (self._free <= 0 or self._for_place) and not getattr(self._calling_back, "now", False):
                self._for_place[place] = None
                return place
            self._free -= 1
        place.set_result(None)
        return place

    def wait_for_place(self, timeout: float | None) -> None:
        """Wait until there is a place.

        Raises:
            BusyError: There was none for `timeout` seconds.
            ClosedError: The service is closed, or was meanwhile.
        """
        place = self.place()
        try:
            place.result(timeout)
        except FutureTimeout:
            self.give_up(place)
            raise BusyError(
                f"{self._max_waiting} lattices are in flight, and none was done within {timeout} s; "
                "submit fewer, or wait longer"
            ) from None
        except BaseException:  # Ctrl-C, for example
            self.give_up(place)
            raise

    def give_up(self, place: Future[None]) -> None:
        """Give a place back, or no longer wait for it."""
        with self._changed:
            self._for_place.pop(place, None)
        if not place.cancel() and place.exception() is None:
            self._free_place()

    def put(self, request: Request) -> None:
        """Rescore a lattice, for which there is a place; it is free again when the future is done.

        Raises:
            ClosedError: The service was closed meanwhile.
        """
        request.future.add_done_callback(self._left)
        with self._changed:
            if not self._closed:
                self._waiting[request.future] = request
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name="ninja-rescorer", daemon=True)
                    self._thread.start()
                self._changed.notify_all()
                return
        request.future.cancel()
        raise ClosedError(CLOSED)

    def close(self, timeout: float | None) -> None:
        """Take no more lattices; finish those in flight, or fail those that are not done in time."""
        if os.getpid() != self._process:  # the lattices are the other process's, and the lock may be held for ever
            return
        with self._changed:
            self._closed = True
            places, self._for_place = [*self._for_place], {}
            thread = self._thread
            self._changed.notify_all()
        for place in places:
            if place.set_running_or_notify_cancel():
                place.set_exception(ClosedError(CLOSED))
        if thread is None or thread is threading.current_thread():
            return
        thread.join(timeout)
        if thread.is_alive():
            self._abort()

    def _abort(self) -> None:
        with self._changed:
            self._aborted = True
            left = [*self._running.values(), *self._waiting.values()]
            self._changed.notify_all()
        for request in left:
            _finish(request, error=ClosedError(CLOSED, key=request.lattice.key))

    def _left(self, future: Future[Lattice]) -> None:
        """Forget a lattice that is done, or was cancelled while it waited, and free its place."""
        with self._changed:
            self._waiting.pop(future, None)
            self._running.pop(future, None)
        self._free_place()

    def _free_place(self) -> None:
        with self._changed:
            self._free += 1
            handed: list[Future[None]] = []
            while self._free > 0 and self._for_place:
                place = next(iter(self._for_place))
                del self._for_place[place]
                if place.set_running_or_notify_cancel():
                    self._free -= 1
                    handed.append(place)
        for place in handed:  # outside the lock: callbacks of futures run here
            place.set_result(None)

    # The service's thread.

    def _serve(self) -> None:
        while self._is_wanted():
            failure: BaseException | None = None
            try:
                self._run(self._requests())
            except _Aborted:
                return
            except BaseException as error:  # whatever it is, no future may be lost
                failure = error
            if failure is not None:
                self._rescore_alone(failure)

    def _is_wanted(self) -> bool:
        """Tell whether a lattice waits; if not, this thread is no longer the service's."""
        with self._changed:
            if not self._waiting:
                self._thread = None
            return bool(self._waiting)

    def _run(self, requests: Iterator[Coming]) -> None:
        """Rescore lattices until none has come for a while."""
        first = next(requests, None)
        if first is None:
            return
        engine = self._make_engine(first[1], self._queue, self.report)
        with closing(engine.results(chain([first], requests))) as results:  # type: ignore[type-var]
            for pair in results:  # results were given out before
                if pair is None and not self._wait():
                    return

    def _wait(self) -> bool:
        """Wait for a lattice while the engine stands ready; False if none comes."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, IDLE_SECONDS)
            return bool(self._waiting)

    def _requests(self) -> Iterator[Coming]:
        """Yield the lattices that wait, and None where none does; this never ends, to hear of a close in haste."""
        while True:
            request = self._taken()
            lattice = None if request is None else self._prepared(request)
            if lattice is not None:
                yield lattice.key, lattice
            elif request is None:
                yield None

    def _taken(self) -> Request | None:
        """Take the lattice that has waited longest."""
        with self._changed:
            if not self._running:
                self._gather()
            if self._aborted:
                raise _Aborted
            while self._waiting:
                future = next(iter(self._waiting))
                request = self._waiting.pop(future)
                if future.set_running_or_notify_cancel():
                    self._running[future] = request
                    return request
        return None

    def _gather(self) -> None:
        """Wait until there are lattices for a batch, or the first of them has waited long enough."""

        def is_enough() -> bool:
            if not self._waiting or self._closed or self._free <= 0:
                return True
            return sum(each.lattice.num_arcs for each in self._waiting.values()) >= self._batch_arcs

        if self._waiting:
            first = next(iter(self._waiting.values()))
            self._changed.wait_for(is_enough, max(0.0, first.come + self._max_latency - time.monotonic()))

    def _prepared(self, request: Request) -> Lattice | None:
        """Return the lattice with its context; None if that fails."""
        try:
            # An object of its own: callers may submit the same one.
            lattice = self._prepare(request.lattice.replace(), request.entities, self.report)
        except BaseException as error:
            _finish(request, error=error)
            return None
        request.lattice = lattice
        self._of_lattice[id(request.lattice)] = request
        return request.lattice

    def _utterance_done(self, utterance: Utterance) -> None:
        request = self._of_lattice.pop(id(utterance.lattice))
        error, self.report.failure = self.report.failure, None
        if utterance.result is not None:
            self.report.lattices += 1
            self.report.arcs += utterance.num_arcs
        result = utterance.result
        utterance.let_go()
        self._calling_back.now = True
        _finish(request, result, error)
        self._calling_back.now = False

    def _rescore_alone(self, error: BaseException) -> None:
        """Rescore each lattice of a run that failed by itself, so that the fault of one is not the others'."""
        with self._changed:
            left = [*self._running.values()]
        for request in left:
            if request.future.done():  # the service was closed in haste
                continue
            # What the failed run knew of the utterances in flight is of no use any more.
            self._of_lattice = {id(request.lattice): request}
            self._queue = _Deliveries(self._carry_over, self._utterance_done)
            if len(left) > 1:
                try:
                    self._run(iter([(request.lattice.key, request.lattice)]))
                    continue
                except BaseException as found:
                    error = found
            _finish(request, error=error)
        self._of_lattice = {}


class _Aborted(Exception):
    """The service was closed before its work was done; the futures of all lattices have failed."""


def _finish(request: Request, result: Lattice | None = None, error: BaseException | None = None) -> None:
    with suppress(InvalidStateError):  # it failed already, when the service was closed
        if result is None:
            request.future.set_exception(error)
        else:
            request.future.set_result(result)
