"""Reader and writer for the native format: lattices as rows of a memory-mapped Arrow file.

Each array of ``Lattice`` is a column of lists. Lattices are read as views of the file, and can be accessed by
key. Other Arrow tools (pyarrow, Polars, DuckDB, pandas) can read the columns. The column ``word`` is dictionary-encoded
with the symbol table: other tools show words, and Ninja uses their ids.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ninja._columns import Columns, checksum
from ninja.errors import FormatError, InputError, LatticeError, NinjaError, TableError
from ninja.formats import native_schema
from ninja.formats.content import Content, Entry, check_choice
from ninja.formats.format import ALL_FIELDS, Format, Read, Write, WriteSettings
from ninja.formats.native_schema import CHECKSUM, COLUMNS, OutputBuffer, arrow, arrow_errors
from ninja.lattice import Lattice
from ninja.lattice.lattice import SHIFTS
from ninja.lattice.symbols import SymbolTable, not_in_table

Check = Literal["use", "all", "none"]
TOGETHER = 64  # number of lattices that a kernel call creates
BATCH = 1 << 25  # a record batch is written when the arrays of its lattices reach this number of bytes
BATCH_LATTICES = 1 << 12  # maximum number of lattices in a record batch at the end of a file
_DAMAGED = "not a lattice file, or damaged"
_NO_KEY = re.compile(r"(?:.*[\x00-\x1f\x7f-\x9f].*)?", re.DOTALL)


class NativeFile:
    """The lattices in a memory-mapped file; this class can be used as a context manager.

    Lattices stay valid after the file is closed, but not if the file is truncated: like any mapped file, it must be
    replaced, not overwritten.

    By default, the invariants and the checksum of each lattice are checked. Kernels therefore never access memory
    outside the arrays of a lattice, even if the file is not trusted, and flipped bits are detected. Keys must not be
    empty or contain control characters.

    Args:
        source: The path of a file, or its bytes. If a path is passed, the file is memory-mapped.
        path: File name for messages, if the source is not a path.
        check: When to check a lattice: "use" (when one of its arrays is first used), "all" (when it is read) or "none"
            (never; for trusted files only). The extents of the lists are always checked.

    Raises:
        FormatError: The file has another format or a newer version, or is damaged.
        SymbolError: The symbol table contains a word twice.
    """

    def __init__(
        self, source: str | os.PathLike[str] | bytes, path: str | None = None, *, check: Check = "use"
    ) -> None:
        check_choice("check", check, "use", "all", "none")
        pyarrow = arrow()
        self.path = path if isinstance(source, bytes) else os.fspath(source)
        self._check = check
        try:
            whole = pyarrow.py_buffer(source) if isinstance(source, bytes) else _mapped(pyarrow, os.fspath(source))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", self.path) from error
        native_schema.check_layout(memoryview(whole), self.path)
        with arrow_errors(self.path, _DAMAGED):
            self._reader = pyarrow.ipc.open_file(pyarrow.BufferReader(whole))
            self._schema = native_schema.checked(self._reader.schema, self.path)
        self._batches: list[Columns | None] = [None] * self._reader.num_record_batches
        self._places: dict[str, tuple[int, int]] | None = None
        self.words: SymbolTable | None = self._schema.words  # symbol table of all lattices
        self._num_words = 1 << 31
        if self._schema.has_dictionary and self._batches:
            with arrow_errors(self.path, _DAMAGED):
                dictionary = self._reader.get_batch(0).column("word").values.dictionary
                dictionary.validate(full=True)
            self._num_words = len(dictionary)
            self.words = native_schema.MappedTable(dictionary, self.path, self._schema.words_sum)

    def __enter__(self) -> NativeFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file; it stays mapped until its lattices are no longer in use."""
        self._batches = [None] * len(self._batches)

    def __len__(self) -> int:
        return sum(self._batch(number).size for number in range(len(self._batches)))

    def keys(self) -> Iterator[str]:
        """Yield the lattice keys in file order."""
        for number in range(len(self._batches)):
            yield from self._batch(number).keys()

    def __contains__(self, key: object) -> bool:
        return key in self._index()

    def __getitem__(self, key: str) -> Lattice:
        """Return the first lattice with the given key.

        Raises:
            KeyError: No lattice has this key.
            LatticeError: The lattice violates an invariant.
            FormatError: The lattice or its record batch is damaged, or its key is invalid.
        """
        number, row = self._index()[key]
        batch = self._batch(number)
        return batch.unread(row, row + 1, self.words)[0] if self._check == "use" else self._checked(batch, row)

    def __iter__(self) -> Iterator[Lattice]:
        """Yield the lattices in file order.

        Raises:
            LatticeError: A lattice violates an invariant.
            FormatError: A lattice or a record batch is damaged.
        """
        for number in range(len(self._batches)):
            batch = self._batch(number)
            if self._check != "use":
                yield from (self._checked(batch, row) for row in range(batch.size))
                continue
            for first in range(0, batch.size, TOGETHER):
                yield from batch.unread(first, min(first + TOGETHER, batch.size), self.words)

    def entries(self) -> Iterator[tuple[str, Lattice | NinjaError]]:
        """Yield ``(key, lattice or error)`` pairs in file order; a damaged record batch yields one error.

        Lattices are checked before they are yielded, unless ``check`` is "none".
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
            with arrow_errors(self.path, _DAMAGED):
                batch = _columns(self._reader.get_batch(number), self._schema, self._num_words, self.path)
            self._batches[number] = batch
        return batch


def _mapped(pyarrow: Any, path: str) -> Any:
    if os.path.isdir(path):
        raise IsADirectoryError(21, "Is a directory")
    if os.path.getsize(path) == 0:
        return pyarrow.py_buffer(b"")  # an empty file cannot be memory-mapped
    with pyarrow.memory_map(path, "r") as file:
        return file.read_buffer()


def _columns(table: Any, schema: native_schema.Schema, num_words: int, path: str | None) -> Columns:
    """Return the columns of a record batch; to avoid page faults, read only keys and scalars."""
    strings, rows = [], len(table.column("key"))
    for name in ("key", "kind"):
        column = _whole(table.column(name), path)
        column.validate(full=True)
        if column.null_count:
            raise FormatError(f"a lattice has no {name}", path)
        strings.append(native_schema.strings(column))
    shifts = _whole(table.column("frame_shift"), path)
    known = native_schema.present(shifts)
    shift = np.where(known, native_schema.plain(shifts, np.float64), np.nan)
    if not ((np.clip(shift, *SHIFTS) == shift) | (known == 0)).all():  # also false for NaN
        raise FormatError("a frame shift is not a number from 1e-6 to 1e6", path)
    offsets, lists = [], []
    for name, dtype in COLUMNS.items():
        column = _whole(table.column(name), path)
        if name != "time" and column.null_count:
            raise FormatError(f"a lattice has no {name}", path)
        _, begin, missing, content = column.buffers()
        values = column.values
        if missing is not None and _whole(values, path).null_count:
            raise FormatError(f"an element of the column {name} is null", path)
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
    """Return a column after checking that its null mask is complete, which Arrow assumes when it counts nulls."""
    missing = column.buffers()[0]
    if missing is not None and 8 * missing.size < len(column):
        raise FormatError("a column is truncated", path)
    return column


def _entries(content: Content, words: SymbolTable | None, options: None) -> Iterator[Entry]:
    with NativeFile(content.mapped(), content.name) as file:
        yield from ((lattice.key, lattice) for lattice in file) if content.late else file.entries()


class NativeEncoder:
    """Encoder that writes lattices as record batches.

    The symbol table precedes the lattices in the file, so lattices stay in memory while the table is still growing.
    """

    def __init__(self, settings: WriteSettings) -> None:
        self._arrow = arrow()
        self._words = settings.words
        self._buffer = OutputBuffer()
        self._writer: Any = None
        self._dictionary: Any = None
        self._schema: Any = None
        self._pending: list[Lattice] = []
        self._size = 0
        self._num_words = 1 << 31

    def add(self, lattice: Lattice) -> bytes:
        """Encode a lattice and return the next bytes of the file. The first lattice determines the symbol table.

        Raises:
            LatticeError: The key is empty or contains a control character.
            TableError: A word id is not in the symbol table.
            UnicodeEncodeError: The key cannot be encoded as UTF-8.
        """
        if _NO_KEY.fullmatch(lattice.key):
            message = f"the key {lattice.key!r} is empty or contains a control character; use another key"
            raise LatticeError(message, key=lattice.key)
        lattice.key.encode()  # raise an error for this lattice now, not for its whole batch later
        if self._words is None:
            self._words = lattice.words
        grows = self._words is not None and self._words.grows
        if self._writer is None and not grows:
            self._begin()
        largest = int(lattice.word.max(initial=0))
        if largest >= self._num_words:
            raise TableError(not_in_table(largest), key=lattice.key)
        self._pending.append(lattice)
        self._size += sum(getattr(lattice, name).nbytes for name in COLUMNS if name != "time")
        if self._size >= BATCH and not grows:
            self._flush(self._pending)
            self._pending, self._size = [], 0
        return self._buffer.take()

    def end(self) -> bytes:
        """Encode the remaining lattices and the footer, without which the file cannot be read."""
        if self._writer is None:
            self._begin()
        for begin in range(0, len(self._pending), BATCH_LATTICES):
            self._flush(self._pending[begin : begin + BATCH_LATTICES])
        self._writer.close()
        return self._buffer.take()

    def _begin(self) -> None:
        self._schema, self._dictionary = native_schema.schema(self._words)
        if self._dictionary is not None:
            self._num_words = len(self._dictionary)
        self._writer = self._arrow.ipc.new_file(self._buffer, self._schema)

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
            values = pyarrow.array(np.concatenate([empty, *(array for array in arrays if array is not None)]))
            lengths = [0 if array is None else len(array) for array in arrays]
            offsets = pyarrow.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
            if name == "word" and self._dictionary is not None:
                values = pyarrow.DictionaryArray.from_arrays(values, self._dictionary, safe=False)
            missing = pyarrow.array([array is None for array in arrays]) if name == "time" else None
            columns.append(
                pyarrow.LargeListArray.from_arrays(offsets, values, type=self._schema.field(name).type, mask=missing)
            )
        columns.append(pyarrow.array([checksum(lattice) for lattice in lattices], pyarrow.uint32()))
        self._writer.write_batch(pyarrow.record_batch(columns, schema=self._schema))


FORMAT = Format(
    name="native",
    about="Ninja's Arrow format; memory-mapped and lossless",
    extensions=(".arrow",),
    aliases=("arrow",),
    mark=lambda head: head.startswith(native_schema.MAGIC) and not native_schema.is_table(head),
    read=Read(_entries, ids=True, lazy=True),
    keeps=ALL_FIELDS,
    write=Write(encoder=NativeEncoder),
)
