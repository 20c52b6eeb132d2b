"""Bindings of the kernels that convert Kaldi tables to and from ``Lattice`` objects, and rows of columns to text."""

cimport numpy as np
from cpython.buffer cimport PyBUF_READ
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

cimport formats.tables as c
from core.batch cimport Items, capsule_of, items_of
from core.lattice cimport (
    Alignments, Arcs, Block, LatticeArrays, alignments_of, arcs_of, data_of, int64s, lattice_in,
    pools_fit, string_view,
)

import os

from ninja.errors import FormatError, InputError, LatticeError, TableError
from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable, which needs no look-up by name
cdef object _new = object.__new__


cdef inline object _lattice(object key, Block* block, object words):
    return lattice_in(block, _new(Lattice), _SLOTS, key, "compact" if block.compact else "raw", None, None, words)


cdef object _error(c.Fault* fault, object path, object key, cbool archive):
    cdef object kind = FormatError
    cdef str message = fault.message.decode("ascii", "replace")
    if fault.kind == c.kLattice:
        kind = LatticeError
    elif fault.kind == c.kSymbol:
        kind = TableError
    if archive and fault.fatal and fault.byte >= 0:
        message += "; the rest of this archive is not read"
    return kind(
        message,
        path,
        key=key or None,
        line=fault.line if fault.line >= 0 else None,
        byte=fault.byte if fault.byte >= 0 else None,
    )


cdef tuple _gathered(vector[c.Entry]& entries, object path):
    """Return the items of valid entries, and ``(number of items before it, error)`` for each invalid one."""
    cdef Items items
    cdef list faults = []
    cdef size_t number
    cdef c.Entry* entry
    items.reserve(entries.size())
    for number in range(entries.size()):
        entry = &entries[number]
        if entry.fault.kind == c.kNone:
            c.take_entry(entry[0], items)
        else:
            key = PyUnicode_DecodeUTF8(entry.key.data(), entry.key.size(), "surrogateescape")
            faults.append((items.size(), _error(&entry.fault, path, key, True)))
    return capsule_of(items), faults


cdef class FileBatches:
    """The entries of a plain file, which a thread reads ahead without holding the GIL.

    Args:
        path: Name of the file, for messages.
        file: File descriptor, which is closed at the end.
        begin, end: Byte range of an archive, or of a part of an archive.
        known: See ``TableReader``.
        chunk: Number of bytes per read.
        ahead: Maximum number of bytes read ahead (or one batch).
        largest: Maximum number of bytes of an entry.
    """

    cdef c.FileReader* reader
    cdef object path
    cdef object known
    cdef int64_t largest
    cdef readonly int64_t size  # number of bytes of the last batch in the file

    def __init__(self, object path, int file, object known, *, int64_t begin, int64_t end, int64_t chunk, int64_t ahead,
                 int64_t largest):
        if self.reader != NULL:
            raise RuntimeError("the reader has begun")
        self.path = path
        self.known = known
        self.largest = largest
        cdef const uint8_t* ids = NULL
        cdef int64_t num_ids = 0
        if known is not None:
            ids = <const uint8_t*>np.PyArray_DATA(<np.ndarray?>known)
            num_ids = np.PyArray_DIM(<np.ndarray>known, 0)
        self.reader = new c.FileReader(file, begin, end, ids, num_ids, chunk, ahead, largest)

    def next(self):
        """Return the items of the next batch, and its faults, like ``TableReader.parse``; None at the end."""
        cdef c.EntryBatch batch
        cdef c.ReaderState state = c.kWait
        if self.reader == NULL:
            raise RuntimeError("closed")
        if self.reader.was_forked():
            raise InputError("was opened before this process was forked; open it again", self.path)
        while state == c.kWait:
            PyErr_CheckSignals()  # Ctrl-C
            with nogil:
                state = self.reader.next(batch, 100)
        if state == c.kFailed:
            raise InputError(f"cannot be read: {os.strerror(self.reader.error_number())}", self.path)
        if state == c.kTooLarge:
            raise FormatError(f"a lattice has more than {self.largest >> 30} GB; the rest of this archive is not read",
                              self.path, byte=self.reader.position())
        if state != c.kBatch:
            return None
        self.size = batch.size
        return _gathered(batch.entries, self.path)

    def close(self):
        """Join the thread and close the file."""
        cdef c.FileReader* reader = self.reader
        self.reader = NULL
        with nogil:
            c.FileReader.end(reader)

    def __dealloc__(self):
        c.FileReader.end(self.reader)


cdef class TableReader:
    """A window that slides over the bytes of a table and parses lattices.

    Fill the view that ``space`` returns, call ``advance`` and ``parse``; repeat until ``broken`` or end of file.

    Args:
        path: Name of the table, for messages.
        known: Mask of valid word ids, bool [largest word id + 1]; None if all are valid.
        words: Symbol table to attach to the lattices.
    """

    cdef c.TableParser parser
    cdef vector[c.Entry] entries
    cdef bytearray memory
    cdef int64_t begin
    cdef int64_t end
    cdef int64_t offset  # offset of the start of the window in the file
    cdef object path
    cdef object known
    cdef object words  # the symbol table attached to the lattices
    cdef readonly list offsets  # offsets in the file of the lattices of the last `parse`, after their keys

    def __init__(self, object path, object known=None, object words=None):
        self.memory = bytearray(c.kSlack)
        self.path = path
        self.words = words
        self.known = known
        if known is not None:
            self.parser.known = <const uint8_t*>np.PyArray_DATA(<np.ndarray?>known)
            self.parser.num_known = np.PyArray_DIM(<np.ndarray>known, 0)

    @property
    def pending(self):
        """Number of bytes that are not parsed yet."""
        return self.end - self.begin

    @property
    def position(self):
        """Offset in the file of the first byte that is not parsed yet."""
        return self.offset

    @property
    def broken(self):
        """Whether the rest of this table cannot be read."""
        return self.parser.broken

    def space(self, int64_t size):
        """Return a writable view of ``size`` bytes after the bytes that are not parsed yet."""
        cdef int64_t pending = self.end - self.begin
        cdef bytearray grown
        if pending + size + c.kSlack > len(self.memory):
            grown = bytearray(pending + size + c.kSlack)
            memcpy(PyByteArray_AS_STRING(grown), PyByteArray_AS_STRING(self.memory) + self.begin, pending)
            self.memory = grown
        elif self.begin > 0:
            memmove(PyByteArray_AS_STRING(self.memory), PyByteArray_AS_STRING(self.memory) + self.begin, pending)
        self.begin = 0
        self.end = pending
        return memoryview(self.memory)[pending:pending + size]

    def advance(self, int64_t size):
        """Add the first ``size`` bytes of the space to the window."""
        if size < 0 or self.end + size + c.kSlack > len(self.memory):
            raise ValueError("more bytes than the space has")
        self.end += size

    def skip(self, int64_t offset):
        """Move to an offset in the file; return whether it is in the window, which is otherwise cleared."""
        cdef int64_t distance = offset - self.offset
        cdef cbool inside = 0 <= distance <= self.end - self.begin
        self.begin = self.begin + distance if inside else self.end
        self.offset = offset
        return inside

    cdef c.Window _window(self, int64_t bytes_behind):
        cdef c.Window window
        window.begin = PyByteArray_AS_STRING(self.memory) + self.begin
        window.end = PyByteArray_AS_STRING(self.memory) + self.end
        window.offset = self.offset
        window.bytes_behind = bytes_behind
        return window

    def parse(self, int64_t bytes_behind):
        """Return the items of all complete entries, and ``(number of items before it, error)`` for each invalid entry.

        Args:
            bytes_behind: Number of bytes of the file after the window; a very large number if unknown.
        """
        cdef c.Window window = self._window(bytes_behind)
        cdef int64_t consumed = 0
        cdef int64_t before = self.offset
        try:
            with nogil:
                consumed = self.parser.parse(window, self.entries)
            self.begin += consumed
            self.offset += consumed
            self.offsets = [before + (entry.object - window.begin) for entry in self.entries]
            return _gathered(self.entries, self.path)
        finally:
            self._clear()

    def parse_one(self, str key not None, int64_t bytes_behind):
        """Return the lattice, or its error, at the start of the window, without a key; None if it is incomplete."""
        cdef c.Window window = self._window(bytes_behind)
        cdef c.Entry entry
        cdef const char* at = window.begin
        cdef cbool more
        entry.key = string_view(window.begin, 0)
        with nogil:
            more = self.parser.parse_one(window, at, entry) == c.kMore
        if more:
            return None
        self.offset += at - window.begin
        self.begin += at - window.begin
        if entry.fault.kind == c.kNone:
            return _lattice(key, &entry.block, self.words)
        return _error(&entry.fault, self.path, key, False)

    cdef void _clear(self) noexcept:
        cdef size_t number
        for number in range(self.entries.size()):
            free(self.entries[number].block.memory)
        self.entries.clear()

    def __dealloc__(self):
        self._clear()


cdef class TableWriter:
    """Writer that encodes lattices as bytes of a table, which are kept until ``clear``.

    Args:
        text: Write text instead of binary data.
    """

    cdef c.Output output
    cdef cbool text

    def __init__(self, *, cbool text=False):
        self.text = text

    @property
    def pending(self):
        """Number of pending bytes."""
        return self.output.size()

    def append(self, object lattice, bytes key not None, cbool compact):
        """Append an entry; return the offset of its lattice (as in an scp file) among the pending bytes."""
        cdef Arcs arcs = arcs_of(lattice)
        cdef Alignments alignments = alignments_of(lattice)
        cdef string_view name = string_view(<const char*>key, len(key))
        cdef int64_t begin = self.output.size()
        cdef LatticeArrays raw
        if not pools_fit(arcs, alignments, lattice):
            raise LatticeError("the arrays of the lattice do not fit together", key=lattice.key)
        with nogil:
            if not compact and not c.fits_raw(arcs, alignments):
                raw = c.expand(arcs, alignments)
                arcs = raw.arcs()
                alignments = raw.alignments()
            if self.text:
                c.write_text(name, arcs, alignments, compact, self.output)
            else:
                c.write_binary(name, arcs, alignments, compact, self.output)
        return begin + len(key) + 1

    def append_all(self, object items not None, object compact):
        """Append an entry for each item; return their offsets, int64 [items], as ``append`` does.

        Args:
            compact: Whether to write compact or raw lattices; None keeps the kind of each.

        Raises:
            LatticeError: A lattice has costs that are not finite; some of the entries are appended.
        """
        cdef Items* lattices = items_of(items)
        cdef int kind = -1 if compact is None else int(compact)
        cdef vector[int64_t] begins
        cdef bint is_sound
        with nogil:
            is_sound = c.write_all(lattices[0], kind, self.text, begins, self.output)
        if not is_sound:
            raise LatticeError("a lattice has costs that are not finite")
        return int64s(begins)

    def view(self):
        """Return the pending bytes as a read-only view, valid until ``append`` or ``clear`` is called."""
        return PyMemoryView_FromMemory(<char*>self.output.data(), self.output.size(), PyBUF_READ)

    def clear(self):
        """Drop the pending bytes."""
        self.output.clear()


cdef class Rows:
    """Columns of `num_rows` rows."""

    cdef vector[c.TextColumn] columns
    cdef int64_t num_rows
    cdef list owners

    def __init__(self, int64_t num_rows):
        self.num_rows = num_rows
        self.owners = []

    def integers(self, values not None):
        cdef c.TextColumn column
        column.kind = c.kIntegers
        column.integer = <const int32_t*>data_of(values, np.NPY_INT32, self.num_rows)
        self._add(column, values)

    def numbers(self, values not None):
        cdef c.TextColumn column
        column.kind = c.kNumbers
        column.number = <const double*>data_of(values, np.NPY_FLOAT64, self.num_rows)
        self._add(column, values)

    def names(self, number not None, bytes letters not None, begin not None, end not None):
        cdef c.TextColumn column
        column.kind = c.kNames
        column.integer = <const int32_t*>data_of(number, np.NPY_INT32, self.num_rows)
        column.letters = PyBytes_AS_STRING(letters)
        column.begin = <const int64_t*>data_of(begin, np.NPY_INT64, -1)
        column.end = <const int64_t*>data_of(end, np.NPY_INT64, -1)
        self._add(column, (number, letters, begin, end))

    def runs(self, pool not None, begin not None, end not None, str separator not None, cbool may_lack):
        cdef c.TextColumn column
        column.kind = c.kRuns
        column.integer = <const int32_t*>data_of(pool, np.NPY_INT32, -1)
        column.begin = <const int64_t*>data_of(begin, np.NPY_INT64, self.num_rows)
        column.end = <const int64_t*>data_of(end, np.NPY_INT64, self.num_rows)
        column.separator = <char>ord(separator)
        column.may_lack = may_lack
        self._add(column, (pool, begin, end))

    cdef int _add(self, const c.TextColumn& column, object owners) except -1:
        self.columns.push_back(column)
        self.owners.append(owners)  # keep the arrays alive
        return 0

    def texts(self, list prefixes not None, begin not None):
        """Return, for each i, the lines of rows ``begin[i] : begin[i + 1]``, each with the prefix ``prefixes[i]``."""
        cdef size_t count = len(prefixes)
        cdef const int64_t* first = <const int64_t*>data_of(begin, np.NPY_INT64, count + 1)
        cdef vector[string_view] names
        cdef vector[int64_t] ends
        cdef c.Output output
        cdef size_t number
        cdef bytes prefix
        for prefix in prefixes:
            names.push_back(string_view(PyBytes_AS_STRING(prefix), len(prefix)))
        with nogil:
            for number in range(count):
                c.print_rows(names[number], self.columns, first[number], first[number + 1], output)
                ends.push_back(output.size())
        cdef list texts = []
        cdef int64_t at = 0
        for number in range(count):
            texts.append(PyUnicode_DecodeUTF8(output.data() + at, ends[number] - at, "surrogateescape"))
            at = ends[number]
        return texts
