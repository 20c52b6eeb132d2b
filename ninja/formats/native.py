"""Ninja's own files: lattices as columns of an Arrow file, mapped into memory and used where they lie.

One row is one lattice and every array of ``Lattice`` is one list in it, so that reading is no more than pointing at the
file, any lattice can be fetched by its key, and any tool that knows Arrow (pyarrow, Polars, DuckDB, pandas) reads the
same columns. The column ``word`` is dictionary-encoded by the symbol table: tools show words, we see their ids.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ninja._columns import Columns
from ninja.errors import FormatError, InputError, NinjaError, OptionError
from ninja.formats import native_schema
from ninja.formats.content import Content
from ninja.formats.format import ALL_FIELDS, Entry, Format, Read, Write
from ninja.formats.native_schema import CHECKSUM, COLUMNS, arrow
from ninja.formats.native_writer import NativeEncoder
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Check = Literal["use", "all", "none"]
TOGETHER = 64  # lattices that are made at once


class NativeFile:
    """The lattices of a file, read where they lie; use it in a ``with`` block or keep it as long as its lattices.

    Lattices stay valid when the file is closed, but not when somebody cuts the file short meanwhile: like any mapped
    file, it must be replaced, not overwritten.

    A lattice is checked for all invariants, so that nothing in a damaged or hostile file makes a kernel leave its
    arrays, and against its checksum, so that no flipped bit becomes another cost. Its key must be one that a list can
    hold, not empty and without control characters.

    Args:
        source: A path, which is mapped, or the bytes of a file.
        path: File name for error messages, where the source is no path.
        check: When that is done. "use": when one of its arrays is first asked for; until then a lattice costs nothing
            but its key, and what is wrong with it is raised then. "all": when it is fetched. "none": never, nothing
            but where the lists lie is checked; for files that you wrote yourself and that nobody else can write to.

    Raises:
        InputError: The file cannot be read.
        FormatError: It is no such file, of a newer version, or damaged.
        SymbolError: Its symbol table names a word twice.
        OptionError: `check` is none of these.
        DependencyError: pyarrow is not installed.
    """

    def __init__(
        self, source: str | os.PathLike[str] | bytes, path: str | None = None, *, check: Check = "use"
    ) -> None:
        if check not in ("use", "all", "none"):
            raise OptionError(f"check is {check!r}, but one of use, all, none is needed")
        pyarrow = arrow()
        self.path = path if isinstance(source, bytes) else os.fspath(source)
        self._check = check
        try:
            whole = pyarrow.py_buffer(source) if isinstance(source, bytes) else _mapped(pyarrow, os.fspath(source))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", self.path) from error
        native_schema.look_through(memoryview(whole), self.path)
        self._reader = self._guarded(lambda: pyarrow.ipc.open_file(pyarrow.BufferReader(whole)))
        self._schema = self._guarded(lambda: native_schema.checked(self._reader.schema, self.path))
        self._batches: list[Columns | None] = [None] * self._reader.num_record_batches
        self._places: dict[str, tuple[int, int]] | None = None
        self.words: SymbolTable | None = self._schema.words  # of all lattices
        self._num_words = 1 << 31
        if self._schema.has_dictionary and self._batches:
            dictionary = self._guarded(lambda: self._reader.get_batch(0).column("word").values.dictionary)
            self._guarded(lambda: dictionary.validate(full=True))
            self._num_words = len(dictionary)
            self.words = native_schema.MappedTable(dictionary, self.path, self._schema.words_sum)

    def __enter__(self) -> NativeFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go, as soon as no lattice of it is left."""
        self._batches = [None] * len(self._batches)

    def __len__(self) -> int:
        return sum(self._batch(number).size for number in range(len(self._batches)))

    def keys(self) -> Iterator[str]:
        """Yield the keys of the lattices in their order."""
        for number in range(len(self._batches)):
            yield from self._batch(number).keys()

    def __contains__(self, key: object) -> bool:
        return key in self._index()

    def __getitem__(self, key: str) -> Lattice:
        """Return the lattice with a key, the first one if there are several.

        Raises:
            KeyError: There is none.
            LatticeError: It breaks an invariant.
            FormatError: It, or the part of the file it lies in, is damaged, or its key is none.
        """
        number, row = self._index()[key]
        batch = self._batch(number)
        return batch.unread(row, row + 1, self.words)[0] if self._check == "use" else self._checked(batch, row)

    def __iter__(self) -> Iterator[Lattice]:
        """Yield the lattices in their order.

        Raises:
            LatticeError: A lattice breaks an invariant.
            FormatError: A lattice or a part of the file is damaged.
        """
        for number in range(len(self._batches)):
            batch = self._batch(number)
            if self._check != "use":
                yield from (self._checked(batch, row) for row in range(batch.size))
                continue
            for first in range(0, batch.size, TOGETHER):
                yield from batch.unread(first, min(first + TOGETHER, batch.size), self.words)

    def entries(self) -> Iterator[tuple[str, Lattice | NinjaError]]:
        """Yield each key with its lattice or what is wrong with it; a damaged part costs the lattices in it.

        Each is checked before it is yielded, unless ``check`` is "none".
        """
        for number in range(len(self._batches)):
            try:
                batch = self._batch(number)
            except FormatError as error:
                yield "", error
                continue
            for first in range(0, batch.size, TOGETHER):
                last = min(first + TOGETHER, batch.size)
                yield from batch.entries(first, last, self.words, check=self._check != "none")

    def _index(self) -> dict[str, tuple[int, int]]:
        if self._places is None:
            places: dict[str, tuple[int, int]] = {}
            for number in range(len(self._batches)):
                for row, key in enumerate(self._batch(number).keys()):
                    places.setdefault(key, (number, row))
            self._places = places
        return self._places

    def _checked(self, batch: Columns, row: int) -> Lattice:
        return batch.lattice(row, self.words, check=self._check != "none")

    def _batch(self, number: int) -> Columns:
        batch = self._batches[number]
        if batch is None:
            table = self._guarded(lambda: self._reader.get_batch(number))
            batch = self._guarded(lambda: _columns(table, self._schema, self._num_words, self.path))
            self._batches[number] = batch
        return batch

    def _guarded(self, action: Any) -> Any:
        try:
            return action()
        except NinjaError:
            raise
        except Exception as error:  # Arrow's errors are ValueError, OSError, MemoryError … by the damage
            raise FormatError(f"not a lattice file, or damaged: {str(error)[:200]}", self.path) from error


def _mapped(pyarrow: Any, path: str) -> Any:
    if os.path.isdir(path):
        raise IsADirectoryError(21, "Is a directory")
    if os.path.getsize(path) == 0:
        return pyarrow.py_buffer(b"")  # cannot be mapped
    with pyarrow.memory_map(path, "r") as file:
        return file.read_buffer()


def _columns(table: Any, schema: native_schema.Schema, num_words: int, path: str | None) -> Columns:
    """Look at one record batch, but at no more of it than its keys: all else is far apart and costs page faults.

    Raises:
        FormatError: Its columns are not what they should be.
        Exception: Whatever Arrow or NumPy raise where they lie outside the file.
    """
    strings, rows = [], len(table.column("key"))
    for name in ("key", "kind"):
        column = _whole(table.column(name), path)
        column.validate(full=True)
        if column.null_count:
            raise FormatError("a lattice without a key, or of no kind that there is", path)
        strings.append(native_schema.strings(column))
    shifts = _whole(table.column("frame_shift"), path)
    known = native_schema.present(shifts)
    shift = np.where(known, native_schema.plain(shifts, np.float64), np.nan)
    if not ((shift > 0) & (shift < np.inf) | (known == 0)).all():
        raise FormatError("a frame shift that is not positive", path)
    offsets, lists = [], []
    for name, dtype in COLUMNS.items():
        column = _whole(table.column(name), path)
        if name != "time" and column.null_count:
            raise FormatError(f"a lattice without {name}", path)
        _, begin, missing, content = column.buffers()
        values = column.values
        if missing is not None and _whole(values, path).null_count:
            raise FormatError(f"{name} has an empty element", path)
        offsets.append(np.frombuffer(begin, np.int64, rows + 1) if rows else np.zeros(1, np.int64))
        lists.append(np.frombuffer(content, dtype, len(values)) if len(values) else np.zeros(0, dtype))
    none = np.zeros(rows, np.uint32), np.zeros(rows, np.uint8)
    sums, summed = _checksums(_whole(table.column(CHECKSUM), path)) if schema.has_checksums else none
    return Columns(
        offsets,
        lists,
        keys=strings[0],
        kinds=strings[1],
        frame_shifts=shift,
        timed=native_schema.present(table.column("time")),
        checksums=sums,
        summed=summed,
        num_words=num_words,
        path=path,
    )


def _whole(column: Any, path: str | None) -> Any:
    """Return a column that has all the bits that say which elements are null, so that Arrow may count them."""
    missing = column.buffers()[0]
    if missing is not None and 8 * missing.size < len(column):
        raise FormatError("a column that is cut short", path)
    return column


def _checksums(column: Any) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
    return native_schema.plain(column, np.uint32), native_schema.present(column)


def read_native(content: bytes, key: str, path: str | None = None, words: SymbolTable | None = None) -> Lattice:
    """Read the lattice of a file of ours that holds one.

    Args:
        content: The whole file; the lattice's arrays lie in it.
        key: Utterance id the lattice is to have; empty: its own.
        path: File name for error messages.
        words: Symbol table to attach; None: the file's own.

    Raises:
        FormatError: It is no such file, damaged, or has not one lattice.
        LatticeError: The lattice breaks an invariant.
        DependencyError: pyarrow is not installed.
    """
    file = NativeFile(content, path, check="all")
    if len(file) != 1:
        raise FormatError(f"{len(file)} lattices in one file, but one is wanted", path, key=key or None)
    lattice = next(iter(file))
    lattice = lattice.with_key(key) if key else lattice
    return lattice if words is None else lattice.with_words(words)


def _entries(content: Content, words: SymbolTable | None, options: None) -> Iterator[Entry]:
    with NativeFile(content.mapped(), content.name) as file:
        yield from ((each.key, each) for each in file) if content.late else file.entries()


def _is_arrow(head: bytes) -> bool:
    return head.startswith(b"ARROW1")


FORMAT = Format(
    name="native",
    about="Ninja's own: an Arrow file that is mapped, with everything a lattice has",
    extensions=(".arrow",),
    aliases=("arrow",),
    mark=_is_arrow,
    read=Read(_entries),
    keeps=ALL_FIELDS,
    write=Write(encoder=NativeEncoder),
)
