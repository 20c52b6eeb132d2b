"""C++ declarations of n-gram models and of lattices composed with them; declarations only."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from core.lattice cimport Alignments, Arcs

cdef extern from "lm/ngram.hpp" namespace "ninja" nogil:
    cdef cppclass NgramModel:
        int32_t start
        int32_t order
        int64_t num_ngrams
        int32_t num_words()
        int64_t num_states()
        int64_t bytes()
        int64_t look_up(const int64_t* state, const int32_t* word, int64_t count, float* logprob, int64_t* next)

cdef extern from "core/copies.hpp" namespace "ninja" nogil:
    cdef cppclass Origin:
        vector[int64_t] arc_map
        vector[int32_t] state_map
        vector[float] final_graph
    cdef cppclass ComposedLattice:
        cbool too_large
        int64_t impossible
        Origin origin
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[float] graph
    cdef cppclass Copies:
        int32_t* word
        float* acoustic
        int64_t* ali_begin
        int32_t* ali
        float* final_acoustic
        int64_t* final_ali_begin
        int32_t* final_ali
    void pool_sizes(const Origin& origin, const Alignments& old, int64_t* num_ali, int64_t* num_final_ali)
    void copy(const Origin& origin, const Arcs& arcs, const Alignments& old, const Copies& to)
