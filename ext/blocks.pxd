# cython: language_level=3
"""Lattices made of one piece of memory that a kernel has filled, or is about to fill.

Inline, because extension modules share no compiled code. Call ``numpy.import_array()`` in the module first.
"""

cimport numpy as np
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libcpp cimport bool as cbool

from slots cimport filled


cdef extern from "block.hpp" namespace "ninja" nogil:
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
    Block new_block(int64_t num_states, int64_t num_arcs, int64_t num_labels, int64_t num_final_labels) except +


cdef inline void release(object owner) noexcept:
    free(PyCapsule_GetPointer(owner, NULL))


cdef inline object array_in(void* at, np.npy_intp length, int type_number, object owner):
    """Make a read-only array of a part of some memory, whose owner it keeps alive."""
    cdef object array = np.PyArray_New(np.ndarray, 1, &length, type_number, NULL, at, 0, np.NPY_ARRAY_CARRAY_RO, None)
    Py_INCREF(owner)
    np.PyArray_SetBaseObject(<np.ndarray>array, owner)
    return array


cdef inline object lattice_in(Block* block, object blank, tuple slots, object key, object kind, object time,
                              object frame_shift, object words):
    """Fill the fields of a blank lattice; the block's memory belongs to its arrays from now on.

    Args:
        blank: ``object.__new__(Lattice)``.
        slots: Where a lattice keeps its fields, in their order.
    """
    cdef void* memory = block.memory
    cdef object owner
    block.memory = NULL
    try:
        owner = PyCapsule_New(memory, NULL, release)
    except MemoryError:
        free(memory)
        raise
    cdef np.npy_intp num_states = block.num_states
    cdef np.npy_intp num_arcs = block.num_arcs
    return filled(blank, slots, (
        key,
        array_in(block.arc_begin, num_states + 1, np.NPY_INT64, owner),
        array_in(block.dst, num_arcs, np.NPY_INT32, owner),
        array_in(block.word, num_arcs, np.NPY_INT32, owner),
        array_in(block.graph, num_arcs, np.NPY_FLOAT32, owner),
        array_in(block.acoustic, num_arcs, np.NPY_FLOAT32, owner),
        array_in(block.ali_begin, num_arcs + 1, np.NPY_INT64, owner),
        array_in(block.ali, block.num_labels, np.NPY_INT32, owner),
        array_in(block.final_graph, num_states, np.NPY_FLOAT32, owner),
        array_in(block.final_acoustic, num_states, np.NPY_FLOAT32, owner),
        array_in(block.final_ali_begin, num_states + 1, np.NPY_INT64, owner),
        array_in(block.final_ali, block.num_final_labels, np.NPY_INT32, owner),
        kind, time, frame_shift, words,
    ))
