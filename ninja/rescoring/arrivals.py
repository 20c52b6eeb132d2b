"""``Arrivals``: items of a source that may be slow, which those that came before need not wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")

PATIENCE = 0.005  # seconds that a batch waits for one more item
SECONDS_TO_STOP = 0.5  # for a source that is at work when its items are no longer wanted


class _End(Exception):
    """The source has ended."""


class Arrivals(Generic[Item]):
    """An iterator over a source, which gives None while the next item is awaited.

    None says: give out what is held back, then ask again, or `wait`, which also raises what the source raised. A thread
    asks the source for an item when one is wanted, never for more, and ends with the source, its failure or `close`.
    """

    def __init__(self, source: Iterable[Item]) -> None:
        self._source = source
        self._wanted: SimpleQueue[bool] = SimpleQueue()  # True: one more item; False: no more
        self._come: SimpleQueue[Item | BaseException] = SimpleQueue()
        self._asked = 0.0  # when; 0: the last item asked for was given
        self._here: list[Item | BaseException] = []  # it has come and was not given yet
        self._thread: threading.Thread | None = None

    def __iter__(self) -> Iterator[Item | None]:
        return self

    def __next__(self) -> Item | None:
        """Return the next item; None if it does not come within some milliseconds of being asked for."""
        self._ask()
        if not self._here:
            try:
                self._here.append(self._come.get(timeout=max(0.0, self._asked + PATIENCE - time.monotonic())))
            except Empty:
                return None
        found = self._here[0]
        if isinstance(found, _End):  # it stays there
            raise StopIteration
        if isinstance(found, BaseException):
            return None
        self._here.clear()
        self._asked = 0.0
        return found

    def wait(self) -> None:
        """Wait until the next item, or the end, is there; raise what the source raised."""
        self._ask()
        if not self._here:
            self._here.append(self._come.get())
        if isinstance(self._here[0], BaseException) and not isinstance(self._here[0], _End):
            raise self._here[0]

    def close(self) -> None:
        """End the thread; one whose source is at work ends as soon as that gives its item."""
        self._wanted.put(False)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(SECONDS_TO_STOP)

    def _ask(self) -> None:
        if self._asked:
            return
        if self._thread is None:
            arguments = (self._source, self._wanted, self._come)  # not this object: it may be forgotten unclosed
            self._thread = threading.Thread(target=_give, args=arguments, name="ninja-arrivals", daemon=True)
            self._thread.start()
        self._asked = time.monotonic()
        self._wanted.put(True)


def _give(source: Iterable[Item], wanted: SimpleQueue[bool], come: SimpleQueue[Item | BaseException]) -> None:
    """Put the items of a source into a queue as they are wanted; at its end, or a failure, the reason."""
    items = None
    try:
        items = iter(source)
        while wanted.get():
            come.put(next(items))
    except StopIteration:
        come.put(_End())
    except BaseException as error:  # it is the caller's to see, whatever it is
        come.put(error)
    finally:
        if (close := getattr(items, "close", None)) is not None:
            close()
