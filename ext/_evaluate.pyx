# cython: language_level=3
"""Edit distances over lattices."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arrays cimport arcs_of, int64s
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
