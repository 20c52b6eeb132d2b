"""C++ declarations of the checks of native lattice files; declarations only."""

from libc.stdint cimport int32_t, int64_t

cdef extern from "formats/native_check.hpp" namespace "ninja" nogil:
    cdef enum class Flaw(int):
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
