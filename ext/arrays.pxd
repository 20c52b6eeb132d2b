# cython: language_level=3
"""Conversions between ``Lattice`` objects and the C++ view of them; the only place that knows both.

Inline, because extension modules share no compiled code. Call ``numpy.import_array()`` in the module first.
"""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from clattice cimport Alignments, Arcs


cdef inline void* data_of(object array, int type_number, np.npy_intp length) except? NULL:
    """Return the address of a contiguous array of the given type and length; anything else would crash a kernel."""
    if (not isinstance(array, np.ndarray) or np.PyArray_TYPE(<np.ndarray>array) != type_number
            or not np.PyArray_ISCARRAY_RO(<np.ndarray>array) or np.PyArray_NDIM(<np.ndarray>array) != 1
            or (length >= 0 and np.PyArray_DIM(<np.ndarray>array, 0) != length)):
        raise TypeError("a lattice holds an array of another type, shape or layout; make it with Lattice.from_arrays")
    return np.PyArray_DATA(<np.ndarray>array)


cdef inline Arcs arcs_of(object lattice) except *:
    """Borrow the arcs of a lattice; valid while the caller holds the lattice."""
    cdef Arcs arcs
    cdef object begin = lattice.arc_begin
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


cdef inline object new_array(np.npy_intp length, int type_number):
    """Allocate an uninitialised one-dimensional array for a kernel to fill."""
    return np.PyArray_EMPTY(1, &length, type_number, 0)


cdef inline object freeze(object array):
    """Make an array read-only, as every array of a lattice is."""
    np.PyArray_CLEARFLAGS(<np.ndarray>array, np.NPY_ARRAY_WRITEABLE)
    return array


cdef inline object copied(const void* content, size_t length, int type_number):
    """Copy what C++ holds into a new array, which may still be written to."""
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
