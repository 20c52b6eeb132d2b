"""Our own files, written: lattice by lattice, a record batch at a time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import IO, Any

import numpy as np

from ninja import _columns
from ninja.errors import LatticeError, OptionError, SymbolError
from ninja.formats.format import WriteSettings
from ninja.formats.native_schema import COLUMNS, arrow, schema
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

BATCH = 1 << 25  # bytes of arrays that make a record batch
_NO_KEY = re.compile(r"(?:.*[\x00-\x1f\x7f-\x9f].*)?", re.DOTALL)


class NativeWriter:
    """A file of ours being written; use it in a ``with`` block.

    The first lattice decides on the symbol table of the file. Random access by key comes with the format.

    Args:
        target: Where the bytes go.
        words: Symbol table of all lattices; None: the one of the first lattice, if it has one.

    Raises:
        DependencyError: pyarrow is not installed.
    """

    def __init__(self, target: IO[bytes], words: SymbolTable | None = None) -> None:
        self._arrow = arrow()
        self._target = target
        self._words = words
        self._writer: Any = None
        self._dictionary: Any = None
        self._schema: Any = None
        self._pending: list[Lattice] = []
        self._size = 0
        self._known: dict[int, SymbolTable] = {}  # tables that equal ours, by id(); kept, or another took the number
        self._num_words = 1 << 31

    def __enter__(self) -> NativeWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()

    def write(self, lattice: Lattice) -> None:
        """Append a lattice.

        Raises:
            LatticeError: Its key is empty or holds a control character.
            SymbolError: Its symbol table is not that of the file, or its words are not in it.
            OptionError: Its key is no text that a file can hold.
        """
        if _NO_KEY.fullmatch(lattice.key):
            message = f"the key {lattice.key!r} is empty or holds a control character; give the lattice another"
            raise LatticeError(message, key=lattice.key)
        try:
            lattice.key.encode()
        except UnicodeEncodeError as error:
            raise OptionError("a key that is not UTF-8 has no place in an Arrow file", key=lattice.key) from error
        if self._writer is None:
            self._begin(lattice.words if self._words is None else self._words)
        self._check_words(lattice)
        self._pending.append(lattice)
        self._size += sum(getattr(lattice, name).nbytes for name in COLUMNS if name != "time")
        if self._size >= BATCH:
            self._flush()

    def close(self) -> None:
        """Write what is left and the footer, without which the file cannot be read; the target stays open."""
        if self._writer is None:
            self._begin(self._words)
        if self._pending:
            self._flush()
        self._writer.close()

    def _begin(self, words: SymbolTable | None) -> None:
        self._words = words
        self._schema, self._dictionary = schema(words)
        if self._dictionary is not None:
            self._num_words = len(self._dictionary)
        self._writer = self._arrow.ipc.new_file(self._target, self._schema)

    def _check_words(self, lattice: Lattice) -> None:
        table = lattice.words
        if table is not None and table is not self._words and id(table) not in self._known:
            if table != self._words:
                raise SymbolError("a symbol table other than that of the file; write another file", key=lattice.key)
            self._known[id(table)] = table
        largest = int(lattice.word.max(initial=0))
        if largest >= self._num_words:
            raise SymbolError(f"word id {largest} is not in the symbol table; is it the right one?", key=lattice.key)

    def _flush(self) -> None:
        pyarrow, lattices = self._arrow, self._pending
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
        columns.append(pyarrow.array([_columns.checksum(lattice) for lattice in lattices], pyarrow.uint32()))
        self._writer.write_batch(pyarrow.record_batch(columns, schema=self._schema))
        self._pending = []
        self._size = 0


class NativeEncoder:
    """The bytes of a file of ours, as record batches become complete."""

    def __init__(self, settings: WriteSettings) -> None:
        self._words = settings.words
        self._pieces = _Pieces()
        self._writer: NativeWriter | None = None

    def add(self, lattice: Lattice) -> bytes:
        """Take a lattice, and return the bytes that follow those before."""
        lattice.key.encode()  # an error of this lattice only
        words = lattice.words if self._words is None else self._words
        self._begun(words).write(lattice.with_words(None))
        return self._pieces.take()

    def end(self) -> bytes:
        """Return the last lattices and the footer."""
        self._begun(self._words).close()
        return self._pieces.take()

    def _begun(self, words: SymbolTable | None) -> NativeWriter:
        if self._writer is None:
            self._writer = NativeWriter(self._pieces, words)  # type: ignore[arg-type]
        return self._writer


class _Pieces(io.RawIOBase):
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


def write_natives(lattices: Iterable[Lattice], words: SymbolTable | None = None) -> bytes:
    """Return lattices as the bytes of a file of ours.

    Args:
        lattices: The lattices; all with the same symbol table, or none.
        words: As for ``NativeWriter``.

    Raises:
        LatticeError: As for ``NativeWriter.write``.
        SymbolError: As for ``NativeWriter.write``.
        OptionError: As for ``NativeWriter.write``.
        DependencyError: pyarrow is not installed.
    """
    buffer = io.BytesIO()
    with NativeWriter(buffer, words) as writer:
        for lattice in lattices:
            writer.write(lattice)
    return buffer.getvalue()


def write_native(lattice: Lattice, words: SymbolTable | None = None) -> bytes:
    """Return one lattice as the bytes of a file of ours; see ``write_natives``."""
    return write_natives([lattice], words)
