"""Lattices whose arrays are views of the columns of a native file."""

cimport numpy as np
from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

cimport formats.columns as c
from core.lattice cimport data_of, filled, get_slot, set_slot

from dataclasses import fields

from isal.isal_zlib import crc32

from ninja.errors import FormatError, LatticeError, NinjaError
from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable, which needs no look-up by name
cdef object _new = object.__new__


cdef dict _FLAWS = {
    1: "the lengths of its arrays disagree or leave their columns, or it has no states",
    2: "arc_begin does not rise from 0 to the number of arcs",
    3: "arc {} enters a state that does not exist or is not later than its source",
    4: "arc {} has a word id that is negative or beyond the symbol table",
    5: "arc {} has a cost that is not finite",
    6: "state {} has a final cost of -inf or NaN",
    7: "no state is final",
    8: "ali_begin does not rise from 0 to the number of labels",
    9: "final_ali_begin does not rise from 0 to the number of labels",
}
cdef tuple _FIELDS = tuple(field.name for field in fields(Lattice))
cdef int _KEY = 0, _COLUMNS = 1, _ROW = 2, _KIND = 12, _TIME = 13, _FRAME_SHIFT = 14, _WORDS = 15


cdef class _Array:
    """Descriptor of an array of a lattice that has not been read yet; `slot` is the index of its field."""

    cdef int slot

    def __init__(self, int slot):
        self.slot = slot

    def __get__(self, lattice, owner):
        if lattice is None:
            return self
        columns = get_slot(_SLOTS, _COLUMNS, lattice)
        if isinstance(columns, Columns):  # otherwise another thread has just read it
            (<Columns>columns)._read(lattice, get_slot(_SLOTS, _ROW, lattice))
        return get_slot(_SLOTS, self.slot, lattice)


class Unread(Lattice):
    """A lattice in a file, which is checked and becomes a plain ``Lattice`` when its arrays are first used.

    Until then, the slots of ``arc_begin`` and ``dst`` contain its columns and its row number.
    """

    __slots__ = ()

    @property
    def num_states(self):
        """Number of states."""
        columns = get_slot(_SLOTS, _COLUMNS, self)
        if not isinstance(columns, Columns):
            return Lattice.num_states.__get__(self)
        return (<Columns>columns)._sized(0, get_slot(_SLOTS, _ROW, self)) - 1

    @property
    def num_arcs(self):
        """Number of arcs."""
        columns = get_slot(_SLOTS, _COLUMNS, self)
        if not isinstance(columns, Columns):
            return Lattice.num_arcs.__get__(self)
        return (<Columns>columns)._sized(1, get_slot(_SLOTS, _ROW, self))


for _slot in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, _TIME):
    setattr(Unread, _FIELDS[_slot], _Array(_slot))


cdef inline object _view(object column, np.npy_intp first, np.npy_intp length):
    """Return a read-only view of a slice of a column; the view keeps the column alive."""
    cdef np.ndarray whole = <np.ndarray>column
    cdef char* at = <char*>np.PyArray_DATA(whole) + first * np.PyArray_ITEMSIZE(whole)
    cdef object array = np.PyArray_New(
        np.ndarray, 1, &length, np.PyArray_TYPE(whole), NULL, at, 0, np.NPY_ARRAY_CARRAY_RO, None
    )
    Py_INCREF(whole)
    np.PyArray_SetBaseObject(<np.ndarray>array, whole)
    return array


cdef enum:
    _SMALL = 4096  # bytes; larger pieces are not copied for a checksum
    _GATHERED = 4 * _SMALL


cdef struct Piece:
    const char* content
    Py_ssize_t size


cdef object _crc32(const Piece* piece, int count):
    """Return the CRC-32 of concatenated buffers; small buffers are first copied to one buffer, to save calls."""
    cdef char gathered[_GATHERED]  # a local buffer, as other threads run meanwhile
    cdef Py_ssize_t held = 0
    cdef object found = 0
    cdef int each
    for each in range(count):
        if held and (piece[each].size > _SMALL or held + piece[each].size > _GATHERED):
            found = crc32(PyMemoryView_FromMemory(gathered, held, PyBUF_READ), found)
            held = 0
        if piece[each].size > _SMALL:
            found = crc32(PyMemoryView_FromMemory(<char*>piece[each].content, piece[each].size, PyBUF_READ), found)
        elif piece[each].size:
            memcpy(gathered + held, piece[each].content, piece[each].size)
            held += piece[each].size
    return crc32(PyMemoryView_FromMemory(gathered, held, PyBUF_READ), found) if held else found


def checksum(object lattice not None):
    """Return the CRC-32 of a lattice that a file stores.

    It covers the key in UTF-8; the frame shift (0 if unknown) as a float64; as int64, whether it is raw, the numbers
    of states, arcs, labels and final labels, and whether it has times; and the arrays in the order of the columns.
    """
    cdef bytes key = lattice.key.encode()
    cdef tuple arrays = tuple([getattr(lattice, name) for name in _FIELDS[1:_KIND]])
    cdef object time = lattice.time
    cdef int64_t head[7]
    cdef double shift = 0 if lattice.frame_shift is None else lattice.frame_shift
    cdef Piece piece[14]
    cdef int each
    cdef np.ndarray array
    memcpy(&head[0], &shift, 8)
    head[1] = lattice.kind == "raw"
    head[2] = len(lattice.arc_begin) - 1
    head[3] = len(lattice.dst)
    head[4] = len(lattice.ali)
    head[5] = len(lattice.final_ali)
    head[6] = time is not None
    piece[0] = Piece(<const char*>key, len(key))
    piece[1] = Piece(<const char*>head, sizeof(head))
    if time is not None:
        arrays += (time,)
    for each in range(len(arrays)):
        array = <np.ndarray?>arrays[each]
        if not np.PyArray_ISCARRAY_RO(array):
            raise TypeError("a lattice holds an array of another layout; make it with Lattice.from_arrays")
        piece[2 + each] = Piece(<const char*>np.PyArray_DATA(array), np.PyArray_NBYTES(array))
    return _crc32(piece, 2 + len(arrays))


cdef class Columns:
    """The lattices of a record batch, which are created on demand.

    Args:
        offsets: Start of each lattice in each of the twelve lists below, int64 [lattices + 1] each.
        lists: (arc_begin, dst, word, graph, acoustic, ali_begin, ali, final_graph, final_acoustic, final_ali_begin,
            final_ali, time), one array per column, with the dtypes of a lattice.
        keys: (int32 [lattices + 1], uint8 [bytes]): offsets of the keys, and their bytes, which must be valid UTF-8.
        kinds: The same arrays for the kinds.
        frame_shifts: float64 [lattices], NaN if unknown.
        timed: Whether each lattice has times, uint8 [lattices].
        checksums: uint32 [lattices].
        summed: Whether each lattice has a checksum, uint8 [lattices].
        num_words: Upper bound of word ids, exclusive.
        path: File name for error messages.

    Raises:
        ValueError: The offsets of the keys are outside of their column.
        FormatError: The kind of a lattice is unknown.
    """

    cdef list _offsets
    cdef list _lists
    cdef tuple _others
    cdef int64_t _num_words
    cdef object _path
    cdef readonly Py_ssize_t size
    cdef const int64_t* _at[12]
    cdef char* _content[12]
    cdef int64_t _end[12]
    cdef Py_ssize_t _item[12]
    cdef const int32_t* _key_at
    cdef const int32_t* _kind_at
    cdef const char* _keys
    cdef const double* _shifts
    cdef const uint8_t* _timed
    cdef const uint32_t* _checksums
    cdef const uint8_t* _summed

    def __init__(self, list offsets not None, list lists not None, *, tuple keys not None, tuple kinds not None,
                 object frame_shifts, object timed, object checksums, object summed, int64_t num_words, str path):
        cdef Py_ssize_t column, row
        cdef int type_number
        cdef int32_t length
        cdef const char* names
        if len(offsets) != 12 or len(lists) != 12:
            raise ValueError("twelve columns are needed")
        self.size = len(offsets[0]) - 1
        for column in range(12):
            type_number = np.NPY_INT32
            if column in (0, 5, 9):
                type_number = np.NPY_INT64
            elif column in (3, 4, 7, 8):
                type_number = np.NPY_FLOAT32
            self._at[column] = <const int64_t*>data_of(offsets[column], np.NPY_INT64, self.size + 1)
            self._content[column] = <char*>data_of(lists[column], type_number, -1)
            self._end[column] = np.PyArray_DIM(<np.ndarray>lists[column], 0)
            self._item[column] = np.PyArray_ITEMSIZE(<np.ndarray>lists[column])
        self._key_at = _begins(keys, self.size)
        self._keys = <const char*>np.PyArray_DATA(<np.ndarray>keys[1])
        self._kind_at = _begins(kinds, self.size)
        names = <const char*>np.PyArray_DATA(<np.ndarray>kinds[1])
        for row in range(self.size):
            length = self._kind_at[row + 1] - self._kind_at[row]
            if not ((length == 3 and memcmp(names + self._kind_at[row], b"raw", 3) == 0)
                    or (length == 7 and memcmp(names + self._kind_at[row], b"compact", 7) == 0)):
                raise FormatError("a lattice has no key, or is of an unknown kind", path)
        self._shifts = <const double*>data_of(frame_shifts, np.NPY_FLOAT64, self.size)
        self._timed = <const uint8_t*>data_of(timed, np.NPY_UINT8, self.size)
        self._checksums = <const uint32_t*>data_of(checksums, np.NPY_UINT32, self.size)
        self._summed = <const uint8_t*>data_of(summed, np.NPY_UINT8, self.size)
        self._offsets = offsets
        self._lists = lists
        self._others = (keys, kinds, frame_shifts, timed, checksums, summed)
        self._num_words = num_words
        self._path = path

    cdef inline int64_t _first(self, int column, Py_ssize_t row) noexcept nogil:
        return self._at[column][row]

    cdef inline int64_t _length(self, int column, Py_ssize_t row) noexcept nogil:
        return self._at[column][row + 1] - self._at[column][row]

    cdef bint _fits(self, Py_ssize_t row) noexcept nogil:
        """Return whether the arrays of a lattice are within their columns and their lengths agree."""
        cdef int column
        cdef int64_t states, arcs
        for column in range(12):
            if not 0 <= self._at[column][row] <= self._at[column][row + 1] <= self._end[column]:
                return False
        states = self._length(0, row) - 1
        arcs = self._length(1, row)
        return (states >= 1 and self._length(2, row) == arcs and self._length(3, row) == arcs
                and self._length(4, row) == arcs and self._length(5, row) == arcs + 1 and self._length(7, row) == states
                and self._length(8, row) == states and self._length(9, row) == states + 1
                and (not self._timed[row] or self._length(11, row) == states))

    cdef int64_t _sized(self, int column, Py_ssize_t row) except -1:
        """Return the length of an array of a lattice, after checking that its arrays fit together."""
        if not self._fits(row):
            raise LatticeError(_FLAWS[1], self._path, key=self._key(row))
        return self._length(column, row)

    cdef c.NativeFlaw _check(self, Py_ssize_t row) noexcept nogil:
        cdef c.NativeRow found
        cdef c.NativeFlaw flaw
        flaw.flaw = <c.Flaw>1
        flaw.place = 0
        if not self._fits(row):
            return flaw
        found.num_begins = self._length(0, row)
        found.num_arcs = self._length(1, row)
        found.num_labels = self._length(6, row)
        found.num_final_labels = self._length(10, row)
        found.num_words = self._num_words
        found.arc_begin = <const int64_t*>self._content[0] + self._first(0, row)
        found.dst = <const int32_t*>self._content[1] + self._first(1, row)
        found.word = <const int32_t*>self._content[2] + self._first(2, row)
        found.graph = <const float*>self._content[3] + self._first(3, row)
        found.acoustic = <const float*>self._content[4] + self._first(4, row)
        found.ali_begin = <const int64_t*>self._content[5] + self._first(5, row)
        found.final_graph = <const float*>self._content[7] + self._first(7, row)
        found.final_acoustic = <const float*>self._content[8] + self._first(8, row)
        found.final_ali_begin = <const int64_t*>self._content[9] + self._first(9, row)
        return c.check_native(found)

    cdef inline str _key(self, Py_ssize_t row):
        return PyUnicode_DecodeUTF8(self._keys + self._key_at[row], self._key_at[row + 1] - self._key_at[row], NULL)

    cdef inline bint _is_raw(self, Py_ssize_t row) noexcept nogil:
        return self._kind_at[row + 1] - self._kind_at[row] == 3

    cdef inline object _shift(self, Py_ssize_t row):
        return self._shifts[row] if self._shifts[row] == self._shifts[row] else None

    cdef inline object _part(self, int column, Py_ssize_t row):
        return _view(self._lists[column], self._first(column, row), self._length(column, row))

    cdef object _checksum(self, Py_ssize_t row):
        """Return the `checksum` of a lattice whose arrays are within their columns."""
        cdef int64_t head[7]
        cdef double shift = self._shifts[row] if self._shifts[row] == self._shifts[row] else 0
        cdef Piece piece[14]
        cdef int column
        memcpy(&head[0], &shift, 8)
        head[1] = self._is_raw(row)
        head[2] = self._length(0, row) - 1
        head[3] = self._length(1, row)
        head[4] = self._length(6, row)
        head[5] = self._length(10, row)
        head[6] = self._timed[row] != 0
        piece[0] = Piece(self._keys + self._key_at[row], self._key_at[row + 1] - self._key_at[row])
        piece[1] = Piece(<const char*>head, sizeof(head))
        for column in range(12):
            piece[2 + column] = Piece(
                self._content[column] + self._first(column, row) * self._item[column],
                self._length(column, row) * self._item[column],
            )
        return _crc32(piece, 14 if self._timed[row] else 13)

    cdef int _verify(self, Py_ssize_t row, str key) except -1:
        """Check the invariants, the checksum and the key of a lattice."""
        cdef c.NativeFlaw flaw
        with nogil:
            flaw = self._check(row)
        if flaw.flaw != c.Flaw.kNone:
            raise LatticeError(_FLAWS[<int>flaw.flaw].format(flaw.place), self._path, key=key)
        if self._summed[row] and self._checksum(row) != self._checksums[row]:
            raise FormatError("damaged: its checksum differs", self._path, key=key)
        if not self._is_named(row):
            raise FormatError(f"the key {key!r} is empty or has a control character", self._path, key=key)
        return 0

    cdef bint _is_named(self, Py_ssize_t row) noexcept nogil:
        """Return whether the key is not empty and has no control characters."""
        cdef const uint8_t* at = <const uint8_t*>self._keys + self._key_at[row]
        cdef const uint8_t* end = <const uint8_t*>self._keys + self._key_at[row + 1]
        if at == end:
            return False
        while at < end:
            if at[0] < 0x20 or at[0] == 0x7f or (at[0] == 0xc2 and at[1] < 0xa0):  # U+0080 to U+009F
                return False
            at += 1
        return True

    cdef tuple _values(self, Py_ssize_t row, object words, bint check):
        """Return the fields of a lattice."""
        cdef str key = self._key(row)
        if check:
            self._verify(row, key)
        else:
            self._sized(0, row)
        return (
            key, self._part(0, row), self._part(1, row), self._part(2, row), self._part(3, row), self._part(4, row),
            self._part(5, row), self._part(6, row), self._part(7, row), self._part(8, row), self._part(9, row),
            self._part(10, row), "raw" if self._is_raw(row) else "compact",
            self._part(11, row) if self._timed[row] else None, self._shift(row), words,
        )

    cdef int _read(self, object lattice, Py_ssize_t row) except -1:
        """Check an unread lattice and set its arrays."""
        cdef tuple values = self._values(row, None, True)
        cdef int slot
        for slot in range(1, _TIME + 1):
            if slot != _COLUMNS and slot != _KIND:
                set_slot(_SLOTS, slot, lattice, values[slot])
        set_slot(_SLOTS, _COLUMNS, lattice, values[_COLUMNS])  # last, as other threads check it
        object.__setattr__(lattice, "__class__", Lattice)
        return 0

    cdef object _unread(self, Py_ssize_t row, object words):
        cdef object lattice = _new(Unread)
        set_slot(_SLOTS, _KEY, lattice, self._key(row))
        set_slot(_SLOTS, _COLUMNS, lattice, self)
        set_slot(_SLOTS, _ROW, lattice, row)
        set_slot(_SLOTS, _KIND, lattice, "raw" if self._is_raw(row) else "compact")
        set_slot(_SLOTS, _FRAME_SHIFT, lattice, self._shift(row))
        set_slot(_SLOTS, _WORDS, lattice, words)
        return lattice

    def keys(self):
        """Return the keys of the lattices."""
        return [self._key(row) for row in range(self.size)]

    def lattice(self, Py_ssize_t row, object words, *, bint check):
        """Return a lattice whose arrays are views of the columns.

        Raises:
            LatticeError: With `check`, the lattice breaks an invariant.
            FormatError: With `check`, the checksum of the lattice differs.
        """
        if not 0 <= row < self.size:
            raise IndexError("there is no such lattice")
        return filled(_new(Lattice), _SLOTS, self._values(row, words, check))

    def entries(self, Py_ssize_t first, Py_ssize_t last, object words, *, bint check):
        """Return (key, lattice or error) of the lattices `first : last`; see `lattice`."""
        cdef Py_ssize_t row
        cdef tuple values
        cdef list entries = []
        if not 0 <= first <= last <= self.size:
            raise IndexError("there are no such lattices")
        for row in range(first, last):
            try:
                values = self._values(row, words, check)
                entries.append((values[_KEY], filled(_new(Lattice), _SLOTS, values)))
            except NinjaError as error:
                entries.append((error.key or "", error))
        return entries

    def unread(self, Py_ssize_t first, Py_ssize_t last, object words):
        """Return the lattices `first : last`, which are checked on first use."""
        cdef Py_ssize_t row
        if not 0 <= first <= last <= self.size:
            raise IndexError("there are no such lattices")
        return [self._unread(row, words) for row in range(first, last)]


cdef const int32_t* _begins(tuple strings, Py_ssize_t count) except NULL:
    """Return the offsets of strings after checking that they are within the bytes."""
    cdef const int32_t* begin = <const int32_t*>data_of(strings[0], np.NPY_INT32, count + 1)
    data_of(strings[1], np.NPY_UINT8, -1)
    cdef int64_t length = np.PyArray_DIM(<np.ndarray>strings[1], 0)
    cdef Py_ssize_t row
    cdef int32_t before = 0
    for row in range(count + 1):
        if begin[row] < before or begin[row] > length:
            raise ValueError("the offsets of a column exceed it")
        before = begin[row]
    return begin
