"""C++ declarations of n-gram models; declarations only."""

from libc.stdint cimport int32_t, int64_t

cdef extern from "lm/ngram.hpp" namespace "ninja" nogil:
    cdef cppclass NgramModel:
        int32_t start
        int32_t order
        int64_t num_ngrams
        int32_t root
        int32_t num_words()
        int64_t num_states()
        int32_t add(float logprob, int32_t next) except +
        int64_t bytes()
        int64_t look_up(const int64_t* state, const int32_t* word, int64_t count, float* logprob, int64_t* next)
