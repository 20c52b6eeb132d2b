"""Lookup of lattices and other table entries by key while their files are read in order."""

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
from ninja.io.reader import Reading, ReadOptions, Words
from ninja.io.sources import Source, Sources, as_sources
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Fields = tuple[npt.NDArray[np.int32] | None, float | None, SymbolTable | None]

IN_MEMORY = 1 << 23  # maximum number of bytes of skipped lattices in memory; more are stored in a temporary file
Value = TypeVar("Value")


class Lookup:
    """On-demand lookup of lattices in a source by key.

    The source is read only as far as necessary, so two archives in the same order can be joined in one pass. Lattices
    that are read before the requested one are stored in encoded form, on disk if they are large. If a key occurs
    several times, each lookup returns the next lattice with this key.

    Args:
        source: See ``ninja.read``.
        options: Options for reading; None uses the defaults of ``ninja.read``.
        on_error: Function that is called with the error of each invalid lattice, which is then treated as missing; with
            None, the error is raised.

    Raises:
        InputError: A file in the source cannot be opened.
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
        self._first_error: NinjaError | None = None
        options = options or ReadOptions(Words(keep_tables=True))
        report = None if on_error is None else self._report
        self._entries = Reading(sources, options, on_error=report).lattices()
        self._has_entries = False
        self._skipped = _SkippedLattices()
        self._last: tuple[str, Lattice] | None = None

    def get(self, key: str) -> Lattice | None:
        """Return the lattice with a key, or None if the source does not contain the key.

        Raises:
            NinjaError: See ``ninja.read``.
            InputError: No lattice in the source can be read, or the source is a command that failed.
        """
        if self._last is None:
            self._last = self._next()
        if self._last is None or self._last[0] != key:
            if (lattice := self._skipped.take(key)) is not None:
                return lattice
            while self._last is not None and self._last[0] != key:
                self._skipped.put(*self._last)
                self._last = self._next()
        last, self._last = self._last, None
        return None if last is None else last[1]

    def rest(self) -> Iterator[str]:
        """Read the source to its end, and yield the keys that were not looked up."""
        yield from self._skipped.keys()
        if self._last is not None:
            yield self._last[0]
            self._last = None
        for key, _ in self._entries:
            yield key

    def _next(self) -> tuple[str, Lattice] | None:
        entry = next(self._entries, None)
        self._has_entries |= entry is not None
        if not self._has_entries and self._first_error is not None:
            raise InputError(
                f"no lattice of this source could be read; the first error: {self._first_error}", self._name
            )
        return entry

    def _report(self, failure: NinjaError) -> None:
        """Pass an error in a lattice to `on_error`; raise an error in the whole source, such as a failed command."""
        if isinstance(failure, InputError) and not failure.key:
            raise failure
        self._first_error = self._first_error or failure
        assert self._on_error is not None
        self._on_error(failure)

    def close(self) -> None:
        """Stop reading, and delete the skipped lattices."""
        self._entries.close()  # type: ignore[attr-defined]
        self._skipped.close()

    def __enter__(self) -> Lookup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _SkippedLattices:
    """Skipped lattices, encoded as entries of a Kaldi table in a temporary file."""

    def __init__(self) -> None:
        import tempfile  # rarely used: only if archives are joined

        self._entries: dict[str, list[tuple[int, int, Fields]]] = {}  # key → (offset, size, fields not in the encoding)
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed with the lookup
        self._size = 0
        self._writer = TableWriter()

    def keys(self) -> Iterator[str]:
        return iter(self._entries)

    def put(self, key: str, lattice: Lattice) -> None:
        begin = self._writer.append(lattice, b"k", lattice.kind == "compact")
        view = self._writer.view()
        with reported("a temporary file for skipped lattices"):
            self._file.seek(self._size)
            self._file.write(view[begin:])
        size = len(view) - begin
        view.release()
        self._writer.clear()
        others = lattice.time, lattice.frame_shift, lattice.words
        self._entries.setdefault(key, []).append((self._size, size, others))
        self._size += size

    def take(self, key: str) -> Lattice | None:
        entries = self._entries.get(key)
        if entries is None:
            return None
        offset, size, (time, frame_shift, words) = entries.pop(0)
        if not entries:
            del self._entries[key]
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
    """A table that is read only as far as necessary to look up keys.

    Each entry can be looked up once. Entries that precede a requested entry are stored until they are looked up; if
    several stored entries would have the same key, only the first is kept. Threads can share the table.
    """

    def __init__(self, entries: Iterable[tuple[str, Value]]) -> None:
        self._entries: Iterator[tuple[str, Value]] = iter(entries)
        self._skipped: dict[str, Value] = {}
        self._lock = Lock()

    def get(self, key: str) -> Value | None:
        """Remove the entry with a key and return its value, or None if there is no such entry."""
        with self._lock:
            if key in self._skipped:
                return self._skipped.pop(key)
            for name, value in self._entries:
                if name == key:
                    return value
                self._skipped.setdefault(name, value)
            return None
