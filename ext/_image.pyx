# cython: language_level=3
"""k2's tensors of arcs into lattices; conversions only."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string

from arrays cimport data_of, freeze, new_array
from slots cimport filled

from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef extern from "k2_image.hpp" namespace "ninja" nogil:
    cdef struct K2Fsa:
        int64_t num_arcs
        int64_t num_states
        const int32_t* arcs
        const int32_t* word
        const float* lm
        const float* am
        cbool as_graph
    cdef cppclass K2Fault:
        string error
        int64_t arc
        cbool malformed
    cdef cppclass K2Plan:
        K2Fault fault
        int64_t num_states
        int64_t num_arcs
    cdef struct K2Target:
        int64_t* arc_begin
        int32_t* dst
        int32_t* word
        float* graph
        float* acoustic
        float* final_graph
        float* final_acoustic
        int32_t* row
        int32_t* final_row
    K2Plan plan_k2(const K2Fsa& fsa) except +
    K2Fault fill_k2(const K2Fsa& fsa, const K2Plan& plan, const K2Target& to) except +

cdef tuple _SLOTS = SLOTS  # a C variable: no look-up by name
cdef object _new = object.__new__


def read_k2(object arcs not None, int64_t first, int64_t last, int64_t num_states, object word, object lm, object am,
            *, bint as_graph, bint places):
    """Make the arrays of a lattice of the arcs `first : last` of a k2 tensor.

    Args:
        arcs: int32 [4 * all arcs].
        first: Where the FSA begins, in arcs; the caller has made sure that the stretch is there.
        last: Where it ends.
        num_states: Its states, the final one included.
        word: int32 [all arcs] or None.
        lm: float32 [all arcs] or None.
        am: float32 [all arcs] or None.
        as_graph: Scores without `lm` become graph costs.
        places: Also tell which k2 arc each arc and each final cost was.

    Returns:
        (error, arc, malformed, arrays): what is wrong, or ""; the arc, counted from `first`, or -1; whether k2 would
        refuse it; and (arc_begin, dst, word, graph, acoustic, final_graph, final_acoustic, arcs, final arcs).
    """
    cdef K2Fsa fsa
    cdef int64_t count = np.PyArray_DIM(<np.ndarray?>arcs, 0) // 4
    if not 0 <= first <= last <= count or num_states < 0 or num_states > 0x7fffffff:
        raise ValueError("a stretch of arcs that is not there")
    fsa.num_arcs = last - first
    fsa.num_states = num_states
    fsa.arcs = <const int32_t*>data_of(arcs, np.NPY_INT32, -1) + 4 * first
    if word is not None:
        fsa.word = <const int32_t*>data_of(word, np.NPY_INT32, count) + first
    if lm is not None:
        fsa.lm = <const float*>data_of(lm, np.NPY_FLOAT32, count) + first
    if am is not None:
        fsa.am = <const float*>data_of(am, np.NPY_FLOAT32, count) + first
    fsa.as_graph = as_graph
    cdef K2Plan plan
    with nogil:
        plan = plan_k2(fsa)
    cdef K2Fault fault = plan.fault
    if not fault.error.empty():
        return fault.error.decode(), fault.arc, fault.malformed, None
    cdef object arc_begin = new_array(plan.num_states + 1, np.NPY_INT64)
    cdef object dst = new_array(plan.num_arcs, np.NPY_INT32)
    cdef object words = new_array(plan.num_arcs, np.NPY_INT32)
    cdef object graph = new_array(plan.num_arcs, np.NPY_FLOAT32)
    cdef object acoustic = new_array(plan.num_arcs, np.NPY_FLOAT32)
    cdef object final_graph = new_array(plan.num_states, np.NPY_FLOAT32)
    cdef object final_acoustic = new_array(plan.num_states, np.NPY_FLOAT32)
    cdef object row = new_array(plan.num_arcs, np.NPY_INT32) if places else None
    cdef object final_row = new_array(plan.num_states, np.NPY_INT32) if places else None
    cdef K2Target to
    to.arc_begin = <int64_t*>np.PyArray_DATA(<np.ndarray>arc_begin)
    to.dst = <int32_t*>np.PyArray_DATA(<np.ndarray>dst)
    to.word = <int32_t*>np.PyArray_DATA(<np.ndarray>words)
    to.graph = <float*>np.PyArray_DATA(<np.ndarray>graph)
    to.acoustic = <float*>np.PyArray_DATA(<np.ndarray>acoustic)
    to.final_graph = <float*>np.PyArray_DATA(<np.ndarray>final_graph)
    to.final_acoustic = <float*>np.PyArray_DATA(<np.ndarray>final_acoustic)
    to.row = NULL
    to.final_row = NULL
    if places:
        to.row = <int32_t*>np.PyArray_DATA(<np.ndarray>row)
        to.final_row = <int32_t*>np.PyArray_DATA(<np.ndarray>final_row)
    with nogil:
        fault = fill_k2(fsa, plan, to)
    if not fault.error.empty():
        return fault.error.decode(), fault.arc, fault.malformed, None
    return "", -1, False, (
        freeze(arc_begin), freeze(dst), freeze(words), freeze(graph), freeze(acoustic), freeze(final_graph),
        freeze(final_acoustic), row, final_row,
    )


def whole_lattice(str key not None, tuple arrays not None, ali_begin, ali, final_ali_begin, final_ali, str kind, time,
                  frame_shift, words):
    """Return the lattice that ``read_k2`` found, with what it did not find; the caller answers for the invariants."""
    return filled(_new(Lattice), _SLOTS, (
        key, arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], ali_begin, ali, arrays[5], arrays[6],
        final_ali_begin, final_ali, kind, time, frame_shift, words,
    ))
