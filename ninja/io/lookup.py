"""Lookup by key: lattices, to join archives of which one is read in order, and tables in step with lattices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from types import TracebackType
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ninja._tables import TableReader, TableWriter
from ninja.errors import InputError, NinjaError
from ninja.files.output import reported
from ninja.io.reading import Reading, ReadOptions
from ninja.io.sources import Source, Sources, as_sources
from ninja.io.symbol_tables import Words
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Fields = tuple[npt.NDArray[np.int32] | None, float | None, SymbolTable | None]

IN_MEMORY = 1 << 23  # bytes of passed-over lattices; more go to a temporary file
Value = TypeVar("Value")


class Lookup:
    """The lattices of a source by their keys.

    The source is read only as far as requested keys need, so that two archives in the same order are joined while each
    is read once. Lattices passed over are stored, on disk if they are large; no more than one of them is in memory. A
    key that occurs several times is found as often as it occurs.

    Args:
        source: As for ``ninja.read``.
        options: Options of reading.  [default: those of ``ninja.read``]
        on_error: Called with the error of each faulty lattice, which counts as missing; without it, it is raised.

    Raises:
        InputError: A file of the source cannot be opened.
    """

    def __init__(
        self,
        source: Source | Sources,
        options: ReadOptions | None = None,
        *,
        on_error: Callable[[NinjaError], None] | None = None,
    ) -> None:
        sources = as_sources(source)
        for file in sources.files:
            if not file.is_pipe and file.table.kind != "folder":
                file.inspect()
        self._name = " ".join(map(str, sources.names))
        self._on_error = on_error
        self._first_fault: NinjaError | None = None
        options = options or ReadOptions(Words(SymbolTable.growing(), keep_tables=True))
        report = None if on_error is None else self._report
        self._entries = Reading(sources, options, on_error=report).lattices()
        self._has_entries = False
        self._passed = _PassedLattices()
        self._last: tuple[str, Lattice] | None = None

    def get(self, key: str) -> Lattice | None:
        """Return the lattice of a key; None if there is none.

        Raises:
            NinjaError: As ``ninja.read`` raises.
            InputError: No lattice of the source can be read, or its command failed.
        """
        if self._last is None:
            self._last = self._next()
        if self._last is None or self._last[0] != key:
            if (lattice := self._passed.take(key)) is not None:
                return lattice
            while self._last is not None and self._last[0] != key:
                self._passed.put(*self._last)
                self._last = self._next()
        last, self._last = self._last, None
        return None if last is None else last[1]

    def rest(self) -> Iterator[str]:
        """Yield the keys that were not requested, and end the lookup."""
        yield from self._passed.keys()
        if self._last is not None:
            yield self._last[0]
            self._last = None
        for key, _ in self._entries:
            yield key

    def _next(self) -> tuple[str, Lattice] | None:
        entry = next(self._entries, None)
        self._has_entries |= entry is not None
        if not self._has_entries and self._first_fault is not None:
            fault = self._first_fault
            raise InputError(f"not one lattice of this archive could be used; the first fault: {fault}", self._name)
        return entry

    def _report(self, failure: NinjaError) -> None:
        """Report the error of a lattice; raise one of the source itself, such as a command that failed."""
        if isinstance(failure, InputError) and not failure.key:
            raise failure
        self._first_fault = self._first_fault or failure
        assert self._on_error is not None
        self._on_error(failure)

    def close(self) -> None:
        """End reading, and delete the lattices passed over."""
        self._entries.close()  # type: ignore[attr-defined]
        self._passed.close()

    def __enter__(self) -> Lookup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _PassedLattices:
    """Lattices passed over, in a temporary file of Kaldi tables."""

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[int, int, Fields]]] = {}
        import tempfile  # for joined archives only

        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed with the lookup
        self._size = 0
        self._writer = TableWriter()

    def keys(self) -> Iterator[str]:
        return iter(self._places)

    def put(self, key: str, lattice: Lattice) -> None:
        begin = self._writer.append(lattice, b"k", lattice.kind == "compact")
        view = self._writer.view()
        with reported("a temporary file for lattices in another order"):
            self._file.seek(self._size)
            self._file.write(view[begin:])
        size = len(view) - begin
        view.release()
        self._writer.clear()
        others = lattice.time, lattice.frame_shift, lattice.words  # not in a table
        self._places.setdefault(key, []).append((self._size, size, others))
        self._size += size

    def take(self, key: str) -> Lattice | None:
        places = self._places.get(key)
        if places is None:
            return None
        offset, size, (time, frame_shift, words) = places.pop(0)
        if not places:
            del self._places[key]
        self._file.seek(offset)
        reader = TableReader("a temporary file")
        space = reader.space(size)
        space[:] = self._file.read(size)
        space.release()
        reader.advance(size)
        lattice = reader.parse_one(key, 0)
        assert isinstance(lattice, Lattice), lattice
        return lattice.replace(time=time, frame_shift=frame_shift, words=words)

    def close(self) -> None:
        self._file.close()


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
