# cython: language_level=3
# distutils: language = c++
"""Kernels of the rescoring algorithms that score whole sentences: lattices in, unfolded lattices out."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arrays cimport arcs_of, data_of, int32s, int64s, new_array
from cexpand cimport Expansion, replaced_costs
from cgraph cimport Scales
from clattice cimport Arcs

np.import_array()


cdef extern from "trie.hpp" namespace "ninja" nogil:
    cdef cppclass CTrie "ninja::Trie":
        const vector[int32_t]& parent()
        const vector[int32_t]& word()


cdef extern from "unfold.hpp" namespace "ninja" nogil:
    cdef cppclass Unfolded:
        vector[int32_t] state_map
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int64_t] arc_map
        vector[int32_t] arc_node
        vector[int32_t] final_node
        CTrie trie


cdef extern from "cover.hpp" namespace "ninja" nogil:
    cbool expand_by_posterior(const Arcs&, const Scales&, double, int64_t, const int32_t*, Unfolded&) except +
    void c_cover "ninja::cover"(const Arcs&, const Scales&, const int32_t*, int32_t, Unfolded&) except +


cdef extern from "prefixes.hpp" namespace "ninja" nogil:
    cdef cppclass Prefixes:
        Prefixes(const Arcs&, const Scales&, const int32_t*, int32_t, double, int64_t, int32_t, int64_t) except +
        cbool empty()
        void unfold(int64_t, Unfolded&) except +


cdef extern from "sentence_costs.hpp" namespace "ninja" nogil:
    void c_sentence_costs "ninja::sentence_costs"(
        const Arcs&, const Scales&, const int32_t*, const int64_t*, int64_t, double*, double*
    ) except +


cdef inline Scales scales_of(double acoustic_scale, double word_penalty) noexcept:
    cdef Scales scales
    scales.acoustic = acoustic_scale
    scales.lm = 1.0
    scales.word_penalty = word_penalty
    return scales


cdef object arrays_of(const Unfolded& out):
    return (
        int32s(out.state_map),
        int64s(out.arc_begin),
        int32s(out.dst),
        int64s(out.arc_map),
        int32s(out.arc_node),
        int32s(out.final_node),
        int32s(out.trie.parent()),
        int32s(out.trie.word()),
    )


def cover(lattice not None, lm_word not None, int32_t eos, *, double acoustic_scale, double word_penalty,
          double min_posterior, int64_t max_arcs):
    """Expand by posterior and cover with paths; see ``ninja.rescoring.unfold`` for what comes back. None: no path."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef const int32_t* words = <const int32_t*>data_of(lm_word, np.NPY_INT32, arcs.num_arcs)
    cdef Scales scales = scales_of(acoustic_scale, word_penalty)
    cdef Unfolded out
    cdef cbool found
    with nogil:
        found = expand_by_posterior(arcs, scales, min_posterior, max_arcs, words, out)
        if found:
            c_cover(arcs, scales, words, eos, out)
    return arrays_of(out) if found else None


def prefixes(lattice not None, lm_word not None, int32_t eos, *, double acoustic_scale, double word_penalty,
             double beam, int64_t max_nodes, int32_t merge_order, int64_t max_arcs):
    """Unfold along the best word prefixes; see ``ninja.rescoring.unfold`` for what comes back. None: no path."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef const int32_t* words = <const int32_t*>data_of(lm_word, np.NPY_INT32, arcs.num_arcs)
    cdef Scales scales = scales_of(acoustic_scale, word_penalty)
    cdef Unfolded out
    cdef cbool found
    cdef Prefixes* grown
    with nogil:
        grown = new Prefixes(arcs, scales, words, eos, beam, max_nodes, merge_order, max_arcs)
        try:
            found = not grown.empty()
            if found:
                grown.unfold(max_arcs, out)
        finally:
            del grown
    return arrays_of(out) if found else None


def sentence_costs(lattice not None, word not None, begin not None, double acoustic_scale, double word_penalty):
    """Return the graph and acoustic cost of the best path of each word sequence, float64 [sequences]; +inf: no path.

    Sequence s is ``word[begin[s] : begin[s + 1]]``; word is int32 [words], begin int64 [sequences + 1].
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef int64_t count = np.PyArray_SIZE(<np.ndarray>begin) - 1
    cdef const int64_t* begins = <const int64_t*>data_of(begin, np.NPY_INT64, -1)
    cdef const int32_t* words = <const int32_t*>data_of(word, np.NPY_INT32, begins[count])
    cdef Scales scales = scales_of(acoustic_scale, word_penalty)
    graph = new_array(count, np.NPY_FLOAT64)
    acoustic = new_array(count, np.NPY_FLOAT64)
    cdef double* to_graph = <double*>np.PyArray_DATA(<np.ndarray>graph)
    cdef double* to_acoustic = <double*>np.PyArray_DATA(<np.ndarray>acoustic)
    with nogil:
        c_sentence_costs(arcs, scales, words, begins, count, to_graph, to_acoustic)
    return graph, acoustic


def replaced(lattice not None, state_map not None, arc_begin not None, dst not None, arc_map not None,
             graph not None, final_graph not None, double acoustic_scale, double word_penalty):
    """Return (graph, final_graph) of a lattice whose unfolding has new costs, +inf where no path of that goes."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef np.npy_intp num_states = np.PyArray_SIZE(<np.ndarray>state_map)
    cdef np.npy_intp num_arcs = np.PyArray_SIZE(<np.ndarray>dst)
    cdef Expansion out
    cdef const int32_t* states = <const int32_t*>data_of(state_map, np.NPY_INT32, num_states)
    cdef const int64_t* begins = <const int64_t*>data_of(arc_begin, np.NPY_INT64, num_states + 1)
    cdef const int32_t* targets = <const int32_t*>data_of(dst, np.NPY_INT32, num_arcs)
    cdef const int64_t* arc = <const int64_t*>data_of(arc_map, np.NPY_INT64, num_arcs)
    cdef const float* cost = <const float*>data_of(graph, np.NPY_FLOAT32, num_arcs)
    cdef const float* end = <const float*>data_of(final_graph, np.NPY_FLOAT32, num_states)
    out.state_map.assign(states, states + num_states)
    out.arc_begin.assign(begins, begins + num_states + 1)
    out.dst.assign(targets, targets + num_arcs)
    out.arc_map.assign(arc, arc + num_arcs)
    out.graph.assign(cost, cost + num_arcs)
    out.final_graph.assign(end, end + num_states)
    new_graph = new_array(arcs.num_arcs, np.NPY_FLOAT32)
    new_final = new_array(arcs.num_states, np.NPY_FLOAT32)
    cdef float* to_graph = <float*>np.PyArray_DATA(<np.ndarray>new_graph)
    cdef float* to_final = <float*>np.PyArray_DATA(<np.ndarray>new_final)
    with nogil:
        replaced_costs(out, arcs, acoustic_scale, word_penalty, to_graph, to_final)
    return new_graph, new_final
