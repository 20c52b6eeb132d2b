"""C++ declarations of minimum Bayes risk decoding; declarations only."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from core.batch cimport Items
from core.lattice cimport Scales

cdef extern from "consensus/batches.hpp" namespace "ninja" nogil:
    cdef struct WrittenForms:
        vector[int32_t] form
        vector[int32_t] whole
        vector[int32_t] mark
        vector[float] mark_share
        vector[float] mark_time
    cdef cppclass Consensuses:
        Consensuses() except +
        vector[int32_t] words
        vector[float] confidence
        vector[float] time
        vector[int64_t] entry
        vector[int64_t] words_begin
        vector[int64_t] bin_begin
        vector[float] bin_time
        vector[int64_t] bins_begin
        vector[int32_t] word
        vector[float] posterior
        vector[float] entry_time
        vector[int64_t] entries_begin
        vector[double] risk
        vector[int64_t] rounds
        vector[int64_t] touches_band
        WrittenForms forms
    const int64_t kWholeWords, kLeastWords, kMostWords
    int64_t decode_mbr_all(const Items& items, const Scales& scales, const int32_t* start, const int64_t* begin,
                           const int32_t* form, const int64_t* written, int64_t num_written, cbool search,
                           cbool silence, int64_t whole_words, int64_t least_words, int64_t most_words,
                           Consensuses& all) except +
