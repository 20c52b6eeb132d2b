# cython: language_level=3
"""C++ declarations shared by the extension modules; declarations only."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "lattice.hpp" namespace "ninja" nogil:
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
