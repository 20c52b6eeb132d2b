# distutils: language = c++
# cython: language_level=3
"""Kernel behind ``ninja.graph.ctc``; conversions only."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from arrays cimport doubles, int32s, int64s

np.import_array()


cdef extern from "ctc.hpp" namespace "ninja" nogil:
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
        vector[double] total, best, before
        vector[int64_t] word_begin, unit_begin
        vector[int32_t] unit, unit_first, unit_end, state, first, end

    cdef cppclass CtcSearch:
        CtcSearch(const CtcUnits& units, const CtcLexicon& lexicon, const CtcBeam& beam) except +
        void search(const double* logprob, int64_t num_frames, CtcResult& result) except +


def search(const double[:, ::1] logprob not None, int64_t blank, const uint8_t[::1] kind not None,
           const int64_t[::1] child_begin not None, const int32_t[::1] unit not None, const int32_t[::1] child not None,
           const uint8_t[::1] is_word not None, int64_t beam, double score_beam, int64_t max_units):
    """Search; the lexicon's arrays are empty where every word is allowed.

    Returns:
        (total, best, word_begin, unit_begin, unit, unit_first, unit_end, state, first, end, before), as
        ext/ctc_problem.hpp describes them.
    """
    cdef CtcUnits units
    cdef CtcLexicon lexicon
    cdef CtcBeam options
    cdef CtcResult result
    cdef CtcSearch* kernel
    cdef int64_t num_frames = logprob.shape[0]
    units.num_units = logprob.shape[1]
    units.blank = blank
    if kind.shape[0] != units.num_units or units.num_units == 0 or not 0 <= blank < units.num_units:
        raise ValueError("a kind for each unit is needed, and a blank among them")
    units.kind = &kind[0]
    lexicon.num_states = is_word.shape[0]
    lexicon.child_begin = NULL
    lexicon.unit = NULL
    lexicon.child = NULL
    lexicon.is_word = NULL
    if lexicon.num_states:
        if child_begin.shape[0] != lexicon.num_states + 1 or unit.shape[0] == 0 or unit.shape[0] != child.shape[0]:
            raise ValueError("the arrays of the lexicon do not fit each other")
        lexicon.child_begin = &child_begin[0]
        lexicon.unit = &unit[0]
        lexicon.child = &child[0]
        lexicon.is_word = &is_word[0]
    options.beam = beam
    options.score_beam = score_beam
    options.max_units = max_units
    cdef const double* first = &logprob[0, 0] if num_frames else NULL
    with nogil:
        kernel = new CtcSearch(units, lexicon, options)
        try:
            kernel.search(first, num_frames, result)
        finally:
            del kernel
    return (
        doubles(result.total), doubles(result.best), int64s(result.word_begin), int64s(result.unit_begin),
        int32s(result.unit), int32s(result.unit_first), int32s(result.unit_end), int32s(result.state),
        int32s(result.first), int32s(result.end), doubles(result.before),
    )
