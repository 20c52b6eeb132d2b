"""C++ declarations of minimum Bayes risk decoding; declarations only."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from core.lattice cimport Alignments, Arcs, Scales

cdef extern from "consensus/mbr.hpp" namespace "ninja" nogil:
    cdef cppclass Consensus:
        vector[int32_t] words
        vector[float] confidence
        vector[float] time
        vector[int64_t] bin_begin
        vector[int32_t] word
        vector[float] posterior
        vector[float] entry_time
        vector[float] bin_time
        double risk
        int64_t rounds
        cbool touches_band
    const int64_t kWholeWords, kLeastWords, kMostWords
    cbool decode_mbr(const Arcs& arcs, const Alignments& labels, const int32_t* time, const Scales& scales,
                     const vector[int32_t]* start, cbool search, cbool silence, int64_t whole_words,
                     int64_t least_words, int64_t most_words, Consensus& result) except +
