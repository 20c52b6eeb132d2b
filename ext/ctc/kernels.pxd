"""C++ declarations of the CTC search."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

cdef extern from "ctc/ctc.hpp" namespace "ninja" nogil:
    cdef struct CtcUnits:
        int64_t num_units
        int64_t blank
        const uint8_t* kind

    cdef struct CtcLexicon:
        int64_t num_states
        const int64_t* child_begin
        const int32_t* unit
        const int32_t* child
        const uint8_t* is_word

    cdef struct CtcBeam:
        int64_t beam
        double score_beam
        int64_t max_units

    cdef cppclass CtcResult:
        vector[int32_t] parent, state, unit, node, first, end, alignment
        vector[int64_t] unit_begin, word_begin
        vector[double] total, cost

    cdef cppclass CtcSearch:
        CtcSearch(const CtcUnits& units, const CtcLexicon& lexicon, const CtcBeam& beam) except +
        void search(const double* logprob, int64_t num_frames, CtcResult& result) except +

cdef extern from "ctc/ctc_lattice.hpp" namespace "ninja" nogil:
    cdef struct CtcHypotheses:
        int64_t num_hypotheses
        const int64_t* hypothesis
        const double* logprob
        const int64_t* word_begin
        const int32_t* node
        const int32_t* first
        const int32_t* end
        const double* cost
        const int32_t* alignment
        int64_t num_frames
        int32_t silence
        int64_t num_nodes
        const int32_t* same
        const int32_t* kind
        const int64_t* id_begin
        const int32_t* id

    cdef cppclass CtcLattice:
        vector[int64_t] arc_begin, ali_begin
        vector[int32_t] dst, word, ali
        vector[float] acoustic
        void make(const CtcHypotheses& input) except +
