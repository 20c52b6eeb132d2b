"""Ninja's own files: lattices as columns of an Arrow file, mapped into memory and used where they lie.

One row is one lattice and every array of ``Lattice`` is one list in it, so that reading is no more than pointing at the
file, any lattice can be fetched by its key, and any tool that knows Arrow (pyarrow, Polars, DuckDB, pandas) reads the
same columns. The column ``word`` is dictionary-encoded by the symbol table: tools show words, we see their ids.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ninja._columns import Columns, checksum
from ninja.errors import FormatError, InputError, LatticeError, NinjaError, OptionError, TableError
from ninja.formats import native_schema
from ninja.formats.content import Content, Entry
from ninja.formats.format import ALL_FIELDS, Format, Read, Write, WriteSettings
from ninja.formats.native_schema import CHECKSUM, COLUMNS, arrow
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Check = Literal["use", "all", "none"]
TOGETHER = 64  # lattices that are made at once
BATCH = 1 << 25  # bytes of arrays that make a record batch
BATCH_LATTICES = 1 << 12
_NO_KEY = re.compile(r"(?:.*[\x00-\x1f\x7f-\x9f].*)?", re.DOTALL)


class NativeFile:
    """The lattices of a file, read where they lie; use it in a ``with`` block or keep it as long as its lattices.

    Lattices stay valid when the file is closed, but not when the file is cut short meanwhile: like any mapped
    file, it must be replaced, not overwritten.

    A lattice is checked for all invariants, so that nothing in a damaged or hostile file makes a kernel leave its
    arrays, and against its checksum, so that no flipped bit becomes another cost. Its key must be one that a list can
    hold, not empty and without control characters.

    Args:
        source: A path, which is mapped, or the bytes of a file.
        path: File name for error messages, where the source is no path.
        check: When that is done. "use": when one of its arrays is first used; until then a lattice costs nothing
            but its key, and what is wrong with it is raised then. "all": when it is fetched. "none": never, nothing
            but where the lists lie is checked; for files that you wrote and that no one else can write to.

    Raises:
        FormatError: It is no such file, of a newer version, or damaged.
        SymbolError: Its symbol table names a word twice.
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
        """Release the file once no lattice of it is in use."""
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
        """Yield each key with its lattice or its error; a damaged part costs the lattices in it.

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
    """Read only the keys of a record batch: all else is far apart and costs page faults."""
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
    sums, summed = np.zeros(rows, np.uint32), np.zeros(rows, np.uint8)
    if schema.has_checksums:
        column = _whole(table.column(CHECKSUM), path)
        sums, summed = native_schema.plain(column, np.uint32), native_schema.present(column)
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


def _entries(content: Content, words: SymbolTable | None, options: None) -> Iterator[Entry]:
    with NativeFile(content.mapped(), content.name) as file:
        yield from ((each.key, each) for each in file) if content.late else file.entries()


class NativeEncoder:
    """Writer of a Ninja file, a record batch at a time; the format gives access by key.

    The file begins with its symbol table: one that grows is written in the end, the lattices behind it.
    """

    def __init__(self, settings: WriteSettings) -> None:
        self._arrow = arrow()
        self._words = settings.words
        self._written = _Written()
        self._writer: Any = None
        self._dictionary: Any = None
        self._schema: Any = None
        self._pending: list[Lattice] = []
        self._size = 0
        self._num_words = 1 << 31

    def add(self, lattice: Lattice) -> bytes:
        """Take a lattice, and return the bytes that follow those before; the first decides on the symbol table.

        Raises:
            LatticeError: Its key is empty or holds a control character.
            UnicodeEncodeError: Its key is no text that a file can hold.
        """
        if _NO_KEY.fullmatch(lattice.key):
            message = f"the key {lattice.key!r} is empty or holds a control character; give the lattice another"
            raise LatticeError(message, key=lattice.key)
        lattice.key.encode()  # an error of this lattice only
        if self._words is None:
            self._words = lattice.words
        grows = self._words is not None and self._words.grows
        if self._writer is None and not grows:
            self._begin()
        largest = int(lattice.word.max(initial=0))
        if largest >= self._num_words:
            raise TableError(f"word id {largest} is not in the symbol table; is it the right one?", key=lattice.key)
        self._pending.append(lattice)
        self._size += sum(getattr(lattice, name).nbytes for name in COLUMNS if name != "time")
        if self._size >= BATCH and not grows:
            self._flush(self._pending)
            self._pending, self._size = [], 0
        return self._written.take()

    def end(self) -> bytes:
        """Return the last lattices and the footer, without which the file cannot be read."""
        if self._writer is None:
            self._begin()
        for begin in range(0, len(self._pending), BATCH_LATTICES):
            self._flush(self._pending[begin : begin + BATCH_LATTICES])
        self._writer.close()
        return self._written.take()

    def _begin(self) -> None:
        self._schema, self._dictionary = native_schema.schema(self._words)
        if self._dictionary is not None:
            self._num_words = len(self._dictionary)
        self._writer = self._arrow.ipc.new_file(self._written, self._schema)

    def _flush(self, lattices: Sequence[Lattice]) -> None:
        pyarrow = self._arrow
        columns = [
            pyarrow.array([lattice.key for lattice in lattices], pyarrow.string()),
            pyarrow.array([lattice.kind for lattice in lattices], pyarrow.string()),
            pyarrow.array([lattice.frame_shift for lattice in lattices], pyarrow.float64()),
        ]
        for name, dtype in COLUMNS.items():
            arrays = [getattr(lattice, name) for lattice in lattices]
            empty = np.zeros(0, dtype)
            values = pyarrow.array(np.concatenate([empty, *(each for each in arrays if each is not None)]))
            lengths = [0 if each is None else len(each) for each in arrays]
            offsets = pyarrow.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
            if name == "word" and self._dictionary is not None:
                values = pyarrow.DictionaryArray.from_arrays(values, self._dictionary, safe=False)
            missing = pyarrow.array([each is None for each in arrays]) if name == "time" else None
            columns.append(
                pyarrow.LargeListArray.from_arrays(offsets, values, type=self._schema.field(name).type, mask=missing)
            )
        columns.append(pyarrow.array([checksum(lattice) for lattice in lattices], pyarrow.uint32()))
        self._writer.write_batch(pyarrow.record_batch(columns, schema=self._schema))


class _Written(io.RawIOBase):
    """A stream that Arrow writes to, of which the bytes so far can be taken."""

    def __init__(self) -> None:
        self._found: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._found.append(bytes(memoryview(content)))
        return len(content)

    def take(self) -> bytes:
        """Return the bytes that were written since the last time."""
        content = b"".join(self._found)
        self._found = []
        return content


FORMAT = Format(
    name="native",
    about="Ninja's own: an Arrow file that is mapped, with everything a lattice has",
    extensions=(".arrow",),
    aliases=("arrow",),
    mark=lambda head: head.startswith(native_schema.MAGIC),
    read=Read(_entries, ids=True, lazy=True),
    keeps=ALL_FIELDS,
    write=Write(encoder=NativeEncoder),
)
