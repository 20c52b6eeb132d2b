# cython: language_level=3
"""Kernels behind ``ninja.graph``'s determinize, minimize, remove_epsilons and equivalent; conversions only."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arrays cimport alignments_of, arcs_of, floats, int32s, int64s
from clattice cimport Alignments, Arcs

np.import_array()


cdef extern from "potential.hpp" namespace "ninja" nogil:
    void c_path_extremes "ninja::path_extremes"(int64_t num_states, const int64_t* arc_begin, const int32_t* dst,
                                                const double* cost, const double* final_cost, double* least,
                                                double* most) except +

cdef extern from "epsilon.hpp" namespace "ninja" nogil:
    cdef cppclass EpsilonFree:
        cbool too_large
        vector[int32_t] state
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] word
        vector[float] graph
        vector[float] acoustic
        vector[float] final_graph
        vector[float] final_acoustic
        vector[int64_t] ali_begin
        vector[int64_t] final_ali_begin
        vector[int32_t] ali
        vector[int32_t] final_ali
    EpsilonFree c_remove_epsilons "ninja::remove_epsilons"(const Arcs& arcs, const Alignments& labels,
                                                           double acoustic_scale, int64_t max_arcs) except +

cdef extern from "determinize_pruned_retry.hpp" namespace "ninja" nogil:
    cdef enum class Bound "ninja::Bound":
        kNone
    cdef struct DeterminizeBounds:
        float delta
        int64_t max_mem
        int64_t max_arcs
        int64_t max_states
        int64_t max_loop
    cdef cppclass DeterminizedLattice:
        Bound stopped_by
        double beam
        double effective_beam
        int32_t retries
        int32_t num_states
        vector[int64_t] arc_begin
        vector[int64_t] ali_begin
        vector[int64_t] final_ali_begin
        vector[int32_t] dst
        vector[int32_t] word
        vector[int32_t] ali
        vector[int32_t] final_ali
        vector[float] graph
        vector[float] acoustic
        vector[float] final_graph
        vector[float] final_acoustic
    DeterminizedLattice c_determinize_pruned "ninja::determinize_pruned"(
        const Arcs& arcs, const Alignments& labels, double beam, float acoustic_scale, double retry_cutoff,
        const DeterminizeBounds& bounds) except +

cdef extern from "determinize.hpp" namespace "ninja" nogil:
    cdef cppclass Determinized:
        cbool too_large
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] word
        vector[int64_t] taken_begin
        vector[int32_t] taken
        vector[int32_t] final_state
        vector[int64_t] final_taken_begin
        vector[int32_t] final_taken
    Determinized c_determinize "ninja::determinize"(const Arcs& arcs, double acoustic_scale, int64_t max_arcs) except +


def path_extremes(const int64_t[::1] arc_begin not None, const int32_t[::1] dst not None,
                  const double[::1] cost not None, const double[::1] final_cost not None):
    """Return the smallest and the largest cost of a path through a machine in topological order."""
    cdef double least = 0.0
    cdef double most = 0.0
    cdef int64_t num_states = final_cost.shape[0]
    cdef const int32_t* to = &dst[0] if dst.shape[0] > 0 else NULL
    cdef const double* on_arc = &cost[0] if cost.shape[0] > 0 else NULL
    with nogil:
        c_path_extremes(num_states, &arc_begin[0], to, on_arc, &final_cost[0], &least, &most)
    return least, most


def remove_epsilons(lattice not None, double acoustic_scale, int64_t max_arcs):
    """Remove epsilons.

    Returns:
        None when more than max_arcs arcs arise, else (old state of each state, a tuple of the lattice's arrays in
        the order of its fields).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef EpsilonFree found
    with nogil:
        found = c_remove_epsilons(arcs, labels, acoustic_scale, max_arcs)
    if found.too_large:
        return None
    return int32s(found.state), (
        int64s(found.arc_begin), int32s(found.dst), int32s(found.word), floats(found.graph),
        floats(found.acoustic), int64s(found.ali_begin), int32s(found.ali), floats(found.final_graph),
        floats(found.final_acoustic), int64s(found.final_ali_begin), int32s(found.final_ali),
    )


def determinize(lattice not None, double acoustic_scale, int64_t max_arcs):
    """Determinize a connected lattice without epsilons.

    Returns:
        None when more than max_arcs arcs arise, else (arc_begin, dst, word, then the old arcs each arc stands for as
        begin and pool, the old final state of each state or -1, and the old arcs before it as begin and pool).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Determinized found
    with nogil:
        found = c_determinize(arcs, acoustic_scale, max_arcs)
    if found.too_large:
        return None
    return (
        int64s(found.arc_begin), int32s(found.dst), int32s(found.word), int64s(found.taken_begin), int32s(found.taken),
        int32s(found.final_state), int64s(found.final_taken_begin), int32s(found.final_taken),
    )


def determinize_pruned(lattice not None, double beam, float acoustic_scale, double retry_cutoff, float delta,
                       int64_t max_mem, int64_t max_arcs, int64_t max_states, int64_t max_loop):
    """Determinize a lattice within a beam.

    Returns:
        (what stopped the last try: 0 nothing, 1 memory, 2 arcs, 3 states, 4 loop, 5 costs beyond single precision; its
        beam; the beam it reached; how often it was tried again; None where no path was found, else a tuple of the
        lattice's arrays in the order of its fields).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef DeterminizeBounds bounds
    cdef DeterminizedLattice found
    bounds.delta = delta
    bounds.max_mem = max_mem
    bounds.max_arcs = max_arcs
    bounds.max_states = max_states
    bounds.max_loop = max_loop
    with nogil:
        found = c_determinize_pruned(arcs, labels, beam, acoustic_scale, retry_cutoff, bounds)
    arrays = None
    if found.num_states > 0:
        arrays = (
            int64s(found.arc_begin), int32s(found.dst), int32s(found.word), floats(found.graph),
            floats(found.acoustic), int64s(found.ali_begin), int32s(found.ali), floats(found.final_graph),
            floats(found.final_acoustic), int64s(found.final_ali_begin), int32s(found.final_ali),
        )
    return <int>found.stopped_by, found.beam, found.effective_beam, found.retries, arrays
