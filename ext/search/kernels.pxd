"""C++ declarations of the searches of rescoring; declarations only."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from core.kernels cimport Trie
from core.lattice cimport Arcs, Copies, Scales

cdef extern from "search/search.hpp" namespace "ninja" nogil:
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
        cbool pruned
        cbool per_arc
        cbool look_ahead
        cbool calibrate

    cdef enum class SearchStatus(int32_t):
        kNoPath
        kNotFinite
        kTooLarge
        kOverflow

    cdef cppclass Search:
        SearchStatus status()
        int64_t num_expanded()

cdef extern from "search/wave.hpp" namespace "ninja" nogil:
    cdef cppclass Wave:
        vector[int64_t] advance_slot
        vector[int32_t] advance_word
        vector[int64_t] score_slot
        vector[int32_t] score_word

cdef extern from "search/expander.hpp" namespace "ninja" nogil:
    cdef cppclass Expander:
        Expander(const SearchOptions&, int64_t) except +
        int32_t add(const Arcs&, const int32_t*, const float*, vector[int32_t]) except +
        void gather() except +
        void scatter(const int64_t*, const float*) except +
        vector[int32_t] ended() except +
        cbool stop(int32_t) except +
        const Search& search(int32_t)
        cbool expanded(int32_t, int64_t, Copies&) except +
        void replaced(int32_t, float*, float*) except +
        void remove(int32_t) except +
        const Wave& wave()
        vector[int64_t]& released()
        vector[int64_t] slots() except +

cdef extern from "search/expansion.hpp" namespace "ninja" nogil:
    void replaced_costs(const Copies&, const Arcs&, double, double, float*, float*) except +

cdef extern from "search/unfold.hpp" namespace "ninja" nogil:
    cdef cppclass Unfolded:
        vector[int32_t] state_map
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int64_t] arc_map
        vector[int32_t] arc_node
        vector[int32_t] final_node
        Trie trie

cdef extern from "search/cover.hpp" namespace "ninja" nogil:
    cbool expand_by_posterior(const Arcs&, const Scales&, double, int64_t, const int32_t*, Unfolded&) except +
    void cover(const Arcs&, const Scales&, const int32_t*, int32_t, Unfolded&) except +

cdef extern from "search/prefixes.hpp" namespace "ninja" nogil:
    cdef cppclass Prefixes:
        Prefixes(const Arcs&, const Scales&, const int32_t*, int32_t, double, int64_t, int32_t, int64_t) except +
        cbool empty()
        void unfold(int64_t, Unfolded&) except +

cdef extern from "search/sentence_costs.hpp" namespace "ninja" nogil:
    void sentence_costs(
        const Arcs&, const Scales&, const int32_t*, const int64_t*, int64_t, double*, double*
    ) except +
