# cython: language_level=3
"""Kernels behind ``ninja.graph``'s determinize, minimize, remove_epsilons and equivalent; conversions only."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arrays cimport alignments_of, arcs_of, floats, freeze, int32s, int64s, new_array
from clattice cimport Alignments, Arcs

np.import_array()


cdef extern from "potential.hpp" namespace "ninja" nogil:
    cdef struct Costs:
        double total
        double graph
        double acoustic
    cdef struct PushedAlignments:
        vector[int64_t] ali_begin
        vector[int64_t] final_ali_begin
        vector[int32_t] ali
        vector[int32_t] final_ali
    vector[Costs] c_best_completion "ninja::best_completion"(const Arcs& arcs, double acoustic_scale) except +
    void c_path_extremes "ninja::path_extremes"(int64_t num_states, const int64_t* arc_begin, const int32_t* dst,
                                                const double* cost, const double* final_cost, double* least,
                                                double* most) except +
    PushedAlignments c_push_alignments "ninja::push_alignments"(const Arcs& arcs, const Alignments& labels) except +
    void c_equal_arcs "ninja::equal_arcs"(const Arcs& arcs, const PushedAlignments& labels, const vector[Costs]& rest,
                                          double delta, int32_t* like, int32_t* final_like) except +

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


def equal_arcs(lattice not None, double acoustic_scale, double delta):
    """Find arcs that are equal after both costs and alignments were pushed towards the start.

    Returns:
        (like int32 [num_arcs], final_like int32 [num_states], graph and acoustic cost of the best completion float64
        [num_states], pushed ali_begin, ali, final_ali_begin, final_ali).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    like = new_array(arcs.num_arcs, np.NPY_INT32)
    final_like = new_array(arcs.num_states, np.NPY_INT32)
    cdef int32_t* to = <int32_t*>np.PyArray_DATA(<np.ndarray>like)
    cdef int32_t* to_final = <int32_t*>np.PyArray_DATA(<np.ndarray>final_like)
    cdef vector[Costs] rest
    cdef PushedAlignments pushed
    with nogil:
        rest = c_best_completion(arcs, acoustic_scale)
        pushed = c_push_alignments(arcs, labels)
        c_equal_arcs(arcs, pushed, rest, delta, to, to_final)
    graph = new_array(arcs.num_states, np.NPY_FLOAT64)
    acoustic = new_array(arcs.num_states, np.NPY_FLOAT64)
    cdef double* graph_of = <double*>np.PyArray_DATA(<np.ndarray>graph)
    cdef double* acoustic_of = <double*>np.PyArray_DATA(<np.ndarray>acoustic)
    cdef int64_t state
    for state in range(arcs.num_states):
        graph_of[state] = rest[state].graph
        acoustic_of[state] = rest[state].acoustic
    return (
        freeze(like), freeze(final_like), freeze(graph), freeze(acoustic), int64s(pushed.ali_begin),
        int32s(pushed.ali), int64s(pushed.final_ali_begin), int32s(pushed.final_ali),
    )


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
