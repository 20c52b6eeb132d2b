"""`Prefetch`, a source of utterances that reads a possibly slow iterable in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from queue import Empty, SimpleQueue

from ninja.lattice.batch import Keyed, pairs
from ninja.rescoring.utterances import Source, Utterance

PATIENCE = 0.005  # seconds that a batch waits for the next utterance
SECONDS_TO_STOP = 0.5  # how long to wait for the reading thread when a source is closed


class Prefetch(Source):
    """Utterance source that reads an iterable in a separate thread, because the iterable can be slow.

    The thread reads one lattice per request and never reads ahead. It ends when the iterable ends, when the iterable
    raises an error, or when `close` is called. `wait` raises the errors of the iterable.
    """

    def __init__(self, lattices: Iterable[Keyed]) -> None:
        super().__init__()
        self._pairs = pairs(lattices)
        self._requests: SimpleQueue[bool] = SimpleQueue()  # True requests one more lattice, False ends the thread
        self._items: SimpleQueue[Keyed | BaseException] = SimpleQueue()
        self._requested = 0.0  # time of the pending request; 0 if no request is pending
        self._item: Keyed | BaseException | None = None  # the reply to the pending request
        self._thread: threading.Thread | None = None

    def _poll(self) -> Utterance | None:
        """Return the next utterance; None if it is not read within `PATIENCE` seconds of the request."""
        self._request()
        if self._item is None:
            try:
                self._item = self._items.get(timeout=max(0.0, self._requested + PATIENCE - time.monotonic()))
            except Empty:
                return None
        if isinstance(self._item, BaseException):
            self.has_ended = isinstance(self._item, _End)
            return None
        (_, lattice), self._item = self._item, None
        self._requested = 0.0
        return Utterance(lattice)

    def wait(self) -> bool:
        """Wait until the next lattice is read; raise the error of the iterable if it failed."""
        self._request()
        if self._item is None:
            self._item = self._items.get()
        if isinstance(self._item, BaseException) and not isinstance(self._item, _End):
            raise self._item
        return True

    def close(self) -> None:
        """Stop the thread; if it is waiting for the iterable, it stops after the next lattice."""
        self._requests.put(False)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(SECONDS_TO_STOP)

    def _request(self) -> None:
        if self._requested:
            return
        if self._thread is None:
            arguments = (self._pairs, self._requests, self._items)  # without `self`, which can then be freed
            self._thread = threading.Thread(target=_read, args=arguments, name="ninja-prefetch", daemon=True)
            self._thread.start()
        self._requested = time.monotonic()
        self._requests.put(True)


class _End(Exception):
    """Marker for the end of the iterable."""


def _read(lattices: Iterator[Keyed], requests: SimpleQueue[bool], items: SimpleQueue[Keyed | BaseException]) -> None:
    """Put a lattice into `items` for each request; finally put `_End`, or the error that the iterable raised."""
    try:
        while requests.get():
            items.put(next(lattices))
    except StopIteration:
        items.put(_End())
    except BaseException as error:  # the caller's thread raises the error
        items.put(error)
    finally:
        lattices.close()  # type: ignore[attr-defined]
