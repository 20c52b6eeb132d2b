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

from ninja import _image
from ninja.errors import FormatError, InputError, LatticeError, NinjaError
from ninja.formats import native_schema
from ninja.formats.native_schema import COLUMNS, arrow
from ninja.lattice import Lattice
from ninja.symbols import SymbolTable

Check = Literal["all", "none"]
TOGETHER = 64  # lattices that are made at once
_FLAWS = {
    1: "the lengths of its arrays disagree, or it has no states",
    2: "arc_begin does not rise from 0 to the number of arcs",
    3: "arc {} enters a state that is not there, or not behind its own",
    4: "arc {} has a word id that is negative or beyond the symbol table",
    5: "arc {} has a cost that is not finite",
    6: "state {} has a final cost that is -inf or no number",
    7: "no state is final",
    8: "ali_begin does not rise from 0 to the number of labels",
    9: "final_ali_begin does not rise from 0 to the number of labels",
}


class NativeFile:
    """The lattices of a file, read where they lie; use it in a ``with`` block or keep it as long as its lattices.

    Lattices stay valid when the file is closed, but not when somebody cuts the file short meanwhile: like any mapped
    file, it must be replaced, not overwritten.

    Args:
        source: A path, which is mapped, or the bytes of a file.
        path: File name for error messages, where the source is no path.
        check: "all": every lattice is checked for all invariants when it is fetched, so that nothing in a damaged or
            hostile file makes a kernel leave its arrays. "none": nothing but where the lists lie is checked; for files
            that you wrote yourself and that nobody else can write to.

    Raises:
        InputError: The file cannot be read.
        FormatError: It is no such file, of a newer version, or damaged.
        SymbolError: Its symbol table names a word twice.
        DependencyError: pyarrow is not installed.
    """

    def __init__(
        self, source: str | os.PathLike[str] | bytes, path: str | None = None, *, check: Check = "all"
    ) -> None:
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
        self._batches: list[_Batch | None] = [None] * self._reader.num_record_batches
        self._places: dict[str, tuple[int, int]] | None = None
        self.words: SymbolTable | None = None  # of all lattices
        self._num_words = 1 << 31
        if self._schema.has_dictionary and self._batches:
            dictionary = self._batch(0).dictionary
            self._guarded(lambda: dictionary.validate(full=True))
            self._num_words = len(dictionary)
            self.words = native_schema.MappedTable(dictionary, self.path)
        elif self._schema.words is not None:
            self.words = self._schema.words

    def __enter__(self) -> NativeFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go, as soon as no lattice of it is left."""
        self._batches = [None] * len(self._batches)

    def __len__(self) -> int:
        return sum(len(self._batch(number).keys) for number in range(len(self._batches)))

    def keys(self) -> Iterator[str]:
        """Yield the keys of the lattices in their order."""
        for number in range(len(self._batches)):
            yield from self._batch(number).keys

    def __contains__(self, key: object) -> bool:
        return key in self._index()

    def __getitem__(self, key: str) -> Lattice:
        """Return the lattice with a key, the first one if there are several.

        Raises:
            KeyError: There is none.
            LatticeError: It breaks an invariant.
            FormatError: The part of the file it lies in is damaged.
        """
        number, row = self._index()[key]
        return self._lattice(self._batch(number), row)

    def __iter__(self) -> Iterator[Lattice]:
        """Yield the lattices in their order.

        Raises:
            LatticeError: A lattice breaks an invariant.
            FormatError: A part of the file is damaged.
        """
        for number in range(len(self._batches)):
            batch = self._batch(number)
            for first in range(0, len(batch.keys), TOGETHER):
                for row, lattice in enumerate(self._some(batch, first), start=first):
                    yield self._lattice(batch, row) if lattice is None else lattice

    def entries(self) -> Iterator[tuple[str, Lattice | NinjaError]]:
        """Yield each key with its lattice or what is wrong with it; a damaged part costs the lattices in it."""
        for number in range(len(self._batches)):
            try:
                batch = self._batch(number)
            except FormatError as error:
                yield "", error
                continue
            for first in range(0, len(batch.keys), TOGETHER):
                for row, lattice in enumerate(self._some(batch, first), start=first):
                    try:
                        yield batch.keys[row], self._lattice(batch, row) if lattice is None else lattice
                    except NinjaError as error:
                        yield batch.keys[row], error

    def _index(self) -> dict[str, tuple[int, int]]:
        if self._places is None:
            places: dict[str, tuple[int, int]] = {}
            for number in range(len(self._batches)):
                for row, key in enumerate(self._batch(number).keys):
                    places.setdefault(key, (number, row))
            self._places = places
        return self._places

    def _some(self, batch: _Batch, first: int) -> list[Lattice | None]:
        """Return some lattices, None for what ``_lattice`` refuses."""
        last = min(first + TOGETHER, len(batch.keys))
        return batch.columns.lattices(
            first, last, batch.keys, batch.kinds, batch.timed, batch.shifts, self.words, check=self._check == "all"
        )

    def _lattice(self, batch: _Batch, row: int) -> Lattice:
        if self._check == "all":
            flaw, place = batch.columns.check(row)
            if flaw:
                raise LatticeError(_FLAWS[flaw].format(place), self.path, key=batch.keys[row])
        return batch.columns.lattice(
            row, batch.keys[row], batch.kinds[row], batch.timed[row], batch.shifts[row], self.words
        )

    def _batch(self, number: int) -> _Batch:
        batch = self._batches[number]
        if batch is None:
            table = self._guarded(lambda: self._reader.get_batch(number))
            batch = self._guarded(lambda: _Batch(table, self._num_words, has_dictionary=self._schema.has_dictionary))
            if self.words is None and self._schema.has_dictionary:
                self._num_words = len(batch.dictionary)
                batch = _Batch(table, self._num_words, has_dictionary=True)
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


class _Batch:
    """The columns of one record batch, looked at once."""

    def __init__(self, table: Any, num_words: int, *, has_dictionary: bool) -> None:
        table.validate()
        for name in ("key", "kind"):
            table.column(name).validate(full=True)
        # By numpy, which is several times as fast as Arrow's own lists.
        self.keys: list[str] = table.column("key").to_numpy(zero_copy_only=False).tolist()
        self.kinds: list[Any] = table.column("kind").to_numpy(zero_copy_only=False).tolist()
        if None in self.keys or not set(self.kinds) <= {"compact", "raw"}:
            raise FormatError("a lattice without a key, or of no kind that there is")
        shifts = table.column("frame_shift")
        self.shifts: list[float | None] = [None] * len(self.keys)
        if shifts.null_count < len(self.keys):
            self.shifts = shifts.to_pylist()
        if not all(shift is None or 0 < shift < float("inf") for shift in self.shifts):
            raise FormatError("a frame shift that is not positive")
        self.dictionary: Any = None
        offsets, lists = [], []
        for name, dtype in COLUMNS.items():
            column = table.column(name)
            if name != "time" and column.null_count:
                raise FormatError(f"a lattice without {name}")
            values = column.values
            if name == "word" and has_dictionary:
                self.dictionary = values.dictionary
                values = values.indices
            if values.null_count:
                raise FormatError(f"{name} has an empty element")
            lists.append(_plain(values.to_numpy(zero_copy_only=True), dtype))
            offsets.append(column.offsets.to_numpy(zero_copy_only=True).astype(np.int64))
        self.timed: list[bool] = table.column("time").is_valid().to_numpy(zero_copy_only=False).tolist()
        self.columns = _image.Columns(offsets, lists, num_words)


def _plain(values: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    if values.dtype != dtype or not values.flags.aligned or not values.flags.c_contiguous:
        raise FormatError("a column that does not lie as it should")
    return values


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
    file = NativeFile(content, path)
    if len(file) != 1:
        raise FormatError(f"{len(file)} lattices in one file, but one is wanted", path, key=key or None)
    lattice = next(iter(file))
    lattice = lattice.with_key(key) if key else lattice
    return lattice if words is None else lattice.with_words(words)
