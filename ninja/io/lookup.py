"""Lookup of lattices by key, to join archives: one is read in order, the others by its keys."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ninja._tables import TableReader, TableWriter
from ninja.errors import InputError, NinjaError
from ninja.files.output import reported
from ninja.files.place import Table
from ninja.files.stream import gives_bytes_once, open_stream
from ninja.io.reader import Reading
from ninja.io.sources import ReadOptions, Source, Words, tables
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Beside = tuple[npt.NDArray[np.int32] | None, float | None, SymbolTable | None]

IN_MEMORY = 1 << 23  # bytes of passed-over lattices; more go to a temporary file


class Lookup:
    """The lattices of a source by their keys.

    It is read on only as far as a key is looked for, so that two archives in the same order are joined while both are
    read once. What is passed over is laid by, on disk if it is much; never is more than one lattice of it in memory.
    A key that occurs again and again is found as often as it occurs.

    Args:
        source: What ``ninja.read`` takes.
        options: How it is read; None: as by ``ninja.read`` without any.
        on_error: Called with what is wrong with each faulty lattice, which counts as missing; without it, it is raised.
        allow_pipes: As for ``ninja.read``.

    Raises:
        InputError: A file of the source that cannot be opened: joining must not go on without it.
    """

    def __init__(
        self,
        source: Source,
        options: ReadOptions | None = None,
        *,
        on_error: Callable[[NinjaError], None] | None = None,
        allow_pipes: bool = False,
    ) -> None:
        for table in tables(source, allow_pipes=allow_pipes):
            is_pipe = table.place.command is not None or gives_bytes_once(table.place.path)
            if not is_pipe and table.kind != "folder":
                open_stream(table.place).close()
        self._name = str(source) if isinstance(source, str | os.PathLike | Table) else " ".join(map(str, source))
        self._on_error = on_error
        self._first_fault: NinjaError | None = None
        options = options or ReadOptions(Words(SymbolTable.growing(), own=True))
        report = None if on_error is None else self._report
        self._entries = Reading(source, options, on_error=report, allow_pipes=allow_pipes).lattices()
        self._any = False
        self._passed = _PassedLattices()
        self._last: tuple[str, Lattice] | None = None

    def get(self, key: str) -> Lattice | None:
        """Return the lattice of a key, or None when there is none.

        Raises:
            NinjaError: What ``ninja.read`` raises.
            InputError: Not one lattice of the source can be read, or a command it names failed.
        """
        if self._last is None:
            self._last = self._next()
        if self._last is not None and self._last[0] == key:
            found = self._last[1]
            self._last = None
            return found
        laid_by = self._passed.take(key)
        if laid_by is not None:
            return laid_by
        while self._last is not None and self._last[0] != key:
            self._passed.put(*self._last)
            self._last = self._next()
        if self._last is None:
            return None
        found = self._last[1]
        self._last = None
        return found

    def rest(self) -> Iterator[str]:
        """Yield the keys that were not requested; no lattice can be requested afterwards."""
        yield from self._passed.keys()
        if self._last is not None:
            yield self._last[0]
            self._last = None
        for key, _ in self._entries:
            yield key

    def _next(self) -> tuple[str, Lattice] | None:
        entry = next(self._entries, None)
        self._any |= entry is not None
        if not self._any and self._first_fault is not None:
            fault = self._first_fault
            raise InputError(f"not one lattice of this archive could be used; the first fault: {fault}", self._name)
        return entry

    def _report(self, failure: NinjaError) -> None:
        """Report a lattice's fault; raise one of the source itself, such as a command that failed."""
        if isinstance(failure, InputError) and not failure.key:
            raise failure
        self._first_fault = self._first_fault or failure
        assert self._on_error is not None
        self._on_error(failure)

    def close(self) -> None:
        """End reading and remove the lattices passed over."""
        self._entries.close()  # type: ignore[attr-defined]
        self._passed.close()

    def __enter__(self) -> Lookup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _PassedLattices:
    """Lattices passed over, kept as Kaldi tables in a temporary file."""

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[int, int, Beside]]] = {}
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
        beside = lattice.time, lattice.frame_shift, lattice.words  # what a table does not hold
        self._places.setdefault(key, []).append((self._size, size, beside))
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
        found = reader.parse_one(key, 0)
        assert isinstance(found, Lattice), found
        return found.replace(time=time, frame_shift=frame_shift, words=words)

    def close(self) -> None:
        self._file.close()
