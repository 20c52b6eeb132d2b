"""Rescoring on several threads of one process: what they share, and how they run."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from queue import SimpleQueue
from typing import Any, TypeVar

from ninja.files.cores import starting_threads
from ninja.rescoring.carry_over import Utterance

Result = TypeVar("Result")

SECONDS_TO_STOP = 10.0  # for threads whose results are no longer wanted


class InFlight:
    """Utterances from when they are read until their results are given out, and the lock of all that threads share.

    That is besides these the source, the queue of recordings, the report, and symbol tables that grow.
    """

    def __init__(self) -> None:
        self.num_arcs = 0  # of all utterances
        self.has_ended = False  # the source
        self.has_threads = False  # more than one thread computes
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._utterances: deque[Utterance] = deque()  # in input order
        self._stopped = False

    @property
    def is_empty(self) -> bool:
        """True if all results are given out."""
        return not self._utterances

    def add(self, utterance: Utterance) -> None:
        """Take in an utterance."""
        self._utterances.append(utterance)
        self.num_arcs += utterance.num_arcs

    def pop_done(self) -> Utterance | None:
        """Remove the next utterance in input order and return it, if it is done."""
        with self.lock:
            if not self._utterances or not self._utterances[0].is_done:
                return None
            self.num_arcs -= self._utterances[0].num_arcs
            self._changed.notify_all()
            return self._utterances.popleft()

    def wait_for_more(self, most_arcs: int) -> bool:
        """Wait, in a thread that has nothing to do, until fewer arcs are in flight; return False if none will come."""
        if not self.has_threads:
            return False
        with self.lock:
            # Somebody else computes the first of those in flight, or gives it out.
            self._changed.wait_for(lambda: self.num_arcs < most_arcs or self.has_ended or self._stopped)
            return not self.has_ended and not self._stopped

    def stop(self) -> None:
        """Let no thread wait any longer."""
        with self.lock:
            self._stopped = True
            self._changed.notify_all()


def on_threads(works: Sequence[Generator[None, None, None]], in_flight: InFlight) -> Generator[None, None, None]:
    """Run each piece of work in a thread of its own, to its end.

    Yields whenever one of them yields, and after its last time. The first error is raised here. Torch computes on one
    thread in each meanwhile.
    """
    in_flight.has_threads = True
    events: SimpleQueue[BaseException | None] = SimpleQueue()
    is_stopped = threading.Event()

    def run(work: Generator[None, None, None]) -> None:
        error: BaseException | None = None
        try:
            with closing(work):
                for _ in work:
                    events.put(None)
                    if is_stopped.is_set():
                        break
        except BaseException as found:
            error = found
        events.put(error or _Ended())

    torch: Any = sys.modules.get("torch")
    before = 0 if torch is None else torch.get_num_threads()
    threads = [
        threading.Thread(target=run, args=(work,), name=f"rescoring-{number}", daemon=True)
        for number, work in enumerate(works)
    ]
    try:
        if torch is not None:
            torch.set_num_threads(1)  # also of threads that start from now on
        with starting_threads():
            for thread in threads:
                thread.start()
        left = len(threads)
        while left:
            event = events.get()
            if isinstance(event, _Ended):
                left -= 1
            elif event is not None:
                raise event
            yield
    finally:
        is_stopped.set()
        in_flight.stop()
        until = time.monotonic() + SECONDS_TO_STOP
        for thread in threads:
            if thread.ident is not None:  # it was started; one that waits for its source is left behind
                thread.join(max(0.0, until - time.monotonic()))
        if torch is not None:
            torch.set_num_threads(before)


class _Ended(BaseException):
    """A thread has done its work."""


class InThisThread:
    """An executor, as of `concurrent.futures`, that computes at once."""

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Return the future of a function's result, done already."""
        future: Future[Result] = Future()
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)
        return future

    def __enter__(self) -> InThisThread:
        return self

    def __exit__(self, *error: object) -> None:
        """There is nothing to end."""
