# cython: language_level=3
"""Edit distances over lattices, and alignments of words."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arrays cimport arcs_of, int32s, int64s
from clattice cimport Arcs

np.import_array()


cdef extern from "oracle.hpp" namespace "ninja" nogil:
    cdef struct Oracle:
        int64_t substitutions
        int64_t insertions
        int64_t deletions
        cbool reached
        vector[int64_t] arc
    Oracle c_oracle "ninja::oracle"(const Arcs& arcs, const int32_t* reference, int64_t length) except +

cdef extern from "align_words.hpp" namespace "ninja" nogil:
    cdef struct EditCosts:
        int64_t insertion
        int64_t deletion
        int64_t substitution
    cdef struct WordAlignment:
        vector[int32_t] reference
        vector[int32_t] hypothesis
    WordAlignment c_align_words "ninja::align_words"(
        const int32_t* reference, int64_t rows, const int32_t* hypothesis, int64_t columns, const EditCosts& costs
    ) except +


def oracle(lattice not None, const int32_t[::1] reference not None):
    """Return (substitutions, insertions, deletions, arcs int64 [path]) of the nearest path, or None without a path."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef int64_t length = reference.shape[0]
    cdef const int32_t* words = &reference[0] if length > 0 else NULL
    cdef Oracle found
    with nogil:
        found = c_oracle(arcs, words, length)
    if not found.reached:
        return None
    return found.substitutions, found.insertions, found.deletions, int64s(found.arc)


def align_words(
    const int32_t[::1] reference not None, const int32_t[::1] hypothesis not None,
    int64_t insertion, int64_t deletion, int64_t substitution,
):
    """Return int32 [pairs] positions in the reference and in the hypothesis, -1 where a side has no word."""
    cdef int64_t rows = reference.shape[0]
    cdef int64_t columns = hypothesis.shape[0]
    cdef const int32_t* said = &reference[0] if rows > 0 else NULL
    cdef const int32_t* heard = &hypothesis[0] if columns > 0 else NULL
    cdef EditCosts costs = EditCosts(insertion, deletion, substitution)
    cdef WordAlignment found
    with nogil:
        found = c_align_words(said, rows, heard, columns, costs)
    return int32s(found.reference), int32s(found.hypothesis)
