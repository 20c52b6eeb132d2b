"""Tables read once, by key, in step with lattices: alignments, words and costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class KeyedTable(Generic[Value]):
    """A table read only as far as the requested keys need.

    Entries passed over are kept until requested; where two tables have the same order, there are none.
    Of entries with the same key the first counts. Threads may share it.
    """

    def __init__(self, entries: Iterable[tuple[str, Value]]) -> None:
        self._entries: Iterator[tuple[str, Value]] = iter(entries)
        self._kept: dict[str, Value] = {}
        self._lock = Lock()

    def get(self, key: str) -> Value | None:
        """Return the value of a key, once; None where the table lacks it."""
        with self._lock:
            if key in self._kept:
                return self._kept.pop(key)
            for name, value in self._entries:
                if name == key:
                    return value
                self._kept.setdefault(name, value)
            return None
