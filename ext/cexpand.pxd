# cython: language_level=3
"""C++ declarations of the expansion engine; declarations only."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool
from libcpp.vector cimport vector

from clattice cimport Alignments, Arcs


cdef extern from "search.hpp" namespace "ninja" nogil:
    cdef struct SearchOptions:
        double graph_share
        double lm_scale
        double acoustic_scale
        double word_penalty
        double beam
        double first_pass_beam
        double growth_ratio
        int32_t max_hyps
        int32_t max_active
        int64_t max_arcs
        int32_t merge_order
        int32_t eos
        bool pruned
        bool per_arc
        bool look_ahead
        bool calibrate

    cdef enum class SearchStatus(int32_t):
        kRunning
        kNoPath
        kNotFinite
        kTooLarge

    cdef cppclass Search:
        SearchStatus status()
        int64_t num_expanded()


cdef extern from "wave.hpp" namespace "ninja" nogil:
    cdef cppclass Wave:
        vector[int64_t] advance_slot
        vector[int32_t] advance_word
        vector[int64_t] score_slot
        vector[int32_t] score_word


cdef extern from "expander.hpp" namespace "ninja" nogil:
    cdef cppclass CExpander "ninja::Expander":
        CExpander(const SearchOptions&, int64_t) except +
        int32_t add(const Arcs&, const int32_t*, const float*, vector[int32_t]) except +
        void gather() except +
        void scatter(const int64_t*, const float*) except +
        vector[int32_t] ended() except +
        const Search& search(int32_t)
        void remove(int32_t) except +
        const Wave& wave()
        vector[int64_t]& released()
        vector[int64_t] slots() except +


cdef extern from "expansion.hpp" namespace "ninja" nogil:
    cdef cppclass Expansion:
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[float] graph
        vector[int64_t] arc_map
        vector[float] final_graph
        vector[int32_t] state_map
        int64_t num_ali
        int64_t num_final_ali

    Expansion expansion(const Search&, const Alignments&) except +
    void fill_expansion(
        const Expansion&, const Arcs&, const Alignments&, int32_t*, float*, int64_t*, int32_t*, float*, int64_t*,
        int32_t*,
    )
    void replaced_costs(const Expansion&, const Arcs&, double, double, float*, float*) except +
