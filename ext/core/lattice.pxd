"""Conversion of lattices and arrays between Python and C++, for all extension modules.

The functions are inline, because extension modules share no compiled code. Each module must call
``numpy.import_array()`` before it uses them.
"""

cimport numpy as np
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        string_view()
        string_view(const char*, size_t)
        const char* data()
        size_t size()

cdef extern from "core/lattice.hpp" namespace "ninja" nogil:
    cdef struct Arcs:
        int64_t num_states
        int64_t num_arcs
        const int64_t* arc_begin
        const int32_t* dst
        const int32_t* word
        const float* graph
        const float* acoustic
        const float* final_graph
        const float* final_acoustic

    cdef struct Alignments:
        const int64_t* ali_begin
        const int32_t* ali
        const int64_t* final_ali_begin
        const int32_t* final_ali

    cdef cppclass LatticeArrays:
        vector[int64_t] arc_begin
        vector[int64_t] ali_begin
        vector[int64_t] final_ali_begin
        vector[int32_t] dst
        vector[int32_t] word
        vector[int32_t] ali
        vector[int32_t] final_ali
        vector[float] graph
        vector[float] acoustic
        vector[float] final_graph
        vector[float] final_acoustic
        Arcs arcs()
        Alignments alignments()

cdef extern from "core/copies.hpp" namespace "ninja" nogil:
    cdef cppclass Copies:
        vector[int32_t] state_map
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int64_t] arc_map
        vector[float] graph
        vector[float] final_graph
    cdef cppclass Composed(Copies):
        cbool too_large
        int64_t impossible
    Block copy(const Copies& copies, const Arcs& arcs, const Alignments& old) except +

cdef extern from "core/fst_image.hpp" namespace "ninja" nogil:
    cdef struct FstArcs:
        int64_t num_states
        int64_t num_arcs
        const int64_t* arc_begin
        const int32_t* dst
        const int32_t* ilabel
        const int32_t* olabel
        const double* cost
        const double* final_cost

cdef extern from "core/scales.hpp" namespace "ninja" nogil:
    cdef struct Scales:
        double acoustic
        double lm
        double word_penalty

cdef extern from "core/block.hpp" namespace "ninja" nogil:
    cdef cppclass Block:
        void* memory
        cbool compact
        int64_t num_states
        int64_t num_arcs
        int64_t num_labels
        int64_t num_final_labels
        int64_t* arc_begin
        int64_t* ali_begin
        int64_t* final_ali_begin
        int32_t* dst
        int32_t* word
        float* graph
        float* acoustic
        float* final_graph
        float* final_acoustic
        int32_t* final_ali
        int32_t* ali
        int32_t* time
        Arcs arcs()
        Alignments alignments()
    Block new_block(int64_t num_states, int64_t num_arcs, int64_t num_labels, int64_t num_final_labels) except +

cdef extern from "Python.h":
    ctypedef int (*descrsetfunc)(object, object, object) except -1
    ctypedef object (*descrgetfunc)(object, object, object)
    ctypedef struct PyTypeObject:
        descrsetfunc tp_descr_set
        descrgetfunc tp_descr_get
    PyTypeObject* Py_TYPE(object)
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t)


cdef inline void* data_of(object array, int type_number, np.npy_intp length) except? NULL:
    """Return the address of an array; raise if it is not contiguous or has another type or length."""
    if (not isinstance(array, np.ndarray) or np.PyArray_TYPE(<np.ndarray>array) != type_number
            or not np.PyArray_ISCARRAY_RO(<np.ndarray>array) or np.PyArray_NDIM(<np.ndarray>array) != 1
            or (length >= 0 and np.PyArray_DIM(<np.ndarray>array, 0) != length)):
        raise TypeError("a lattice holds an array of another type, shape or layout; make it with Lattice.from_arrays")
    return np.PyArray_DATA(<np.ndarray>array)


cdef inline object not_a_lattice(object argument):
    from ninja.lattice.lattice import not_a_lattice as error_of
    return error_of(argument)


cdef inline Arcs arcs_of(object lattice) except *:
    """Borrow the arcs of a lattice; valid while the caller holds the lattice."""
    cdef Arcs arcs
    cdef object begin
    try:
        begin = lattice.arc_begin
    except AttributeError:
        raise not_a_lattice(lattice) from None
    cdef object dst = lattice.dst
    arcs.arc_begin = <const int64_t*>data_of(begin, np.NPY_INT64, -1)
    arcs.dst = <const int32_t*>data_of(dst, np.NPY_INT32, -1)
    arcs.num_states = np.PyArray_DIM(<np.ndarray>begin, 0) - 1
    arcs.num_arcs = np.PyArray_DIM(<np.ndarray>dst, 0)
    arcs.word = <const int32_t*>data_of(lattice.word, np.NPY_INT32, arcs.num_arcs)
    arcs.graph = <const float*>data_of(lattice.graph, np.NPY_FLOAT32, arcs.num_arcs)
    arcs.acoustic = <const float*>data_of(lattice.acoustic, np.NPY_FLOAT32, arcs.num_arcs)
    arcs.final_graph = <const float*>data_of(lattice.final_graph, np.NPY_FLOAT32, arcs.num_states)
    arcs.final_acoustic = <const float*>data_of(lattice.final_acoustic, np.NPY_FLOAT32, arcs.num_states)
    return arcs


cdef inline Alignments alignments_of(object lattice) except *:
    """Borrow the alignment pools of a lattice; valid while the caller holds the lattice."""
    cdef Alignments alignments
    alignments.ali_begin = <const int64_t*>data_of(lattice.ali_begin, np.NPY_INT64, -1)
    alignments.ali = <const int32_t*>data_of(lattice.ali, np.NPY_INT32, -1)
    alignments.final_ali_begin = <const int64_t*>data_of(lattice.final_ali_begin, np.NPY_INT64, -1)
    alignments.final_ali = <const int32_t*>data_of(lattice.final_ali, np.NPY_INT32, -1)
    return alignments


cdef inline Scales scales_of(object scales) except *:
    return Scales(scales.acoustic, scales.lm, scales.word_penalty)


cdef inline cbool pools_fit(Arcs arcs, Alignments alignments, object lattice) except *:
    """Return whether the lengths of the label pools match their offsets; kernels would read beyond shorter pools."""
    return not (np.PyArray_DIM(<np.ndarray>lattice.ali_begin, 0) != arcs.num_arcs + 1
                or np.PyArray_DIM(<np.ndarray>lattice.final_ali_begin, 0) != arcs.num_states + 1
                or alignments.ali_begin[arcs.num_arcs] != np.PyArray_DIM(<np.ndarray>lattice.ali, 0)
                or alignments.final_ali_begin[arcs.num_states] != np.PyArray_DIM(<np.ndarray>lattice.final_ali, 0)
                or arcs.arc_begin[arcs.num_states] != arcs.num_arcs)


cdef inline FstArcs fst_of(object arc_begin, object dst, object ilabel, object olabel, object cost,
                           object final_cost) except *:
    """Borrow the arrays of an FST; valid while the caller holds them."""
    cdef FstArcs fst
    cdef np.npy_intp num_states = np.PyArray_SIZE(<np.ndarray?>final_cost)
    cdef np.npy_intp num_arcs = np.PyArray_SIZE(<np.ndarray?>dst)
    fst.num_states = num_states
    fst.num_arcs = num_arcs
    fst.arc_begin = <const int64_t*>data_of(arc_begin, np.NPY_INT64, num_states + 1)
    fst.dst = <const int32_t*>data_of(dst, np.NPY_INT32, num_arcs)
    fst.ilabel = <const int32_t*>data_of(ilabel, np.NPY_INT32, num_arcs)
    fst.olabel = <const int32_t*>data_of(olabel, np.NPY_INT32, num_arcs)
    fst.cost = <const double*>data_of(cost, np.NPY_FLOAT64, num_arcs)
    fst.final_cost = <const double*>data_of(final_cost, np.NPY_FLOAT64, num_states)
    if fst.arc_begin[num_states] != num_arcs:
        raise ValueError("the arrays of an FST differ in length")
    return fst


cdef inline object new_array(np.npy_intp length, int type_number):
    """Allocate an uninitialised one-dimensional array for a kernel to fill."""
    return np.PyArray_EMPTY(1, &length, type_number, 0)


cdef inline object freeze(object array):
    """Make an array read-only, as every array of a lattice is."""
    np.PyArray_CLEARFLAGS(<np.ndarray>array, np.NPY_ARRAY_WRITEABLE)
    return array


cdef inline object copied(const void* content, size_t length, int type_number):
    """Copy memory of C++ into a new writable array."""
    cdef object array = new_array(<np.npy_intp>length, type_number)
    if length > 0:
        memcpy(np.PyArray_DATA(<np.ndarray>array), content, length * np.PyArray_ITEMSIZE(<np.ndarray>array))
    return array


cdef inline object int32s(const vector[int32_t]& values):
    """Copy a vector into a new read-only array."""
    return freeze(copied(values.data(), values.size(), np.NPY_INT32))


cdef inline object int64s(const vector[int64_t]& values):
    """Copy a vector into a new read-only array."""
    return freeze(copied(values.data(), values.size(), np.NPY_INT64))


cdef inline object floats(const vector[float]& values):
    """Copy a vector into a new read-only array."""
    return freeze(copied(values.data(), values.size(), np.NPY_FLOAT32))


cdef inline object doubles(const vector[double]& values):
    """Copy a vector into a new read-only array."""
    return freeze(copied(values.data(), values.size(), np.NPY_FLOAT64))


cdef inline int set_slot(tuple slots, Py_ssize_t number, object lattice, object value) except -1:
    """Set a field through its slot descriptor, although lattices are frozen."""
    cdef object slot = <object>PyTuple_GET_ITEM(slots, number)
    return Py_TYPE(slot).tp_descr_set(slot, lattice, value)


cdef inline object get_slot(tuple slots, Py_ssize_t number, object lattice):
    """Return a field through its slot descriptor, without calling a method of the class."""
    cdef object slot = <object>PyTuple_GET_ITEM(slots, number)
    return Py_TYPE(slot).tp_descr_get(slot, lattice, <object>Py_TYPE(lattice))


cdef inline object filled(object lattice, tuple slots, tuple values):
    """Set all fields of a new lattice and return it."""
    cdef Py_ssize_t number
    for number in range(len(slots)):
        set_slot(slots, number, lattice, <object>PyTuple_GET_ITEM(values, number))
    return lattice


cdef inline void release(object owner) noexcept:
    free(PyCapsule_GetPointer(owner, NULL))


cdef inline object owner_of(Block* block):
    """Return an object that owns the memory of a block, and frees it when it is destroyed."""
    cdef void* memory = block.memory
    block.memory = NULL
    try:
        return PyCapsule_New(memory, NULL, release)
    except MemoryError:
        free(memory)
        raise


cdef inline object array_in(void* at, np.npy_intp length, int type_number, object owner):
    """Return a read-only array that views a part of some memory and keeps the owner of the memory alive."""
    cdef object array = np.PyArray_New(np.ndarray, 1, &length, type_number, NULL, at, 0, np.NPY_ARRAY_CARRAY_RO, None)
    Py_INCREF(owner)
    np.PyArray_SetBaseObject(<np.ndarray>array, owner)
    return array


cdef inline object view(const Arcs& arcs, const Alignments& labels, object owner, object blank, tuple slots,
                        object key, object kind, object time, object frame_shift, object words):
    """Fill the fields of a blank lattice with views that keep the owner of their memory alive.

    Args:
        blank: ``object.__new__(Lattice)``.
        slots: Slot descriptors of the fields of a lattice, in order.
    """
    cdef np.npy_intp num_states = arcs.num_states
    cdef np.npy_intp num_arcs = arcs.num_arcs
    return filled(blank, slots, (
        key,
        array_in(<void*>arcs.arc_begin, num_states + 1, np.NPY_INT64, owner),
        array_in(<void*>arcs.dst, num_arcs, np.NPY_INT32, owner),
        array_in(<void*>arcs.word, num_arcs, np.NPY_INT32, owner),
        array_in(<void*>arcs.graph, num_arcs, np.NPY_FLOAT32, owner),
        array_in(<void*>arcs.acoustic, num_arcs, np.NPY_FLOAT32, owner),
        array_in(<void*>labels.ali_begin, num_arcs + 1, np.NPY_INT64, owner),
        array_in(<void*>labels.ali, labels.ali_begin[num_arcs], np.NPY_INT32, owner),
        array_in(<void*>arcs.final_graph, num_states, np.NPY_FLOAT32, owner),
        array_in(<void*>arcs.final_acoustic, num_states, np.NPY_FLOAT32, owner),
        array_in(<void*>labels.final_ali_begin, num_states + 1, np.NPY_INT64, owner),
        array_in(<void*>labels.final_ali, labels.final_ali_begin[num_states], np.NPY_INT32, owner),
        kind, time, frame_shift, words,
    ))


cdef inline object lattice_in(Block* block, object blank, tuple slots, object key, object kind, object time,
                              object frame_shift, object words):
    """Fill the fields of a blank lattice as ``view`` does; its arrays take ownership of the block's memory."""
    return view(block.arcs(), block.alignments(), owner_of(block), blank, slots, key, kind, time, frame_shift, words)


cdef inline object lattice_of(object lattice, const LatticeArrays& made, object blank, tuple slots, object time):
    """Fill a blank compact lattice, with the key, frame shift and symbol table of another lattice."""
    return filled(blank, slots, (
        lattice.key, int64s(made.arc_begin), int32s(made.dst), int32s(made.word), floats(made.graph),
        floats(made.acoustic), int64s(made.ali_begin), int32s(made.ali), floats(made.final_graph),
        floats(made.final_acoustic), int64s(made.final_ali_begin), int32s(made.final_ali), "compact", time,
        lattice.frame_shift, lattice.words,
    ))


cdef inline object lattice_of_copies(object lattice, const Copies& copies, object blank, tuple slots):
    """Fill a blank lattice with copies of the states and arcs of another lattice."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef object time = lattice.time
    cdef Block made
    if time is not None:
        time = freeze(time[int32s(copies.state_map)])
    with nogil:
        made = copy(copies, arcs, alignments)
    return lattice_in(&made, blank, slots, lattice.key, lattice.kind, time, lattice.frame_shift, lattice.words)
