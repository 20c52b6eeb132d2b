# cython: language_level=3
"""k2's tensors of arcs and the columns of our own files, into lattices; conversions only."""

cimport numpy as np
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string

from arrays cimport data_of, freeze, new_array

from dataclasses import fields

from ninja.lattice import Lattice

np.import_array()

cdef extern from "Python.h":
    ctypedef int (*descrsetfunc)(object, object, object) except -1
    ctypedef struct PyTypeObject:
        descrsetfunc tp_descr_set
    PyTypeObject* Py_TYPE(object)
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t)
    PyObject* PyList_GET_ITEM(object, Py_ssize_t)

cdef extern from "k2_image.hpp" namespace "ninja" nogil:
    cdef struct K2Fsa:
        int64_t num_arcs
        int64_t num_states
        const int32_t* arcs
        const int32_t* word
        const float* lm
        const float* am
        cbool as_graph
    cdef cppclass K2Fault:
        string error
        int64_t arc
        cbool malformed
    cdef cppclass K2Plan:
        K2Fault fault
        int64_t num_states
        int64_t num_arcs
    cdef struct K2Target:
        int64_t* arc_begin
        int32_t* dst
        int32_t* word
        float* graph
        float* acoustic
        float* final_graph
        float* final_acoustic
        int32_t* row
        int32_t* final_row
    K2Plan plan_k2(const K2Fsa& fsa) except +
    K2Fault fill_k2(const K2Fsa& fsa, const K2Plan& plan, const K2Target& to) except +

cdef extern from "native_check.hpp" namespace "ninja" nogil:
    cdef enum class Flaw "ninja::Flaw"(int):
        kNone
    cdef struct NativeRow:
        int64_t num_begins
        int64_t num_arcs
        int64_t num_labels
        int64_t num_final_labels
        int64_t num_words
        const int64_t* arc_begin
        const int32_t* dst
        const int32_t* word
        const float* graph
        const float* acoustic
        const int64_t* ali_begin
        const float* final_graph
        const float* final_acoustic
        const int64_t* final_ali_begin
    cdef struct NativeFlaw:
        Flaw flaw
        int64_t place
    NativeFlaw check_native(const NativeRow& row) noexcept

cdef tuple _FIELDS = tuple(field.name for field in fields(Lattice))
cdef tuple _SLOTS = tuple(Lattice.__dict__[name] for name in _FIELDS)  # where the fields of a Lattice are kept
cdef object _new = object.__new__


cdef object _lattice(tuple values):
    """Return ``Lattice(*values)``, through the same slots in a tenth of the time, which small lattices are short of."""
    cdef object lattice = _new(Lattice)
    cdef Py_ssize_t number
    for number in range(len(_SLOTS)):
        Py_TYPE(<object>PyTuple_GET_ITEM(_SLOTS, number)).tp_descr_set(
            <object>PyTuple_GET_ITEM(_SLOTS, number), lattice, <object>PyTuple_GET_ITEM(values, number)
        )
    return lattice


cdef inline object _view(object column, np.npy_intp first, np.npy_intp length):
    """Return a stretch of a column, read-only, without copying it; the column stays alive as long as it does."""
    cdef np.ndarray whole = <np.ndarray>column
    cdef char* at = <char*>np.PyArray_DATA(whole) + first * np.PyArray_ITEMSIZE(whole)
    cdef object array = np.PyArray_New(
        np.ndarray, 1, &length, np.PyArray_TYPE(whole), NULL, at, 0, np.NPY_ARRAY_CARRAY_RO, None
    )
    Py_INCREF(whole)
    np.PyArray_SetBaseObject(<np.ndarray>array, whole)
    return array


def read_k2(object arcs not None, int64_t first, int64_t last, int64_t num_states, object word, object lm, object am,
            *, bint as_graph, bint places):
    """Make the arrays of a lattice of the arcs `first : last` of a k2 tensor.

    Args:
        arcs: int32 [4 * all arcs].
        first: Where the FSA begins, in arcs; the caller has made sure that the stretch is there.
        last: Where it ends.
        num_states: Its states, the final one included.
        word: int32 [all arcs] or None.
        lm: float32 [all arcs] or None.
        am: float32 [all arcs] or None.
        as_graph: Scores without `lm` become graph costs.
        places: Also tell which k2 arc each arc and each final cost was.

    Returns:
        (error, arc, malformed, arrays): what is wrong, or ""; the arc, counted from `first`, or -1; whether k2 would
        refuse it; and (arc_begin, dst, word, graph, acoustic, final_graph, final_acoustic, arcs, final arcs).
    """
    cdef K2Fsa fsa
    cdef int64_t count = np.PyArray_DIM(<np.ndarray?>arcs, 0) // 4
    if not 0 <= first <= last <= count or num_states < 0 or num_states > 0x7fffffff:
        raise ValueError("a stretch of arcs that is not there")
    fsa.num_arcs = last - first
    fsa.num_states = num_states
    fsa.arcs = <const int32_t*>data_of(arcs, np.NPY_INT32, -1) + 4 * first
    if word is not None:
        fsa.word = <const int32_t*>data_of(word, np.NPY_INT32, count) + first
    if lm is not None:
        fsa.lm = <const float*>data_of(lm, np.NPY_FLOAT32, count) + first
    if am is not None:
        fsa.am = <const float*>data_of(am, np.NPY_FLOAT32, count) + first
    fsa.as_graph = as_graph
    cdef K2Plan plan
    with nogil:
        plan = plan_k2(fsa)
    cdef K2Fault fault = plan.fault
    if not fault.error.empty():
        return fault.error.decode(), fault.arc, fault.malformed, None
    cdef object arc_begin = new_array(plan.num_states + 1, np.NPY_INT64)
    cdef object dst = new_array(plan.num_arcs, np.NPY_INT32)
    cdef object words = new_array(plan.num_arcs, np.NPY_INT32)
    cdef object graph = new_array(plan.num_arcs, np.NPY_FLOAT32)
    cdef object acoustic = new_array(plan.num_arcs, np.NPY_FLOAT32)
    cdef object final_graph = new_array(plan.num_states, np.NPY_FLOAT32)
    cdef object final_acoustic = new_array(plan.num_states, np.NPY_FLOAT32)
    cdef object row = new_array(plan.num_arcs, np.NPY_INT32) if places else None
    cdef object final_row = new_array(plan.num_states, np.NPY_INT32) if places else None
    cdef K2Target to
    to.arc_begin = <int64_t*>np.PyArray_DATA(<np.ndarray>arc_begin)
    to.dst = <int32_t*>np.PyArray_DATA(<np.ndarray>dst)
    to.word = <int32_t*>np.PyArray_DATA(<np.ndarray>words)
    to.graph = <float*>np.PyArray_DATA(<np.ndarray>graph)
    to.acoustic = <float*>np.PyArray_DATA(<np.ndarray>acoustic)
    to.final_graph = <float*>np.PyArray_DATA(<np.ndarray>final_graph)
    to.final_acoustic = <float*>np.PyArray_DATA(<np.ndarray>final_acoustic)
    to.row = NULL
    to.final_row = NULL
    if places:
        to.row = <int32_t*>np.PyArray_DATA(<np.ndarray>row)
        to.final_row = <int32_t*>np.PyArray_DATA(<np.ndarray>final_row)
    with nogil:
        fault = fill_k2(fsa, plan, to)
    if not fault.error.empty():
        return fault.error.decode(), fault.arc, fault.malformed, None
    return "", -1, False, (
        freeze(arc_begin), freeze(dst), freeze(words), freeze(graph), freeze(acoustic), freeze(final_graph),
        freeze(final_acoustic), row, final_row,
    )


def whole_lattice(str key not None, tuple arrays not None, ali_begin, ali, final_ali_begin, final_ali, str kind, time,
                  frame_shift, words):
    """Return the lattice that ``read_k2`` found, with what it did not find; the caller answers for the invariants."""
    return _lattice((
        key, arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], ali_begin, ali, arrays[5], arrays[6],
        final_ali_begin, final_ali, kind, time, frame_shift, words,
    ))


cdef class Columns:
    """The lattices that lie in the columns of one batch of a file, made when they are asked for.

    Args:
        offsets: For each of the twelve lists below where each lattice's stretch begins, int64 [lattices + 1].
        lists: (arc_begin, dst, word, graph, acoustic, ali_begin, ali, final_graph, final_acoustic, final_ali_begin,
            final_ali, time), one array a column, of the types of a lattice.
        num_words: Word ids end before it.

    Raises:
        ValueError: The offsets leave the columns.
    """

    cdef list _offsets
    cdef list _lists
    cdef int64_t _num_words
    cdef readonly Py_ssize_t size
    cdef const int64_t* _at[12]
    cdef char* _content[12]

    def __init__(self, list offsets not None, list lists not None, int64_t num_words):
        cdef Py_ssize_t column, row
        cdef int type_number
        cdef int64_t before, length
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
            length = np.PyArray_DIM(<np.ndarray>lists[column], 0)
            before = 0
            for row in range(self.size + 1):
                if self._at[column][row] < before or self._at[column][row] > length:
                    raise ValueError("the offsets of a column leave it")
                before = self._at[column][row]
        self._offsets = offsets
        self._lists = lists
        self._num_words = num_words

    cdef inline int64_t _first(self, int column, Py_ssize_t row) noexcept nogil:
        return self._at[column][row]

    cdef inline int64_t _length(self, int column, Py_ssize_t row) noexcept nogil:
        return self._at[column][row + 1] - self._at[column][row]

    cdef NativeFlaw _check(self, Py_ssize_t row) noexcept nogil:
        cdef NativeRow found
        cdef NativeFlaw flaw
        cdef int64_t num_states = self._length(0, row) - 1
        cdef int64_t num_arcs = self._length(1, row)
        flaw.flaw = <Flaw>1
        flaw.place = 0
        if (num_states < 1 or self._length(2, row) != num_arcs or self._length(3, row) != num_arcs
                or self._length(4, row) != num_arcs or self._length(5, row) != num_arcs + 1
                or self._length(7, row) != num_states or self._length(8, row) != num_states
                or self._length(9, row) != num_states + 1
                or (self._length(11, row) != num_states and self._length(11, row) != 0)):
            return flaw
        found.num_begins = num_states + 1
        found.num_arcs = num_arcs
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
        return check_native(found)

    def check(self, Py_ssize_t row):
        """Return (number of the broken invariant, arc or state) of a lattice; (0, 0): there is none."""
        cdef NativeFlaw flaw
        if not 0 <= row < self.size:
            raise IndexError("there is no such lattice")
        with nogil:
            flaw = self._check(row)
        return <int>flaw.flaw, flaw.place

    def lattice(self, Py_ssize_t row, str key not None, str kind not None, bint timed, object frame_shift,
                object words):
        """Return a lattice whose arrays lie in the columns."""
        if not 0 <= row < self.size:
            raise IndexError("there is no such lattice")
        return self._made(row, key, kind, timed, frame_shift, words)

    cdef object _made(self, Py_ssize_t row, object key, object kind, bint timed, object frame_shift, object words):
        return _lattice((
            key, self._part(0, row), self._part(1, row), self._part(2, row), self._part(3, row), self._part(4, row),
            self._part(5, row), self._part(6, row), self._part(7, row), self._part(8, row), self._part(9, row),
            self._part(10, row), kind, self._part(11, row) if timed else None, frame_shift, words,
        ))

    cdef inline object _part(self, int column, Py_ssize_t row):
        return _view(<object>PyList_GET_ITEM(self._lists, column), self._first(column, row), self._length(column, row))

    def lattices(self, Py_ssize_t first, Py_ssize_t last, list keys not None, list kinds not None, list timed not None,
                 list frame_shifts not None, object words, *, bint check):
        """Return the lattices `first : last`; with `check`, None in place of those that break an invariant."""
        cdef Py_ssize_t row
        if not 0 <= first <= last <= self.size or not (
                len(keys) == len(kinds) == len(timed) == len(frame_shifts) == self.size):
            raise IndexError("there are no such lattices")
        cdef list found = []
        cdef NativeFlaw flaw
        for row in range(first, last):
            if check:
                with nogil:
                    flaw = self._check(row)
                if flaw.flaw != Flaw.kNone:
                    found.append(None)
                    continue
            found.append(self._made(row, keys[row], kinds[row], timed[row], frame_shifts[row], words))
        return found
